"""Check of a program's results: the interpreter on random tensors against plain numpy.

The DRAM holds tensors in their natural shapes; a program's operators read and write them in the
ranks of their group (``GroupLayout``). The expected values come from ``np.einsum`` and from vector
operators on whole tensors, independently of tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simaccel.diagnosis.layout import Layout
from simaccel.errors import SimaccelError
from simaccel.mapping.space import BoundOperator, holding_tensor, space_of
from simaccel.mapping.tree import Group, Keep, Mapping
from simaccel.program.interpreter import interpret_within
from simaccel.program.program import Program, ProgramError, ProgramLoop
from simaccel.program.shared_tensors import DramTensor, SharedTensors
from simaccel.workload import Einsum, Operand, Operator, Vector, Workload
from simaccel.workload.vectors import VECTORS, RankOrder
from simaccel.workload.vectors.kind import Array

Booleans = npt.NDArray[np.bool_]

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
class OperatorCheck:
    """The comparison of one operator's output.

    ``compared`` of its ``elements`` reached DRAM (those of an intermediate that stays on chip
    are checked through the operators that read it); ``deviation`` is the largest difference as
    a part of the largest expected value. ``executed`` is the share of its group's work that was
    executed to compare them: below one, it is a sample.
    """

    operator: str
    compared: int
    elements: int
    deviation: float
    executed: float = 1.0


def require_small(workload: Workload) -> None:
    """Refuse workloads that take too long to interpret.

    Raises:
        TooLargeToCheckError: names the MACs and how many are allowed.
    """
    if workload.macs > MOST_MACS:
        raise TooLargeToCheckError(
            f"workload {workload.name} has {workload.macs:,} MACs; a check executes each of them, "
            f"allowed: at most {MOST_MACS:,}; choose a smaller batch, seq_len, scope or shape"
        )


def check(
    workload: Workload, mapping: Mapping, program: Program, seed: int = 0
) -> tuple[OperatorCheck, ...]:
    """Execute a program on random tensors and compare what each operator stores.

    Raises:
        TooLargeToCheckError: the workload has too many MACs.
        CheckFailedError: an output is wrong or incomplete, or the program breaks a rule.
    """
    require_small(workload)
    return execute(workload, mapping, program, random_tensors(workload, seed))[0]


def execute(
    workload: Workload, mapping: Mapping, program: Program, tensors: dict[str, Array]
) -> tuple[tuple[OperatorCheck, ...], dict[str, Array]]:
    """Execute a program on tensors and compare what each operator stores; return all values, too.

    Raises:
        CheckFailedError: an output is wrong or incomplete, or the program breaks a rule.
    """
    memory = _CheckedMemory(workload, mapping, tensors)
    return run_check(workload, program, memory, memory.checks), memory.tensors


def run_check(
    workload: Workload, program: Program, dram: SharedTensors, checks: Map[str, OperatorCheck]
) -> tuple[OperatorCheck, ...]:
    """Execute a program; return the ``checks`` that its DRAM has made, by operator.

    Raises:
        CheckFailedError: an output is wrong or incomplete, or the program breaks a rule.
    """
    try:
        interpret_within(program, dram)
    except ProgramError as error:
        raise CheckFailedError(f"check failed: {error}") from None
    missing = [operator.name for operator in workload.operators if operator.name not in checks]
    if missing:
        raise CheckFailedError(f"check failed: the program lacks operator {', '.join(missing)}")
    return tuple(checks[operator.name] for operator in workload.operators)


class _CheckedMemory:
    """The DRAM: tensors in their natural shapes, compared when an operator ends."""

    def __init__(self, workload: Workload, mapping: Mapping, tensors: dict[str, Array]) -> None:
        self.workload = workload
        self.groups = group_layouts(workload, mapping)
        self.tensors = tensors
        self.expected = expected_values(workload, self.tensors)
        for operator in workload.operators:  # NaN is what nothing has written
            if np.isnan(self.expected[operator.output.tensor]).any():
                raise CheckFailedError(
                    f"check failed: {operator.name} makes values that are no numbers in plain "
                    f"numpy, too; give inputs that stay finite"
                )
        self.checks: dict[str, OperatorCheck] = {}

    def enter(self, operator: str) -> dict[str, Array]:
        """Return the inputs in the group's layouts, and empty outputs."""
        group = self.groups[operator]
        laid_out: dict[str, Array] = {}
        for op in group.space.operators:
            laid_out[op.output.name] = np.full(op.output.shape, np.nan)
        for op in group.space.operators:
            for number, view in enumerate(op.inputs):
                if view.name not in laid_out:
                    layout = group.layout(op, number)
                    laid_out[view.name] = layout.lay_out(self.tensors[view.name])
        return laid_out

    def wants(self, _loop: ProgramLoop, _start: int) -> bool:
        """Return True: each iteration is executed."""
        return True

    def leave(self, operator: str, tensors: Map[str, DramTensor]) -> None:
        """Store the outputs in their natural shapes, and compare them."""
        group = self.groups[operator]
        for op in group.space.operators:
            layout = group.layout(op, len(op.inputs))
            made = layout.natural(np.asarray(tensors[op.output.name]))
            self.tensors[op.output.name][layout.box] = made
            may_stay = np.zeros(op.output.shape, dtype=np.bool_)
            for box in group.boxes_that_may_stay(op):
                may_stay[tuple(box)] = True
            may_stay = layout.natural(may_stay)
            self.checks[op.name] = self._compare(op.operator, made, may_stay)

    def lay(self, operator: str, tensor: str, values: Array) -> Array | None:
        """Return a tensor kept around groups in this group's layout; None if it doesn't use it."""
        layout = self.groups[operator].layout_around(tensor)
        if layout is None:
            return None
        values[~written_elements(self.workload, tensor)] = 0.0
        return layout.lay_out(values)

    def put(self, operator: str, tensor: str, seen: Array, values: Array) -> None:
        """Store a group's values of a tensor kept around it."""
        layout = self.groups[operator].layout_around(tensor)
        assert layout is not None  # noqa: S101 - it has been laid out
        values[layout.box] = layout.natural(seen)

    def _compare(self, operator: Operator, made: Array, may_stay: Booleans) -> OperatorCheck:
        expected = self.expected[operator.output.tensor][operator.output.box(operator.ranks)]
        written = ~np.isnan(made)
        missing = int((~written & ~may_stay).sum())
        if missing:
            raise CheckFailedError(
                f"check failed: {operator.name} leaves {missing} of {made.size} "
                f"elements of {operator.output.tensor} unwritten"
            )
        difference = np.abs(made - expected, where=written, out=np.zeros(made.shape))
        deviation = float(difference.max() / (np.abs(expected).max() or 1.0))
        if deviation > TOLERANCE:
            at = np.unravel_index(int(difference.argmax()), made.shape)
            raise CheckFailedError(
                f"check failed: {operator.name} writes {made[at]!r} to {operator.output.tensor}"
                f"{[int(i) for i in at]}, plain numpy has {expected[at]!r}"
            )
        return OperatorCheck(operator.name, int(written.sum()), made.size, deviation)


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


def written_elements(workload: Workload, tensor: str) -> Booleans:
    """Return a mask of the elements of a tensor that operators write."""
    written = np.zeros(workload.shapes[tensor], dtype=np.bool_)
    for one in workload.operators:
        if one.output.tensor == tensor:
            written[one.output.box(one.ranks)] = True
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
