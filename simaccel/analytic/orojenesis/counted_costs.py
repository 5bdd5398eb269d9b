"""Bytes that fused trees keep and move, for all tiles of the shared loops at once.

The trees are counted as the machine moves them, one branch's choices at a time: what a tensor takes
and moves doesn't depend on how other branches keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.analytic.counting.counts import count_tiles
from simaccel.analytic.family import Family, FamilyLoops, Ints, family_of, ints
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.analytic.orojenesis.fusion import BranchKeeps, FusedGroup
from simaccel.mapping.space import BoundOperator
from simaccel.mapping.tree import BUFFER
from simaccel.workload.names import sums_name

_OVER = BranchKeeps(())


@dataclass(frozen=True)
class CountedCosts:
    """Bytes kept and moved by what a choice has in the buffer, for each candidate of tiles."""

    fusion: FusedGroup
    shared: tuple[str, ...]
    tiles: dict[str, Ints]

    def branch(self, seen: BoundOperator, way: BranchKeeps) -> tuple[Ints, Ints]:
        """Return what the tensors from outside of a branch take and move."""
        counts = self._counts(seen, way)
        room = moved = ints(0)
        for use, view in self.fusion.outside_tensors(seen):
            for at in {use, sums_name(use)}:
                size, slots = counts.tiles.get((BUFFER, at), (ints(0), ints(0)))
                room = room + size * slots
            for level in ("dram_read", "dram_write"):
                moved = moved + counts.moved.get((level, view.name), ints(0))
        return room, moved

    def handover_bytes(self) -> Ints:
        """Return the bytes of what passes between operators."""
        room = ints(0)
        for seen in self.fusion.space.operators:
            name = seen.output.name
            if name in self.fusion.between - self.fusion.aliases:
                size, slots = self._counts(seen, _OVER).tiles[BUFFER, name]
                room = room + size * slots
        return room

    def _counts(self, seen: BoundOperator, way: BranchKeeps) -> FamilyCounts:
        """Count the tiles of a branch, with all that isn't in it over the fork."""
        operators = self.fusion.space.operators
        ways = [way if one is seen else _OVER for one in operators]
        return count_tiles(self._family(ways), seen.name)

    def _family(self, ways: Sequence[BranchKeeps]) -> Family:
        """Return trees with the shared loops of every tile, in front of what is kept."""
        fusion = self.fusion
        ranks = (*fusion.batch, *self.shared)
        tiles = (*(ints(1) for _ in fusion.batch), *(self.tiles[rank] for rank in self.shared))
        loops = FamilyLoops(ranks, tiles, tuple(ints(at) for at in range(len(ranks))))
        one = family_of(fusion.space, fusion.tree([], ways))
        inside = one.branch[1:] if fusion.batch else one.branch
        return Family(one.space, (loops, *inside) if ranks else inside, one.aliases)
