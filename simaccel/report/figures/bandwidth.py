"""Bandwidth of DRAM, buffer ports and NoC over a run, with their limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Final

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from simaccel.report.figures.axes import cycle_axis, heading, number_text, steps
from simaccel.report.figures.style import LIMIT_COLOUR, SERIES_COLOURS
from simaccel.report.figures.window import Panel, ShownWindow, part_text
from simaccel.report.units import short_share_text
from simaccel.trace import TraceReader
from simaccel.trace.schema import Cycles

BINS: Final = 300
_HEIGHT_INCHES: Final = 0.31
_LOW_INCHES: Final = 0.18
_HEADING_INCHES: Final = 0.21
_NEARLY_EMPTY: Final = 0.2
"""Share of its limit that a resource never exceeds in a low plot."""
_FRAME_INCHES: Final = 0.4
_NAMES: Final = {
    "dram": "DRAM",
    "buffer_read": "buffer read",
    "buffer_write": "buffer write",
    "noc_distribution": "NoC to array",
    "core_noc": "NoC of cores",
    "noc_collection": "NoC from array",
    "links": "links between chips",
}
_ROOM: Final = 1.12
"""End of the axis, relative to the limit."""
_GIGA: Final = 1e9
_TICKS: Final = 3
_LARGE: Final = 1000


@dataclass(frozen=True)
class ResourceRate:
    """Bytes per cycle of one resource, averaged over each bin."""

    name: str
    edges: Cycles
    bytes_per_cycle: npt.NDArray[np.float64]
    limit: float | None
    """Most bytes per cycle; None: unlimited."""

    @property
    def is_low(self) -> bool:
        """Whether its plot would be nearly empty."""
        if self.limit is None:
            return False
        return float(self.bytes_per_cycle.max()) < _NEARLY_EMPTY * self.limit

    @property
    def height_inches(self) -> float:
        """Height of its plot, without the heading."""
        return _LOW_INCHES if self.is_low else _HEIGHT_INCHES

    @property
    def text(self) -> str:
        """The name, with peak and mean as shares of the limit."""
        name = _NAMES.get(self.name, f"{self.name} memory")
        if self.limit is None:
            return f"{name}: unlimited, takes no cycles"
        peak = float(self.bytes_per_cycle.max())
        mean = float(np.average(self.bytes_per_cycle, weights=np.diff(self.edges)))
        shares = (short_share_text(part / self.limit) for part in (peak, mean))
        limit = f"{self.limit:,.0f}" if self.limit >= _LARGE else f"{self.limit:.4g}"
        return "{}: peak {}, mean {} of {} B/cycle".format(name, *shares, limit)


def flows(trace: TraceReader, start: int, end: int, *, bins: int = BINS) -> list[ResourceRate]:
    """Return the rate of each resource from cycle ``start`` up to ``end``."""
    found = trace.bandwidth(bins=bins, start=start, end=end)
    cycles = np.diff(found.edges)
    return [
        ResourceRate(name, found.edges, moved / cycles, found.bytes_per_cycle[name])
        for name, moved in zip(found.channels, found.moved, strict=True)
    ]


def bandwidth_panel(trace: TraceReader, shown: ShownWindow) -> Panel:
    """Return a panel with a small plot for each resource, over the same cycles."""
    drawn = flows(trace, *shown.whole)
    clock_hz = trace.accelerator().clock_hz
    return Panel(
        f"Bandwidth (dashed: limit), {part_text(trace, *shown.whole)}",
        _FRAME_INCHES + sum(_HEADING_INCHES + flow.height_inches for flow in drawn),
        [],
        lambda figure: draw_flows(figure, drawn, clock_hz),
    )


def draw_flows(figure: FigureBase, drawn: list[ResourceRate], clock_hz: int) -> None:
    """Draw flows below one another: bytes per cycle on the left axis, GB/s on the right."""
    heights = [flow.height_inches for flow in drawn]
    grid = figure.subplots(len(drawn), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes, flow in zip(grid[:, 0], drawn, strict=True):
        _draw_flow(axes, flow, clock_hz)
    figure.supylabel("bytes per cycle", fontsize="medium")
    grid[len(drawn) // 2, 0].child_axes[0].set_ylabel("GB/s")
    edges = drawn[-1].edges
    cycle_axis(grid[-1, 0], int(edges[0]), int(edges[-1]))


def _draw_flow(axes: Axes, flow: ResourceRate, clock_hz: int) -> None:
    steps(axes, flow.bytes_per_cycle, flow.edges - flow.edges[0], facecolor=SERIES_COLOURS[0])
    top = float(flow.bytes_per_cycle.max())
    if flow.limit is not None:
        axes.axhline(flow.limit, color=LIMIT_COLOUR, linestyle="--", linewidth=0.8)
        top = max(top, flow.limit)
    axes.set_ylim(0, _ROOM * top or 1)
    per_second = clock_hz / _GIGA
    there_and_back = partial(mul, per_second), partial(mul, 1 / per_second)
    right = axes.secondary_yaxis("right", functions=there_and_back)
    for axis, scale in ((axes.yaxis, 1.0), (right.yaxis, per_second)):
        axis.set_major_locator(MaxNLocator(_TICKS))
        if flow.is_low and flow.limit is not None:  # room for 0 and the limit only
            axis.set_major_locator(FixedLocator([0, flow.limit * scale]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(float(f"{value:.4g}"))))
    heading(axes, flow.text)
