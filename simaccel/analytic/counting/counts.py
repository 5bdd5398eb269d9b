"""Counting a family: what it moves and computes, exactly, and the space that its tiles take."""

from __future__ import annotations

from simaccel.analytic.counting.tile_counts import TileCounter
from simaccel.analytic.counting.work_counts import WorkCounter
from simaccel.analytic.family import Family
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.analytic.pieces import PathCuts
from simaccel.analytic.units import UnitCosts
from simaccel.analytic.widths import BitWidths


def count(units: UnitCosts) -> FamilyCounts:
    """Count a family on an accelerator, by the costs of its pieces."""
    found, family, accelerator = FamilyCounts(), units.family, units.accelerator
    tiles = TileCounter(family, units, found, accelerator.noc.distribution.multicasts)
    work = WorkCounter(family, accelerator, units, found)
    for path in family.paths():
        seen, cuts = family.space.bound_operator(path.leaf.operator), units.cuts(path)
        for position in range(len(seen.uses)):
            tiles.operand(path, cuts, seen, position)
        work.leaf(path, cuts, seen)
    return found


def count_tiles(family: Family, operator: str | None = None) -> FamilyCounts:
    """Count what tiles move and the space that they take, where all are in the buffer.

    No accelerator has a part in it. Leaves aren't counted, so there is no ``mac`` among them.
    ``operator``: only the tiles on the way to this one's leaves.
    """
    counts = FamilyCounts()
    tiles = TileCounter(family, BitWidths(family), counts)
    for path in family.paths():
        if operator not in (None, path.leaf.operator):
            continue
        seen, cuts = family.space.bound_operator(path.leaf.operator), PathCuts(family.space, path)
        for position in range(len(seen.uses)):
            tiles.operand(path, cuts, seen, position)
    return counts
