"""Figures for papers: vector output, column widths, colours that colour-blind readers can tell."""

from __future__ import annotations

from typing import Final

KINDS: Final = ("timeline", "bandwidth", "occupancy", "stalls")
"""The figures that can be drawn of a trace."""
