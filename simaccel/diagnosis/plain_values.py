"""Values that operators make of whole tensors, in plain numpy, by ``np.einsum`` or vector kind.

These are the values that a program's results are compared with, independently of tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map

import numpy as np

from simaccel.diagnosis.layout import Booleans, Integers
from simaccel.workload import Einsum, Operand, Operator, Vector, Workload
from simaccel.workload.vectors import VECTORS, RankOrder
from simaccel.workload.vectors.kind import Array


def written_elements(
    operators: Iterable[Operator], tensor: str, places: Sequence[Integers]
) -> Booleans:
    """Return which elements of a tensor operators write; ``places``: positions by dimension."""
    written = np.zeros(np.broadcast_shapes(*map(np.shape, places)), dtype=np.bool_)
    for one in operators:
        if one.output.tensor == tensor:
            own = np.ones((), dtype=np.bool_)
            for at, span in zip(places, one.output.box(one.ranks), strict=True):
                own = own & (span.start <= at) & (at < span.stop)
            written |= own
    return written


def random_tensors(workload: Workload, seed: int) -> dict[str, Array]:
    """Return random inputs, weights and caches; tensors written in part are zero elsewhere.

    Weights are scaled so that values stay near one.
    """
    numbers = np.random.default_rng(seed)
    made = {operator.output.tensor for operator in workload.operators}
    made -= {name for name, tensor in workload.tensors.items() if tensor.kind == "cache"}
    tensors = {
        name: numbers.normal(size=shape)
        for name, shape in sorted(workload.shapes.items())
        if name not in made
    }
    for operator in workload.operators:
        summed = set(operator.ranks) - set(operator.output.ranks)
        for source in operator.inputs:
            if source.tensor in tensors and workload.tensors[source.tensor].kind == "weight":
                size = math.prod(operator.ranks[rank] for rank in summed)
                tensors[source.tensor] = tensors[source.tensor] / math.sqrt(size)
    return tensors | {name: np.zeros(workload.shapes[name]) for name in sorted(made)}


def expected_values(workload: Workload, given: Map[str, Array]) -> dict[str, Array]:
    """Return all tensors of a workload, computed in plain numpy from those that are given."""
    tensors = {name: np.array(values) for name, values in given.items()}
    for operator in workload.operators:
        made = (
            einsum_values(operator, tensors)
            if isinstance(operator, Einsum)
            else vector_values(operator, tensors)
        )
        out, shape = operator.output, operator.output.shape(operator.ranks)
        tensors[out.tensor][out.box(operator.ranks)] = made.reshape(shape)
    return tensors


def einsum_values(einsum: Einsum, tensors: dict[str, Array]) -> Array:
    """Return an einsum's output, with affine projections of its inputs, in plain numpy.

    ``tensors`` has the inputs in their natural shapes; the result is the output in its.
    """
    number = {rank: index for index, rank in enumerate(einsum.ranks)}
    arguments: list[object] = []
    for source in einsum.inputs:
        view = _by_rank(tensors[source.tensor][source.box(einsum.ranks)], source, einsum)
        arguments += [view, [number[rank] for rank in source.ranks]]
    read = {rank for source in einsum.inputs for rank in source.ranks}
    repeated = [rank for rank in einsum.output.ranks if rank not in read]
    arguments += [np.ones([einsum.ranks[rank] for rank in repeated]), [*map(number.get, repeated)]]
    out = [number[rank] for rank in einsum.output.ranks]
    return np.asarray(np.einsum(*arguments, out, optimize=True))  # type: ignore[call-overload]


def _by_rank(array: Array, operand: Operand, operator: Operator) -> Array:
    """Return a view of a tensor with one dimension per rank of the operator."""
    strides = dict.fromkeys(operand.ranks, 0)
    for dim, stride in zip(operand.projection, array.strides, strict=True):
        for rank, coefficient in dim.terms:
            strides[rank] += coefficient * stride
    shape = [operator.ranks[rank] for rank in strides]
    return np.lib.stride_tricks.as_strided(array, shape, list(strides.values()), writeable=False)


def vector_values(
    vector: Vector, tensors: dict[str, Array], at: Map[str, int] | None = None
) -> Array:
    """Return a vector operator's output of whole tensors, in their natural shapes.

    ``at``: where ranks start, if the tensors are parts of larger ones.
    """
    order = RankOrder.from_ranks(vector.ranks, vector.output.ranks, vector.axis)
    blocks = [
        _by_rank(tensors[source.tensor][source.box(vector.ranks)], source, vector)
        for source in vector.inputs
    ]
    if vector.visible and vector.axis:
        blocks[0] = vector.visible.hide(blocks[0], vector.input.ranks, vector.axis, at or {})
    pairs = zip(blocks, vector.inputs, strict=True)
    inputs = [order.take(block, source.ranks) for block, source in pairs]
    made, _ = VECTORS[vector.kind].steps["whole"].meaning(inputs, vector.scale, ())
    assert made is not None  # noqa: S101 - whole work makes the output
    return order.give(made, vector.output.ranks)
