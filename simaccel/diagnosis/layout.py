"""Layouts of tensors in a group's ranks: dimensions reordered, merged and padded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from simaccel.mapping.classes import dims
from simaccel.mapping.space import (
    BoundOperator,
    IterationSpace,
    holding_tensor,
    natural_ranks,
    space_of,
)
from simaccel.mapping.tree import Group, Keep, Mapping
from simaccel.workload import Workload

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """The conversion of a ``box`` of a tensor with ``natural_shape`` to an array with ``shape``.

    ``order`` has the tensor's dimensions in the group's order, ``padded`` their sizes in the group
    before dimensions are merged.
    """

    box: tuple[slice, ...]
    natural_shape: tuple[int, ...]
    order: tuple[int, ...]
    padded: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def for_operand(
        cls, space: IterationSpace, group: Group, op: BoundOperator, number: int
    ) -> Self:
        """Return the layout of an operator's input, or (the last number) of its output."""
        operator, view = op.operator, op.uses[number][1]
        operand = (*operator.inputs, operator.output)[number]
        where = {dim[0][0]: at for at, dim in enumerate(dims(operand, operator.ranks))}
        order: list[int] = []
        padded: list[int] = []
        own = natural_ranks(space, group, op, number)
        for name, ranks, size in zip(view.ranks, own, view.shape, strict=True):
            order += [where[rank] for rank in ranks]
            merged = group.merged.get(name)
            if merged is None:
                padded.append(size)
            else:
                pairs = zip(merged, ranks, strict=True)
                padded += [group.padded.get(name, operator.ranks[rank]) for name, rank in pairs]
        shape, box = operand.shape(operator.ranks), operand.box(operator.ranks)
        return cls(box, shape, tuple(order), tuple(padded), view.shape)

    def places(self, where: Sequence[slice] | None = None) -> tuple[tuple[Integers, ...], Booleans]:
        """Return, for a box in the group's layout, the tensor's positions by dimension, and a mask.

        Each has the shape of the box (by default of all); the mask is false at padding.
        """
        where = [slice(0, size) for size in self.shape] if where is None else where
        ranges = np.ix_(*(np.arange(span.start, span.stop) for span in where))
        shape = [span.stop - span.start for span in where]
        flat = np.broadcast_to(flat_places(ranges, self.shape), shape)
        positions = split_places(flat, self.padded)
        inside = np.ones(shape, dtype=np.bool_)
        natural = list(positions)
        for at, position in zip(self.order, positions, strict=True):
            inside &= position < self.natural_shape[at]
            natural[at] = position + self.box[at].start
        return tuple(natural), inside


def flat_places(places: Sequence[Integers], shape: Sequence[int]) -> Integers:
    """Return the positions in a whole tensor, counted along its last dimension."""
    found = np.zeros((), dtype=np.int64)
    for place, size in zip(places, shape, strict=True):
        found = found * size + place
    return found


def split_places(flat: Integers, shape: Sequence[int]) -> list[Integers]:
    """Return the positions by dimension, of positions in a whole tensor."""
    # not np.unravel_index, which in numpy 2.4 is wrong beyond 8,192 elements
    return [flat // math.prod(shape[at + 1 :]) % size for at, size in enumerate(shape)]


class GroupLayout:
    """The layouts of a group's tensors, and the elements that need not go to DRAM.

    ``keeps``: tensors kept around it and others; ``inside``: the operators of all these groups.
    """

    def __init__(
        self, workload: Workload, group: Group, keeps: Sequence[Keep], inside: frozenset[str]
    ) -> None:
        self.workload, self.group, self.keeps, self.inside = workload, group, keeps, inside
        self.space = space_of(workload, group)

    def layout(self, op: BoundOperator, number: int) -> Layout:
        """Return the layout of an input of an operator, or (the last number) of its output."""
        return Layout.for_operand(self.space, self.group, op, number)

    def layout_around(self, tensor: str) -> Layout | None:
        """Return the layout of a tensor that is kept around the group, or of one in its place."""
        for op in self.space.operators:
            for number, (_, view) in enumerate(op.uses):
                if holding_tensor(self.workload, view.name, self.keeps) == tensor:
                    return self.layout(op, number)
        return None

    def boxes_that_may_stay(self, op: BoundOperator) -> list[tuple[slice, ...]]:
        """Return the boxes of an output, in the group's layout, that need not go to DRAM."""
        view = op.output
        if view.name not in self.space.escapes:
            return [tuple(slice(0, size) for size in view.shape)]
        readers = {
            operator.name
            for operator in self.workload.operators
            if view.name in {operand.tensor for operand in operator.inputs}
        }
        kind = self.workload.tensors[view.name].kind
        if kind in {"output", "cache"} or not readers or not readers <= self.inside:
            return []  # groups outside of the keeps use it
        held = holding_tensor(self.workload, view.name, self.keeps)
        return [
            tuple(slice(span.start, span.stop) for span in keep.region)
            or tuple(slice(0, size) for size in view.shape)
            for keep in self.keeps
            if keep.tensor == held
        ]


def group_layouts(workload: Workload, mapping: Mapping) -> dict[str, GroupLayout]:
    """Return the layouts of each group, by its name."""
    layouts = {}
    for node in mapping.body:
        inside = frozenset(name for group in node.groups for name in group.operators)
        for group in node.groups:
            layouts[group.name] = GroupLayout(workload, group, node.keeps, inside)
    return layouts
