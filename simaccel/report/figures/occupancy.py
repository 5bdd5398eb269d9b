"""The tiles in the buffer over a window, stacked, with the buffer's capacity."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from simaccel.hardware.cores import core_of_name
from simaccel.report.figures.axes import cycle_axis, fill, steps
from simaccel.report.figures.facets import FigureAxis, set_scale
from simaccel.report.figures.style import LIMIT_COLOUR, SERIES_COLOURS, SERIES_HATCHES
from simaccel.report.figures.window import Panel, ShownWindow, mark_period, part_text
from simaccel.report.units import bytes_text
from simaccel.trace import TraceError, TraceReader
from simaccel.trace.schema import IN_PES, Cycles

MOST_STEPS: Final = 4_000
"""Most changes of a tile; a window with more is drawn as means of bins."""
MOST_TILES: Final = 11
BINS: Final = 400
_HEIGHT_INCHES: Final = 1.5
_OTHERS: Final = "#BBBBBB"
_FAR: Final = 3
"""A capacity of more than this times the peak is outside the plot."""
_LIMIT: Final[dict[str, Any]] = {"color": LIMIT_COLOUR, "linestyle": "--", "linewidth": 0.8}


@dataclass(frozen=True)
class BufferOccupancy:
    """Bytes by tile and time step."""

    edges: Cycles
    """First cycle of each step, and the cycle after the last one."""
    tiles: tuple[str, ...]
    n_bytes: npt.NDArray[np.float64]
    exact: bool
    """Whether the bytes are constant within a step; otherwise they are means."""

    @property
    def peak_bytes(self) -> float:
        """Peak of the bytes of all tiles together."""
        return float(self.n_bytes.sum(axis=0).max(initial=0))


def occupied_bytes(
    trace: TraceReader, start: int, end: int, *, most_steps: int = MOST_STEPS
) -> BufferOccupancy:
    """Return the bytes of each tile; tiles that are empty in the window are left out.

    Beyond ``MOST_TILES``, the tiles with the lowest peaks are combined.
    """
    levels = _steps(trace, start, end, most_steps) or _bins(trace, start, end)
    peaks = levels.n_bytes.max(axis=1, initial=0)
    most = np.argsort(-peaks, kind="stable")[:MOST_TILES]
    kept = np.sort(most[peaks[most] > 0])
    tiles = tuple(levels.tiles[at].removeprefix("tile ") for at in kept)
    n_bytes, others = levels.n_bytes[kept], np.delete(levels.n_bytes, kept, axis=0)
    if others.any():
        tiles = (*tiles, f"{others.any(axis=1).sum()} others")
        n_bytes = np.vstack([n_bytes, others.sum(axis=0)])
    return BufferOccupancy(levels.edges, tiles, n_bytes, levels.exact)


def _steps(trace: TraceReader, start: int, end: int, most_steps: int) -> BufferOccupancy | None:
    """Follow every change, unless a tile has too many."""
    try:
        tiles = _in_buffer(trace)
        rows = [trace.events(start, end, tile, at_most=most_steps) for tile in tiles]
    except TraceError:
        return None
    starts = np.concatenate([[start], *(np.maximum(lane["start"], start) for lane in rows)])
    edges = np.unique(np.append(starts, end)).astype(np.int64)
    held = np.zeros((len(rows), len(edges) - 1))
    for at, lane in enumerate(rows):
        held[at] = lane["held"][np.searchsorted(lane["start"], edges[:-1], "right") - 1]
    return BufferOccupancy(edges, tiles, held, exact=True)


def _bins(trace: TraceReader, start: int, end: int) -> BufferOccupancy:
    found = trace.occupancy(bins=BINS, start=start, end=end)
    tiles = _in_buffer(trace)
    kept = [found.tiles.index(tile) for tile in tiles]
    return BufferOccupancy(found.edges, tiles, found.mean_bytes[kept], exact=False)


def _in_buffer(trace: TraceReader) -> tuple[str, ...]:
    """Return the lanes of the tiles that live in the buffer, not in PEs."""
    return tuple(tile for tile in trace.tiles if not tile.startswith(IN_PES))


def occupancy_panel(trace: TraceReader, shown: ShownWindow) -> Panel:
    """Return a panel with the stacked tiles of the window."""
    window = shown.window
    drawn = occupied_bytes(trace, window.start, window.end)
    capacity = trace.accelerator().buffer.capacity_bytes
    buffers = len({core_of_name(tile.removeprefix("tile ")) for tile in _in_buffer(trace)})
    capacity = capacity and capacity * buffers

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots()
        draw_occupied(axes, drawn, capacity)
        mark_period(axes, window)

    means = "" if drawn.exact else f", means of {len(drawn.edges) - 1} bins"
    return Panel(
        f"Buffer by tile{means}, {part_text(trace, window.start, window.end)}",
        _HEIGHT_INCHES,
        _keys(drawn, capacity, buffers),
        draw,
    )


def _looks(drawn: BufferOccupancy) -> list[dict[str, Any]]:
    """Return each tile its colour and hatch; grey is what stands for several."""
    looks = zip(cycle(SERIES_COLOURS), cycle(SERIES_HATCHES), strict=False)
    named = [fill(*look) for _, look in zip(drawn.tiles[:MOST_TILES], looks, strict=False)]
    return named + [fill(_OTHERS, "")] * (len(drawn.tiles) - len(named))


def _keys(drawn: BufferOccupancy, capacity: int | None, buffers: int) -> list[Artist]:
    """Explain the line and the tiles, the upper ones first, as they are stacked.

    ``capacity``: of all ``buffers``, one for each core.
    """
    pairs = zip(drawn.tiles, _looks(drawn), strict=True)
    tiles = [Patch(label=tile, **look) for tile, look in pairs][::-1]
    if capacity is None:
        return [*tiles]
    several = f"{buffers} x " * (buffers > 1)
    name = f"capacity {several}{bytes_text(capacity // buffers)}"
    name += ", above" * _is_far(drawn, capacity)
    return [Line2D([], [], label=name, **_LIMIT), *tiles]


def _is_far(drawn: BufferOccupancy, capacity: int) -> bool:
    return capacity > _FAR * drawn.peak_bytes


def draw_occupied(axes: Axes, drawn: BufferOccupancy, capacity: int | None) -> None:
    """Draw the stacked bytes of the tiles; ``capacity`` (bytes, None: unlimited) is a line."""
    edges = drawn.edges - drawn.edges[0]
    far = capacity is None or _is_far(drawn, capacity)
    top = max(drawn.peak_bytes, 0 if capacity is None or far else capacity) or 1
    below = np.zeros(len(edges) - 1)
    for tile, n_bytes, look in zip(drawn.tiles, drawn.n_bytes, _looks(drawn), strict=True):
        steps(axes, below + n_bytes, edges, below, label=tile, **look)
        below = below + n_bytes
    if capacity is not None:
        axes.axhline(capacity, **_LIMIT)
    set_scale(axes.yaxis, FigureAxis("bytes held", "B", zero=True), [top])
    cycle_axis(axes, int(drawn.edges[0]), int(drawn.edges[-1]))
