"""Check of a program's results: what the interpreter stores, against plain numpy.

An input's value is a function of its position, and stored elements are compared with plain numpy on
the inputs that they depend on. Operators that share tiles on chip are checked together, all others
on inputs of their own, after those that make what they read.

Of a sample, a position is drawn of each rank that no operator sums over; of loops over these ranks,
the interpreter executes only the iterations that contain it. No large tensor is kept as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Any

import numpy as np

from simaccel.diagnosis.layout import (
    Booleans,
    GroupLayout,
    Integers,
    Layout,
    flat_places,
    group_layouts,
)
from simaccel.diagnosis.plain_values import written_elements
from simaccel.diagnosis.sampled_values import (
    MOST_KEPT,
    SampledGroups,
    Span,
    takes_part,
    widen,
    work,
    written_views,
)
from simaccel.errors import SimaccelError
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Group, Mapping
from simaccel.program.fit import operators_with_tiles
from simaccel.program.interpreter import interpret_within
from simaccel.program.program import Operator as OperatorNode
from simaccel.program.program import Program, ProgramError, ProgramLoop
from simaccel.program.shared_tensors import Box, DramTensor
from simaccel.run.conservation import require_program
from simaccel.workload import Operator, Workload
from simaccel.workload.vectors.kind import Array

MOST_MACS = 10**8
"""Above this a check of all iterations takes minutes."""
TOLERANCE = 1e-9
"""Largest deviation of a sum in another order, as a part of the largest expected value."""
MOST_SAMPLED = 100 * 10**9
"""The most MACs of all samples of a program, which take a minute or two."""
_COMMAND_MACS = 200_000
"""MACs that take as long as the overhead of a command."""


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
            f"workload {workload.name} has {workload.macs:,} MACs; a check of several chips, or "
            f"without a seed, executes each, allowed: at most {MOST_MACS:,}; choose a smaller "
            "batch, seq_len, scope or shape"
        )


class _View:
    """A tensor in DRAM as a group sees it."""

    def __init__(self, sampled: SampledGroups, tensor: str, layout: Layout) -> None:
        self.sampled, self.tensor, self.layout = sampled, tensor, layout
        self.shape = layout.shape
        self.boxes: set[tuple[tuple[int, int], ...]] = set()
        self.known: tuple[Integers, Booleans] | None = None
        if math.prod(self.shape) <= MOST_KEPT:
            self.known = self._find(tuple(slice(0, size) for size in self.shape))

    def __getitem__(self, where: Box) -> Array:
        places, inside = self._find(where)
        return np.where(inside, self.sampled.read(self.tensor, places), 0.0)

    def __setitem__(self, where: Box, values: Array) -> None:
        self.boxes.add(tuple((span.start, span.stop) for span in where))
        places, inside = self._find(where)
        self.sampled.write(self.tensor, places[inside], values[inside])

    def _find(self, where: Box) -> tuple[Integers, Booleans]:
        """Return a box's positions in the whole tensor, and which are no padding."""
        if self.known is not None:
            places, inside = self.known
            at: Any = (*where, ...)  # an array, also without dimensions
            return places[at], inside[at]
        by_dimension, inside = self.layout.places(where)
        flat = flat_places(by_dimension, self.sampled.workload.shapes[self.tensor])
        return np.where(inside, flat, 0), inside


