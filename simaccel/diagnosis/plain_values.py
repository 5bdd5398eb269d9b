"""Values that operators make of whole tensors, in plain numpy, by ``np.einsum`` or vector kind.

These are the values that a program's results are compared with, independently of tiles.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map

import numpy as np

from simaccel.diagnosis.layout import Booleans, Integers, flat_places
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


def drawn_tensors(workload: Workload) -> dict[str, Array]:
    """Return the values of all tensors before a workload begins."""
    return {
        name: drawn_values(workload, name, np.indices(shape, sparse=True))
        for name, shape in workload.shapes.items()
    }


def drawn_values(workload: Workload, tensor: str, places: Sequence[Integers]) -> Array:
    """Return values before a workload begins, by position: between -1 and 1, weights scaled.

    They depend on the tensor's name and the positions alone. Zero is what no operator writes of a
    tensor that operators write: its padding. Weights are such that sums stay near one.
    """
    flat = flat_places(places, workload.shapes[tensor])
    mixed = np.atleast_1d(flat).astype(np.uint64) + np.uint64(zlib.crc32(tensor.encode()) << 20)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    values: Array = ((mixed >> np.uint64(11)).astype(np.float64) / 2**52 - 1).reshape(flat.shape)
    operators, kind = workload.operators, workload.tensors[tensor].kind
    if kind != "cache" and tensor in {operator.output.tensor for operator in operators}:
        return np.where(written_elements(operators, tensor, places), values, 0.0)
    summed = [
        math.prod(n for rank, n in reader.ranks.items() if rank not in reader.output.ranks)
        for reader in operators
        if kind == "weight" and tensor in {operand.tensor for operand in reader.inputs}
    ]
    return values * (1 / math.sqrt(max(summed, default=1)))


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
