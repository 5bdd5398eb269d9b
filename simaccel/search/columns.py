"""Figures of candidates as columns, which candidates repeat others, and which are far from good."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Bools, Family, FamilyLoops, Ints, ints
from simaccel.hardware import STATIONARITIES
from simaccel.mapping.tree import Keep, nodes

_ROOMS: Final = 64
"""Rooms between the smallest and the largest candidate, in each of which some count as far."""

Column = npt.NDArray[Any]


class Columns(NamedTuple):
    """Figures of the candidates of a set, one entry each.

    ``bounds``: lower bound of the cycles. ``likely``: estimated cycles. ``dram``: DRAM bytes.
    ``space``: buffer bytes. ``energy``: pJ, with the leakage of the bound's cycles; 0 if it isn't
    computed. ``holding``: index of the stationary operand. ``place``: index in all families.
    """

    bounds: Column
    likely: Column
    dram: Column
    space: Column
    energy: Column
    holding: Column
    place: Column


def narrow(column: Column) -> Column:
    """Return a column as int32 if it is int64 and all its values are below 2^31."""
    is_small = column.dtype == np.int64 and (not column.size or column.max() < 2**31)
    return column.astype(np.int32) if is_small else column


def flatten(figures: Sequence[Column], shape: tuple[int, ...], places: Ints) -> list[Column]:
    """Return figures of some candidates, given by their places among all of a ``shape``."""
    return [np.broadcast_to(each, shape).ravel()[places] for each in figures]


def number_holdings(family: Family, number: int) -> Column:
    """Return an index of what the array holds in each operator, unique over all families."""
    combined = ints(number)
    for kind in family.held.values():
        combined = ints(combined * len(STATIONARITIES) + kind)
    numbers = np.asarray(combined)
    return numbers.astype(np.min_scalar_type(numbers.max()))


class RoomBound(NamedTuple):
    """Candidates with bounds far above those of smaller ones, by the rooms that they fit.

    ``rooms``: buffer bytes, ascending. ``bounds``: the lowest bound of those that may fit a room.
    """

    rooms: Ints
    bounds: Ints

    def bound(self, room: int) -> float:
        """Return a lower bound of those that fit ``room`` bytes; infinite if there are none."""
        at = int(np.searchsorted(self.rooms, room, side="right")) - 1
        return float(self.bounds[at]) if at >= 0 and self.bounds[at] < _NONE else float("inf")


_NONE: Final = 2**62
"""A bound of no candidate."""


def find_far(bounds: Ints, space: Ints, holding: Column, times: float) -> tuple[Bools, RoomBound]:
    """Return which candidates take over ``times`` the bound of one that takes less of the buffer.

    Compared are those with the same stationarities.
    """
    ends = max(space.min(), 1), space.max() + 1
    rooms = ints(sorted({space.min(), *np.geomspace(*ends, _ROOMS).astype(np.int64)}))
    at = np.searchsorted(rooms, space, side="right") - 1
    width = rooms.size + 1
    code = holding.astype(np.int64) * width + at
    least = np.full((int(holding.max()) + 1) * width, _NONE)
    np.minimum.at(least, code + 1, bounds)  # in column n: of candidates smaller than room n
    smaller = np.minimum.accumulate(least.reshape(-1, width), axis=1).ravel()
    is_far: Bools = bounds > smaller[code] * times
    left = np.full(rooms.size, _NONE)
    np.minimum.at(left, at[is_far], bounds[is_far])
    return is_far, RoomBound(rooms, np.minimum.accumulate(left))


MOST_CODES: Final = 2**62
"""Codes beyond which they don't fit numbers of 64 bits."""


def repeats(family: Family, shape: tuple[int, ...]) -> Bools:
    """Return which candidates repeat others: they differ only in the order of loops of one trip."""
    numbers = [
        np.reshape(array, (1,) * (len(shape) - np.ndim(array)) + np.shape(array))
        for array in {id(array): array for array in _numbers(family)}.values()
    ]
    few = list(shape)
    for axis in range(len(shape)):
        along = [array for array in numbers if array.shape[axis] > 1]
        if len(along) == 1 and few[axis] == along[0].size == len(set(along[0].ravel().tolist())):
            numbers = [array for array in numbers if array is not along[0]]
            few[axis] = 1  # candidates that differ along this axis alone are no repeats
    columns = [np.unique(array, return_inverse=True) for array in numbers]
    is_repeat = _repeats_earlier(
        [
            (values.size, np.broadcast_to(which.reshape(array.shape), few).ravel())
            for array, (values, which) in zip(numbers, columns, strict=True)
        ],
        math.prod(few),
    )
    return np.broadcast_to(is_repeat.reshape(few), shape).ravel()


def _numbers(family: Family) -> Iterator[Ints]:
    """Yield the numbers of candidates; of loops their places among those of several trips."""
    yield from family.held.values()
    sizes = dict(family.space.sizes)
    for node in nodes(family.branch):
        if isinstance(node, Keep):
            yield node.slots
        if not isinstance(node, FamilyLoops):
            continue
        yield from node.tiles
        real = [tile < sizes[rank] for rank, tile in zip(node.ranks, node.tiles, strict=True)]
        for place, is_real in zip(node.places, real, strict=True):
            before = [
                other_real & (other < place)
                for other, other_real in zip(node.places, real, strict=True)
            ]
            yield ints(is_real * (1 + sum((ints(column) for column in before), start=ints(0))))


def _repeats_earlier(columns: Sequence[tuple[int, Ints]], rows: int) -> Bools:
    """Return which rows of a table are those of an earlier row again.

    It is given by its columns: how many values they have, and the number of each row's value.
    """
    code, codes = np.zeros(rows, dtype=np.int64), 1
    for count, values in columns:
        if codes * count > MOST_CODES:
            _, code = np.unique(code, return_inverse=True)
            codes = code.size
        code, codes = code * count + values, codes * count
    _, first = np.unique(code, return_index=True)
    is_repeat = np.ones(code.size, dtype=np.bool_)
    is_repeat[first] = False
    return is_repeat
