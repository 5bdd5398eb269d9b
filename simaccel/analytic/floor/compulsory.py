"""Compulsory traffic: the bytes that must be read and written with any buffer.

Of a whole workload the distinct elements that it uses: intermediates may stay on chip. Each element
of an input or weight that an operator uses must be read once, and each element of an output must be
written once. Zeros around a tensor need not be moved, nor elements that repeat others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from simaccel.analytic.floor.problem import positions
from simaccel.mapping.space import IterationSpace, space_of
from simaccel.mapping.tree import Group
from simaccel.numbers import in_bytes
from simaccel.workload import CLASSES, Operand, Operator, Tensor, Workload, class_of, operands_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Positions = npt.NDArray[np.intp] | range


def compulsory_bytes(workload: Workload, groups: Sequence[Sequence[str]]) -> int:
    """Return the bytes that groups of operators exchange with others, each once, repeats included.

    Tensors that only their own group uses don't count, as they may stay on chip. Of inputs with
    strides only used elements count.
    """
    return sum(workload.times(one[0]) * group_bytes(workload, one) for one in groups)


def group_bytes(
    workload: Workload,
    operators: Sequence[str],
    merged: Mapping[str, tuple[str, ...]] | None = None,
) -> int:
    """Return the least bytes that one group reads from and writes to DRAM.

    They are the same however ranks are ``merged``; as in its mapping, its space is known already.
    """
    space = space_of(workload, Group(operators=tuple(operators), tree=(), merged=merged or {}))
    both = (*read_bytes(space).items(), *written_bytes(space).items())
    return sum(n_bytes for name, n_bytes in both if not workload.tensors[name].shared)


def read_bytes(space: IterationSpace) -> dict[str, int]:
    """Return the bytes of each tensor that a group reads from outside."""
    sizes = space.widen(space.sizes)
    found: dict[str, int] = {}
    for op in space.operators:
        for view in op.inputs:
            if view.name not in space.made:
                elements = math.prod(positions(dim, sizes) for dim in view.terms)
                n_bytes = in_bytes(elements, view.bits)
                found[view.name] = max(found.get(view.name, 0), n_bytes)
    return found


def written_bytes(space: IterationSpace) -> dict[str, int]:
    """Return the bytes of each tensor that a group writes for others."""
    views = (one.output for one in space.operators if one.output.name in space.escapes)
    return {view.name: view.n_bytes for view in views}


_MOST_MARKED: Final = 10**8
"""The most elements of a tensor that are marked one by one; else its largest use counts."""
_MOST_POSITIONS: Final = 10**7
"""The most positions of a dimension that are marked; a longer one counts as whole."""


def distinct_bytes(workload: Workload) -> int:
    """Return the bytes of all distinct elements that are read or written, repeats included.

    >>> from simaccel.workload import conv2d
    >>> distinct_bytes(conv2d(m=2, c=3, p=4, q=4, r=1, s=1, stride=2, bytes_per_element=1))
    86
    """
    return sum(least_dram_bytes(workload).values())


def least_dram_bytes(workload: Workload) -> dict[str, int]:
    """Return the bytes that no mapping saves, by class: what is used of each tensor, once.

    Inputs and weights are read, outputs written; of caches the old elements that are used are read,
    and the new ones written, which may stay on chip until they are used.
    """
    by_tensor: dict[str, list[tuple[Operator, Operand, bool]]] = {}
    for operator in workload.operators:
        for label, operand in operands_of(operator):
            use = operator, operand, label == "output"
            by_tensor.setdefault(operand.tensor, []).append(use)
    by_class = dict.fromkeys(CLASSES, 0)
    for name, uses in by_tensor.items():
        tensor = workload.tensors[name]
        if tensor.kind == "intermediate" or tensor.shared:  # it may stay on the chip, or is there
            continue
        made = [math.prod(used.shape(op.ranks)) for op, used, is_made in uses if is_made]
        count = sum(made)
        if len(made) < len(uses) and tensor.kind != "output":
            boxes = [[*_used_positions(tensor, used, op.ranks)] for op, used, _ in uses]
            count = max(count, _union(boxes, workload.shapes[name]))
        count = count if tensor.distinct is None else min(count, tensor.distinct)
        times = max(workload.times(op.name) for op, *_ in uses)
        by_class[class_of(tensor.kind)] += times * in_bytes(count, tensor.bits)
    return by_class


def _used_positions(
    tensor: Tensor, operand: Operand, ranks: Mapping[str, int]
) -> Iterator[Positions]:
    """Yield the used positions of each dimension, without the zeros around the tensor."""
    for at, (dim, span) in enumerate(zip(operand.projection, operand.box(ranks), strict=True)):
        first, end = tensor.inside[at] if at < len(tensor.inside) else (0, span.stop)
        if span.stop > _MOST_POSITIONS:
            yield range(max(first, span.start), min(end, span.stop))
            continue
        marks = np.zeros(span.stop, dtype=np.bool_)
        marks[span.start] = True
        for rank, factor in dim.terms:
            marks[np.flatnonzero(marks)[:, None] + factor * np.arange(ranks[rank])] = True
        marks[:first] = False
        marks[end:] = False
        yield np.flatnonzero(marks)


def _union(boxes: Sequence[Sequence[Positions]], shape: Sequence[int]) -> int:
    counts = [math.prod(map(len, box)) for box in boxes]
    largest = boxes[counts.index(max(counts))]
    if math.prod(shape) > _MOST_MARKED or all(_is_within(box, largest) for box in boxes):
        return max(counts)
    marks = np.zeros(tuple(shape), dtype=np.bool_)
    for box in boxes:
        marks[np.ix_(*map(np.asarray, box))] = True
    return int(np.count_nonzero(marks))


def _is_within(box: Sequence[Positions], other: Sequence[Positions]) -> bool:
    for a, b in zip(box, other, strict=True):
        if isinstance(a, range) or isinstance(b, range):
            if a is not b and a != b:
                return False
        elif not np.isin(a, b, assume_unique=True).all():
            return False
    return True
