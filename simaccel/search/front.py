"""Pareto fronts of mappings: those that no other beats in all of the chosen figures.

Figures are kept as *parts*, which add up over the operators of a workload (cycles, energy, DRAM
bytes) or of which the maximum counts (buffer bytes); smaller is better. Utilisation follows from
the cycles, EDP from energy and cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Ints
from simaccel.pareto import beaten, pick_evenly, undominated_rows
from simaccel.search.effort import EFFORT, Objective
from simaccel.search.judge import Body

Figure = Literal["cycles", "utilisation", "energy", "edp", "dram-bytes", "footprint"]
FIGURES: Final[tuple[Figure, ...]] = get_args(Figure)
"""The figures of a front; a larger utilisation is better, all others are better if smaller."""
_CYCLES, _ENERGY, _DRAM, _SPACE = range(4)
_PARTS: Final[dict[Figure, tuple[int, ...]]] = {
    "cycles": (_CYCLES,),
    "utilisation": (_CYCLES,),
    "energy": (_ENERGY,),
    "edp": (_ENERGY, _CYCLES),
    "dram-bytes": (_DRAM,),
    "footprint": (_SPACE,),
}
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FrontFigures:
    """The two figures of a front."""

    x: Figure
    y: Figure

    @property
    def parts(self) -> list[int]:
        """Indices of the parts that decide."""
        return sorted({*_PARTS[self.x], *_PARTS[self.y]})

    @property
    def objectives(self) -> list[Objective]:
        """Objectives of the searches for the two ends."""
        both = ("cycles" if one == "utilisation" else one for one in (self.x, self.y))
        return list(dict.fromkeys(both))


@dataclass(frozen=True)
class Alternative:
    """A mapping of consecutive operators, with its figures.

    ``energy_pj`` includes the leakage during ``cycles``; ``buffer_bytes`` are what the tiles need.
    """

    body: Body
    cycles: int
    energy_pj: float
    dram_bytes: int
    buffer_bytes: int

    @property
    def parts(self) -> tuple[float, float, float, float]:
        """Cycles, energy, DRAM bytes and buffer bytes."""
        return self.cycles, self.energy_pj, self.dram_bytes, self.buffer_bytes

    def join(self, other: Alternative) -> Alternative:
        """Return this alternative followed by another."""
        return Alternative(
            (*self.body, *other.body),
            self.cycles + other.cycles,
            self.energy_pj + other.energy_pj,
            self.dram_bytes + other.dram_bytes,
            max(self.buffer_bytes, other.buffer_bytes),
        )


def front_of(least: Floats, judge: Callable[[Ints], Floats], *, chunk: int) -> Ints:
    """Return the numbers of the candidates on a front.

    ``least``: lower bounds of each candidate's figures, in columns. ``judge`` returns the figures
    of some candidates. About ``chunk`` candidates are judged at a time, until the bounds of all
    others are dominated.
    """
    figures = np.full(least.shape, np.inf)
    left = np.arange(len(least))
    front = np.empty(0, dtype=np.int64)
    while left.size:
        layer = unbeaten_layers(least, left, chunk)
        figures[layer] = judge(layer)
        front = np.concatenate([front, layer])
        front = front[undominated_rows(figures[front])]
        front = front[np.isfinite(figures[front]).all(axis=1)]
        left = left[~np.isin(left, layer)]
        left = left[~beaten(least[left], figures[front])]
    return front


def unbeaten_layers(least: Floats, left: Ints, size: int) -> Ints:
    """Return about ``size`` candidates: the front of ``least``, the front of the rest, and so on.

    Of each layer at most ``size``, evenly spaced.
    """
    found = np.empty(0, dtype=np.int64)
    while left.size and found.size < size:
        layer = left[undominated_rows(least[left])]
        found = np.concatenate([found, pick_evenly(layer, size)])
        left = left[~np.isin(left, layer)]
    return found


def best_of(figures: FrontFigures, found: Sequence[Alternative]) -> list[Alternative]:
    """Return the alternatives that no other one equals or beats."""
    if not found:
        return []
    rows = np.array([one.parts for one in found], dtype=np.float64)[:, figures.parts]
    kept = undominated_rows(rows)
    return [found[int(at)] for at in pick_evenly(kept, EFFORT.front)]


def join_alternatives(
    figures: FrontFigures, first: Sequence[Alternative], second: Sequence[Alternative]
) -> list[Alternative]:
    """Return the front of all sequences of an alternative of ``first`` and one of ``second``."""
    if not first or not second:
        return []
    ones, others = (
        np.array([alternative.parts for alternative in alternatives], dtype=np.float64)
        for alternatives in (first, second)
    )
    rows = ones[:, None, :] + others[None, :, :]
    rows[:, :, _SPACE] = np.maximum(ones[:, None, _SPACE], others[None, :, _SPACE])
    kept = undominated_rows(rows.reshape(-1, ones.shape[1])[:, figures.parts])
    pairs = (divmod(int(at), len(second)) for at in pick_evenly(kept, EFFORT.front))
    return [first[left].join(second[other]) for left, other in pairs]
