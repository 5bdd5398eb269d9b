"""Every run does the work of its workload: tree, program, counts and machine agree on it.

A difference is a mistake of simaccel and no figure: it is refused, with the mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from simaccel.analytic.floor.floor import floors_of, on_chip_bytes
from simaccel.analytic.prediction import Prediction
from simaccel.errors import MistakeError
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import HOP_WAYS
from simaccel.hardware.memory import DRAM_WAYS, SHARED_WAYS, bytes_over, dram_bytes
from simaccel.machine.machine import Run
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.sharding import Pod
from simaccel.mapping.coverage import work_of
from simaccel.mapping.space import BoundOperator, IterationSpace, holding_tensor, space_of
from simaccel.mapping.text import tree_text
from simaccel.mapping.tree import Keep, Mapping
from simaccel.program.accounting import Box, missing_elements, work_of_commands
from simaccel.program.fit import operators_with_tiles
from simaccel.program.program import Program
from simaccel.workload import Einsum, Workload

_BYTES: Final = {
    "bytes with DRAM": DRAM_WAYS,
    "bytes with a shared buffer": SHARED_WAYS,
    "bytes times links of cores": HOP_WAYS,
}
"""Levels and directions of bytes that counts and machine agree on."""


class ConservationError(MistakeError):
    """A run that does something else than its workload; the message has the mapping."""


def require_run(pod: Pod, accelerator: Accelerator, predicted: Prediction, run: Run) -> None:
    """Require that counts and machine agree on the work, and that a run is not below its bounds.

    What a group computes is no less than the workload has of it: cheap sums, for every run.

    Raises:
        ConservationError: says in which group they differ, and by what.
    """
    mapping = pod.mapping
    for text in _differences(pod, predicted, run):
        raise _error(text, mapping)
    if run.cycles < predicted.bound_cycles:
        raise _error(f"{run.cycles} cycles, at least {_bound_text(predicted)}", mapping)
    by_group = {operator.name: dram_bytes(operator.moved) for operator in run.operators}
    for names, floor in floors_of(pod.workload, mapping, on_chip_bytes(accelerator)):
        n_bytes, least = sum(by_group[name] for name in names), floor.least_bytes
        if n_bytes < least:
            text = f"{', '.join(names)}: {n_bytes} bytes with DRAM, at least {least}"
            raise _error(text, mapping)


def _differences(pod: Pod, predicted: Prediction, run: Run) -> Iterator[str]:
    """Yield what formulas and machine count differently, and what is less than the workload has."""
    sent, groups = _sent_names(pod.exchanges), iter(pod.mapping.groups)
    for counted, ran in zip(predicted.groups, run.operators, strict=True):
        if counted.name in sent:
            if counted.moved != ran.moved:
                yield f"{counted.name}: {counted.moved} bytes counted, {ran.moved} moved"
            continue
        group = next(groups)
        operators = [pod.workload.operator(name) for name in group.operators]
        einsums = [operator for operator in operators if isinstance(operator, Einsum)]
        least_macs = sum(pod.workload.times(einsum.name) * einsum.macs for einsum in einsums)
        for kind, least, counts, machine in (
            ("MACs", least_macs, counted.macs, ran.macs),
            ("elements", 0, counted.elements, ran.elements),
            *(
                (kind, 0, bytes_over(counted.moved, ways), bytes_over(ran.moved, ways))
                for kind, ways in _BYTES.items()
            ),
        ):
            if not least <= counts == machine:
                text = f"{least} at least, {counts} counted, {machine} on the machine"
                yield f"{group.name}: {kind}: {text}"


def require_program(
    workload: Workload, mapping: Mapping, program: Program, exchanges: Sequence[Exchange] = ()
) -> None:
    """Require that a program goes over the points of its tree, and stores all that leaves a group.

    Raises:
        ConservationError: says what is missing, or too much.
    """
    planned, sent = work_of(workload, mapping), _sent_names(exchanges)
    own = (place for place in operators_with_tiles(program.body) if place[0].name not in sent)
    for (group, around), (operator, _) in zip(mapping.groups_with_keeps(), own, strict=True):
        space, points = space_of(workload, group), work_of_commands(operator)
        for op in space.operators:
            made, is_einsum = op.output.name, isinstance(op.operator, Einsum)
            key = ("MACs", made) if is_einsum else ("elements", op.name)
            work, done, least = planned[op.name], points[key], _point_count(op)
            if work != done:
                text = f"{done} {key[0]} in its program, {work} in its tree"
                raise _error(f"{op.name}: {text}", mapping)
            once = made in space.escapes and not group.padded
            if work < least or (once and work > least):
                text = f"{work} {key[0]} in its tree, {least} in the workload"
                raise _error(f"{op.name}: {text}", mapping)
        for op in space.operators:
            held = _held_boxes(workload, space, op, around)
            left = held is not None and missing_elements(operator, op.output, held)
            if left:
                raise _error(f"{op.name}: of {op.output.name} {left}", mapping)


def _sent_names(exchanges: Sequence[Exchange]) -> frozenset[str]:
    """Return the names of the operators of a program that are exchanges."""
    return frozenset(name for exchange in exchanges for name in exchange.operators)


def _error(what: str, mapping: Mapping) -> ConservationError:
    return ConservationError(f"{what}; the mapping:\n{tree_text(mapping)}")


def _bound_text(predicted: Prediction) -> str:
    """Return a bound, its terms, and where their formulas are."""
    terms = ", ".join(f"{name} {n}" for name, n in predicted.bound_terms.items() if n)
    formulas = "lower_bound.py, with the times of units.py (simaccel/analytic)"
    return f"{predicted.bound_cycles} ({terms}) by {formulas}"


def _point_count(op: BoundOperator) -> int:
    """Return the points that the workload has of an operator, once."""
    operator = op.operator
    return operator.macs if isinstance(operator, Einsum) else operator.elements


def _held_boxes(
    workload: Workload, space: IterationSpace, op: BoundOperator, around: Sequence[Keep]
) -> list[Box] | None:
    """Return what is kept around a group of a tensor that leaves it; None if none need leave."""
    name = op.output.name
    if name not in space.escapes:
        return None
    holder = holding_tensor(workload, name, around)
    keeps = [keep for keep in around if keep.tensor == holder]
    if any(not keep.region for keep in keeps):
        return None
    return [tuple(((span.start, span.stop),) for span in keep.region) for keep in keeps]
