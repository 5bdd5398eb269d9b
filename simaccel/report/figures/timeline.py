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

from simaccel.report.figures.axes import cause_keys, cycle_axis, look, steps, width_inches
from simaccel.report.figures.style import in_order
from simaccel.report.figures.window import CycleWindow, Panel, ShownWindow, mark_period, part_text
from simaccel.report.units import cycles_text
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
_LEAST_EXPLAINED: Final = 0.004
"""Causes with smaller shares of every lane are not in the legend."""
_FRAME_INCHES: Final = 0.4


@dataclass(frozen=True)
class Timeline:
    """The bars in a window, clipped to it.

    ``lanes``: by engine and cause, the first cycle and the number of cycles of each bar.
    """

    start: int
    end: int
    lanes: Mapping[str, Mapping[str, Cycles]]

    def shares(self) -> dict[str, float]:
        """Return the largest share of a lane that each cause has, in legend order."""
        most: dict[str, float] = {}
        for lane in self.lanes.values():
            for cause, bars in lane.items():
                share = float(bars[:, 1].sum()) / (self.end - self.start)
                most[cause] = max(share, most.get(cause, 0.0))
        return {cause: most[cause] for cause in in_order(most)}


@dataclass(frozen=True)
class BinnedTimeline:
    """The cycles of a window by engine, cause and bin."""

    start: int
    end: int
    utilisation: UtilisationSeries

    def shares(self) -> dict[str, float]:
        """Return the largest share of a lane that each cause has, in legend order."""
        parts = self.utilisation.cycles.sum(axis=2) / (self.end - self.start)
        most = dict(zip(self.utilisation.causes, parts.max(axis=0).tolist(), strict=True))
        return {cause: most[cause] for cause in in_order(c for c, n in most.items() if n)}


def timeline(
    trace: TraceReader, start: int, end: int, *, most_bars: int = MOST_BARS
) -> Timeline | BinnedTimeline:
    """Return the bars or bins of the cycles from ``start`` up to ``end``.

    At most ``most_bars`` events of an engine are expanded.
    """
    lanes = {}
    for engine in trace.engines:
        try:
            events = trace.events(start, end, engine, at_most=most_bars)
        except TraceError:
            return BinnedTimeline(start, end, trace.utilisation(bins=BINS, start=start, end=end))
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
        run = BinnedTimeline(0, trace.cycles, trace.utilisation(bins=BINS))
    seen = [cause for cause, share in drawn.shares().items() if share >= _LEAST_EXPLAINED]
    period = ""
    if window.times:
        length, times = cycles_text(window.period_cycles), cycles_text(window.times)
        period = f"; dashed: a period of {length} cycles, {times}\N{NO-BREAK SPACE}times"
    return Panel(
        f"Engines{means}, {part_text(trace, window.start, window.end)}{period}",
        _FRAME_INCHES + _LANE_INCHES * len(trace.engines) + (_STRIP_INCHES if run else 0.0),
        cause_keys(seen),
        lambda figure: _draw(figure, drawn, window, run),
    )


def _draw(
    figure: FigureBase,
    drawn: Timeline | BinnedTimeline,
    window: CycleWindow,
    run: BinnedTimeline | None,
) -> None:
    if run is None:
        axes = figure.subplots()
    else:
        lanes = _FRAME_INCHES + _LANE_INCHES * len(run.utilisation.engines)
        strip, axes = figure.subplots(2, 1, height_ratios=(_STRIP_INCHES, lanes))
        _draw_strip(strip, run, window)
    draw_timeline(axes, drawn)
    mark_period(axes, window)


def _draw_strip(axes: Axes, run: BinnedTimeline, window: CycleWindow) -> None:
    """Draw the compute engine of the whole run, and where in it the window lies."""
    engines = run.utilisation.engines
    engine = ARRAY if ARRAY in engines else engines[0]
    _draw_lane(axes, run, engine, 0)
    axes.set_ylim(0.5, -0.5)
    axes.set_xlim(0, run.end)
    axes.set_yticks([0], [f"{engine}, run"])
    axes.set_xticks([])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    least = _LEAST_WINDOW * run.end
    middle, wide = (window.start + window.end) / 2, max(window.end - window.start, least)
    axes.axvspan(
        middle - wide / 2, middle + wide / 2, facecolor="none", edgecolor="#000000", linewidth=1.0
    )


def draw_timeline(axes: Axes, drawn: Timeline | BinnedTimeline) -> None:
    """Draw lanes from top to bottom; the x axis counts from the window's start."""
    if isinstance(drawn, Timeline):
        names = list(drawn.lanes)
        _draw_bars(axes, drawn)
    else:
        names = list(drawn.utilisation.engines)
        for at, engine in enumerate(names):
            _draw_lane(axes, drawn, engine, at)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylabel("engine")
    axes.tick_params(axis="y", length=0)
    cycle_axis(axes, drawn.start, drawn.end)


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


def _draw_lane(axes: Axes, drawn: BinnedTimeline, engine: str, at: int) -> None:
    """Fill a lane from its lower edge up, bin by bin, in the order of the causes."""
    cycles = drawn.utilisation
    edges = cycles.edges - drawn.start
    below = np.zeros(len(edges) - 1)
    bottom = at + _LANE_HEIGHT / 2
    for cause in drawn.shares():
        share = cycles.share(engine, cause)
        if not share.any():
            continue
        low, high = (bottom - _LANE_HEIGHT * level for level in (below, below + share))
        steps(axes, high, edges, low, label=cause, **look(cause))
        below += share
