"""Sharding of mappings over several chips: one chip's mapping, and the exchanges over links."""
