"""Operations number by number: on arrays, an entry for each candidate, or on plain numbers.

What all candidates have in common, and all numbers of a family of one, are plain numbers in the
time line (`plain`): numpy takes ten times as long on an array of one entry, and gives the same.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
"""An array, or a plain number."""
_Numbers = TypeVar("_Numbers", bound=Numbers)
_ARRAYS = (np.ndarray, np.generic)
_BOOL = np.dtype(np.bool_)


def plain(array: _Numbers) -> _Numbers:
    """Return an array of no axis as a plain number; others as they are."""
    kind: object = type(array)
    if kind is int or kind is bool:  # most are, and isinstance takes longer
        return array
    if isinstance(array, _ARRAYS) and not array.ndim:
        return array.item()  # type: ignore[no-any-return]
    return array


def identity(array: Numbers) -> int:
    """Return a key for an array, as long as it is kept, or for the value of a plain number."""
    return id(array) if type(array) is np.ndarray else ~int(array)


def anywhere(where: Numbers) -> bool:
    """Return whether something holds (is not 0) for any candidate; faster than ``np.any``."""
    if type(where) is not np.ndarray:
        return bool(where)
    if where.dtype is _BOOL:
        return 1 in where.tobytes()
    return bool(np.count_nonzero(where))


def everywhere(where: Numbers) -> bool:
    """Return whether something holds for all candidates; faster than ``np.all``."""
    if type(where) is not np.ndarray:
        return bool(where)
    return 0 not in where.tobytes() if where.dtype is _BOOL else bool(where.all())


def pick(where: Numbers, new: Numbers | float, old: Numbers | float) -> Numbers:
    """Take the new where something holds."""
    if type(where) is np.ndarray:
        return np.where(where, new, old)
    return new if where else old  # type: ignore[return-value]


def larger(one: Numbers | float, other: Numbers | float) -> Numbers:
    """Return the larger of two numbers."""
    if type(one) is np.ndarray or type(other) is np.ndarray:
        return np.maximum(one, other)
    return one if one >= other else other  # type: ignore[return-value] # noqa: FURB136 - max is slower


def smaller(one: Numbers | float, other: Numbers | float) -> Numbers:
    """Return the smaller of two numbers."""
    if type(one) is np.ndarray or type(other) is np.ndarray:
        return np.minimum(one, other)
    return one if one <= other else other  # type: ignore[return-value] # noqa: FURB136 - min is slower


def up(value: Numbers | float) -> Numbers:
    """Round up."""
    return np.ceil(value) if type(value) is np.ndarray else math.ceil(value)  # type: ignore[return-value]


def without(where: Numbers) -> Numbers:
    """Return where something does not hold."""
    return ~where if type(where) is np.ndarray else not where  # type: ignore[return-value]


def highest(numbers: Numbers) -> int:
    """Return the highest number of all candidates, as an integer."""
    return int(numbers.max() if type(numbers) is np.ndarray else numbers)


def lowest(numbers: Numbers) -> int:
    """Return the lowest number of all candidates, as an integer."""
    return int(numbers.min() if type(numbers) is np.ndarray else numbers)
