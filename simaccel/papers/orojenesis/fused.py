"""Fused segments: trees in which several operators share loops and keep what passes between them.

A tree has loops that all its operators share, what is kept over the whole fork, and a branch for
each operator::

    loop m M0, loop n N0                  shared loops, in any order; none: untiled fusion
    keep X                                tensors that one operator makes and another reads
    keep I, Y, ...                        inputs, weights and outputs that stay over the fork
    fork
      | loop k 1, keep I, loop n 1, keep W, do first       one is a vector, the other an element
      | ...

Each tensor from outside is kept over the fork or in its branch, on its own: what it takes and moves
doesn't depend on the others, so that all combinations are sums. Ranks that all
tensors have go one by one, outermost. The points of the front are counted again, tree by tree, as
the machine moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simaccel.analytic.counting.work_counts import count_tiles
from simaccel.analytic.family import Family, FamilyLoops, Ints, family_of, ints
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.mapping.space import BoundOperator, space_of
from simaccel.mapping.tree import BUFFER
from simaccel.papers.orojenesis.fusion import MOST_SHARED, BranchKeeps, FusedGroup, TreeKind
from simaccel.papers.orojenesis.segment import Segment, SkiSlope, figures
from simaccel.workload import Workload
from simaccel.workload.names import sums_name

_MOST = 4_000_000
"""Combinations that are compared at a time."""
_WIDTH = 40
"""Columns of an origin: tiles and ways."""


_OVER = BranchKeeps(())
"""All tensors from outside are kept over the fork."""


@dataclass(frozen=True)
class _CountedCosts:
    """Bytes in the buffer and bytes moved by tensors, for each candidate of tiles.

    They are counted as the machine moves them.
    """

    fusion: FusedGroup
    shared: tuple[str, ...]
    tiles: dict[str, Ints]

    def branch(self, op: BoundOperator, way: BranchKeeps) -> tuple[Ints, Ints]:
        """Return (bytes in the buffer, bytes moved) of a branch's tensors from outside."""
        counts = self._counts(op, way)
        room = moved = ints(0)
        for use, view in self.fusion.outside_tensors(op):
            for at in {use, sums_name(use)}:
                size, slots = counts.tiles.get((BUFFER, at), (ints(0), ints(0)))
                room = room + size * slots
            for level in ("dram_read", "dram_write"):
                moved = moved + counts.moved.get((level, view.name), ints(0))
        return room, moved

    def handover_bytes(self) -> Ints:
        """Return the buffer bytes of tensors that pass between operators."""
        room = ints(0)
        for op in self.fusion.space.operators:
            name = op.output.name
            if name in self.fusion.between - self.fusion.aliases:
                size, slots = self._counts(op, _OVER).tiles[BUFFER, name]
                room = room + size * slots
        return room

    def _counts(self, op: BoundOperator, way: BranchKeeps) -> FamilyCounts:
        """Return the counts of a branch, with its other tensors kept over the fork."""
        fusion = self.fusion
        ways = [way if operator is op else _OVER for operator in fusion.space.operators]
        ranks = (*fusion.batch, *self.shared)
        tiles = (*(ints(1) for _ in fusion.batch), *(self.tiles[rank] for rank in self.shared))
        loops = FamilyLoops(ranks, tiles, tuple(ints(at) for at in range(len(ranks))))
        family = family_of(fusion.space, fusion.tree([], ways))
        inside = family.branch[1:] if fusion.batch else family.branch
        branch = (loops, *inside) if ranks else inside
        return count_tiles(Family(family.space, branch, family.aliases), op.name)


