"""An einsum as a problem of data movement: rank sizes, and each operand's dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simaccel.analytic.pieces import extent
from simaccel.errors import SimaccelError
from simaccel.mapping.space import IterationSpace, mergeable, space_of
from simaccel.mapping.tree import Group
from simaccel.numbers import BYTE, in_bytes
from simaccel.workload import Einsum, Workload
from simaccel.workload.einsum import Terms

MOST_RANKS = 9
"""The most ranks whose orders are searched: 2^9 sets of inner loops."""
_COUNTED = 1 << 20
"""The longest dimension (in positions) whose positions are counted one by one."""
MOST_BYTES = 2**62
"""The most bytes that traffic's integers hold."""


class NoBoundError(SimaccelError):
    """No bound is known for an operator; the message names it and the reason."""


@dataclass(frozen=True)
class BoundOperand:
    """A tensor of an einsum: its dimensions as sums of ranks.

    Ranks of size 1 and of the batch are left out. ``bits``: of an element.
    """

    name: str
    dims: tuple[Terms, ...]
    bits: int
    is_output: bool

    @property
    def bytes_per_element(self) -> int:
        """Bytes of an element; exact unless elements are packed."""
        return self.bits // BYTE

    @cached_property
    def ranks(self) -> frozenset[str]:
        """The ranks that its dimensions depend on."""
        return frozenset(rank for dim in self.dims for rank, _ in dim)

    @cached_property
    def slides(self) -> bool:
        """Whether a dimension is a sum of ranks, so that its tiles overlap."""
        return any(len(dim) > 1 or dim[0][1] > 1 for dim in self.dims)


@dataclass(frozen=True)
class BoundProblem:
    """An einsum of a workload: its ranks of sizes above 1, and its operands.

    ``batch``: ranks that all operands have; there is no reuse along them, so their tiles are 1 and
    their loops outermost. ``merged``: the einsum's own ranks that each rank combines.
    """

    workload: Workload
    operator: Einsum
    space: IterationSpace
    merged: dict[str, tuple[str, ...]]
    sizes: dict[str, int]
    batch: tuple[str, ...]
    operands: tuple[BoundOperand, ...]

    @cached_property
    def free(self) -> tuple[str, ...]:
        """Ranks whose tiles are searched: all but those of the batch."""
        return tuple(rank for rank in self.sizes if rank not in self.batch)

    @cached_property
    def sliding(self) -> frozenset[str]:
        """Ranks in a sum or with a stride, along which tiles overlap or leave holes."""
        return frozenset(
            rank
            for operand in self.operands
            for dim in operand.dims
            if len(dim) > 1 or dim[0][1] > 1
            for rank, _ in dim
        )

    @cached_property
    def groups(self) -> int:
        """Number of positions of the batch."""
        return math.prod(self.sizes[rank] for rank in self.batch)

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return math.prod(self.sizes.values())

    @cached_property
    def group_macs(self) -> int:
        """Multiply-accumulates of one position of the batch."""
        return self.macs // self.groups

    @cached_property
    def compulsory_bytes(self) -> int:
        """Bytes of all operands, each used element once (the algorithmic minimum)."""
        return sum(
            in_bytes(self.groups * self.used_elements(operand), operand.bits)
            for operand in self.operands
        )

    def elements(self, operand: BoundOperand) -> int:
        """Return the elements of an operand's bounding box, for one position of the batch."""
        return math.prod(extent(dim, self.sizes) for dim in operand.dims)

    def used_elements(self, operand: BoundOperand) -> int:
        """Return an operand's used elements: strides may skip some of its bounding box."""
        return math.prod(positions(dim, self.sizes) for dim in operand.dims)


def positions(dim: Terms, sizes: dict[str, int]) -> int:
    """Return the distinct positions of a dimension; a lower bound if longer than `_COUNTED`."""
    if len(dim) == 1:
        return sizes[dim[0][0]]
    if extent(dim, sizes) > _COUNTED:
        return max(sizes[rank] for rank, _ in dim)
    reached = np.zeros(1, dtype=np.bool_)
    reached[0] = True
    for rank, stride in dim:
        starts = np.flatnonzero(reached)
        length = starts[-1] + stride * (sizes[rank] - 1) + 1
        reached = np.zeros(length, dtype=np.bool_)
        for at in range(sizes[rank]) if sizes[rank] < starts.size else ():
            reached[starts + stride * at] = True
        for start in starts if sizes[rank] >= starts.size else ():
            reached[start : start + stride * (sizes[rank] - 1) + 1 : stride] = True
    return int(np.count_nonzero(reached))


def problem_of(workload: Workload, name: str) -> BoundProblem:
    """Return the problem of an einsum; ranks that all its tensors have in common are merged.

    Raises:
        NoBoundError: a rank occurs twice in a tensor, the output has a sum of ranks, there are too
            many ranks, or the figures don't fit 62 bits.
    """
    merged = mergeable(workload, [name])
    space = space_of(workload, Group(operators=(name,), tree=(), merged=merged))
    op = space.bound_operator(name)
    assert isinstance(op.operator, Einsum)  # noqa: S101 - narrows the type
    sizes = {rank: size for rank, size in space.sizes.items() if size > 1}
    uses = dict(op.uses)
    batch = tuple(
        rank for rank in sizes if all(((rank, 1),) in view.terms for view in uses.values())
    )
    free = {rank: size for rank, size in sizes.items() if rank not in batch}
    operands: dict[str, BoundOperand] = {}
    for number, (use, view) in enumerate(op.uses):
        dims = tuple(dim for dim in view.terms if any(rank in free for rank, _ in dim))
        operands[use] = BoundOperand(use, dims, view.bits, number == len(op.inputs))
    every = tuple(operands.values())
    problem = BoundProblem(workload, op.operator, space, merged, sizes, batch, every)
    _require(problem)
    return problem


def _require(problem: BoundProblem) -> None:
    name = problem.operator.name
    for operand in problem.operands:
        ranks = [rank for dim in operand.dims for rank, _ in dim]
        if len(set(ranks)) < len(ranks):
            raise NoBoundError(
                f"operator {name}: {operand.name} has a rank twice; no bound is known"
            )
        if operand.is_output and operand.slides:
            raise NoBoundError(
                f"operator {name}: {operand.name} is written in pieces that overlap; "
                "no bound is known"
            )
    if len(problem.free) > MOST_RANKS:
        raise NoBoundError(
            f"operator {name}: {len(problem.free)} ranks to order, at most {MOST_RANKS}"
        )
    widest = max(-(-operand.bits // BYTE) for operand in problem.operands)
    if problem.macs * widest * 2 * len(problem.operands) > MOST_BYTES:
        raise NoBoundError(f"operator {name}: traffic of 2^62 bytes or more can't be counted")
