"""Checking a program's results: the interpreter on random tensors against plain numpy.

The program's operators see tensors as matrices; here they are in their natural shapes, and the
expected values come from ``np.einsum`` and from vector operators on whole tensors, that know
nothing of tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from simaccel.errors import SimaccelError
from simaccel.mapping.choices import FusedGroup, Mapping, NestGroup, StagedGroup
from simaccel.program.interpreter import Array, interpret_within
from simaccel.program.lower import group_name, operators_of
from simaccel.program.program import Program, ProgramError
from simaccel.workload import Einsum, Operand, Operator, Vector, Workload, as_matmul, as_rows
from simaccel.workload.vectors import VECTORS, LinedUp

MOST_MACS = 10**8
"""Above this the interpreter takes minutes."""
TOLERANCE = 1e-9
"""Largest deviation of a sum in another order, as a part of the largest expected value."""


class TooLargeToCheckError(SimaccelError):
    """A workload has more MACs than the interpreter should execute."""


class CheckFailedError(SimaccelError):
    """A program computes something else than its workload; the message names the operator."""

    exit_code = 4


@dataclass(frozen=True)
class Checked:
    """One operator whose output was compared.

    ``compared`` of its ``elements`` reached DRAM (those of an intermediate that stays on chip
    are checked through the operators that read it); ``deviation`` is the largest difference as
    a part of the largest expected value.
    """

    operator: str
    compared: int
    elements: int
    deviation: float


def require_small(workload: Workload) -> None:
    """Refuse workloads that take too long to interpret.

    Raises:
        TooLargeToCheckError: says how many MACs there are and how many are allowed.

    """
    if workload.macs > MOST_MACS:
        raise TooLargeToCheckError(
            f"workload {workload.name} has {workload.macs:,} MACs; a check executes each of them, "
            f"allowed: at most {MOST_MACS:,}; choose a smaller batch, seq_len, scope or shape"
        )


def check(
    workload: Workload, mapping: Mapping, program: Program, seed: int = 0
) -> tuple[Checked, ...]:
    """Execute a program on random tensors and compare what each operator stores.

    Raises:
        TooLargeToCheckError: the workload has too many MACs.
        CheckFailedError: an output is wrong or incomplete, or the program breaks a rule.

    """
    require_small(workload)
    memory = _Memory(workload, mapping, seed)
    try:
        interpret_within(program, memory)
    except ProgramError as error:
        raise CheckFailedError(f"check failed: {error}") from None
    missing = [one.name for one in workload.operators if one.name not in memory.found]
    if missing:
        raise CheckFailedError(f"check failed: the program lacks operator {', '.join(missing)}")
    return tuple(memory.found[one.name] for one in workload.operators)


class _Memory:
    """The DRAM: tensors in their natural shapes, compared when an operator ends."""

    def __init__(self, workload: Workload, mapping: Mapping, seed: int) -> None:
        self.workload = workload
        self.groups: dict[str, tuple[str, ...]] = {}
        self.may_stay: set[str] = set()
        self.nests: dict[str, Einsum] = {}
        """What runs on a spatial array: einsums as large as they are run."""
        for group in mapping.groups:
            names = operators_of(group)
            if isinstance(group, FusedGroup):
                self.groups[group_name(group)] = names
            else:
                self.groups |= {name: (name,) for name in names}
            if isinstance(group, FusedGroup | StagedGroup):
                self.may_stay |= set(names[:-1])
            if isinstance(group, NestGroup):
                self.nests[group.operator] = _padded(workload, group)
        self.tensors = _random_tensors(workload, seed)
        self.expected = _expected(workload, self.tensors)
        self.found: dict[str, Checked] = {}

    def enter(self, operator: str) -> dict[str, Array]:
        """Lay out the inputs as matrices, and empty outputs."""
        matrices: dict[str, Array] = {}
        made = {self.workload.operator(n).output.tensor for n in self.groups[operator]}
        for tensor in made:
            self.tensors[tensor] = np.full(self.workload.shapes[tensor], np.nan)
        for name in self.groups[operator]:
            if name in self.nests:
                matrices |= _as_run(self.nests[name], self.tensors)
            else:
                matrices |= _matrices(self.workload.operator(name), self.tensors)
        return matrices

    def leave(self, operator: str, tensors: dict[str, Array]) -> None:
        """Take the outputs back and compare them."""
        for name in self.groups[operator]:
            one = self.workload.operator(name)
            made = tensors[one.output.tensor]
            if name in self.nests:
                shape = self.workload.shapes[one.output.tensor]
                made = made[tuple(slice(n) for n in shape)]
            else:
                made = _natural(one, made)
            self.tensors[one.output.tensor] = made
            self.found[name] = self._compare(one, made)

    def _compare(self, operator: Operator, made: Array) -> Checked:
        expected = self.expected[operator.output.tensor]
        written = ~np.isnan(made)
        compared = int(written.sum())
        if compared < made.size and operator.name not in self.may_stay:
            raise CheckFailedError(
                f"check failed: {operator.name} leaves {made.size - compared} of {made.size} "
                f"elements of {operator.output.tensor} unwritten"
            )
        difference = np.abs(made - expected, where=written, out=np.zeros(made.shape))
        deviation = float(difference.max() / np.abs(expected).max())
        if deviation > TOLERANCE:
            at = np.unravel_index(int(difference.argmax()), made.shape)
            raise CheckFailedError(
                f"check failed: {operator.name} writes {made[at]!r} to {operator.output.tensor}"
                f"{[int(i) for i in at]}, plain numpy has {expected[at]!r}"
            )
        return Checked(operator.name, compared, made.size, deviation)


def _matrices(operator: Operator, tensors: dict[str, Array]) -> dict[str, Array]:
    """Give copies of an operator's tensors as lowering sees them."""
    out = operator.output.tensor
    if isinstance(operator, Vector):
        rows = as_rows(operator)
        shape = (rows.g, rows.m, rows.cols)
        logits = rows.to_rows(tensors[operator.input.tensor]).reshape(shape)
        return {operator.input.tensor: logits.copy(), out: np.full(shape, np.nan)}
    matmul = as_matmul(operator)
    return {
        matmul.a: matmul.a_matrix(tensors[matmul.a]).copy(),
        matmul.b: matmul.b_matrix(tensors[matmul.b]).copy(),
        out: matmul.out_matrix(tensors[out]).copy(),
    }


