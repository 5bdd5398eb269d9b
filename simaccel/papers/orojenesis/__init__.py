"""Bounds: the least traffic with DRAM that a buffer of a size lets any mapping attain.

Orojenesis (Huang et al., *Mind the Gap*, ISCA 2024): the frontier of (bytes kept on chip, bytes
moved) over a mapspace with one buffer and no other limit.
"""