def fused_segment(
    workload: Workload, operators: Sequence[str], template: TreeKind, *, imperfect: bool
) -> Segment | None:
    """Return the front of operators as one group; None if they can't be one."""
    fusion = FusedGroup(workload, tuple(operators), imperfect)
    if not fusion.fits():
        return None
    known: list[tuple[tuple[str, ...], list[list[BranchKeeps]]]] = []
    front, mappings = SkiSlope(), 0
    for shared in fusion.sequences(template):
        ways = fusion.legal_ways(shared, template)
        if not all(ways):
            continue
        mappings += _add(front, fusion, shared, ways, len(known))
        known.append((shared, ways))
    if not len(front):
        return None
    groups = []
    for which, *numbers in front.origin.tolist():
        shared, ways = known[which]
        tiles = list(zip(shared, numbers, strict=False))
        chosen = zip(ways, numbers[MOST_SHARED:], strict=False)
        groups.append(fusion.tree(tiles, [choices[number] for choices, number in chosen]))
    exact = SkiSlope()  # with the bytes that the machine moves
    counted = (figures(family_of(space_of(workload, group), group)) for group in groups)
    table = ints([(int(room), int(moved)) for room, moved in counted])
    exact.add(table[:, 0], table[:, 1], np.arange(len(groups)).reshape(-1, 1))
    return Segment(
        fusion.operators, exact, lambda number: groups[int(exact.origin[number][0])], mappings
    )


def _add(
    front: SkiSlope,
    fusion: FusedGroup,
    shared: tuple[str, ...],
    ways: list[list[BranchKeeps]],
    number: int,
) -> int:
    """Add all trees with some shared loops to a front; origins: number, tiles, keeps by branch."""
    options = [fusion.options(rank) for rank in shared]
    grids = np.meshgrid(*(ints(tiles_of) for tiles_of in options), indexing="ij") if options else []
    tiles = {rank: grid.ravel() for rank, grid in zip(shared, grids, strict=True)}
    count = math.prod(map(len, options))
    if not count:
        return 0
    costs = _CountedCosts(fusion, shared, tiles)
    parts = [
        [costs.branch(op, way) for way in operator_ways]
        for op, operator_ways in zip(fusion.space.operators, ways, strict=True)
    ]
    base, step = costs.handover_bytes(), max(1, _MOST // max(1, math.prod(map(len, ways))))
    for start in range(0, count, step):
        rows = slice(start, start + step)
        _combine(front, parts, base, rows, count, [*tiles.values()], number)
    return count * math.prod(map(len, ways))


def _combine(
    front: SkiSlope,
    parts: list[list[tuple[Ints, Ints]]],
    base: Ints,
    rows: slice,
    count: int,
    tiles: list[Ints],
    number: int,
) -> None:
    size = len(range(*rows.indices(count)))
    rooms = np.broadcast_to(base, count)[rows].reshape(1, size)
    moves = np.zeros((1, size), dtype=np.int64)
    chosen = np.zeros((1, 0), dtype=np.int64)
    for branch in parts:
        room = np.stack([np.broadcast_to(own_room, count)[rows] for own_room, _ in branch])
        moved = np.stack([np.broadcast_to(own_moved, count)[rows] for _, own_moved in branch])
        rooms = (rooms[:, None] + room[None]).reshape(-1, size)
        moves = (moves[:, None] + moved[None]).reshape(-1, size)
        before = np.repeat(chosen, len(branch), axis=0)
        numbers = np.tile(np.arange(len(branch)), len(chosen)).reshape(-1, 1)
        chosen = np.concatenate([before, numbers], axis=1)
        useful = _useful(rooms, moves)
        rooms, moves, chosen = rooms[useful], moves[useful], chosen[useful]
    better = front.improves(rooms, moves)
    if not better.any():
        return
    row, column = np.nonzero(better)
    origin = np.zeros((row.size, 1 + _WIDTH), dtype=np.int64)
    origin[:, 0] = number
    for at, tile in enumerate(tiles):
        origin[:, 1 + at] = tile[rows][column]
    origin[:, 1 + MOST_SHARED : 1 + MOST_SHARED + chosen.shape[1]] = chosen[row]
    front.add(rooms[row, column], moves[row, column], origin)


def _useful(rooms: Ints, moves: Ints) -> Ints:
    """Return the rows that aren't worse than another row for every candidate."""
    keep: list[int] = []
    for at in range(len(rooms)):
        beaten = any(
            bool(np.all((rooms[one] <= rooms[at]) & (moves[one] <= moves[at]))) for one in keep
        )
        if not beaten:
            keep.append(at)
    return ints(keep)
