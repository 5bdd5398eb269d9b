"""The cuts of a vector operator's axis: loops for it alone, or loops that others share."""

from __future__ import annotations

import numpy as np

from simaccel.analytic.family import Bools, Family, TreePath
from simaccel.analytic.pieces import PathCuts


def own_axis(family: Family, path: TreePath, cuts: PathCuts, upto: int) -> Bools:
    """Return whether loops outside of an entry cut the axis of the leaf for it alone."""
    axis = family.space.axes.get(path.leaf.operator)
    if axis is None:
        return np.zeros((), dtype=np.bool_)
    mine = [place for (at, rank), place in cuts.places.items() if rank == axis and at < upto]
    cutting = [at for (at, rank) in cuts.places if rank == axis]
    if not mine or shared_entries(family, path) > min(cutting):
        return np.zeros((), dtype=np.bool_)
    stacked = np.stack(np.broadcast_arrays(*[place >= 0 for place in mine]))
    return np.asarray(stacked.any(axis=0), dtype=np.bool_)


def shared_entries(family: Family, path: TreePath) -> int:
    """Return how many entries of a path other leaves have too."""
    most = 0
    for other in family.paths():
        if other.leaf is path.leaf:
            continue
        same = 0
        for entry, two in zip(path.entries, other.entries, strict=False):
            if entry is not two:
                break
            same += 1
        most = max(most, same)
    return most
