"""Mappings as text over small workloads, and what they have to compute in plain numpy."""

import math
from collections.abc import Collection
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from textwrap import dedent, indent

import numpy as np
import numpy.typing as npt

from simaccel.mapping.space import BoundOperator, IterationSpace, holding_tensor, space_of
from simaccel.mapping.text import parse_text
from simaccel.mapping.tree import Group, Mapping
from simaccel.mapping.view import TensorView
from simaccel.program.interpreter import interpret_within
from simaccel.program.lowering import lower
from simaccel.program.program import ProgramLoop
from simaccel.program.shared_tensors import DramTensor
from simaccel.workload import (
    AffineDimension,
    Einsum,
    Kind,
    Operand,
    Operator,
    Tensor,
    Vector,
    Workload,
)

Array = npt.NDArray[np.float64]


def reads(text: str) -> Operand:
    """Return an operand such as ``I c 2*p+r``."""
    tensor, *dims = text.split()
    return Operand(tensor, tuple(_affine(dim) for dim in dims))


def _affine(text: str) -> AffineDimension:
    terms = []
    for term in text.split("+"):
        factor, _, rank = term.rpartition("*")
        terms.append((rank, int(factor or 1)))
    return AffineDimension(tuple(terms))


def einsum(name: str, out: str, *inputs: str, **ranks: int) -> Einsum:
    """Return an einsum of operands written as ``I c p+r``."""
    return Einsum(name, ranks, tuple(map(reads, inputs)), reads(out))


def vector(name: str, kind: str, out: str, *inputs: str, axis: str = "", **ranks: int) -> Vector:
    """Return a vector operator."""
    return Vector(name, kind, ranks, tuple(map(reads, inputs)), reads(out), axis or None)


def workload(
    *operators: Operator,
    bits: Map[str, int] | None = None,
    repeat: int = 1,
    weights: Collection[str] = (),
) -> Workload:
    """Return a workload whose tensors' kinds follow from who makes and reads them.

    Of what nobody makes ``weights`` are weights, the others inputs. ``bits``: of elements (16).
    """
    made = {one.output.tensor for one in operators}
    read = {given.tensor for one in operators for given in one.inputs}
    tensors = {}
    for name in sorted(made | read):
        kind: Kind = "input" if name not in made else "intermediate" if name in read else "output"
        kind = "weight" if name in weights and name not in made else kind
        size = (bits or {}).get(name, 16)
        tensors[name] = Tensor(name, -(-size // 8), kind, packed=size == 4)
    return Workload("small", tuple(operators), tensors, repeat)


def mapping(of: Workload, body: str, dataflow: str = "test") -> Mapping:
    """Return the mapping that a text of groups says."""
    header = f"mapping {dataflow} of {of.name} {of.fingerprint}\n"
    return parse_text(header + indent(dedent(body).strip("\n"), "  "))


def operands(of: Workload) -> dict[str, Array]:
    """Return small whole numbers for all tensors that nobody makes."""
    numbers = np.random.default_rng(7)
    return {
        name: numbers.integers(-3, 4, of.shapes[name]).astype(np.float64)
        for name, tensor in of.tensors.items()
        if tensor.kind in ("input", "weight")
    }


def computed(of: Workload, given: Map[str, Array]) -> dict[str, Array]:
    """Return all tensors, with plain numpy."""
    found = dict(given)
    for one in of.operators:
        arrays = [found[operand.tensor] for operand in one.inputs]
        made = _vector(one, arrays) if isinstance(one, Vector) else _einsum(one, arrays)
        found[one.output.tensor] = made
    return found


def _unfolded(array: Array, operand: Operand, ranks: Map[str, int]) -> tuple[Array, list[str]]:
    """Return an array with a dimension for each rank of an operand."""
    names = [rank for dim in operand.projection for rank, _ in dim.terms]
    grid = np.indices([ranks[rank] for rank in names])
    where = []
    for dim in operand.projection:
        index = np.zeros(grid.shape[1:], dtype=np.int64)
        for rank, c in dim.terms:
            index = index + c * grid[names.index(rank)]
        where.append(index)
    return array[tuple(where)], names


def _einsum(one: Einsum, arrays: list[Array]) -> Array:
    number = {rank: at for at, rank in enumerate(one.ranks)}
    arguments: list[object] = []
    for array, operand in zip(arrays, one.inputs, strict=True):
        values, names = _unfolded(array, operand, one.ranks)
        arguments += [values, [number[rank] for rank in names]]
    out = [number[rank] for rank in one.output.ranks]
    return np.asarray(np.einsum(*arguments, out))  # type: ignore[call-overload]


def _vector(one: Vector, arrays: list[Array]) -> Array:
    order = list(one.ranks)

    def lined(array: Array, operand: Operand) -> Array:
        values, names = _unfolded(array, operand, one.ranks)
        here = [rank for rank in order if rank in names]
        values = values.transpose([names.index(rank) for rank in here])
        return values.reshape([one.ranks[rank] if rank in here else 1 for rank in order])

    first, *others = (lined(a, given) for a, given in zip(arrays, one.inputs, strict=True))
    axis = order.index(one.axis) if one.axis else 0
    made = _meaning(one, first * one.scale, others, axis)
    if one.kind == "pooling":
        inner = tuple(at for at, rank in enumerate(order) if rank not in one.output.ranks)
        made = first.max(axis=inner)
        order = [rank for rank in order if rank in one.output.ranks]
    return made.transpose([order.index(rank) for rank in one.output.ranks])


def _meaning(  # noqa: PLR0911 - one for each kind
    one: Vector, x: Array, others: list[Array], axis: int
) -> Array:
    if one.kind == "softmax":
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis=axis, keepdims=True))
    if one.kind == "rms_norm":
        gain = others[0] if others else 1.0
        return np.asarray(x / np.sqrt((x**2).mean(axis=axis, keepdims=True) + 1e-5) * gain)
    if one.kind == "relu":
        return np.maximum(x, 0.0)
    if one.kind == "gelu":
        erf = np.vectorize(math.erf)
        return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))
    if one.kind == "residual":
        return x + others[0]
    if one.kind == "product":
        return x * others[0]
    assert one.kind in ("scale", "pooling"), one.kind
    return x


