"""Coral's Edge TPU."""
