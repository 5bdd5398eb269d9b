"""Figures of a trace: one panel at column width, or all on a page of two columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from matplotlib.figure import Figure

from simaccel.errors import Fault, InputError
from simaccel.report.figures import KINDS
from simaccel.report.figures.axes import draw_keys, legend_inches, settle, text_inches, wrap_text
from simaccel.report.figures.bandwidth import bandwidth_panel
from simaccel.report.figures.occupancy import occupancy_panel
from simaccel.report.figures.stall_stack import stalls_panel
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    SINGLE_COLUMN_INCHES,
    SMALL_POINTS,
    TITLE_POINTS,
    new_figure,
    require_figure_target,
    save_figure,
    style,
)
from simaccel.report.figures.timeline import timeline_panel
from simaccel.report.figures.window import Panel, ShownWindow, operator_span, selected_window
from simaccel.report.titles import trace_title
from simaccel.trace import TraceReader
from simaccel.units import ARRAY

_PANELS: Final[Mapping[str, Callable[[TraceReader, ShownWindow], Panel]]] = MappingProxyType(
    {
        "timeline": timeline_panel,
        "bandwidth": bandwidth_panel,
        "occupancy": occupancy_panel,
        "stalls": stalls_panel,
    }
)
_LEFT: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """The kinds of figures of a trace, and their window.

    Timeline and occupancy show the window from cycle ``start`` up to ``end``, by default a readable
    steady period with its fill (see ``default_window``), of ``operator`` if it is given. Bandwidth
    and stalls show the window only if it is given; otherwise all cycles of the operator or the run.
    ``engine``: whose stalls are stacked. A single kind is as wide as a column, several as two,
    unless ``columns`` says 1 or 2.
    """

    kinds: Sequence[str] = KINDS
    start: int | None = None
    end: int | None = None
    operator: str | None = None
    engine: str = ARRAY
    columns: int | None = None


def plot_trace(
    trace: TraceReader, path: str | Path, options: FigureOptions, *, force: bool = False
) -> ShownWindow:
    """Draw figures of a trace to a file: png, svg or pdf by its suffix.

    The result says which cycles are drawn.

    Raises:
        InputError: the window is no part of the run, it has no such operator or engine, or the
            file can't be written.
    """
    inputs = (trace.path,)
    require_figure_target(path, force=force, inputs=inputs)
    with style():
        shown = shown_window(trace, options)
        save_figure(draw_page(trace, shown, options), path, force=force, inputs=inputs)
    return shown


def shown_window(trace: TraceReader, options: FigureOptions) -> ShownWindow:
    """Return the cycles that are drawn.

    Raises:
        InputError: see ``plot_trace``.
    """
    if trace.cycles == 0:
        raise InputError([Fault(str(trace.path), "cycles", 0, "a run of at least one cycle")])
    window = selected_window(trace, options.start, options.end, options.operator)
    whole = window.start, window.end
    if (options.start, options.end) == (None, None):
        whole = operator_span(trace, options.operator)
    return ShownWindow(window, whole, options.engine)


def draw_page(trace: TraceReader, shown: ShownWindow, options: FigureOptions) -> Figure:
    """Draw the panels of all kinds below one another."""
    columns = options.columns or (1 if len(options.kinds) == 1 else 2)
    width = SINGLE_COLUMN_INCHES if columns == 1 else DOUBLE_COLUMN_INCHES
    panels = [_PANELS[kind](trace, shown) for kind in options.kinds]
    heading = wrap_text(trace_title(trace) + " (partial)" * trace.partial, width, TITLE_POINTS)
    titles = [wrap_text(panel.title, width) for panel in panels]
    heights = [
        panel.height_inches + text_inches(title) + legend_inches(panel.keys, width)
        for panel, title in zip(panels, titles, strict=True)
    ]
    figure = new_figure(width, text_inches(heading) + sum(heights))
    figure.suptitle(heading, x=_LEFT, ha="left", fontsize=TITLE_POINTS)
    parts = figure.subfigures(len(panels), 1, squeeze=False, height_ratios=heights)
    for part, panel, title in zip(parts[:, 0], panels, titles, strict=True):
        part.suptitle(title, x=_LEFT, ha="left", fontsize=SMALL_POINTS)
        panel.draw(part)
        draw_keys(part, panel.keys)
    settle(figure)
    return figure
