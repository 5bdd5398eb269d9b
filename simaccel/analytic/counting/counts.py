"""Counting a family: what it moves and computes, exactly, and the space that its tiles take."""

from __future__ import annotations

from simaccel.analytic.counting.tile_counts import TileCounter
from simaccel.analytic.counting.work_counts import WorkCounter
from simaccel.analytic.family import Family
from simaccel.analytic.pieces import Cuts
from simaccel.analytic.totals import Counts
from simaccel.analytic.units import Units
from simaccel.analytic.widths import Widths
from simaccel.hardware import Accelerator


def count(family: Family, accelerator: Accelerator) -> Counts:
    """Count a family on an accelerator."""
    found, units = Counts(), Units(family, accelerator)
    tiles = TileCounter(family, units, found, accelerator.noc.distribution.multicasts)
    work = WorkCounter(family, accelerator, units, found)
    for path in family.paths():
        seen, cuts = family.space.seen(path.leaf.operator), Cuts(family.space, path)
        for position in range(len(seen.uses)):
            tiles.operand(path, cuts, seen, position)
        work.leaf(path, cuts, seen)
    return found


def count_tiles(family: Family, operator: str | None = None) -> Counts:
    """Count what tiles move and the space that they take, where all are in the buffer.

    No accelerator has a part in it. Leaves aren't counted, so there is no ``mac`` among them.
    ``operator``: only the tiles on the way to this one's leaves.
    """
    counts = Counts()
    tiles = TileCounter(family, Widths(family), counts)
    for path in family.paths():
        if operator not in (None, path.leaf.operator):
            continue
        seen, cuts = family.space.seen(path.leaf.operator), Cuts(family.space, path)
        for position in range(len(seen.uses)):
            tiles.operand(path, cuts, seen, position)
    return counts
