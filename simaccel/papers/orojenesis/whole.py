"""Bounds of whole workloads: operators one after the other, or cut into fused segments.

Segments run one after the other with the whole buffer each, so that fronts add up at equal
capacity; the best cuts for every capacity at once are found by dynamic programming.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from simaccel.analytic.family import Family, FamilyLoops, family_of, ints
from simaccel.analytic.floor.compulsory import compulsory_bytes
from simaccel.analytic.floor.problem import NoBoundError, problem_of
from simaccel.analytic.sizes import even_pieces
from simaccel.mapping.space import aliases_of, mergeable, space_of
from simaccel.mapping.tree import BUFFER, Do, Group, Keep, Mapping, WorkloadReference
from simaccel.numbers import BYTE
from simaccel.papers.orojenesis.fused import fused_segment
from simaccel.papers.orojenesis.fusion import TEMPLATES
from simaccel.papers.orojenesis.segment import Segment, SkiSlope, figures, join_slopes, of_families
from simaccel.papers.orojenesis.single import Mapspace, bound
from simaccel.units import SFU
from simaccel.workload import VECTORS, Einsum, Operator, Vector, Workload

_FEW = 4
"""Ranks of which all orders are tried."""


def vector_segment(workload: Workload, vector: Vector) -> Segment:
    """Return a vector operator on its own: one position of each rank at a time, or rows."""
    merged = mergeable(workload, [vector.name])
    group = Group(operators=(vector.name,), tree=(), merged=merged)
    space = space_of(workload, group)
    op = space.bound_operator(vector.name)
    axis = space.axes.get(vector.name)
    outer = [rank for rank in op.ranks if rank != axis and rank in op.output.names]
    ranks = [*outer, *([axis] if axis else [])]
    axes = [space.sizes[axis]] if axis else [1]
    if axis and "normalise" in VECTORS[vector.kind].steps:
        axes = even_pieces(space.sizes[axis]).tolist()
    orders = list(permutations(range(len(ranks)))) if len(ranks) <= _FEW else [range(len(ranks))]
    families = []
    for sizes in ([axes[-1]], axes[:-1]):
        if not sizes:
            continue
        tiles = [ints(1) for _ in outer]
        tiles += [ints(sizes).reshape(1, -1)] if axis else []
        places = tuple(
            ints([order[at] for order in orders]).reshape(-1, 1) for at in range(len(ranks))
        )
        loops = FamilyLoops(tuple(ranks), tuple(tiles), places)
        in_place = op.inputs[0].ranks == op.output.ranks
        names = list(dict.fromkeys([*op.names] if in_place else [*op.names, op.output.name]))
        aliases = aliases_of(space, tuple(Keep(name) for name in names), ())
        keeps = tuple(Keep(name, BUFFER, ints(1)) for name in names)
        families.append(Family(space, (loops, *keeps, Do(op.name, SFU)), aliases))
    return of_families(group, families)


UNFUSED = "none"
FUSIONS = (UNFUSED, *TEMPLATES)
"""What ``--fuse`` takes."""
_WIDEST = 8
"""Bytes of an element that can be twice as wide."""
SegmentOf = Callable[[int, int], Segment | None]
"""Gives the segment of operators from one number up to another; None where they can't fuse."""


@dataclass(frozen=True)
class WorkloadPoint:
    """A point of a workload's front: bytes, and each segment with the number of its point."""

    buffer_bytes: int
    dram_bytes: int
    moved_bytes: int
    parts: tuple[tuple[Segment, int], ...]


@dataclass
class WorkloadBound:
    """The front of a workload, of all its repetitions, over a set of segments."""

    workload: Workload
    front: SkiSlope
    steps: Sequence[SkiSlope] = field(repr=False)
    segments: dict[tuple[int, int], Segment] = field(repr=False)

    def point(self, number: int) -> WorkloadPoint:
        """Return a point with the segments that it is made of."""
        parts: list[tuple[Segment, int]] = []
        at = len(self.steps) - 1
        row = number
        while at > 0:
            start, before, own = (int(number) for number in self.steps[at].origin[row])
            parts.append((self.segments[start, at], own))
            at, row = start, before
        moved = 0  # by the machine: elements of 4 bits packed, halos as windows slide
        for part, own in parts:
            once = int(part.front.accesses[own])
            if (group := part.group(own)) is not None:
                once = int(figures(family_of(space_of(self.workload, group), group))[1])
            moved += self.workload.times(part.operators[0]) * once
        room, accesses = int(self.front.buffer[number]), int(self.front.accesses[number])
        return WorkloadPoint(room, accesses, moved, tuple(reversed(parts)))

    def mapping(self, chosen: WorkloadPoint) -> Mapping | None:
        """Return a point's mapping; None if a part of it has none."""
        groups = (segment.group(own) for segment, own in chosen.parts)
        body = tuple(group for group in groups if group is not None)
        if len(body) < len(chosen.parts):
            return None
        reference = WorkloadReference(self.workload.name, self.workload.fingerprint)
        return Mapping(workload=reference, dataflow="bound", body=body)

    @property
    def operations(self) -> int:
        """Multiplications and additions of all einsums; the first product needs no addition."""
        einsums = [one for one in self.workload.operators if isinstance(one, Einsum)]
        firsts = (
            self.workload.times(einsum.name) * math.prod(einsum.output.shape(einsum.ranks))
            for einsum in einsums
        )
        return 2 * self.workload.macs - sum(firsts)

    @property
    def mappings(self) -> int:
        """Mappings of all segments."""
        return sum(segment.mappings for segment in self.segments.values())

    @property
    def all_sizes(self) -> bool:
        """Whether each operator on its own took every size that may matter."""
        return all(segment.all_sizes for segment in self.segments.values())


