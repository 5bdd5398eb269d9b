"""Elementwise operations on arrays over candidates, or on plain numbers.

On a single number plain Python is ten times as fast as numpy.
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
    """Return a plain number for an array without axes; others unchanged."""
    kind: object = type(array)
    if kind is int or kind is bool:  # most are, and isinstance takes longer
        return array
    if isinstance(array, _ARRAYS) and not array.ndim:
        return array.item()  # type: ignore[no-any-return]
    return array


def identity(array: Numbers) -> int:
    """Return a key: an array's identity (valid while it lives), or a plain number's value."""
    return id(array) if type(array) is np.ndarray else ~int(array)


def any_true(where: Numbers) -> bool:
    """Return whether any entry is true (not 0); faster than ``np.any``."""
    if type(where) is not np.ndarray:
        return bool(where)
    if where.dtype is _BOOL:
        return 1 in where.tobytes()
    return bool(np.count_nonzero(where))


def all_true(where: Numbers) -> bool:
    """Return whether all entries are true; faster than ``np.all``."""
    if type(where) is not np.ndarray:
        return bool(where)
    return 0 not in where.tobytes() if where.dtype is _BOOL else bool(where.all())
