"""Which candidates of a family are others again."""

from __future__ import annotations

import numpy as np

from simaccel.analytic.family import Bools, Family, Ints, Kept, Loops, branches_of, ints


def repeats(family: Family, shape: tuple[int, ...]) -> Bools:
    """Return which candidates are others again: the same but for the order of loops of one trip."""
    columns: list[Ints] = []

    def note(array: Ints) -> None:
        columns.append(np.broadcast_to(array, shape).ravel())

    for array in family.held.values():
        note(array)
    sizes = dict(family.space.sizes)
    for node in branches_of(family.branch):
        if isinstance(node, Kept):
            note(node.slots)
        if not isinstance(node, Loops):
            continue
        real = [tile < sizes[rank] for rank, tile in zip(node.ranks, node.tiles, strict=True)]
        for tile in node.tiles:
            note(tile)
        for place, is_real in zip(node.places, real, strict=True):
            before = [
                other_real & (other < place)
                for other, other_real in zip(node.places, real, strict=True)
            ]
            note(is_real * (1 + sum((ints(one) for one in before), start=ints(0))))
    return _seen_before(columns) if columns else np.zeros(1, dtype=np.bool_)


def _seen_before(columns: list[Ints]) -> Bools:
    """Return which rows of a table, given by its columns, are those of an earlier row again."""
    code = np.zeros(columns[0].size, dtype=np.int64)
    for one in columns:
        _, values = np.unique(one, return_inverse=True)
        _, code = np.unique(code * (int(values.max()) + 1) + np.ravel(values), return_inverse=True)
        code = np.ravel(code)
    _, first = np.unique(code, return_index=True)
    found = np.ones(code.size, dtype=np.bool_)
    found[first] = False
    return found
