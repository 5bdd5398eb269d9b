"""The best loop orders of tilings, evaluated for all tilings at once.

A tiling is a mapping without loop orders. The bytes of a transfer depend on the order of one level
alone: the innermost with a loop over the tensor's ranks, since all loops outside it move the tensor
and none inside does. So the bytes of any combination of orders are those of the first order of
every level, plus the difference that each level's own order makes: the closed form evaluates the
sum of the levels' numbers of orders, not their product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from simaccel.analytic.evaluation import Floats, evaluate
from simaccel.analytic.family import Ints
from simaccel.analytic.family_counts import FamilyCounts, Level
from simaccel.search.effort import Objective
from simaccel.search.mapspace.mapping_target import MappingTarget, score
from simaccel.search.mapspace.mapspace_tables import BestOrders
from simaccel.search.mapspace.space import EinsumMapspace
from simaccel.search.mapspace.tiling_batch import TilingBatch, family_of_candidates

_NUMBERS: Final = 1 << 15
"""Combinations of orders, or columns, evaluated at once; few enough for the caches."""


@dataclass(frozen=True)
class OrderedTilings:
    """Tilings with the best of their orders.

    ``values`` and ``ties``: their score. ``orders`` (tiling, temporal level): keys, as in `Genes`.
    """

    values: Floats
    ties: Floats
    orders: Ints


def best_orders(
    target: MappingTarget, space: EinsumMapspace, tilings: TilingBatch, objective: Objective
) -> OrderedTilings:
    """Return tilings with their best orders; of equals the one with the smallest keys."""
    levels = space.book.best(tilings.factors, tilings.keeps)
    counts = np.stack([level.counts[level.case] for level in levels], axis=1)
    values, ties = np.empty((2, len(tilings)))
    orders = np.empty(counts.shape, dtype=np.int64)
    for rows in _chunks(counts):
        chosen = [replace(level, case=level.case[rows]) for level in levels]
        combinations = _Combinations(counts[rows])
        value, tie = _scores(target, space, tilings.take(rows), chosen, combinations, objective)
        values[rows], ties[rows], best = combinations.best_of_each(value, tie)
        for at, (level, number) in enumerate(zip(chosen, combinations.numbers, strict=True)):
            orders[rows, at] = level.keys[level.case, number[best]]
    return OrderedTilings(values, ties, orders)


def _chunks(counts: Ints) -> Iterator[slice]:
    """Yield tilings that are evaluated at once; ``counts``: orders by (tiling, level)."""
    numbers = np.maximum(_columns(counts), counts.prod(axis=1)).cumsum()
    start = 0
    while start < len(counts):
        before = numbers[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(numbers, before + _NUMBERS, side="right")))
        yield slice(start, stop)
        start = stop


def _columns(counts: Ints) -> Ints:
    """Return the columns of each tiling: the first orders, and each other one of one level."""
    found: Ints = 1 + (counts - 1).sum(axis=1)
    return found


class _Combinations:
    """All combinations of the levels' orders of some tilings, those of one next to each other.

    The columns of tilings are in lines of one width, about the mean number of columns; a tiling
    with more takes several lines. ``lines``: the tiling of each line. ``numbers`` (level): the
    number of the order in each combination; the first level's changes fastest. ``orders`` (level):
    that of each column, by (place in the line, line), so that vectors run along the lines.
    """

    def __init__(self, counts: Ints) -> None:
        products, columns, every = counts.prod(axis=1), _columns(counts), np.arange(len(counts))
        self.first = np.cumsum(products) - products
        self.row = np.repeat(every, products)
        within = np.arange(len(self.row)) - self.first[self.row]
        width = round(columns.mean())
        taken = -(-columns // width)
        starts = np.cumsum(taken) - taken
        self.lines = np.repeat(every, taken)
        self._n_columns = width * len(self.lines)
        column = width * (np.arange(len(self.lines)) - starts[self.lines])
        column = column + np.arange(width)[:, np.newaxis]
        self.numbers: list[Ints] = []
        self.orders: list[Ints] = []
        self._places = [starts[self.row]]
        before = np.zeros(len(counts), dtype=np.int64)
        for count in counts.T:
            within, number = np.divmod(within, count[self.row])
            self.numbers.append(number)
            if (count > 1).any():
                own = column - before[self.lines]
                self.orders.append(np.where((own > 0) & (own < count[self.lines]), own, 0))
                line, place = np.divmod(before[self.row] + number, width)
                moved = np.where(number > 0, place * len(self.lines) + line, 0)
                self._places.append(self._places[0] + moved)
            else:
                self.orders.append(np.zeros_like(self.lines))
            before = before + count - 1

    def combine(self, by_column: Ints) -> Ints:
        """Return the figures of all combinations from those of columns, or of lines.

        Each level's order changes them by as much whatever those of the other levels are.
        """
        if not isinstance(by_column, np.ndarray):
            return by_column
        first = by_column.take(self._places[0])
        others = self._places[1:] if by_column.size == self._n_columns else []
        found: Ints = sum((by_column.take(places) - first for places in others), start=first)
        return found

    def best_of_each(self, values: Floats, ties: Floats) -> tuple[Floats, Floats, Ints]:
        """Return the least (value, tie) of each tiling, and the index of its first combination."""
        value = np.minimum.reduceat(values, self.first)
        ties = np.where(values == value[self.row], ties, np.inf)
        tie = np.minimum.reduceat(ties, self.first)
        found = np.flatnonzero(ties == tie[self.row])
        first = np.searchsorted(self.row[found], np.arange(len(self.first)))
        return value, tie, found[first]


def _scores(
    target: MappingTarget,
    space: EinsumMapspace,
    tilings: TilingBatch,
    levels: Sequence[BestOrders],
    combinations: _Combinations,
    objective: Objective,
) -> tuple[Floats, Floats]:
    """Return the scores of tilings in some combinations of orders."""
    family = family_of_candidates(
        target.ranks(space),
        target.leaf,
        target.hierarchy,
        tilings.take(combinations.lines),
        places=[
            level.places_of(level.case[combinations.lines], orders)
            for level, orders in zip(levels, combinations.orders, strict=True)
        ],
    )
    totals = evaluate(family, target.accelerator, room=objective == "footprint")
    counts = totals.counts
    every = replace(
        totals,
        counts=replace(
            counts,
            macs=combinations.combine(counts.macs),
            native_macs=combinations.combine(counts.native_macs),
            elements=combinations.combine(counts.elements),
            busy={name: combinations.combine(cycles) for name, cycles in counts.busy.items()},
            moved={
                key: combinations.combine(n_bytes) for key, n_bytes in _by_level(target, counts)
            },
            tiles={},
        ),
    )
    value, tie = score(objective, every, combinations.combine(totals.buffer_bytes()))
    return np.broadcast_to(value, len(combinations.row)), np.broadcast_to(
        tie, len(combinations.row)
    )


def _by_level(target: MappingTarget, counts: FamilyCounts) -> Iterable[tuple[Level, Ints]]:
    """Return the bytes at each level, of tensors that live in one memory under the first's name."""
    first: dict[Level, str] = {}
    merged = FamilyCounts()
    for (level, name), n_bytes in counts.moved.items():
        lives = target.workload.tensors[name].lives
        merged.move(level, first.setdefault((level, lives), name), n_bytes)
    return merged.moved.items()
