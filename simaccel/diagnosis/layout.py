"""Layouts of tensors in a group's ranks: dimensions reordered, merged and padded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from simaccel.mapping.classes import dims
from simaccel.mapping.space import BoundOperator, IterationSpace, natural_ranks
from simaccel.mapping.tree import Group

Booleans = npt.NDArray[np.bool_]


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

    def lay_out(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a copy of a tensor in the group's layout, padded with zeros."""
        turned = array[self.box].transpose(self.order)
        found = np.zeros(self.padded, dtype=array.dtype)
        found[self._inner_slices()] = turned
        return found.reshape(self.shape)

    def natural(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a tensor in the group's layout in its natural shape, without padding."""
        turned = array.reshape(self.padded)[self._inner_slices()]
        return turned.transpose(np.argsort(self.order))

    def places(self, where: Sequence[slice]) -> tuple[tuple[npt.NDArray[np.int64], ...], Booleans]:
        """Return, for a box in the group's layout, the tensor's positions by dimension, and a mask.

        Each has the shape of the box; the mask is false at padding.
        """
        ranges = np.ix_(*(np.arange(span.start, span.stop) for span in where))
        steps = zip(ranges, _steps(self.shape), strict=True)
        flat = sum((position * step for position, step in steps), np.int64(0))
        shape = [span.stop - span.start for span in where]
        flat = np.broadcast_to(flat, shape)
        # not np.unravel_index, which in numpy 2.4 is wrong beyond 8,192 elements
        pairs = zip(_steps(self.padded), self.padded, strict=True)
        positions = [flat // step % size for step, size in pairs]
        inside = np.ones(shape, dtype=np.bool_)
        natural: list[npt.NDArray[np.int64]] = list(positions)
        for at, position in zip(self.order, positions, strict=True):
            inside &= position < self.natural_shape[at]
            natural[at] = position + self.box[at].start
        return tuple(natural), inside

    def _inner_slices(self) -> tuple[slice, ...]:
        return tuple(slice(self.natural_shape[at]) for at in self.order)


def _steps(shape: Sequence[int]) -> list[int]:
    """Return the stride of each dimension, in elements."""
    return [math.prod(shape[at + 1 :]) for at in range(len(shape))]
