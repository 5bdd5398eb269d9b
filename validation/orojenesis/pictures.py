"""The paper's figures, drawn of our bounds and of the public tool's curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simaccel.papers.orojenesis.segment import SkiSlope
from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    SERIES_COLOURS,
    new_figure,
    save_figure,
    style,
)
from simaccel.report.units import bytes_text
from validation.orojenesis.exhibits import Chains, EinsumFront, Mountain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).parent
Points = Sequence[tuple[float, float]]


def _slope(axes: Axes, points: Points, label: str, at: int, *, of: int = 1) -> None:
    """Draw steps; the first of several is the widest, so that those it coincides with show."""
    rooms = [room for room, _ in points] + [points[-1][0] * 4]
    moved = [n for _, n in points] + [points[-1][1]]
    colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
    width = 0.8 + 0.35 * (of - 1 - at)
    axes.step(rooms, moved, where="post", label=label, color=colour, linewidth=width)


def _finish(axes: Axes, title: str, label: str, *, log: bool = True) -> None:
    axes.set_xscale("log", base=2)
    if log:
        axes.set_yscale("log")
    axes.set_title(title)
    axes.set_xlabel("buffer")
    axes.set_ylabel(label)
    axes.xaxis.set_major_formatter(lambda value, _: bytes_text(round(value)))
    axes.tick_params(axis="x", labelrotation=30)
    axes.grid(visible=True, linewidth=0.3, alpha=0.6)
    axes.legend(fontsize="x-small")


def _intensity(one: EinsumFront) -> Points:
    first = math.prod(one.problem.operator.output.shape(one.problem.operator.ranks))
    operations = 2 * one.problem.macs - first
    return [(room, operations / moved) for room, moved in one.front.points()]


def draw_singles(
    name: str, titles: str, bounds: Mapping[str, EinsumFront] | Mapping[int, EinsumFront]
) -> None:
    """Draw the ski-slopes and the mesas of operational intensity of several einsums."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 2.6)
        left, right = figure.subplots(1, 2)
        for at, (label, bound) in enumerate(bounds.items()):
            _slope(left, bound.front.points(), str(label), at, of=len(bounds))
            _slope(right, _intensity(bound), str(label), at, of=len(bounds))
        _finish(left, titles, "bytes to and from DRAM")
        _finish(right, "operational intensity", "operations per byte")
        save_figure(figure, HERE / name, force=True)


def draw_shares(name: str, bounds: Mapping[str, EinsumFront]) -> None:
    """Draw figure 11: the maximal effectual buffer over all operands."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES / 2, 2.2)
        axes = figure.subplots()
        shares = [one.front.largest[0] / one.problem.compulsory_bytes for one in bounds.values()]
        axes.bar(list(bounds), shares, color=SERIES_COLOURS[0])
        axes.set_ylabel("maximal effectual buffer /\nall operands")
        axes.tick_params(axis="x", labelrotation=40)
        save_figure(figure, HERE / name, force=True)


def draw_chains(name: str, title: str, chains: Chains, names: Mapping[str, str]) -> None:
    """Draw ski-slopes of chains."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 2.8)
        left, right = figure.subplots(1, 2)
        base: SkiSlope | None = None
        for at, (key, label) in enumerate(names.items()):
            front = chains.fronts[key]
            _slope(left, front.points(), label, at, of=len(names))
            if base is None:
                base = front
                continue
            ratios = []
            for room in sorted({*front.buffer.tolist(), *base.buffer.tolist()}):
                base_point, two = base.find_point(room), front.find_point(room)
                if base_point is not None and two is not None:
                    ratios.append((room, base.accesses[base_point] / front.accesses[two]))
            _slope(right, ratios, label, at, of=len(names))
        right.axhline(1, color="black", linewidth=0.6)
        _finish(left, title, "bytes to and from DRAM")
        _finish(right, "times fewer bytes than unfused", "ratio", log=False)
        save_figure(figure, HERE / name, force=True)


def draw_mountains(name: str, mountains: Mapping[str, Mountain]) -> None:
    """Draw figure 23."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 2.4)
        panels = figure.subplots(1, len(mountains), sharey=True)
        for axes, (title, mountain) in zip(panels, mountains.items(), strict=True):
            memory, compute = (
                [n / 1e12 for n in each] for each in (mountain.memory, mountain.compute)
            )
            axes.plot(mountain.shares, memory, label="DRAM", color=SERIES_COLOURS[1])
            axes.plot(mountain.shares, compute, label="MACs", color=SERIES_COLOURS[0])
            least = [min(pair) for pair in zip(memory, compute, strict=True)]
            axes.plot(mountain.shares, least, label="both", color=SERIES_COLOURS[2], linewidth=2)
            axes.axvline(mountain.best[0], color="black", linestyle="--", linewidth=0.8)
            axes.set(title=title, xlabel="share of the area that is buffer")
            axes.set_ylim(0, max(compute) * 1.1)
            axes.legend(fontsize="x-small")
        panels[0].set_ylabel("10^12 operations per second")
        save_figure(figure, HERE / name, force=True)
