"""Repeats: candidates of a family that are the same as others."""

from __future__ import annotations

import numpy as np

from simaccel.analytic.family import Bools, Family, FamilyLoops, Ints, ints
from simaccel.mapping.tree import Keep, nodes

_MOST_CODES = 2**62
"""Codes of rows beyond which they are renumbered."""


def repeats(family: Family, shape: tuple[int, ...]) -> Bools:
    """Return which candidates repeat others: they differ only in the order of loops of one trip."""
    columns: list[tuple[int, Ints]] = []

    def note(array: Ints) -> None:
        values, which = np.unique(array, return_inverse=True)
        places = np.broadcast_to(which.reshape(array.shape), shape).ravel()
        columns.append((values.size, places))

    for array in family.held.values():
        note(array)
    sizes = dict(family.space.sizes)
    for node in nodes(family.branch):
        if isinstance(node, Keep):
            note(node.slots)
        if not isinstance(node, FamilyLoops):
            continue
        real = [tile < sizes[rank] for rank, tile in zip(node.ranks, node.tiles, strict=True)]
        for tile in node.tiles:
            note(tile)
        for place, is_real in zip(node.places, real, strict=True):
            before = [
                other_real & (other < place)
                for other, other_real in zip(node.places, real, strict=True)
            ]
            note(is_real * (1 + sum((ints(column) for column in before), start=ints(0))))
    return _repeats_earlier(columns) if columns else np.zeros(1, dtype=np.bool_)


def _repeats_earlier(columns: list[tuple[int, Ints]]) -> Bools:
    """Return which rows of a table are those of an earlier row again.

    It is given by its columns: how many values they have, and the number of each row's value.
    """
    code, codes = np.zeros(columns[0][1].size, dtype=np.int64), 1
    for count, values in columns:
        if codes * count > _MOST_CODES:
            _, code = np.unique(code, return_inverse=True)
            codes = code.size
        code, codes = code * count + values, codes * count
    _, first = np.unique(code, return_index=True)
    is_repeat = np.ones(code.size, dtype=np.bool_)
    is_repeat[first] = False
    return is_repeat
