"""Figures for papers: vector output, column widths, colours for colour-blind readers."""

from __future__ import annotations

from typing import Final

KINDS: Final = ("timeline", "bandwidth", "occupancy", "stalls")
"""The figures that can be drawn of a trace."""
