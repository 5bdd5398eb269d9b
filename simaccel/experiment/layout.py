"""Tensors as groups see them: dimensions in another order, merged, and padded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from simaccel.mapping.classes import dims
from simaccel.mapping.space import BoundOperator, IterationSpace, natural_ranks
from simaccel.mapping.tree import Group


@dataclass(frozen=True)
class Layout:
    """The way from a ``box`` of a tensor, of ``natural_shape``, to an array of ``shape``.

    ``order``: its dimensions in the order of the group's; ``padded``: their sizes in the group,
    before those that are one there are merged.
    """

    box: tuple[slice, ...]
    natural_shape: tuple[int, ...]
    order: tuple[int, ...]
    padded: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def for_operand(
        cls, space: IterationSpace, group: Group, seen: BoundOperator, number: int
    ) -> Self:
        """Return the layout of an operator's input, or (the last number) of its output."""
        operator, view = seen.operator, seen.uses[number][1]
        operand = (*operator.inputs, operator.output)[number]
        where = {dim[0][0]: at for at, dim in enumerate(dims(operand, operator.ranks))}
        order: list[int] = []
        padded: list[int] = []
        own = natural_ranks(space, group, seen, number)
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
        """Return a copy of a tensor as its group sees it; padding is zero."""
        turned = array[self.box].transpose(self.order)
        found = np.zeros(self.padded, dtype=array.dtype)
        found[self._inner_slices()] = turned
        return found.reshape(self.shape)

    def natural(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a tensor that a group has made in its natural shape, without padding."""
        turned = array.reshape(self.padded)[self._inner_slices()]
        return turned.transpose(np.argsort(self.order))

    def _inner_slices(self) -> tuple[slice, ...]:
        return tuple(slice(self.natural_shape[at]) for at in self.order)
