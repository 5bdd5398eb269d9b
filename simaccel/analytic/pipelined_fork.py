"""The lower bound of forks whose first operator runs one iteration early, as L of a FLAT-tile.

The array executes L of the next tile before A of this one; softmax runs between the two. Only the
full tiles of one loop overlap so. Such a loop of n tiles is a *visit*; the next visit's L waits for
the last A, and a smaller last tile is a visit of its own. With the cycles L, S and A of a tile, and
G for data leaving the array before S and entering it after S, a visit takes at least

- L + n S + G + A, as the SFU executes all tiles after the first L and before the last A, and
- n (L + A) + S + G - min(L, A): only the next L runs between the first L and A, and only one A
  between the last L and A; nothing does in a visit of one tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from simaccel.analytic.block_fills import BlockFills
from simaccel.analytic.counting.work_counts import serial_cycles
from simaccel.analytic.family import (
    Family,
    FamilyCut,
    Ints,
    TreePath,
    choose,
    ints,
    maximum,
    minimum,
)
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.analytic.lower_bound import Terms
from simaccel.analytic.pieces import PathCuts
from simaccel.mapping.tree import Fork
from simaccel.units import ARRAY, SFU


def pipelined_bound(fills: BlockFills, counts: FamilyCounts) -> Terms:
    """Return the least cycles of all visits of a pipelined fork by term, per candidate.

    Terms as in `lower_bound`; empty if a family has no such fork.
    """
    units = fills.units
    family = units.family
    paths = family.paths
    if not _is_pipelined(family, paths):
        return {}
    inside = len(family.branch) - 1
    first, *between, last = paths
    innermost = _innermost_place(units.cuts(first), inside)

    def tile_cycles(path: TreePath, least: int = 1) -> Ints:
        """Return the cycles of one tile per visit, over all visits of at least ``least`` tiles."""
        return serial_cycles(units, path, PathCuts(family.space, path, innermost, least))

    def add_chains(operators: Sequence[TreePath]) -> Ints:
        return sum((counts.chains[path.leaf.operator] for path in operators), start=ints(0))

    vectors = sum(map(tile_cycles, between), start=ints(0))
    hidden = minimum(tile_cycles(first, 2), tile_cycles(last, 2)) * (innermost >= 0)
    ways = (
        (tile_cycles(first) + tile_cycles(last), add_chains(between)),
        (add_chains([first, last]) - hidden, vectors),
    )
    is_longer = ints(sum(ways[0])) >= ints(sum(ways[1]))
    array, sfu = (ints(choose(is_longer, *either)) for either in zip(*ways, strict=True))
    visits = PathCuts(family.space, first, innermost)
    handed = family.space.bound_operator(between[-1].leaf.operator).output.name
    return {
        "fill": fills.fill_cycles(),
        ARRAY: array,
        SFU: sfu,
        "between": fills.interval_cycles(first, last, handed, inside, visits),
        "drain": fills.drain_cycles,
    }


def _is_pipelined(family: Family, paths: Sequence[TreePath]) -> bool:
    """Return whether the array's first operator runs early and feeds its last one by the SFU."""
    *outside, fork = family.branch
    if not isinstance(fork, Fork) or fork.ahead != 1 or len(paths) != len(fork.branches):
        return False
    front, *between, rear = (path.leaf.unit for path in paths)
    if (front, set(between), rear) != (ARRAY, {SFU}, ARRAY):
        return False
    if family.space.derived or any(isinstance(entry, FamilyCut) for entry in outside):
        return False
    ops = [family.space.bound_operator(path.leaf.operator) for path in paths]
    return all(
        before.output.name in {view.name for view in after.inputs}
        for before, after in pairwise(ops)
    )


def _innermost_place(cuts: PathCuts, inside: int) -> Ints:
    """Return the position of the innermost loop outside of the fork; -1 without one."""
    innermost = ints(-1)
    for (at, _), place in cuts.places.items():
        if at < inside:
            innermost = maximum(innermost, place)
    return innermost
