"""Which tiles hold the buffer's bytes in a window, stacked, with the buffer's capacity."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Final

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from simaccel.report.figures.axes import cycle_axis, fill, legend_below
from simaccel.report.figures.panel import Panel, Shown, mark_period, part_text
from simaccel.report.figures.style import LIMIT_COLOUR, SERIES_COLOURS, SERIES_HATCHES
from simaccel.report.figures.window import Window
from simaccel.report.units import bytes_text
from simaccel.trace import Trace, TraceError
from simaccel.trace.schema import Cycles

MOST_STEPS: Final = 4_000
"""Changes of one tile; a window with more is drawn as means of bins."""
MOST_TILES: Final = 11
BINS: Final = 400
_HEIGHT_INCHES: Final = 1.9
_ROOM: Final = 1.08
_FAR: Final = 3
"""A capacity of more times the peak than this lies above what is drawn."""
_UNITS: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


@dataclass(frozen=True)
class Occupied:
    """Bytes by tile and step of time."""

    edges: Cycles
    """First cycle of each step, and the cycle after the last one."""
    tiles: tuple[str, ...]
    n_bytes: npt.NDArray[np.float64]
    exact: bool
    """Whether the bytes stay the same within a step; otherwise they are means."""


def occupied(trace: Trace, start: int, end: int, *, most_steps: int = MOST_STEPS) -> Occupied:
    """Give the bytes that each tile holds; tiles that hold nothing in the window are left out.

    Where there are more than ``MOST_TILES``, those with the lowest peaks are one.
    """
    found = _steps(trace, start, end, most_steps) or _bins(trace, start, end)
    peaks = found.n_bytes.max(axis=1, initial=0)
    most = np.argsort(-peaks, kind="stable")[:MOST_TILES]
    kept = np.sort(most[peaks[most] > 0])
    tiles = tuple(found.tiles[at].removeprefix("tile ") for at in kept)
    n_bytes, others = found.n_bytes[kept], np.delete(found.n_bytes, kept, axis=0)
    if others.any():
        tiles = (*tiles, f"{others.any(axis=1).sum()} others")
        n_bytes = np.vstack([n_bytes, others.sum(axis=0)])
    return Occupied(found.edges, tiles, n_bytes, found.exact)


def _steps(trace: Trace, start: int, end: int, most_steps: int) -> Occupied | None:
    """Follow every change, unless a tile has too many."""
    try:
        rows = [trace.events(start, end, tile, at_most=most_steps) for tile in trace.tiles]
    except TraceError:
        return None
    starts = np.concatenate([[start], *(np.maximum(lane["start"], start) for lane in rows)])
    edges = np.unique(np.append(starts, end)).astype(np.int64)
    held = np.zeros((len(rows), len(edges) - 1))
    for at, lane in enumerate(rows):
        held[at] = lane["held"][np.searchsorted(lane["start"], edges[:-1], "right") - 1]
    return Occupied(edges, trace.tiles, held, exact=True)


def _bins(trace: Trace, start: int, end: int) -> Occupied:
    found = trace.occupancy(bins=BINS, start=start, end=end)
    return Occupied(found.edges, found.tiles, found.mean_bytes, exact=False)


def occupancy_panel(trace: Trace, shown: Shown) -> Panel:
    """Draw the tiles of the window on top of each other."""
    window = shown.window
    drawn = occupied(trace, window.start, window.end)
    capacity = trace.accelerator().buffer.capacity_bytes
    means = "" if drawn.exact else f", means of {len(drawn.edges) - 1} bins"
    return Panel(
        f"Buffer by tile{means}, {part_text(trace, window.start, window.end)}",
        _HEIGHT_INCHES,
        lambda figure: _draw(figure, drawn, capacity, window),
    )


def _draw(figure: FigureBase, drawn: Occupied, capacity: int | None, window: Window) -> None:
    axes = figure.subplots()
    draw_occupied(axes, drawn, capacity)
    mark_period(axes, window)
    handles, names = axes.get_legend_handles_labels()
    legend_below(figure, handles[::-1], names[::-1])


def draw_occupied(axes: Axes, drawn: Occupied, capacity: int | None) -> None:
    """Stack the bytes of the tiles; ``capacity`` (bytes, None: unlimited) is a line."""
    edges = drawn.edges - drawn.edges[0]
    peak = float(drawn.n_bytes.sum(axis=0).max(initial=0))
    above = capacity is not None and capacity > _FAR * peak
    top = max(peak, 0 if capacity is None or above else capacity) or 1
    size, unit = next((n, name) for n, name in _UNITS if top >= n or n == 1)
    below = np.zeros(len(edges) - 1)
    looks = zip(cycle(SERIES_COLOURS), cycle(SERIES_HATCHES), strict=False)
    for tile, n_bytes, (colour, hatch) in zip(drawn.tiles, drawn.n_bytes, looks, strict=False):
        upper = below + n_bytes / size
        axes.stairs(upper, edges, baseline=below, fill=True, label=tile, **fill(colour, hatch))
        below = upper
    if capacity is not None:
        name = f"capacity {bytes_text(capacity)}" + ", above" * above
        axes.axhline(capacity / size, color=LIMIT_COLOUR, linestyle="--", linewidth=0.8, label=name)
    axes.set_ylim(0, _ROOM * top / size)
    axes.set_ylabel(f"bytes held ({unit})")
    cycle_axis(axes, int(drawn.edges[0]), int(drawn.edges[-1]))
