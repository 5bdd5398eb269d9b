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

from simaccel.analytic.core_totals import Floats
from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import Ints, with_arrays
from simaccel.analytic.family_counts import FamilyCounts, Level
from simaccel.search.effort import Objective
from simaccel.search.mapspace.mapping_target import MappingTarget, score
from simaccel.search.mapspace.mapspace_tables import BestOrders
from simaccel.search.mapspace.space import EinsumMapspace
from simaccel.search.mapspace.tiling_batch import TilingBatch, family_of_candidates

_NUMBERS: Final = 1 << 15
"""Combinations of orders, or columns, evaluated at once; few enough for the caches."""
_PADDING: Final = 1 << 13
"""Unused columns of tilings evaluated together, at most: another evaluation takes as long."""


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
    for rows in _similar_tilings(counts):
        chosen = [replace(level, case=level.case[rows]) for level in levels]
        combinations = _Combinations(counts[rows])
        value, tie = _scores(target, space, tilings.take(rows), chosen, combinations, objective)
        values[rows], ties[rows], best = combinations.best_of_each(value, tie)
        for at, (level, number) in enumerate(zip(chosen, combinations.numbers, strict=True)):
            orders[rows, at] = level.keys[level.case, number[best]]
    return OrderedTilings(values, ties, orders)


def _similar_tilings(counts: Ints) -> Iterator[Ints]:
    """Yield tilings that have about as many orders, as indices; ``counts`` by (tiling, level)."""
    columns, products = _columns(counts), counts.prod(axis=1)
    every = np.argsort(columns, kind="stable")
    while len(every):
        used = columns[every]
        padded = used * np.arange(1, len(every) + 1)
        fits = (padded <= _NUMBERS) & (padded - used.cumsum() <= _PADDING)
        fits &= products[every].cumsum() <= _NUMBERS
        n = max(int(fits.sum()), 1)
        yield every[:n]
        every = every[n:]


def _columns(counts: Ints) -> Ints:
    """Return the columns of each tiling: the first orders, and each other one of one level."""
    found: Ints = 1 + (counts - 1).sum(axis=1)
    return found


class _Combinations:
    """All combinations of the levels' orders of some tilings, those of one next to each other.

    ``numbers`` (level): the number of the order in each combination; the first level's changes
    fastest.
    """

    def __init__(self, counts: Ints) -> None:
        products = counts.prod(axis=1)
        self.first = np.cumsum(products) - products
        self.width = int(_columns(counts).max())
        self.row = np.repeat(np.arange(len(counts)), products)
        within = np.arange(len(self.row)) - self.first[self.row]
        starts = np.cumsum(counts - 1, axis=1) - counts + 2
        self.numbers: list[Ints] = []
        self._places: list[Ints] = []
        for at in range(counts.shape[1]):
            within, number = np.divmod(within, counts[self.row, at])
            self.numbers.append(number)
            if (counts[:, at] > 1).any():
                column = np.where(number > 0, starts[self.row, at] + number - 1, 0)
                self._places.append(self.row * self.width + column)
        column = np.arange(self.width)
        used = column >= starts[..., np.newaxis]
        used &= column < (starts + counts - 1)[..., np.newaxis]
        self.orders = np.where(used, column - starts[..., np.newaxis] + 1, 0)
        """(tiling, level, column): the number of the level's order in a column."""

    def combine(self, by_column: Ints) -> Ints:
        """Return the figures of all combinations from those of (tiling, column).

        Each level's order changes them by as much whatever those of the other levels are.
        """
        if not isinstance(by_column, np.ndarray):
            return by_column
        first = by_column[:, 0].take(self.row)
        if by_column.shape[1] == 1:
            return first
        flat = by_column.ravel()
        more = (flat.take(places) - first for places in self._places)
        return sum(more, start=first)

    def best_of_each(self, values: Floats, ties: Floats) -> tuple[Floats, Floats, Ints]:
        """Return the least (value, tie) of each tiling, and the index of its first combination."""
        value = np.minimum.reduceat(values, self.first)
        ties = np.where(values == value[self.row], ties, np.inf)
        tie = np.minimum.reduceat(ties, self.first)
        found = np.flatnonzero(ties == tie[self.row])
        _, first = np.unique(self.row[found], return_index=True)
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
        tilings,
        places=[
            level.places[:, level.case[:, np.newaxis], combinations.orders[:, at]]
            for at, level in enumerate(levels)
        ],
    )
    totals = evaluate(
        with_arrays(family, lambda array: array[:, np.newaxis] if np.ndim(array) == 1 else array),
        target.accelerator,
    )
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
