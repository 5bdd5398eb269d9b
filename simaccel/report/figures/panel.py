"""A panel: one kind of figure of a trace, ready to be drawn alone or on a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from simaccel.report.figures.window import CycleWindow
from simaccel.report.units import cycles_text, seconds_text
from simaccel.trace import TraceReader


@dataclass(frozen=True)
class ShownWindow:
    """The part of a trace that is drawn.

    Attributes:
        window: the cycles of figures that look closely.
        whole: the first cycle of the others, and the cycle after the last one.
        engine: whose stalls are stacked.

    """

    window: CycleWindow
    whole: tuple[int, int]
    engine: str

    def cycles(self, kind: str) -> tuple[int, int]:
        """Return the first cycle that a kind of figure shows, and the cycle after the last one."""
        close = kind in ("timeline", "occupancy")
        return (self.window.start, self.window.end) if close else self.whole


@dataclass(frozen=True)
class Panel:
    """Something to draw on a figure, or a part of one.

    Attributes:
        title: what it shows.
        height_inches: how high it wants to be, without title and legend.
        keys: what its legend explains.
        draw: draws it.

    """

    title: str
    height_inches: float
    keys: Sequence[Artist]
    draw: Callable[[FigureBase], None]


def mark_period(axes: Axes, window: CycleWindow) -> None:
    """Draw a dashed line where the steady period of a window begins."""
    if window.times:
        begins = window.end - window.period_cycles - window.start
        axes.axvline(begins, color="#000000", linestyle="--", linewidth=0.8)


def part_text(trace: TraceReader, start: int, end: int) -> str:
    """Return which part of a run is shown, in cycles and in time."""
    hz = trace.accelerator().clock_hz
    all_cycles, time, run = (
        cycles_text(trace.cycles),
        seconds_text((end - start) / hz),
        seconds_text(trace.cycles / hz),
    )
    if (start, end) == (0, trace.cycles):
        return f"all {all_cycles} cycles ({_whole(time)})"
    part = f"cycles {cycles_text(start)} to {cycles_text(end)} of {all_cycles}"
    return f"{part} ({_whole(time)} of {_whole(run)})"


def _whole(text: str) -> str:
    """Keep a number and its unit on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
