"""Bytes that a tile loads when it moves: all of it, less its overlap with the tile before.

When a loop steps, those inside it go back to their start. So the bytes that are loaded
depend on the loop that steps and the *set* of loops inside, not on their order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from simaccel.analytic.family import Ints, ints
from simaccel.analytic.floor.problem import BoundOperand, BoundProblem
from simaccel.workload.einsum import Terms

Halo = Literal["exact", "machine", "tool", "tool-last"]
"""What of a tile isn't loaded again.

``exact``: all that the tile before had (boxes subtracted). ``machine``: what a window that slides
forward in its innermost loop had, as simaccel's machine does. ``tool``: what Timeloop's default
counts: a shift forward in one dimension, with the loops inside at their second position;
``tool-last``: the same with them at their last, as they are.
"""
HALOS: tuple[Halo, ...] = get_args(Halo)


@dataclass(frozen=True, eq=False)
class RankCut:
    """A rank cut into pieces of ``tile`` positions, for all tilings at once."""

    size: int
    tile: Ints

    @cached_property
    def trips(self) -> Ints:
        """Number of pieces."""
        return -(-self.size // self.tile)

    @cached_property
    def last(self) -> Ints:
        """Size of the last piece."""
        return self.size - (self.trips - 1) * self.tile

    @cached_property
    def ragged(self) -> bool:
        """Whether a last piece is smaller."""
        return bool(np.any(self.last != self.tile))

    @cached_property
    def many(self) -> Ints:
        """1 where there are several pieces."""
        return ints(self.trips > 1)


Cuts = Mapping[str, RankCut]


@dataclass(frozen=True, eq=False)
class _Piece:
    """Pieces of a rank in a step: their number, sizes before and after it, and their move."""

    times: Ints
    before: Ints
    after: Ints
    start: Ints


def tile_elements(one: BoundOperand, cuts: Cuts) -> Ints:
    """Return the elements of an operand's tile, as a bounding box."""
    extents = (ints(1 + sum(c * (cuts[rank].tile - 1) for rank, c in dim)) for dim in one.dims)
    return math.prod(extents, start=ints(1))


@dataclass(frozen=True, eq=False)
class LoopSteps:
    """The elements that steps of loops load, for many tilings; common parts are computed once.

    The elements of an operand depend on the loops over its own ranks; other loops repeat them.
    """

    cuts: Cuts
    halo: Halo
    _known: dict[tuple[str, str, frozenset[str]], Ints] = field(default_factory=dict)

    def elements(self, operand: BoundOperand, rank: str, inside: frozenset[str]) -> Ints:
        """Return the elements that all steps of a rank's loop load, with some loops inside it."""
        cuts, ranks, idle = self.cuts, operand.ranks & inside, rank not in operand.ranks
        if idle and not ranks:
            return ints(0)
        beside = inside | operand.ranks | {rank}
        times = [cut.trips for name, cut in cuts.items() if name not in beside]
        others = math.prod(times, start=cuts[rank].trips - 1 if idle else ints(1))
        key = operand.name, "" if idle else rank, ranks
        if key not in self._known:
            self._known[key] = _brought_elements(operand, cuts, *key[1:], self.halo)
        return ints(others * self._known[key])


def _brought_elements(
    operand: BoundOperand, cuts: Cuts, rank: str, inside: frozenset[str], halo: Halo
) -> Ints:
    """Return the elements that the steps of a loop load, those of loops over other ranks once.

    ``rank``: empty for a loop over another rank, which sends those inside back to their start.
    """
    moves = ints(math.prod((cuts[name].trips for name in sorted(inside)), start=ints(1)) > 1)
    brought = math.prod(
        (_sum_extents(dim, cuts, rank, inside) for dim in operand.dims), start=ints(1)
    )
    if operand.slides:
        brought = brought - _shared_elements(operand, cuts, rank, inside, halo, moves)
    return ints(brought if rank else brought * moves)


def _sum_extents(dim: Terms, cuts: Cuts, rank: str, inside: frozenset[str]) -> Ints:
    if len(dim) == 1 and dim[0][1] == 1:
        cut = cuts[dim[0][0]]
        if dim[0][0] in inside:
            return cut.tile
        return cut.size - cut.tile if dim[0][0] == rank else ints(cut.size)
    total = ints(0)
    for pieces in _combinations(dim, cuts, rank, inside, last=True):
        side = 1 + sum(c * (one.after - 1) for one, (_, c) in zip(pieces, dim, strict=True))
        total = total + side * math.prod((piece.times for piece in pieces), start=ints(1))
    return total


def _shared_elements(
    operand: BoundOperand, cuts: Cuts, rank: str, inside: frozenset[str], halo: Halo, moves: Ints
) -> Ints:
    """Return the sum of the elements that the tiles before and after each step share."""
    if halo == "machine" and not any(len(dim) > 1 and rank in dict(dim) for dim in operand.dims):
        return ints(0)
    kept, shifts = _overlaps(operand, cuts, rank, inside, last=halo != "tool")
    if halo == "exact":
        return kept
    if halo == "machine":
        return kept * (1 - moves)
    forward = math.prod((ints(shift >= 0) for shift in shifts), start=ints(1))
    moving = sum((ints(shift != 0) for shift in shifts), start=ints(0))
    return kept * forward * (moving <= 1)


