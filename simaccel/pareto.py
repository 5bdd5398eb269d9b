"""Pareto fronts: points that no other one equals or beats in all figures; smaller is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Point = TypeVar("Point")
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Rows = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Front(Generic[Point]):
    """Points that no other one beats, the smallest in the first figure first.

    ``seen``: the points of the space; ``proved``: no point of the space beats one of these.
    """

    points: tuple[Point, ...] = ()
    seen: int = 0
    proved: bool = False


def undominated_rows(rows: _Rows) -> _Ints:
    """Return the numbers of the rows that no other row equals or beats in all columns.

    Of equal rows the first stays, and none that is infinite in the last column of two. In the order
    of the columns.

    >>> undominated_rows(np.array([[3, 1], [1, 3], [2, 3], [1, 3]])).tolist()
    [1, 0]
    """
    order = np.lexsort(rows.T[::-1])
    if rows.shape[1] <= 2:  # noqa: PLR2004 - then what came before has to be beaten in the last one
        last = rows[order, -1]
        better = last < np.inf
        better[1:] &= last[1:] < np.minimum.accumulate(last)[:-1]
        return np.asarray(order[better], dtype=np.int64)
    kept: list[int] = []
    while order.size:
        first = order[0]
        kept.append(int(first))
        order = order[(rows[order] < rows[first]).any(axis=1)]
    return np.asarray(kept, dtype=np.int64)


def beaten(rows: _Rows, by: _Rows) -> _Bools:
    """Return which rows some other row equals or beats in all columns."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for other in by:
        found |= (rows >= other).all(axis=1)
    return found


def pick_evenly(numbers: _Ints, most: int) -> _Ints:
    """Return at most ``most`` of the numbers, evenly spaced, the first and the last included.

    >>> pick_evenly(np.arange(10), 4)
    array([0, 3, 6, 9])
    """
    if numbers.size <= most:
        return numbers
    return numbers[np.unique(np.linspace(0, numbers.size - 1, most).astype(np.int64))]


Label = tuple[float, float, tuple[Any, ...]]
"""A combination of choices: its objective, its cost, and the choices."""


def undominated_labels(labels: Iterable[Label], most: int) -> list[Label]:
    """Return the labels that no other one beats in objective and cost, thinned to about ``most``.

    >>> undominated_labels([(1, 5, ("a",)), (2, 5, ("b",)), (3, 1, ("c",))], 8)
    [(1, 5, ('a',)), (3, 1, ('c',))]
    """
    kept = keep_cheaper(labels, rank=lambda label: label[:2], cost=lambda label: label[1])
    return kept[: -1 : -(-len(kept) // most) or 1] + kept[-1:]


def keep_cheaper(
    items: Iterable[Point], rank: Callable[[Point], Any], cost: Callable[[Point], Any]
) -> list[Point]:
    """Return items in the order of a rank, each of less cost than all before it.

    >>> keep_cheaper([(3, 1), (1, 5), (2, 5)], rank=lambda pair: pair[0], cost=lambda pair: pair[1])
    [(1, 5), (3, 1)]
    """
    kept: list[Point] = []
    for item in sorted(items, key=rank):
        if not kept or cost(item) < cost(kept[-1]):
            kept.append(item)
    return kept
