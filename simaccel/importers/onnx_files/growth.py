"""Growth of an ONNX model before it runs: nodes of its functions, and numbers of its shapes.

A function that calls another twice, a concatenation of a tensor with itself and a gather by a
tensor of as many dimensions each double what is there, so that a file of 2 KB makes any amount.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simaccel.files.accounting import split_names
from simaccel.files.limits import MAX_GRAPH_NODES, MAX_SHAPE_NUMBERS, require_at_most
from simaccel.importers.onnx_files.constants import graphs_of, nodes_within
from simaccel.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from simaccel.importers.onnx_files.constants import Proto, Shape

_ADDING: Final = frozenset(("Gather", "GatherND", "OneHot", "Einsum", "SequenceInsert"))
"""Kinds that make no more dimensions than all their inputs have together."""
_SHAPED: Final = split_names("Reshape Expand ConstantOfShape RandomNormal RandomUniform")
"""Kinds whose last input, or attribute, is the shape of what they make."""
_KEPT: Final = frozenset(("Add", "Cast", "Identity", "Mul", "Squeeze", "Sub", "Unsqueeze"))
"""Kinds that ONNX's inference follows the values of sizes through, apart from those below."""


def require_few_nodes(file: str, model: Proto) -> None:
    """Refuse a model with too many nodes once its functions are in place of their calls.

    Raises:
        InputError: too many, or functions that call themselves.
    """
    functions = {(made.domain, made.name): made for made in model.functions}
    counts: dict[tuple[str, ...], int] = {}

    def count(graph: Proto) -> int:
        return sum(count_calls(node.domain, node.op_type) for node in nodes_within(graph))

    def count_calls(*name: str) -> int:
        if name in functions and name not in counts:
            counts[name] = MAX_GRAPH_NODES + 1  # of one that calls itself, of which there is no end
            counts[name] = count(functions[name])
        return counts.get(name, 1)

    require_at_most(file, "nodes", count(model.graph), MAX_GRAPH_NODES, "nodes and constants")


def require_small_shapes(
    file: str, graph: Proto, values: Mapping[str, npt.NDArray[np.generic]]
) -> None:
    """Refuse a graph whose shapes, and sizes that are values, are too many numbers.

    Counted as upper bounds, node by node, before ONNX's inference lists them. ``values``: small
    constants.

    Raises:
        InputError: too many.
    """
    bounds = ShapeBounds(values)
    bounds.take(graph)
    require_at_most(file, "shapes", bounds.total, MAX_SHAPE_NUMBERS, "numbers in shapes")


def followed_numbers(graph: Proto, shapes: Mapping[str, Shape]) -> int:
    """Return how many numbers ONNX's inference would follow as if they were sizes.

    It lists each number of a tensor of one dimension, whatever its type, through sums,
    concatenations and the like. ``shapes``: those that are known.
    """
    constants = {tensor.name for tensor in graph.initializer}
    return sum(
        shapes[name][0]
        for node in graph.node
        for name in {*node.input, *node.output} - constants
        if len(shapes.get(name, ())) == 1
    )


@dataclass
class ShapeBounds:
    """The most ``dims`` of each tensor, and the most ``numbers`` of those that are sizes."""

    values: Mapping[str, npt.NDArray[np.generic]]
    dims: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    total: int = 0

    def take(self, graph: Proto) -> None:
        """Count what a graph makes, in the order of its nodes."""
        for declared in (*graph.input, *graph.value_info):
            self.dims[declared.name] = len(declared.type.tensor_type.shape.dim)
        for tensor in graph.initializer:
            self.dims[tensor.name] = len(tensor.dims)
            self.numbers[tensor.name] = math.prod(tensor.dims)
        self.total += sum(self.dims.values())
        for node in graph.node:
            for inner in graphs_of(node):
                self.take(inner)
            if self.total > MAX_SHAPE_NUMBERS:
                return
            dims, numbers = self._dims(node), self._numbers(node)
            for name in node.output:
                self.dims[name], self.numbers[name] = dims, numbers
            self.total += len(node.output) * (dims + numbers)

    def _dims(self, node: Proto) -> int:
        ranks = [self.dims.get(name, 0) for name in node.input]
        numbers = [self.numbers.get(name, 0) for name in node.input]
        listed = [len(attribute.ints) for attribute in node.attribute]
        if node.op_type == "Unsqueeze":
            return sum(ranks[:1]) + max(sum(listed), *numbers[1:], 0)
        if node.op_type in _SHAPED:
            own = ranks[:1] if node.op_type == "Expand" else []
            return max([*numbers[-1:], *listed, *own], default=0)
        if node.op_type in _ADDING:
            texts = sum(len(attribute.s) for attribute in node.attribute)
            return sum(ranks) + texts
        return max(ranks, default=0)

    def _numbers(self, node: Proto) -> int:
        """Return the most numbers of what a node makes, 0 where inference doesn't follow values."""
        kind, numbers = node.op_type, [*(self.numbers.get(name, 0) for name in node.input), 0, 0]
        if kind == "Shape":
            return max((self.dims.get(name, 0) for name in node.input), default=0)
        if kind == "Gather":
            return numbers[1] if numbers[0] else 0
        if kind == "Concat":
            return sum(numbers)
        if kind == "Slice":
            return self._slice_numbers(node, numbers[0])
        return max(numbers, default=0) if kind in _KEPT or kind == "Size" else 0

    def _slice_numbers(self, node: Proto, count: int) -> int:
        """Return the most numbers of a slice, fewer than all if its ends and steps are known."""
        ends = [self.values.get(name) for name in (*node.input[1:3], *node.input[4:5])]
        ends += [
            np.asarray(attribute.ints) for attribute in node.attribute if attribute.name != "axes"
        ]
        known = [int(end.flat[0]) for end in ends if end is not None and end.size == 1]
        if len(known) < max(2, len(ends)) or known[2:] not in ([], [1]):
            return count
        first, last = known[:2]
        if first < 0:
            return max(0, min(count, -first if last >= 0 else last - first))
        return max(0, (min(count, last) if last >= 0 else count + last) - first)