def _overlaps(
    operand: BoundOperand, cuts: Cuts, rank: str, inside: frozenset[str], *, last: bool
) -> tuple[Ints, list[Ints]]:
    """Return the elements that tiles share over all steps, and each dimension's move in a step."""
    kept, shifts = ints(1), []
    for dim in operand.dims:
        total, moved = ints(0), ints(0)
        for pieces in _combinations(dim, cuts, rank, inside, last=last):
            terms = list(zip(pieces, dim, strict=True))
            moved = ints(sum((c * piece.start for piece, (_, c) in terms), start=ints(0)))
            ends = (1 + sum(c * (piece.after - 1) for piece, (_, c) in terms)) + moved
            before = ints(1 + sum(c * (piece.before - 1) for piece, (_, c) in terms))
            share = np.minimum(ends, before) - np.maximum(moved, 0)
            times = math.prod((piece.times for piece in pieces), start=ints(1))
            total = total + np.maximum(share, 0) * times
        kept = kept * total
        shifts.append(moved)
    return kept, shifts


def _combinations(
    dim: Terms, cuts: Cuts, rank: str, inside: frozenset[str], *, last: bool
) -> Iterator[tuple[_Piece, ...]]:
    return itertools.product(
        *(list(_pieces(cuts[name], name, rank, inside, last=last)) for name, _ in dim)
    )


def _pieces(
    cut: RankCut, name: str, rank: str, inside: frozenset[str], *, last: bool
) -> Iterator[_Piece]:
    """Yield the pieces of a rank before and after a step; ``start``: how far it moves forward."""
    zero, trips = ints(0), cut.trips
    if name in inside:
        back = trips - 1 if last else cut.many
        yield _Piece(ints(1), cut.last, cut.tile, -back * cut.tile)
    elif name == rank:
        ragged = cut.ragged
        yield _Piece(np.maximum(trips - 1 - ragged, 0), cut.tile, cut.tile, cut.tile)
        if ragged:
            yield _Piece(cut.many, cut.tile, cut.last, cut.tile)
    else:
        ragged = cut.ragged
        yield _Piece(trips - ragged, cut.tile, cut.tile, zero)
        if ragged:
            yield _Piece(ints(1), cut.last, cut.last, zero)


def traffic(
    problem: BoundProblem, cuts: Cuts, kept: Sequence[BoundOperand], halo: Halo = "exact"
) -> Ints:
    """Return the least bytes between buffer and DRAM over all orders, for each tiling.

    ``cuts`` are of the problem's free ranks. A tensor that isn't ``kept`` is accessed for each
    multiply-accumulate. Sums that come back are read again: 2 accesses a tile but for the first.
    """
    best = _best(problem, cuts, kept, halo, None)
    total = ints(0)  # first tiles and tensors that bypass, less sums that aren't read
    for operand in problem.operands:
        times = 1 + operand.is_output
        every = tile_elements(operand, cuts) if operand in kept else problem.group_macs
        first = problem.elements(operand) if operand.is_output else 0
        total = total + (every * times - first) * operand.bytes_per_element
    return problem.groups * (best + total)


def best_order(
    problem: BoundProblem, cuts: Cuts, kept: Sequence[BoundOperand], halo: Halo = "exact"
) -> list[str]:
    """Return the best order of one tiling, from the outermost loop; loops of one trip too."""
    choices: dict[int, int] = {}
    _best(problem, cuts, kept, halo, choices)
    ranks, order = problem.free, []
    inside = (1 << len(ranks)) - 1
    while inside:
        number = choices[inside]
        order.append(ranks[number])
        inside -= 1 << number
    return order


def _best(
    problem: BoundProblem,
    cuts: Cuts,
    kept: Sequence[BoundOperand],
    halo: Halo,
    choices: dict[int, int] | None,
) -> Ints:
    """Return the bytes of all steps; ``choices``: gets the outermost loop of each set of loops.

    The best order of n loops is a shortest path through the 2^n sets: all n! orders, exactly.
    """
    ranks, steps = problem.free, LoopSteps(cuts, halo)
    best: list[Ints | None] = [None] * (1 << len(ranks))
    best[0] = ints(0)
    for inside, known in enumerate(best):
        assert known is not None  # noqa: S101 - every set but the first has a smaller one
        names = frozenset(rank for n, rank in enumerate(ranks) if inside >> n & 1)
        for number, rank in enumerate(ranks):
            if inside >> number & 1:
                continue
            total = known
            for operand in kept:
                brought = steps.elements(operand, rank, names)
                total = total + brought * (operand.bytes_per_element * (1 + operand.is_output))
            wider, old = inside | 1 << number, best[inside | 1 << number]
            if choices is not None and (old is None or int(total) < int(old)):
                choices[wider] = number
            best[wider] = total if old is None else np.minimum(old, total)
    least = best[-1]
    assert least is not None  # noqa: S101 - as above
    return least
