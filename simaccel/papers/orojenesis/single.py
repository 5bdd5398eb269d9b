"""The bound of one einsum: the front of (bytes kept, bytes moved) over a mapspace."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from simaccel.analytic.family import ints
from simaccel.analytic.floor.problem import BoundOperand, BoundProblem, NoBoundError
from simaccel.analytic.sizes import divisors
from simaccel.mapping.tree import Group
from simaccel.numbers import BYTE
from simaccel.papers.orojenesis import tilings
from simaccel.papers.orojenesis.halo import Halo, RankCut, best_order, tile_elements, traffic
from simaccel.papers.orojenesis.segment import Segment, SkiSlope
from simaccel.papers.orojenesis.uneven import is_proved, uneven_front, uneven_group

_SHAPES: Final = 256
"""Shapes whose fronts are cached."""


@dataclass(frozen=True, kw_only=True)
class Mapspace:
    """The set of mappings that a bound is over.

    ``imperfect``: also tile sizes that do not divide a rank. ``uneven``: also mappings that keep
    each tensor at a loop depth of its own, and cut ranks twice. ``bypass``: also tensors that
    bypass the buffer, with one access for each multiply-accumulate. ``array``: only blocks that a
    systolic array can take: two factors, and size 1 for ranks that are in one tensor only.
    """

    imperfect: bool = False
    uneven: bool = False
    bypass: bool = False
    array: bool = False
    halo: Halo = "exact"


def bound(problem: BoundProblem, mapspace: Mapspace | None = None) -> Segment:
    """Return the front of an einsum over all tilings, orders and, with ``bypass``, bypasses.

    If there are too many sizes, ranks of windows take only even pieces, and uneven trees of more
    than three tensors not every second cut. Origins of points: tensors kept and tiles, or (below 0)
    as in ``uneven``.

    Raises:
        NoBoundError: an uneven bound for a systolic array that can't fold the einsum, or elements
            of 4 bits, which ``workload_bound`` counts in half bytes.
    """
    if any(operand.bits % BYTE for operand in problem.operands):
        raise NoBoundError(f"operator {problem.operator.name}: elements that aren't whole bytes")
    mapspace = mapspace or Mapspace()
    if mapspace.uneven and mapspace.array:
        name = problem.operator.name
        alone = [rank for rank in problem.free if tilings.is_alone(problem, rank)]
        if alone or len(problem.operator.inputs) != tilings.FACTORS:
            why = f"rank {alone[0]} is in one tensor only" if alone else "it has not two factors"
            raise NoBoundError(f"operator {name}: no uneven bound for a systolic array; {why}")
    front, complete = _front(_ProblemShape(_shape_of(problem), problem), mapspace)

    def group(number: int) -> Group | None:
        origin = front.origin[number]
        if origin[0] < 0:
            return uneven_group(problem, origin)
        tiles = dict(zip(problem.free, map(ints, origin[1:]), strict=True))
        kept = _subsets(problem, mapspace)[int(origin[0])]
        if len(kept) < len(problem.operands):
            return None  # on the machine PEs hold operands that bypass the buffer, and move less
        cuts = {rank: RankCut(problem.sizes[rank], tile) for rank, tile in tiles.items()}
        order = best_order(problem, cuts, kept, mapspace.halo)
        loops = {rank: tiles[rank] for rank in order}
        return tilings.group_of(
            problem, tilings.nest(problem, [loops, *(operand.name for operand in kept)])
        )

    names, count = (problem.operator.name,), mappings_of(problem, mapspace)
    return Segment(names, front, group, count, complete)


@dataclass(frozen=True)
class _ProblemShape:
    """A problem that equals all others of its shape, whatever the names."""

    shape: tuple[object, ...]
    problem: BoundProblem = field(compare=False)


def _shape_of(problem: BoundProblem) -> tuple[object, ...]:
    """Return all that a front depends on: ranks, and the dimensions and bits of the operands."""
    operator, tensors = problem.operator, problem.workload.tensors
    return (
        *(tuple(own.items()) for own in (operator.ranks, problem.merged, problem.sizes)),
        problem.batch,
        tuple((operand.dims, operand.bits, operand.is_output) for operand in problem.operands),
        tuple(tensors[one.tensor].kind for one in (*operator.inputs, operator.output)),
    )


@lru_cache(_SHAPES)
def _front(shaped: _ProblemShape, mapspace: Mapspace) -> tuple[SkiSlope, bool]:
    """Return the front of a shape, and whether it has all sizes; equal layers have one front."""
    problem, front, complete = shaped.problem, SkiSlope(), True
    if mapspace.uneven:
        front, complete = uneven_front(problem, imperfect=mapspace.imperfect)
    if problem.sliding or not (mapspace.uneven and is_proved(problem)):
        even, all_sizes = _even_front(problem, mapspace)
        front.add(even.buffer, even.accesses, even.origin)
        complete = complete and all_sizes
    return front, complete


def _even_front(problem: BoundProblem, mapspace: Mapspace) -> tuple[SkiSlope, bool]:
    """Return the front of trees with one loop for each rank, and whether it has all sizes."""
    alone = [rank for rank in problem.free if mapspace.array and tilings.is_alone(problem, rank)]
    sizes, complete = tilings.options(problem, imperfect=mapspace.imperfect, whole=alone)
    front, subsets = SkiSlope(), _subsets(problem, mapspace)
    for tiles in tilings.tilings([sizes[rank] for rank in problem.free]):
        cuts = {
            rank: RankCut(problem.sizes[rank], tile)
            for rank, tile in zip(problem.free, tiles, strict=True)
        }
        for number, kept in enumerate(subsets):
            rooms = (tensor.bytes_per_element * tile_elements(tensor, cuts) for tensor in kept)
            buffer = ints(sum(rooms, start=ints(0)))
            moved = traffic(problem, cuts, kept, mapspace.halo)
            flat = [column.ravel() for column in np.broadcast_arrays(buffer, moved, *tiles)]
            origin = np.stack([np.full(flat[0].size, number), *flat[2:]], axis=1)
            front.add(flat[0], flat[1], origin)
    return front, complete


def _subsets(problem: BoundProblem, mapspace: Mapspace) -> list[tuple[BoundOperand, ...]]:
    """Return the sets of tensors that may be kept; the set of all comes first."""
    every = problem.operands
    if not mapspace.bypass or mapspace.array:
        return [every]
    return [
        tuple(kept)
        for count in range(len(every), -1, -1)
        for kept in itertools.combinations(every, count)
    ]


def mappings_of(problem: BoundProblem, mapspace: Mapspace) -> int:
    """Return the size of a mapspace as the public tool counts it: tilings of ranks times orders."""
    alone = {
        own
        for rank in problem.free
        if mapspace.array and tilings.is_alone(problem, rank)
        for own in problem.merged.get(rank, (rank,))
    }
    ways = []
    for rank, size in problem.operator.ranks.items():
        several = size - 1 if mapspace.imperfect else len(divisors(size)) - 1
        ways.append(min(1, several) if rank in alone else several)
    return len(_subsets(problem, mapspace)) * tilings.orders(ways)
