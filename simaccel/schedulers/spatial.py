"""Schedulers for spatial arrays: each einsum gets the best mapping that a mapspace has."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from simaccel.analytic.estimate import softmax_problem
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import Constraints, parse_constraints
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Role, Temporal
from simaccel.mapping.choices import Group, Mapping, NestGroup, NestLevel, NestMapping, SoftmaxGroup
from simaccel.schedulers.mapspace import STRATEGIES, Strategy
from simaccel.schedulers.nests import Mapped, Target, map_einsum
from simaccel.schedulers.problems import Options, Scheduler, mapping_of
from simaccel.schedulers.softmax import softmax_mapping
from simaccel.workload import Einsum, Softmax, Workload

_INPUTS: Final = 2
_DOUBLE: Final = 2


class NotNestedError(SimaccelError):
    """An operator that no spatial array takes; the message says which and why."""


def targets(
    workload: Workload, accelerator: Accelerator, strategy: Strategy, asked: Constraints
) -> list[Target]:
    """Give the einsums that are to be mapped, all of them checked before anything is searched.

    Raises:
        NotNestedError: an einsum of more than two inputs.
        InputError: constraints that can't be.

    """
    dataflow = parse_constraints(accelerator.spatial.dataflow)
    found = []
    for operator in workload.operators:
        if not isinstance(operator, Einsum):
            continue
        if len(operator.inputs) > _INPUTS:
            raise NotNestedError(
                f"{accelerator.name}: operator {operator.name} has {len(operator.inputs)} inputs; "
                "spatial arrays take einsums of one or two"
            )
        target = Target(
            einsum=operator,
            tensors=workload.tensors,
            hierarchy=levels(accelerator),
            strategy=strategy,
            dataflow=dataflow,
            asked=asked,
        )
        target.problem()
        found.append(target)
    return found


def search_all(targets: list[Target], options: Options) -> list[Mapped]:
    """Search each operator; those of one shape once.

    Raises:
        EmptyMapspaceError: an operator has no mapping within the constraints.

    """
    seen: dict[object, Mapped] = {}
    found = []
    for at, target in enumerate(targets):
        shape = _shape(target)
        if shape not in seen:
            name = f"{target.einsum.name} ({at + 1} of {len(targets)})"

            def watch(done: float, note: str, at: int = at, name: str = name) -> None:
                options.watch((at + done) / len(targets), f"{name}: {note}")

            seen[shape] = map_einsum(target, options.effort, options.each, watch)
        found.append(replace(seen[shape], target=target))
    return found


def _shape(target: Target) -> object:
    einsum = target.einsum
    operands = (*einsum.inputs, einsum.output)
    widths = tuple(target.tensors[one.tensor].bytes_per_element for one in operands)
    return tuple(einsum.ranks.items()), tuple(one.projection for one in operands), widths


def mapping_from(
    workload: Workload, accelerator: Accelerator, strategy: Strategy, mapped: list[Mapped]
) -> Mapping:
    """Put the mapping of a workload together; a softmax gets the blocks of rows that are fastest.

    Raises:
        NothingFitsError: not even a part of a softmax row fits the buffer.

    """
    nests = {one.target.einsum.name: one for one in mapped}
    groups: list[Group] = []
    for operator in workload.operators:
        if isinstance(operator, Softmax):
            problem = softmax_problem(workload, operator.name)
            rows = softmax_mapping(problem, operator.name, accelerator)
            groups.append(SoftmaxGroup(operator=operator.name, mapping=rows))
        else:
            nest = double_buffered(nests[operator.name])
            groups.append(NestGroup(operator=operator.name, mapping=nest))
    return mapping_of(workload, strategy, groups)


def double_buffered(mapped: Mapped) -> NestMapping:
    """Give tiles two slots where the memory has room, inputs first."""
    hierarchy, nest = mapped.target.hierarchy, mapped.mapping
    found: list[NestLevel] = []
    for given, level in zip(nest.levels, hierarchy.levels, strict=True):
        slots: dict[Role, int] = {}
        if found and isinstance(level, Temporal):
            at = hierarchy.memories.index(level)
            held = dict(zip(ROLES, (int(n) for n in mapped.costs.tile_bytes[0, at]), strict=True))
            for memory in level.memories:
                spare = memory.capacity_bytes
                if spare is not None:
                    spare -= sum(held[role] for role in memory.roles)
                for role in ROLES:
                    if role not in memory.roles or role not in given.keep:
                        continue
                    if spare is None or held[role] <= spare:
                        slots[role] = _DOUBLE
                        spare = None if spare is None else spare - held[role]
        found.append(given.model_copy(update={"slots": slots}))
    return nest.model_copy(update={"levels": tuple(found)})


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, strategy: Strategy
) -> Mapping:
    asked = parse_constraints(options.constraints)
    mapped = search_all(targets(workload, accelerator, strategy, asked), options)
    return mapping_from(workload, accelerator, strategy, mapped)


SCHEDULERS: dict[str, Scheduler] = {
    strategy: partial(_schedule, strategy=strategy) for strategy in STRATEGIES
}
