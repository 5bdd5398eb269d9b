"""Activities of each engine in a window of cycles, as bars coloured by stall cause.

If a window has more events than can be distinguished, each lane is cut into bins, which show the
share of each activity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from simaccel.report.figures.axes import (
    cause_keys,
    cycle_axis,
    draw_lanes,
    look,
    steps,
    width_inches,
)
from simaccel.report.figures.comparison import visible_causes
from simaccel.report.figures.style import in_order
from simaccel.report.figures.window import CycleWindow, Panel, ShownWindow, mark_period, part_text
from simaccel.trace import TraceError, TraceReader, UtilisationSeries
from simaccel.trace.schema import Cycles
from simaccel.units import ARRAY

MOST_BARS: Final = 2_000
"""Most bars of one engine; a window with more is drawn in bins."""
BINS: Final = 400
_LANE_HEIGHT: Final = 0.8
_LEAST_HATCHED_INCHES: Final = 0.02
_LANE_INCHES: Final = 0.17
_STRIP_INCHES: Final = 0.22
_LEAST_WINDOW: Final = 0.004
"""Smallest visible share of the run's width for the window in the overview strip."""
_FRAME_INCHES: Final = 0.4


@dataclass(frozen=True)
class Timeline:
    """The bars in a window, clipped to it.

    ``lanes``: by engine and cause, the first cycle and the number of cycles of each bar.
    """

    start: int
    end: int
    lanes: Mapping[str, Mapping[str, Cycles]]


def timeline(
    trace: TraceReader, start: int, end: int, *, most_bars: int = MOST_BARS
) -> Timeline | UtilisationSeries:
    """Return the bars or bins of the cycles from ``start`` up to ``end``.

    At most ``most_bars`` events of an engine are expanded.
    """
    lanes = {}
    for engine in trace.engines:
        try:
            events = trace.events(start, end, engine, at_most=most_bars)
        except TraceError:
            return trace.utilisation(bins=BINS, start=start, end=end)
        first = np.maximum(events["start"], start)
        bars = np.stack([first, np.minimum(events["end"], end) - first], axis=1)
        causes = np.array(trace.tables["causes"])[events["cause"]]
        lanes[engine] = {str(c): bars[causes == c] for c in np.unique(causes)}
    return Timeline(start, end, lanes)


def timeline_panel(trace: TraceReader, shown: ShownWindow) -> Panel:
    """Return a panel with the engines of the window, and a mark where its steady period begins."""
    window = shown.window
    drawn = timeline(trace, window.start, window.end)
    means = "" if isinstance(drawn, Timeline) else f" ({BINS} bins)"
    run = None
    if (window.start, window.end) != (0, trace.cycles):
        run = trace.utilisation(bins=BINS)
    whole = trace.utilisation(bins=1, start=window.start, end=window.end)
    shares = 100 * whole.cycles.sum(axis=2) / (window.end - window.start)
    seen = visible_causes(dict(zip(whole.causes, lane, strict=True)) for lane in shares.tolist())
    period = ""
    if window.times:
        length, times = f"{window.period_cycles:,}", f"{window.times:,}"
        period = f"; dashed: a period of {length} cycles, {times}\N{NO-BREAK SPACE}times"
    return Panel(
        f"Engines{means}, {part_text(trace, window.start, window.end)}{period}",
        _FRAME_INCHES + _LANE_INCHES * len(trace.engines) + (_STRIP_INCHES if run else 0.0),
        cause_keys(seen),
        lambda figure: _draw(figure, drawn, window, run),
    )


def _draw(
    figure: FigureBase,
    drawn: Timeline | UtilisationSeries,
    window: CycleWindow,
    run: UtilisationSeries | None,
) -> None:
    if run is None:
        axes = figure.subplots()
    else:
        lanes = _FRAME_INCHES + _LANE_INCHES * len(run.engines)
        strip, axes = figure.subplots(2, 1, height_ratios=(_STRIP_INCHES, lanes))
        _draw_strip(strip, run, window)
    draw_timeline(axes, drawn)
    mark_period(axes, window)


def _draw_strip(axes: Axes, run: UtilisationSeries, window: CycleWindow) -> None:
    """Draw the compute engine of the whole run, and where in it the window lies."""
    engine = ARRAY if ARRAY in run.engines else run.engines[0]
    _draw_lane(axes, run, engine, 0)
    draw_lanes(axes, [f"{engine}, run"], "")
    end = int(run.edges[-1])
    axes.set_xlim(0, end)
    axes.set_xticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    least = _LEAST_WINDOW * end
    middle, wide = (window.start + window.end) / 2, max(window.end - window.start, least)
    axes.axvspan(
        middle - wide / 2, middle + wide / 2, facecolor="none", edgecolor="#000000", linewidth=1.0
    )


def draw_timeline(axes: Axes, drawn: Timeline | UtilisationSeries) -> None:
    """Draw lanes from top to bottom; the x axis counts from the window's start."""
    if isinstance(drawn, Timeline):
        names, ends = list(drawn.lanes), (drawn.start, drawn.end)
        _draw_bars(axes, drawn)
    else:
        names, ends = list(drawn.engines), (int(drawn.edges[0]), int(drawn.edges[-1]))
        for at, engine in enumerate(names):
            _draw_lane(axes, drawn, engine, at)
    draw_lanes(axes, names, "engine")
    cycle_axis(axes, *ends)


def _draw_bars(axes: Axes, drawn: Timeline) -> None:
    """Draw all bars; those too narrow for it have no hatch, which would hide their colour."""
    least = _LEAST_HATCHED_INCHES / width_inches(axes) * (drawn.end - drawn.start)
    for at, lane in enumerate(drawn.lanes.values()):
        place = (at - _LANE_HEIGHT / 2, _LANE_HEIGHT)
        # Viewers of vector files leave a hairline between neighbours; below it is what there is
        # most of, not white.
        most = max(in_order(lane), key=lambda cause: int(lane[cause][:, 1].sum()))
        axes.barh(at, drawn.end - drawn.start, _LANE_HEIGHT, color=look(most)["facecolor"])
        for cause in in_order(lane):
            bars = lane[cause] - (drawn.start, 0)
            wide = bars[:, 1] >= least
            for drawn_bars, plain in ((bars[wide], {}), (bars[~wide], {"hatch": None})):
                if len(drawn_bars):
                    axes.broken_barh(
                        drawn_bars.tolist(), place, label=cause, **{**look(cause), **plain}
                    )


def _draw_lane(axes: Axes, drawn: UtilisationSeries, engine: str, at: int) -> None:
    """Fill a lane from its lower edge up, bin by bin, in the order of the causes."""
    edges = drawn.edges - drawn.edges[0]
    below = np.zeros(len(edges) - 1)
    bottom = at + _LANE_HEIGHT / 2
    for cause in in_order(drawn.causes):
        share = drawn.share(engine, cause)
        if share.any():
            low, high = (bottom - _LANE_HEIGHT * level for level in (below, below + share))
            steps(axes, high, edges, low, label=cause, **look(cause))
            below += share