def segment_front(workload: Workload, count: int, segment_of: SegmentOf) -> WorkloadBound:
    """Return the front over all ways to cut ``count`` operators into segments.

    All operators of a segment run as often.
    """
    start = SkiSlope()
    start.add(ints([0]), ints([0]), ints([[0, 0, 0]]))
    steps, segments = [start], {}
    for stop in range(1, count + 1):
        best = SkiSlope()
        for begin in range(stop):
            segment = segment_of(begin, stop)
            if segment is None or not len(segment.front) or not len(steps[begin]):
                continue
            segments[begin, stop] = segment
            times = workload.times(segment.operators[0])
            own = segment.front
            repeated = SkiSlope(own.buffer, own.accesses * times, own.origin)
            both = join_slopes([steps[begin], repeated])
            origin = np.concatenate([np.full((len(both), 1), begin), both.origin], axis=1)
            best.add(both.buffer, both.accesses, origin)
        steps.append(best)
    return WorkloadBound(workload, steps[-1], steps, segments)


def single_segment(workload: Workload, operator: Operator, mapspace: Mapspace) -> Segment:
    """Return an operator on its own.

    Raises:
        NoBoundError: its bound isn't known.
    """
    if not isinstance(operator, Einsum):
        return vector_segment(workload, operator)
    return bound(problem_of(workload, operator.name), mapspace)


def in_chains(workload: Workload) -> tuple[Operator, ...]:
    """Return the operators so that each comes right before the first that needs it, if it can.

    What an operator reads first is made last: K before Q, as S = Q K goes on from Q.
    """
    makers = {operator.output.tensor: operator for operator in workload.operators}
    read = {operand.tensor for operator in workload.operators for operand in operator.inputs}
    ordered: dict[str, Operator] = {}

    def take(operator: Operator) -> None:
        if operator.name in ordered:
            return
        for operand in reversed(operator.inputs):
            if operand.tensor in makers:
                take(makers[operand.tensor])
        ordered[operator.name] = operator

    for operator in workload.operators:
        if operator.output.tensor not in read:
            take(operator)
    for operator in workload.operators:
        take(operator)
    return tuple(ordered.values())


def workload_bound(workload: Workload, mapspace: Mapspace, fuse: str = UNFUSED) -> WorkloadBound:
    """Return the front of a workload: operators one by one, or with fused segments of a template.

    Where elements have 4 bits all is counted in half bytes, so that no tile is rounded up: what a
    mapping of the front moves may be more by half a byte a tile, never less.

    Raises:
        NoBoundError: the bound of an operator isn't known.
    """
    counted = in_half_bytes(workload)
    operators = in_chains(counted) if fuse != UNFUSED else counted.operators

    def segment_of(begin: int, stop: int) -> Segment | None:
        if stop - begin == 1:
            return single_segment(counted, operators[begin], mapspace)
        if fuse == UNFUSED:
            return None
        names = [operator.name for operator in operators[begin:stop]]
        if len({workload.times(name) for name in names}) > 1:
            return None
        return fused_segment(counted, names, TEMPLATES[fuse], imperfect=mapspace.imperfect)

    bounds = segment_front(counted, len(operators), segment_of)
    if counted is workload:
        return bounds
    front, names = bounds.front, [operator.name for operator in operators]
    least = compulsory_bytes(
        workload, [[operator] for operator in names] if fuse == UNFUSED else [names]
    )
    moved = np.maximum(-(-front.accesses // 2), least)
    halved = SkiSlope(-(-front.buffer // 2), moved, front.origin)
    return replace(bounds, workload=workload, front=halved)


def in_half_bytes(workload: Workload) -> Workload:
    """Return a workload with elements twice as wide if any have 4 bits: its bytes are half bytes.

    Raises:
        NoBoundError: it has elements of more than 8 bytes beside those of 4 bits.
    """
    if not workload.packed:
        return workload
    wide = [
        tensor.name for tensor in workload.tensors.values() if tensor.bytes_per_element > _WIDEST
    ]
    if wide:
        raise NoBoundError(
            f"tensor {wide[0]}: elements of more than {_WIDEST} bytes beside those of 4 bits; no "
            "bound is known"
        )
    tensors = {
        name: replace(tensor, bytes_per_element=2 * tensor.bits // BYTE, packed=False)
        for name, tensor in workload.tensors.items()
    }
    return replace(workload, tensors=tensors)