class _CheckedMemory:
    """The DRAM: it holds what executed iterations have stored."""

    def __init__(
        self, workload: Workload, mapping: Mapping, program: Program, seed: int | None
    ) -> None:
        self.workload = workload
        self.names = [operator.name for operator in workload.operators]
        self.layouts = group_layouts(workload, mapping)
        self.samples: dict[str, SampledGroups] = {}
        macs: dict[str, int] = {}
        for node in mapping.body:
            spaces = {group.name: (group, self.layouts[group.name].space) for group in node.groups}
            every = operators_with_tiles(program.body)
            body = [operator for operator, _ in every if operator.name in spaces]
            made = written_views(body)
            point = {} if seed is None else _draw_point(spaces, made, seed)
            spans = {rank: widen(body, span, rank, made) for rank, span in point.items()}
            macs |= {each.name: work(each.body, {}, spans, _COMMAND_MACS) for each in body}
            executed = _sum_work(body, spans) / (_sum_work(body, {}) or 1)
            self.samples |= dict.fromkeys(spaces, SampledGroups(workload, spaces, spans, executed))
        if seed is not None:
            _require_little(macs)
        self.at = ""
        self.checks: dict[str, OperatorCheck] = {}

    def wants(self, loop: ProgramLoop, start: int) -> bool:
        """Execute the iterations that have positions of the sample."""
        span = self.samples[self.at].spans.get(loop.rank) if self.at else None
        return span is None or takes_part(loop, start, span)

    def enter(self, operator: str) -> Map[str, DramTensor]:
        """Return the tensors that the operator's group reads and writes, by name."""
        self.at = operator
        sampled, layouts = self.samples[operator], self.layouts[operator]
        self._require_inputs(sampled, layouts)
        views: dict[str, DramTensor] = {}
        for op in layouts.space.operators:
            layout = layouts.layout(op, len(op.inputs))
            views[op.output.name] = _View(sampled, op.operator.output.tensor, layout)
        for op in layouts.space.operators:
            for number, view in enumerate(op.inputs):
                if view.name not in views:
                    name, layout = op.operator.inputs[number].tensor, layouts.layout(op, number)
                    views[view.name] = _View(sampled, name, layout)
        return views

    def _require_inputs(self, sampled: SampledGroups, layouts: GroupLayout) -> None:
        """Refuse a program that reads what an operator before hasn't stored, or no numbers."""
        done = {*self.checks, *layouts.group.operators}
        for op in layouts.space.operators:
            operator, read = op.operator, {operand.tensor for operand in op.operator.inputs}
            for before in self.workload.operators[: self.names.index(op.name)]:
                if before.output.tensor in read and before.name not in done:
                    raise CheckFailedError(
                        f"check failed: {op.name} reads {before.output.tensor} before "
                        f"{before.name} writes it"
                    )
            number, box = sampled.operators.index(operator), operator.output.box(operator.ranks)
            if not sampled.spans and np.isnan(sampled.compute(number, box)).any():
                raise CheckFailedError(
                    f"check failed: {op.name} makes values that are no numbers in plain numpy, too"
                )

    def leave(self, operator: str, tensors: Map[str, DramTensor]) -> None:
        """Compare what the group has stored."""
        self.at = ""
        sampled, layouts = self.samples[operator], self.layouts[operator]
        for op in layouts.space.operators:
            view = tensors[op.output.name]
            assert isinstance(view, _View)  # noqa: S101 - as entered
            self._require_written(op, view, layouts)
            self.checks[op.name] = _compare(sampled, op.operator, view)

    def _require_written(self, op: BoundOperator, view: _View, layouts: GroupLayout) -> None:
        """Refuse a program that leaves elements at the drawn position unwritten."""
        spans = self.samples[layouts.group.name].spans
        where = []
        for dim, size in zip(op.output.terms, op.output.shape, strict=True):
            low, high = spans.get(dim[0][0], (0, size))
            where.append(slice(low, min(high, size)))
        missing = np.array(np.isnan(view[tuple(where)]))
        for box in layouts.boxes_that_may_stay(op):
            inside = [
                slice(max(0, b.start - a.start), max(0, b.stop - a.start))
                for a, b in zip(where, box, strict=True)
            ]
            missing[tuple(inside)] = False
        if missing.any():
            raise CheckFailedError(
                f"check failed: {op.name} leaves {int(missing.sum())} of {missing.size} "
                f"{'sampled ' if spans else ''}elements of {view.tensor} unwritten"
            )

    def lay(self, operator: str, tensor: str, values: Array) -> Array | None:
        """Return a tensor kept around a group in the group's layout; None if it doesn't use it."""
        layout = self.layouts[operator].layout_around(tensor)
        if layout is None:
            return None
        shape = self.workload.shapes[tensor]
        places = np.indices(shape, sparse=True)
        others = ~written_elements(self.workload.operators, tensor, places)
        box = tuple(slice(0, size) for size in shape)
        values[others] = self.samples[operator].values_before(tensor, box)[others]
        at, inside = layout.places()
        laid: Array = np.where(inside, values[tuple(np.where(inside, i, 0) for i in at)], 0.0)
        return laid

    def put(self, operator: str, tensor: str, seen: Array, values: Array) -> None:
        """Copy a group's part of a tensor kept around it back into all of the tensor's values."""
        layout = self.layouts[operator].layout_around(tensor)
        assert layout is not None  # noqa: S101 - it has been laid out
        at, inside = layout.places()
        values[tuple(i[inside] for i in at)] = seen[inside]


