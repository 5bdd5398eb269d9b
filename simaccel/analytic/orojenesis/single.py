"""The bound of one einsum: the front of (bytes kept, bytes moved) over a mapspace."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simaccel.analytic.family import Ints, ints
from simaccel.analytic.orojenesis.attain import FACTORS, even_group, is_alone
from simaccel.analytic.orojenesis.halo import Cuts, Halo, RankCut, tile_elements
from simaccel.analytic.orojenesis.orders import best_order, traffic, traffic_in
from simaccel.analytic.orojenesis.problem import BoundOperand, BoundProblem, NoBoundError
from simaccel.analytic.orojenesis.sizes import divisors, orders
from simaccel.analytic.orojenesis.ski_slope import SkiSlope
from simaccel.analytic.orojenesis.tilings import options, tilings
from simaccel.analytic.orojenesis.uneven import is_proved, uneven_front, uneven_group
from simaccel.mapping.tree import Group
from simaccel.numbers import BYTE


@dataclass(frozen=True, kw_only=True)
class Mapspace:
    """The set of mappings that a bound is over.

    ``imperfect``: every tile size, not only those that divide a rank. ``uneven``: each tensor is
    also kept at a depth of its own, and ranks cut twice. ``bypass``: any tensors may pass by the
    buffer, at an access for each multiply-accumulate. ``array``: only what a systolic array can
    take as one block: two factors, and ranks that are in one tensor alone cut to 1.
    """

    imperfect: bool = False
    uneven: bool = False
    bypass: bool = False
    array: bool = False
    halo: Halo = "exact"


@dataclass(frozen=True)
class BoundPoint:
    """A point of a front and the mapping that attains it.

    ``group``: its tree, None where a tensor passes the buffer by (PEs hold what they use for a
    while, and so move less). ``moved_bytes``: what simaccel's machine moves; it is more
    than ``dram_bytes`` only where a reading of halos reuses what the machine doesn't.
    """

    buffer_bytes: int
    dram_bytes: int
    group: Group | None
    moved_bytes: int


@dataclass(frozen=True)
class EinsumBound:
    """The front of an einsum over a mapspace; ``mappings``: how many it is over.

    ``all_sizes``: whether ranks in sums took every size (else even pieces only, as there are too
    many), and uneven trees of more than three tensors every second cut (with windows, or of too
    many tilings, not). Origins: tensors kept and tiles, or (below 0) as in ``uneven``.
    """

    problem: BoundProblem
    mapspace: Mapspace
    front: SkiSlope
    mappings: int
    all_sizes: bool = True

    def point(self, number: int) -> BoundPoint:
        """Return a point with its mapping."""
        room, moved = int(self.front.buffer[number]), int(self.front.accesses[number])
        origin, problem = self.front.origin[number], self.problem
        if origin[0] < 0:
            return BoundPoint(room, moved, uneven_group(problem, origin), moved)
        subset, *tiles = (int(number) for number in origin)
        kept = _subsets(problem, self.mapspace)[subset]
        cuts = {
            r: RankCut(problem.sizes[r], ints(t)) for r, t in zip(problem.free, tiles, strict=True)
        }
        order = best_order(problem, cuts, kept, self.mapspace.halo)
        if len(kept) < len(problem.operands):
            return BoundPoint(room, moved, None, moved)
        group = even_group(problem, dict(zip(problem.free, tiles, strict=True)), order)
        return BoundPoint(
            room, moved, group, int(traffic_in(problem, cuts, kept, order, "machine"))
        )

    @property
    def largest(self) -> tuple[int, int]:
        """The maximal effectual buffer and what is moved with it: more changes nothing."""
        return int(self.front.buffer[-1]), int(self.front.accesses[-1])


def bound(problem: BoundProblem, mapspace: Mapspace | None = None) -> EinsumBound:
    """Return the front of an einsum: all tilings, orders and, if asked, what passes by.

    Raises:
        NoBoundError: an uneven bound for a systolic array that can't fold the einsum, or elements
            of 4 bits, which ``workload_bound`` counts in half bytes.

    """
    if any(operand.bits % BYTE for operand in problem.operands):
        raise NoBoundError(f"operator {problem.operator.name}: elements that aren't whole bytes")
    mapspace = mapspace or Mapspace()
    front, complete = SkiSlope(), True
    if mapspace.uneven and mapspace.array:
        _require_folds(problem)
    if mapspace.uneven:
        front, complete = uneven_front(problem, imperfect=mapspace.imperfect)
    if problem.sliding or not (mapspace.uneven and is_proved(problem)):
        even, all_sizes = _even_front(problem, mapspace)
        front.add(even.buffer, even.accesses, even.origin)
        complete = complete and all_sizes
    return EinsumBound(problem, mapspace, front, mappings_of(problem, mapspace), complete)


def _require_folds(problem: BoundProblem) -> None:
    """Refuse an einsum that a systolic array can't take with tiles at depths of their own."""
    name = problem.operator.name
    alone = [rank for rank in problem.free if is_alone(problem, rank)]
    if alone or len(problem.operator.inputs) != FACTORS:
        why = f"rank {alone[0]} is in one tensor only" if alone else "it has not two factors"
        raise NoBoundError(f"operator {name}: no uneven bound for a systolic array; {why}")


def _even_front(problem: BoundProblem, mapspace: Mapspace) -> tuple[SkiSlope, bool]:
    """Return the front of trees with one loop a rank, and whether all sizes that matter are in."""
    alone = [rank for rank in problem.free if mapspace.array and is_alone(problem, rank)]
    sizes, complete = options(problem, imperfect=mapspace.imperfect, whole=alone)
    front, subsets = SkiSlope(), _subsets(problem, mapspace)
    for tiles in tilings([sizes[rank] for rank in problem.free]):
        cuts = {
            rank: RankCut(problem.sizes[rank], tile)
            for rank, tile in zip(problem.free, tiles, strict=True)
        }
        for number, kept in enumerate(subsets):
            buffer = _buffer(cuts, kept)
            moved = traffic(problem, cuts, kept, mapspace.halo)
            shape = np.broadcast_shapes(
                buffer.shape, moved.shape, *(column.shape for column in tiles)
            )
            flat = [np.broadcast_to(column, shape).ravel() for column in (buffer, moved, *tiles)]
            origin = np.stack([np.full(flat[0].size, number), *flat[2:]], axis=1)
            front.add(flat[0], flat[1], origin)
    return front, complete


def _buffer(cuts: Cuts, kept: Sequence[BoundOperand]) -> Ints:
    sizes = (one.bytes_per_element * tile_elements(one, cuts) for one in kept)
    return ints(sum(sizes, start=ints(0)))


def _subsets(problem: BoundProblem, mapspace: Mapspace) -> list[tuple[BoundOperand, ...]]:
    """Return which tensors may be kept: all of them first."""
    every = problem.operands
    if not mapspace.bypass or mapspace.array:
        return [every]
    return [
        tuple(kept)
        for count in range(len(every), -1, -1)
        for kept in itertools.combinations(every, count)
    ]


def mappings_of(problem: BoundProblem, mapspace: Mapspace) -> int:
    """Count a mapspace as the public tool does: tilings of the einsum's own ranks times orders."""
    alone = {
        own
        for rank in problem.free
        if mapspace.array and is_alone(problem, rank)
        for own in problem.merged.get(rank, (rank,))
    }
    ways = []
    for rank, size in problem.operator.ranks.items():
        several = size - 1 if mapspace.imperfect else len(divisors(size)) - 1
        ways.append(min(1, several) if rank in alone else several)
    return len(_subsets(problem, mapspace)) * orders(ways)
