"""Gemmini's RTL: mappings of others, executed as trees, beside measured cycles."""