def _draw_point(
    spaces: Map[str, tuple[Group, IterationSpace]], made: Collection[str], seed: int
) -> dict[str, Span]:
    """Draw a position of each rank whose positions don't depend on one another.

    ``made``: views that the groups' operators write.
    """
    sizes: dict[str, int] = {}
    whole: set[str] = set()
    names: dict[str, tuple[str, ...]] = {}
    for _, space in spaces.values():
        whole |= _whole_ranks(space, made)
        whole |= {rank for rank, n in space.sizes.items() if sizes.setdefault(rank, n) != n}
        for view in (view for op in space.operators for _, view in op.uses):
            if names.setdefault(view.name, view.ranks) != view.ranks:
                whole |= {*names[view.name], *view.names}
    numbers = np.random.default_rng(seed)
    drawn = {rank: int(numbers.integers(size)) for rank, size in sorted(sizes.items())}
    return {rank: (at, at + 1) for rank, at in drawn.items() if rank not in whole}


def _whole_ranks(space: IterationSpace, made: Collection[str]) -> set[str]:
    """Return the ranks of which an output element depends on more than its own position."""
    whole = {*space.unmerged, *space.derived, *space.circular}
    whole |= {rank for terms in space.derived.values() for rank, _ in terms}
    for op in space.operators:
        whole |= set(op.ranks) - op.output.names
        dims = (dim for _, view in op.uses if view.name in made for dim in view.terms)
        whole |= {rank for dim in dims if len(dim) > 1 or dim[0][1] != 1 for rank, _ in dim}
    return whole


def _sum_work(body: Sequence[OperatorNode], spans: Map[str, Span]) -> int:
    return sum(work(operator.body, {}, spans) for operator in body)


def _require_little(macs: Map[str, int]) -> None:
    """Refuse samples that take too long, such as of a buffer that holds all of a large matrix."""
    total = sum(macs.values())
    if total > MOST_SAMPLED:
        most = max(macs, key=lambda name: macs[name])
        raise TooLargeToCheckError(
            f"a sample has {total:,} MACs, {macs[most]:,} of them of {most} (each command counts "
            f"as {_COMMAND_MACS:,} at least); allowed: at most {MOST_SAMPLED:,}; choose a smaller "
            f"shape"
        )


def _compare(sampled: SampledGroups, operator: Operator, view: _View) -> OperatorCheck:
    """Compare what an operator has stored with plain numpy, box by box."""
    shape = sampled.workload.shapes[view.tensor]
    number = sampled.operators.index(operator)
    own = operator.output.box(operator.ranks)
    places, largest, worst, message = [], 0.0, 0.0, ""
    for box in sorted(view.boxes):
        at, inside = view.layout.places([slice(*span) for span in box])
        if not inside.any():
            continue
        bounds = tuple(slice(int(i[inside].min()), int(i[inside].max()) + 1) for i in at)
        within = tuple(i[inside] - span.start for i, span in zip(at, bounds, strict=True))
        expected = np.atleast_1d(sampled.compute(number, bounds)[within])
        flat = flat_places(at, shape)[inside]
        stored = sampled.read(view.tensor, flat)
        difference = np.abs(stored - expected)
        largest = max(largest, float(np.abs(expected).max()))
        if not difference.max() <= worst:
            worst = float(difference.max())
            where = int(difference.argmax())
            position = [int(i[inside][where]) - o.start for i, o in zip(at, own, strict=True)]
            message = (
                f"{stored[where]!r} to {view.tensor}{position}, plain numpy has {expected[where]!r}"
            )
        places.append(flat)
    if not worst <= TOLERANCE * (largest or 1.0):
        raise CheckFailedError(f"check failed: {operator.name} writes {message}")
    compared = 1 + int(np.count_nonzero(np.diff(np.sort(np.concatenate(places))))) if places else 0
    elements = math.prod(operator.output.shape(operator.ranks))
    return OperatorCheck(
        operator.name, compared, elements, worst / (largest or 1.0), sampled.executed
    )


def check(
    workload: Workload, mapping: Mapping, program: Program, seed: int | None = None
) -> tuple[OperatorCheck, ...]:
    """Execute a program and compare what each operator stores; with a seed, of a sample.

    Raises:
        TooLargeToCheckError: the workload, or the sample, has too many MACs.
        CheckFailedError: an output is wrong or incomplete, or the program breaks a rule.
    """
    if seed is None:
        require_small(workload)
    memory = _CheckedMemory(workload, mapping, program, seed)
    try:
        interpret_within(program, memory)
    except ProgramError as error:
        raise CheckFailedError(f"check failed: {error}") from None
    missing = [name for name in memory.names if name not in memory.checks]
    if missing:
        raise CheckFailedError(f"check failed: the program lacks operator {', '.join(missing)}")
    return tuple(memory.checks[name] for name in memory.names)


def check_or_sample(
    workload: Workload, mapping: Mapping, program: Program
) -> tuple[OperatorCheck, ...]:
    """Check all of a small workload, a sample of a large one."""
    require_program(workload, mapping, program)
    return check(workload, mapping, program, 0 if workload.macs > MOST_MACS else None)
