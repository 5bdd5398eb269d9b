"""Uneven bounds of einsums: each tensor kept at its own depth, ranks cut twice.

The tensors are kept one inside the other, and outside of each keep stand the loops that tensor
needs and no more, as any other loop could as well stand further in::

    loop a S, loop b T        keep first
    loop c 1                  keep second
    loop a 1, loop b 1        keep third

- The first tensor is kept in tiles of any size.
- The second: a rank that the first lacks goes in steps of 1, or of any size if a window slides
  along it or a tensor inside lacks it; one that the first has is cut again, to 1, if a window
  slides along it. Of more tensors the third and so on likewise, and ranks that a tensor inside
  lacks may be cut again to any size: less room for what has them, more loads of what doesn't.
- The last goes element by element; of a sum of ranks it is the whole window, or one that slides
  along one of them.

A window slides along the innermost of the loops outside its keep, as simaccel's machine does; so
each of them may be that loop. For a product (no sums) that is a tile of the first tensor, a vector
of the second and an element of the third. Brute force over all trees with two cuts a rank has the
same fronts (tests), also for ranks in one tensor only, one factor, and three. Of three factors with
windows a second cut of a window's rank to a size between isn't searched.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simaccel.analytic.family import Family, Ints, ints
from simaccel.analytic.floor.problem import BoundOperand, BoundProblem
from simaccel.analytic.sizes import even_pieces
from simaccel.mapping.tree import Group
from simaccel.papers.orojenesis import tilings
from simaccel.papers.orojenesis.segment import SkiSlope, figures

_PROVED = 3
Cut = tuple[int, str]
"""A stage's number and the rank that it cuts to any size."""


@dataclass(frozen=True)
class KeepCut:
    """A tensor, and the ranks that loops outside its keep cut: to any size, or to 1.

    ``last``: the innermost of them, along which a window slides; empty if none does.
    """

    operand: BoundOperand
    tiled: tuple[str, ...]
    single: tuple[str, ...]
    last: str

    def loops(self) -> list[str]:
        """Return the ranks of the loops, from the outermost."""
        found = [*self.tiled, *self.single]
        return sorted(found, key=lambda rank: rank == self.last)


Depths = tuple[KeepCut, ...]
"""Where each tensor is kept, from the outermost in."""


def depths(problem: BoundProblem) -> list[Depths]:
    """Return every way to keep the tensors of an einsum, one inside the other."""
    stages_of: list[Depths] = []
    for first, *middle, third in itertools.permutations(problem.operands):
        ways: list[Depths] = [
            (KeepCut(first, _order_ranks(problem, first.ranks), (), last),)
            for last in _window_ranks(first, first.ranks)
        ]
        for at, second in enumerate(middle):
            outside = (first, *middle[:at])
            inside = (*middle[at + 1 :], third)
            stages = list(_second(problem, outside, second, inside))
            ways = [(*way, stage) for way in ways for stage in stages]
        stages_of += [(*way, stage) for way in ways for stage in _third(problem, third)]
    return stages_of


def _order_ranks(problem: BoundProblem, ranks: frozenset[str] | set[str]) -> tuple[str, ...]:
    return tuple(rank for rank in problem.free if rank in ranks)


def _window_ranks(operand: BoundOperand, ranks: frozenset[str] | set[str]) -> list[str]:
    """Return which rank a window may slide along; the empty name where there is no window."""
    found = [rank for dim in operand.dims if len(dim) > 1 for rank, _ in dim if rank in ranks]
    return found or [""]


def _second(
    problem: BoundProblem,
    outside: Sequence[BoundOperand],
    second: BoundOperand,
    inside: Sequence[BoundOperand],
) -> Iterator[KeepCut]:
    """Yield the cuts outside of a keep between ``outside`` and ``inside``.

    What all tensors inside have, too, goes in steps of 1: that costs nothing.
    """
    cut = frozenset().union(*(operand.ranks for operand in outside))
    plain = second.ranks - problem.sliding
    fixed = {rank for rank in plain if all(rank in operand.ranks for operand in inside)}
    tiled = _order_ranks(problem, second.ranks - cut - fixed)
    if len(problem.operands) > _PROVED:
        tiled = _order_ranks(problem, (second.ranks - cut | plain) - fixed)
    sliding = _order_ranks(problem, second.ranks & cut & problem.sliding)
    for count in range(len(sliding) + 1):
        for more in itertools.combinations(sliding, count):
            single = _order_ranks(problem, fixed | {*more})
            for last in _window_ranks(second, {*tiled, *single}):
                yield KeepCut(second, tiled, single, last)


def _third(problem: BoundProblem, third: BoundOperand) -> Iterator[KeepCut]:
    """Yield windows: of each sum the whole or an element, of one of them one that slides."""
    windows = [dim for dim in third.dims if len(dim) > 1]
    plain = third.ranks - {rank for dim in windows for rank, _ in dim}
    for slid in (None, *range(len(windows))):
        others = [dim for at, dim in enumerate(windows) if at != slid]
        for chosen in itertools.product((False, True), repeat=len(others)):
            cut = {r for dim, one in zip(others, chosen, strict=True) if one for r, _ in dim}
            for last in [""] if slid is None else [rank for rank, _ in windows[slid]]:
                ranks = plain | cut | ({last} if last else set())
                yield KeepCut(third, (), _order_ranks(problem, frozenset(ranks)), last)


