"""Figures for papers: vector output, column widths, colours for colour-blind readers."""

from __future__ import annotations

from typing import Final

from simaccel.lazy import lazy_attributes

KINDS: Final = ("timeline", "bandwidth", "occupancy", "stalls")
"""The figures that can be drawn of a trace."""

# matplotlib takes longer to load than a short command
__getattr__ = lazy_attributes(
    __name__,
    {
        "comparison": ("draw_comparison", "draw_metric"),
        "designs": ("draw_designs",),
        "exhibits": ("draw_exhibit",),
        "pareto": ("draw_bound", "draw_pareto"),
        "sweep": ("draw_sweep",),
    },
)
