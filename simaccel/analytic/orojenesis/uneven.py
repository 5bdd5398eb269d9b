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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simaccel.analytic.family import Ints, ints
from simaccel.analytic.orojenesis.attain import is_alone, unit_of
from simaccel.analytic.orojenesis.problem import BoundOperand, BoundProblem, Terms
from simaccel.analytic.orojenesis.sizes import MOST_TILINGS, even_pieces
from simaccel.analytic.orojenesis.ski_slope import SkiSlope
from simaccel.analytic.orojenesis.tilings import options, tilings
from simaccel.mapping.tree import BUFFER, Do, Group, Keep, Loop, Node
from simaccel.units import ARRAY

_PROVED = 3
Pieces = list[tuple[Ints, Ints]]
"""Pieces of a rank: how many of which size."""
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
    again = _order_ranks(problem, second.ranks & cut & problem.sliding)
    for count in range(len(again) + 1):
        for more in itertools.combinations(again, count):
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
    front, (sizes, complete) = SkiSlope(), options(problem, imperfect=imperfect)
    complete = complete and is_proved(problem)
    width = max((len(_cuts(stages)) for stages in every), default=0)
    for number, stages in enumerate(every):
        chains, all_sizes = _chains(problem, stages, sizes, imperfect=imperfect)
        complete = complete and all_sizes
        for picked in tilings([range(len(rows)) for _, rows in chains]):
            tiles: dict[Cut, Ints] = {}
            for (cuts, rows), at in zip(chains, picked, strict=True):
                tiles |= {cut: rows[at, place] for place, cut in enumerate(cuts)}
            room, moved = _figures(problem, stages, tiles)
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
    complete = math.prod(len(rows) for _, rows in chains) <= MOST_TILINGS
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
            for one in sorted({tile for piece in left for tile in even_pieces(piece)})
        ]
    yield from (row for row, _ in waiting)


def _select_plain_rows(rows: Ints) -> Ints:
    same, single = rows[:, 1:] == rows[:, :1], rows[:, 1:] == 1
    return ints(rows[same.all(axis=1) | single.all(axis=1)])


def _figures(problem: BoundProblem, stages: Depths, tiles: dict[Cut, Ints]) -> tuple[Ints, Ints]:
    """Return bytes kept and bytes moved as simaccel's machine moves them."""
    pieces: dict[str, Pieces] = {
        rank: [(ints(1), ints(problem.sizes[rank]))] for rank in problem.free
    }
    room = moved = ints(0)
    for number, stage in enumerate(stages):
        before = dict(pieces)
        for rank in stage.tiled:
            pieces[rank] = _cut_pieces(pieces[rank], tiles[number, rank])
        for rank in stage.single:
            pieces[rank] = [(ints(problem.sizes[rank]), ints(1))]
        operand = stage.operand
        sizes = {rank: pieces[rank][0][1] for rank in operand.ranks}
        tile = math.prod((_reach(dim, sizes) for dim in operand.dims), start=ints(1))
        room = room + tile * operand.bytes_per_element
        moved = moved + _moved_elements(problem, stage, before, pieces) * operand.bytes_per_element
    return np.atleast_1d(room), np.atleast_1d(problem.groups * moved)


def _cut_pieces(pieces: Pieces, tile: Ints) -> Pieces:
    """Cut pieces by a tile that is no larger than the first; the first then has its size."""
    found: Pieces = [(ints(0), tile)]
    for count, size in pieces:
        whole, rest = size // tile, size % tile
        found[0] = (found[0][0] + count * whole, tile)
        if np.any(rest):
            found.append((ints(count * (rest > 0)), rest))
    return found


def _reach(dim: Terms, sizes: dict[str, Ints]) -> Ints:
    return ints(1 + sum(c * (sizes[rank] - 1) for rank, c in dim))


def _count(pieces: Pieces) -> Ints:
    return ints(sum((count for count, _ in pieces), start=ints(0)))


def _moved_elements(
    problem: BoundProblem, stage: KeepCut, before: dict[str, Pieces], pieces: dict[str, Pieces]
) -> Ints:
    """Return the elements of a tensor that its tiles bring, and of sums also take away."""
    operand = stage.operand
    again = (_count(pieces[rank]) for rank in problem.free if rank not in operand.ranks)
    times = math.prod(again, start=ints(1))
    if operand.is_output:
        return ints(problem.elements(operand) * (2 * times - 1))
    sides = [_side(dim, problem.sizes, pieces) for dim in operand.dims]
    brought = math.prod(sides, start=ints(1))
    for at, dim in enumerate(operand.dims):
        if len(dim) > 1 and stage.last in dict(dim):
            others = math.prod(sides[:at] + sides[at + 1 :], start=ints(1))
            steps = _count(pieces[stage.last]) - _count(before[stage.last])
            brought = brought - steps * _shared_elements(dim, stage.last, pieces) * others
    return ints(times * brought)


def _side(dim: Terms, whole: dict[str, int], pieces: dict[str, Pieces]) -> Ints:
    """Sum the extents of a dimension over all combinations of pieces of its ranks."""
    if len(dim) == 1 and dim[0][1] == 1:
        return ints(whole[dim[0][0]])
    counts = [_count(pieces[rank]) for rank, _ in dim]
    total = math.prod(counts, start=ints(1 - sum(c for _, c in dim)))
    for at, (rank, c) in enumerate(dim):
        total = total + math.prod(counts[:at] + counts[at + 1 :], start=ints(c * whole[rank]))
    return total


def _shared_elements(dim: Terms, last: str, pieces: dict[str, Pieces]) -> Ints:
    """Sum what a window has of the one before, over the pieces of the other ranks."""
    total, others = ints(0), [(rank, c) for rank, c in dim if rank != last]
    for combination in itertools.product(*(pieces[rank] for rank, _ in others)):
        reach, weight = ints(1 - dict(dim)[last]), ints(1)
        for (count, size), (_, c) in zip(combination, others, strict=True):
            reach, weight = reach + c * (size - 1), weight * count
        total = total + weight * np.maximum(reach, 0)
    return total


def uneven_group(problem: BoundProblem, origin: Sequence[int]) -> Group:
    """Return the tree of a point of the front."""
    stages = depths(problem)[-1 - int(origin[0])]
    tiles = dict(zip(_cuts(stages), (int(number) for number in origin[1:]), strict=False))
    left = dict(problem.sizes)
    tree: list[Node] = []

    def cut(rank: str, tile: int) -> None:
        if tile < left[rank]:
            left[rank] = tile
            tree.append(Loop(rank, tile))

    for rank in problem.batch:
        cut(rank, 1)
    for number, stage in enumerate(stages):
        for rank in stage.loops():
            cut(rank, tiles.get((number, rank), 1))
        tree.append(Keep(stage.operand.name, BUFFER))
    for rank in problem.free:
        if is_alone(problem, rank):  # which a systolic array can't fold, but take one by one
            cut(rank, 1)
    unit = unit_of(problem, left)
    tree.append(Do(problem.operator.name, unit, "ws" if unit == ARRAY else None))
    return Group(operators=(problem.operator.name,), tree=tuple(tree), merged=problem.merged)