def is_proved(problem: BoundProblem) -> bool:
    """Return whether no other cuts than those of ``depths`` are on the front.

    With more than three tensors a second cut of a window's rank to a size between may be.
    """
    return len(problem.operands) <= _PROVED or not problem.sliding


def uneven_front(problem: BoundProblem, *, imperfect: bool) -> tuple[SkiSlope, bool]:
    """Return the front, and whether it is over all sizes that matter.

    Origins are (-1 - number of the way to keep the tensors, size of each of its cuts, then 0).
    """
    every = depths(problem)
    front, (sizes, complete) = SkiSlope(), tilings.options(problem, imperfect=imperfect)
    complete = complete and is_proved(problem)
    width = max((len(_cuts(stages)) for stages in every), default=0)
    for number, stages in enumerate(every):
        chains, all_sizes = _chains(problem, stages, sizes, imperfect=imperfect)
        complete = complete and all_sizes
        for picked in tilings.tilings([range(len(rows)) for _, rows in chains]):
            tiles: dict[Cut, Ints] = {}
            for (cuts, rows), at in zip(chains, picked, strict=True):
                tiles |= {cut: rows[at, place] for place, cut in enumerate(cuts)}
            room, moved = map(np.atleast_1d, figures(_nest(problem, stages, tiles)))
            count = max(room.size, moved.size)
            origin = np.zeros((count, 1 + width), dtype=np.int64)
            origin[:, 0] = -1 - number
            for place, cut in enumerate(_cuts(stages)):
                origin[:, 1 + place] = tiles[cut]
            front.add(np.broadcast_to(room, count), np.broadcast_to(moved, count), origin)
    return front, complete


def _cuts(stages: Depths) -> list[Cut]:
    """Return the cuts to any size: (stage, rank) from the outermost."""
    return [(at, rank) for at, stage in enumerate(stages) for rank in stage.tiled]


def _chains(
    problem: BoundProblem, stages: Depths, sizes: dict[str, list[int]], *, imperfect: bool
) -> tuple[list[tuple[list[Cut], Ints]], bool]:
    """Return for each rank its cuts and, in rows, their sizes; whether none was left out.

    Where the rows of a way are too many, ranks that are cut again keep their size or go to 1.
    """
    by_rank: dict[str, list[Cut]] = {}
    for cut in _cuts(stages):
        by_rank.setdefault(cut[1], []).append(cut)
    chains = []
    for rank, cuts in by_rank.items():
        rows = [
            row for size in sizes[rank] for row in _cut_chains(problem.sizes[rank], size, len(cuts))
        ]
        if not imperfect:
            rows = [row for row in rows if all(a % b == 0 for a, b in pairwise(row))]
        chains.append((cuts, np.array(rows, dtype=np.int64)))
    complete = math.prod(len(rows) for _, rows in chains) <= tilings.MOST_TILINGS
    if not complete:
        chains = [(cuts, _select_plain_rows(rows)) for cuts, rows in chains]
    return chains, complete


def _cut_chains(whole: int, size: int, cuts: int) -> Iterator[tuple[int, ...]]:
    """Yield chains of sizes: a size, and for every number of pieces of its pieces the smallest."""
    pieces = {size, whole % size} - {0}
    waiting: list[tuple[tuple[int, ...], set[int]]] = [((size,), pieces)]
    for _ in range(cuts - 1):
        waiting = [
            ((*row, one), {one, *(piece % one for piece in left)} - {0})
            for row, left in waiting
            for one in sorted({tile for piece in left for tile in even_pieces(piece).tolist()})
        ]
    yield from (row for row, _ in waiting)


def _select_plain_rows(rows: Ints) -> Ints:
    same, single = rows[:, 1:] == rows[:, :1], rows[:, 1:] == 1
    return ints(rows[same.all(axis=1) | single.all(axis=1)])


def _nest(problem: BoundProblem, stages: Depths, tiles: Mapping[Cut, Ints]) -> Family:
    """Return the trees of a way to keep the tensors, with these sizes of its cuts."""
    parts: list[dict[str, Ints] | str] = []
    for at, stage in enumerate(stages):
        parts.append({rank: tiles.get((at, rank), ints(1)) for rank in stage.loops()})
        parts.append(stage.operand.name)
    # what a systolic array can't fold it takes one by one
    alone = (rank for rank in problem.free if tilings.is_alone(problem, rank))
    return tilings.nest(problem, [*parts, dict.fromkeys(alone, ints(1))])


def uneven_group(problem: BoundProblem, origin: Sequence[int]) -> Group:
    """Return the tree of a point of the front."""
    stages = depths(problem)[-1 - int(origin[0])]
    tiles = dict(zip(_cuts(stages), map(ints, origin[1:]), strict=False))
    return tilings.group_of(problem, _nest(problem, stages, tiles))
