"""Shards: the part of a mapping on each of several chips, and the exchanges over their links."""
