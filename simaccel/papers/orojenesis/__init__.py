"""Bounds of DRAM traffic: the fewest bytes that any mapping moves with a buffer of some size.

Orojenesis (Huang et al., *Mind the Gap*, ISCA 2024): the frontier of (bytes kept on chip, bytes
moved) over a mapspace with one buffer and no other limit.
"""
