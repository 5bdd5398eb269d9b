"""Operations number by number: on arrays, an entry for each candidate, or on plain numbers.

Numpy takes ten times as long on an array of one entry as Python on a plain number.
"""

from __future__ import annotations

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


def any_true(where: Numbers) -> bool:
    """Return whether something holds (is not 0) for any candidate; faster than ``np.any``."""
    if type(where) is not np.ndarray:
        return bool(where)
    if where.dtype is _BOOL:
        return 1 in where.tobytes()
    return bool(np.count_nonzero(where))


def all_true(where: Numbers) -> bool:
    """Return whether something holds for all candidates; faster than ``np.all``."""
    if type(where) is not np.ndarray:
        return bool(where)
    return 0 not in where.tobytes() if where.dtype is _BOOL else bool(where.all())
