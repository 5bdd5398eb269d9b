"""Figures for papers: vector output, column widths, colours for colour-blind readers.

They are drawn and saved inside `style.style()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simaccel.lazy import lazy_attributes

if TYPE_CHECKING:
    from simaccel.report.figures.comparison import draw_comparison, draw_metric
    from simaccel.report.figures.pareto import draw_pareto
    from simaccel.report.figures.sweep import draw_sweep

KINDS: Final = ("timeline", "bandwidth", "occupancy", "stalls")
"""The figures that can be drawn of a trace."""

# matplotlib takes longer to load than a short command
__getattr__ = lazy_attributes(__name__, __file__)

__all__ = [
    "KINDS",
    "draw_comparison",
    "draw_metric",
    "draw_pareto",
    "draw_sweep",
]
