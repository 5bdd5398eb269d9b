"""Schedulers of mapspaces: each einsum gets the best mapping that a mapspace has.

On a systolic array there is a mapspace for each stationarity, and the best of the three counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from simaccel.analytic.estimate import softmax_problem
from simaccel.analytic.nest_work import nest_work
from simaccel.analytic.work import energy_pj
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, SpatialArraySpec
from simaccel.hardware.dataflow import Constraints, parse_constraints
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Hierarchy, Level, Role, Temporal
from simaccel.mapping.choices import Group, Mapping, NestGroup, NestLevel, NestMapping, SoftmaxGroup
from simaccel.mapping.systolic import dataflows
from simaccel.mapspace.blocks import Objective
from simaccel.mapspace.limits import limits
from simaccel.mapspace.nests import EmptyMapspaceError, Mapped, Target, map_einsum, mapped_as
from simaccel.mapspace.space import STRATEGIES, Strategy
from simaccel.schedulers.problems import Options, Scheduler, mapping_of
from simaccel.schedulers.softmax import softmax_mapping
from simaccel.workload import Einsum, Vector, Workload

_INPUTS: Final = 2
_DOUBLE: Final = 2


class NotNestedError(SimaccelError):
    """An operator that no spatial array takes; the message says which and why."""


Choice = tuple[Target, ...]
"""One einsum on one array, by what the array holds if it is systolic."""


def choices(
    workload: Workload, accelerator: Accelerator, strategy: Strategy, asked: Constraints
) -> list[Choice]:
    """Give the einsums that are to be mapped, all of them checked before anything is searched.

    Raises:
        NotNestedError: an einsum of more than two inputs.
        InputError: constraints that can't be.

    """
    found = []
    for operator in workload.operators:
        if not isinstance(operator, Einsum):
            continue
        if len(operator.inputs) > _INPUTS:
            raise NotNestedError(
                f"{accelerator.name}: operator {operator.name} has {len(operator.inputs)} inputs; "
                "mapspaces take einsums of one or two"
            )
        array, hierarchy = accelerator.array, levels(accelerator)
        limits(operator, hierarchy, {}, asked)  # what no array knows is said first
        given = (
            [parse_constraints(array.dataflow)]
            if isinstance(array, SpatialArraySpec)
            else dataflows(operator, asked)
        )
        one = Target(
            einsum=operator,
            tensors=workload.tensors,
            hierarchy=hierarchy,
            strategy=strategy,
            dataflow={},
            asked=asked,
        )
        found.append(tuple(replace(one, dataflow=dataflow) for dataflow in given))
        for target in found[-1]:
            target.problem()
    return found


def search_all(choices: list[Choice], accelerator: Accelerator, options: Options) -> list[Mapped]:
    """Search each operator; those of one shape once.

    Raises:
        EmptyMapspaceError: an operator has no mapping within the constraints.

    """
    seen: dict[object, Mapped] = {}
    found = []
    for at, choice in enumerate(choices):
        target = choice[0]
        shape = _shape(target)
        if shape not in seen:
            name = f"{target.einsum.name} ({at + 1} of {len(choices)})"

            def watch(done: float, note: str, at: int = at, name: str = name) -> None:
                options.watch((at + done) / len(choices), f"{name}: {note}")

            seen[shape] = _best(choice, accelerator, replace(options, watch=watch))
        found.append(replace(seen[shape], target=target))
    return found


def _best(choice: Choice, accelerator: Accelerator, options: Options) -> Mapped:
    """Search all targets of a choice, and take what is best with the slots that there is room for.

    A search counts one slot a tile, and that everything else happens behind the longest of compute
    and transfers. Where memory outside takes time, it is also made within half of the memories, so
    that all tiles can have two; and the closed form that knows better chooses among the good ones.
    """
    objective = options.effort.objective
    found: list[tuple[float, Mapped]] = []
    empty: EmptyMapspaceError | None = None
    searches = [(target, room) for target in choice for room in _rooms(target.hierarchy)]
    for at, (target, room) in enumerate(searches):

        def watch(done: float, note: str, at: int = at) -> None:
            options.watch((at + done) / len(searches), note)

        try:
            within = replace(target, hierarchy=room)
            mapped = map_einsum(within, options.effort, options.each, watch)
        except EmptyMapspaceError as error:
            empty = empty or error
            continue
        for one in _good(mapped, target) if len(searches) > len(choice) else [mapped]:
            again = replace(one, target=target)
            found.append((_predicted(again, accelerator, objective), again))
    if empty is not None and not found:
        raise empty
    best = min(found, key=lambda one: one[0])[1]
    return mapped_as(best.target, best.found)


def _good(mapped: Mapped, target: Target) -> Iterator[Mapped]:
    """Give the best mapping, and the best of other kinds, with the bounds of the best."""
    good = mapped.found.good
    yield mapped
    if good is None:
        return
    for at in range(1, len(good)):
        found = replace(mapped.found, nests=good.take(slice(at, at + 1)))
        mapping = good.mapping(target.einsum, target.hierarchy, at)
        costs = target.evaluate(found.space, found)
        yield replace(mapped, mapping=mapping, costs=costs, found=found)


def _rooms(hierarchy: Hierarchy) -> list[Hierarchy]:
    """Give the hierarchies to search: as it is, and with room for two slots where they help."""
    found = [hierarchy]
    first, *others = hierarchy.memories
    pipes = hierarchy.pipes
    slow = [not (first.both.unlimited and first.read.unlimited and first.write.unlimited)]
    slow.append(pipes is not None and not (pipes.down.unlimited and pipes.up.unlimited))
    halved: set[str] = set()
    for is_slow, level in zip(slow, others[-2:], strict=False):
        limited = any(memory.capacity_bytes for memory in level.memories)
        if is_slow and limited:
            halved.add(level.name)
            found.append(replace(hierarchy, levels=tuple(_halved(hierarchy.levels, halved))))
    return found


def _halved(levels: Sequence[Level], names: set[str]) -> Iterator[Level]:
    for level in levels:
        if level.name in names and isinstance(level, Temporal):
            memories = tuple(
                replace(one, capacity_bytes=one.capacity_bytes and one.capacity_bytes // 2)
                for one in level.memories
            )
            yield replace(level, memories=memories)
        else:
            yield level


def _predicted(mapped: Mapped, accelerator: Accelerator, objective: Objective) -> float:
    """Give the objective of the closed form that knows of slots."""
    target, nest = mapped.target, double_buffered(mapped)
    work = nest_work(target.einsum, target.tensors, nest, accelerator)
    cycles = float(work.cycles())
    energy = sum(float(level) for level in energy_pj(work, accelerator).values())
    return {"cycles": cycles, "energy": energy, "edp": cycles * energy}[objective]


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
        if isinstance(operator, Vector):
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
    mapped = search_all(choices(workload, accelerator, strategy, asked), accelerator, options)
    return mapping_from(workload, accelerator, strategy, mapped)


SCHEDULERS: dict[str, Scheduler] = {
    strategy: partial(_schedule, strategy=strategy) for strategy in STRATEGIES
}