def _natural(
    space: IterationSpace, group: Group, seen: BoundOperator, number: int
) -> list[tuple[int, ...]]:
    """Return the dimensions of a tensor behind each dimension of a view of it."""
    view = seen.uses[number][1]
    operand = (*seen.operator.inputs, seen.operator.output)[number]
    if not set(group.merged) & set(view.ranks):
        return [(at,) for at in range(len(view.ranks))]
    alone = space_of(space.workload, Group(operators=group.operators, tree=()))
    plain = alone.bound_operator(seen.name).uses[number][1]
    assert len(plain.ranks) == len(operand.projection)
    return [
        tuple(plain.ranks.index(one) for one in group.merged.get(rank, (rank,)))
        for rank in view.ranks
    ]


@dataclass
class Dram:
    """Tensors in their natural shapes, seen by each group as it sees them."""

    of: Workload
    mapping: Mapping
    tensors: dict[str, Array]
    views: dict[str, tuple[TensorView, list[tuple[int, ...]]]] = field(default_factory=dict)

    def enter(self, operator: str) -> dict[str, Array]:
        """Give a group its tensors."""
        group = next(one for one in self.mapping.groups if one.name == operator)
        space = space_of(self.of, group)
        self.views = {
            view.name: (view, _natural(space, group, seen, number))
            for seen in space.operators
            for number, (_, view) in enumerate(seen.uses)
        }
        found = {}
        for name, (view, dims) in self.views.items():
            order = [at for dim in dims for at in dim]
            array = self.tensors[name].transpose(order)
            shape = [math.prod(self.tensors[name].shape[at] for at in dim) for dim in dims]
            padded = [(0, one - size) for one, size in zip(view.shape, shape, strict=True)]
            made = name in space.made
            fill = np.nan if made else 0.0
            found[name] = np.pad(array.reshape(shape), padded, constant_values=fill)
        return found

    def wants(self, _loop: ProgramLoop, _start: int) -> bool:
        """Execute each iteration."""
        return True

    def leave(self, operator: str, tensors: Map[str, DramTensor]) -> None:
        """Take them back."""
        del operator
        for name, array in tensors.items():
            dims = self.views[name][1]
            whole = self.tensors[name]
            sizes = [math.prod(whole.shape[at] for at in dim) for dim in dims]
            order = [at for dim in dims for at in dim]
            cut = array[tuple(slice(size) for size in sizes)]
            cut = cut.reshape([whole.shape[at] for at in order])
            self.tensors[name] = cut.transpose(np.argsort(order))

    def _dims(self, operator: str, tensor: str) -> list[tuple[int, ...]] | None:
        around = next(
            keeps for one, keeps in self.mapping.groups_with_keeps() if one.name == operator
        )
        for name, (_, dims) in self.views.items():
            if holding_tensor(self.of, name, around) == tensor:
                return dims
        return None

    def lay(self, operator: str, tensor: str, values: Array) -> Array | None:
        """Give a group what is kept around it."""
        dims = self._dims(operator, tensor)
        if dims is None:
            return None
        turned = values.transpose([at for dim in dims for at in dim])
        return turned.reshape([math.prod(values.shape[at] for at in dim) for dim in dims]).copy()

    def put(self, operator: str, tensor: str, seen: Array, values: Array) -> None:
        """Take it back."""
        order = [at for dim in self._dims(operator, tensor) or [] for at in dim]
        cut = seen.reshape([values.shape[at] for at in order])
        values[...] = cut.transpose(np.argsort(order))


def interpreted(of: Workload, one: Mapping) -> dict[str, Array]:
    """Return all tensors in DRAM after a mapping has run."""
    found = operands(of)
    for name in of.tensors:
        found.setdefault(name, np.full(of.shapes[name], np.nan))
    dram = Dram(of, one, found)
    interpret_within(lower(of, one), dram)
    return dram.tensors


def assert_computes(of: Workload, one: Mapping) -> None:
    """Compare what a mapping computes with plain numpy, for all tensors that reach DRAM."""
    found, expected = interpreted(of, one), computed(of, operands(of))
    for name, tensor in of.tensors.items():
        if tensor.kind == "output" or not np.isnan(found[name]).any():
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-9)