def _padded(workload: Workload, group: NestGroup) -> Einsum:
    einsum = workload.operator(group.operator)
    assert isinstance(einsum, Einsum)  # noqa: S101 - lowering has refused the others
    return replace(einsum, ranks={**einsum.ranks, **group.mapping.padded})


def _as_run(einsum: Einsum, tensors: dict[str, Array]) -> dict[str, Array]:
    """Give copies of an einsum's tensors in their natural shapes, padded with zeros."""
    found = {einsum.output.tensor: np.full(einsum.output.shape(einsum.ranks), np.nan)}
    for one in einsum.inputs:
        array = tensors[one.tensor]
        found[one.tensor] = np.zeros(one.shape(einsum.ranks))
        found[one.tensor][tuple(slice(n) for n in array.shape)] = array
    return found


def _natural(operator: Operator, matrix: Array) -> Array:
    if isinstance(operator, Vector):
        rows = as_rows(operator)
        return rows.from_rows(matrix.reshape(rows.rows, rows.cols))
    return as_matmul(operator).out_tensor(matrix)


def _random_tensors(workload: Workload, seed: int) -> dict[str, Array]:
    """Draw what no operator writes; weights are scaled so that values stay near one."""
    numbers = np.random.default_rng(seed)
    made = {operator.output.tensor for operator in workload.operators}
    tensors = {
        name: numbers.normal(size=shape)
        for name, shape in sorted(workload.shapes.items())
        if name not in made
    }
    for operator in workload.operators:
        summed = set(operator.ranks) - set(operator.output.ranks)
        for given in operator.inputs:
            if given.tensor in tensors and workload.tensors[given.tensor].kind == "weight":
                size = math.prod(operator.ranks[rank] for rank in summed)
                tensors[given.tensor] = tensors[given.tensor] / math.sqrt(size)
    return tensors


def _expected(workload: Workload, given: dict[str, Array]) -> dict[str, Array]:
    tensors = dict(given)
    for operator in workload.operators:
        tensors[operator.output.tensor] = (
            einsum_values(operator, tensors)
            if isinstance(operator, Einsum)
            else vector_values(operator, tensors)
        )
    return tensors


def einsum_values(einsum: Einsum, tensors: dict[str, Array]) -> Array:
    """Compute an einsum, with affine projections of its inputs, in plain numpy.

    ``tensors`` has the inputs in their natural shapes; the result is the output in its.
    """
    number = {rank: index for index, rank in enumerate(einsum.ranks)}
    arguments: list[object] = []
    for one in einsum.inputs:
        view = _by_rank(tensors[one.tensor], one, einsum)
        arguments += [view, [number[rank] for rank in one.ranks]]
    out = [number[rank] for rank in einsum.output.ranks]
    return np.asarray(np.einsum(*arguments, out, optimize=True))  # type: ignore[call-overload]


def _by_rank(array: Array, operand: Operand, operator: Operator) -> Array:
    """View a tensor with one dimension per rank: a step of a rank is a step in its dimensions."""
    strides = dict.fromkeys(operand.ranks, 0)
    for dim, stride in zip(operand.projection, array.strides, strict=True):
        for rank, coefficient in dim.terms:
            strides[rank] += coefficient * stride
    shape = [operator.ranks[rank] for rank in strides]
    return np.lib.stride_tricks.as_strided(array, shape, list(strides.values()), writeable=False)


def vector_values(vector: Vector, tensors: dict[str, Array]) -> Array:
    """Compute a vector operator on whole tensors, in their natural shapes."""
    order = LinedUp.of(vector.ranks, vector.output.ranks, vector.axis)
    inputs = [
        order.take(_by_rank(tensors[one.tensor], one, vector), one.ranks) for one in vector.inputs
    ]
    made, _ = VECTORS[vector.kind].steps["whole"].meaning(inputs, vector.scale, ())
    assert made is not None  # noqa: S101 - whole work makes the output
    return order.give(made, vector.output.ranks)
