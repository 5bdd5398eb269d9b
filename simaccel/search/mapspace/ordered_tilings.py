"""The best loop orders of tilings, evaluated for all tilings at once.

A tiling is a mapping without loop orders. The bytes of a transfer depend on the order of one level
alone: the innermost with a loop over the tensor's ranks, since all loops outside it move the tensor
and none inside does. So the bytes of any combination of orders are those of the first order of
every level, plus the difference that each level's own order makes: the closed form evaluates the
sum of the levels' numbers of orders, not their product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from simaccel.analytic.core_totals import Floats
from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import Ints, with_arrays
from simaccel.search.effort import Objective
from simaccel.search.mapspace.mapping_target import MappingTarget, score
from simaccel.search.mapspace.mapspace_tables import BestOrders
from simaccel.search.mapspace.space import EinsumMapspace
from simaccel.search.mapspace.tiling_batch import TilingBatch, family_of_candidates

_NUMBERS: Final = 1 << 16
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
    for rows in _similar_tilings(counts):
        sizes = counts[rows].max(axis=0)
        chosen = [replace(level, case=level.case[rows]) for level in levels]
        scores = _scores(target, space, tilings.take(rows), chosen, sizes.tolist(), objective)
        value, tie = (
            np.broadcast_to(figures, (len(rows), *sizes[::-1])).reshape(len(rows), -1)
            for figures in scores
        )
        values[rows] = value.min(axis=1)
        best = np.where(value == values[rows, np.newaxis], tie, np.inf).argmin(axis=1)
        ties[rows] = tie[np.arange(len(rows)), best]
        numbers = np.unravel_index(best, sizes[::-1])[::-1]
        for at, (level, number) in enumerate(zip(chosen, numbers, strict=True)):
            orders[rows, at] = level.keys[level.case, number]
    return OrderedTilings(values, ties, orders)


def _similar_tilings(counts: Ints) -> Iterator[Ints]:
    """Yield tilings that have about as many orders, as indices."""
    size = np.maximum(counts.sum(axis=1), counts.prod(axis=1))
    every = np.argsort(size, kind="stable")
    start = 0
    while start < len(every):
        most = max(_NUMBERS // int(size[every[start]]), 1)
        rows = every[start : start + most]
        widest = np.maximum.accumulate(counts[rows], axis=0).prod(axis=1)
        fits = widest * np.arange(1, len(rows) + 1) <= 2 * _NUMBERS
        start += max(int(fits.sum()), 1)
        yield every[start - max(int(fits.sum()), 1) : start]


def _scores(
    target: MappingTarget,
    space: EinsumMapspace,
    tilings: TilingBatch,
    levels: Sequence[BestOrders],
    sizes: Sequence[int],
    objective: Objective,
) -> tuple[Floats, Floats]:
    """Return the scores of tilings by (tiling, number of the last level's order, ..., the first's).

    ``sizes``: orders by level; a tiling with fewer has them again. Axes along which nothing
    changes may have one entry.
    """
    starts = np.cumsum([1, *(size - 1 for size in sizes)])
    numbers = np.zeros((len(sizes), starts[-1]), dtype=np.int64)
    for level, size in enumerate(sizes):
        numbers[level, starts[level] : starts[level + 1]] = np.arange(1, size)
    family = family_of_candidates(
        target.ranks(space),
        target.leaf,
        target.hierarchy,
        tilings,
        places=[
            np.take(level.places[:, :, own], level.case, axis=1)
            for level, own in zip(levels, numbers, strict=True)
        ],
    )
    columns = with_arrays(
        family, lambda column: column[:, np.newaxis] if column.ndim == 1 else column
    )
    totals = evaluate(columns, target.accelerator)

    def combine_column(array: Ints) -> Ints:
        column = array if array.ndim else array.reshape(1, 1)
        first = column[:, :1]
        total = first.reshape(-1, *[1] * len(sizes))
        for level, size in enumerate(sizes):
            more = column[:, starts[level] : starts[level + 1]] - first
            if np.any(more):
                axes = [1] * len(sizes)
                axes[-1 - level] = size
                none = np.zeros_like(more[:, :1])
                total = total + np.concatenate([none, more], axis=1).reshape(-1, *axes)
        return total

    counts = totals.counts
    every = replace(
        totals,
        counts=replace(
            counts,
            macs=combine_column(counts.macs),
            native_macs=combine_column(counts.native_macs),
            elements=combine_column(counts.elements),
            busy={name: combine_column(cycles) for name, cycles in counts.busy.items()},
            moved={level: combine_column(n_bytes) for level, n_bytes in counts.moved.items()},
            tiles={},
        ),
    )
    return score(objective, every, combine_column(totals.buffer_bytes()))
