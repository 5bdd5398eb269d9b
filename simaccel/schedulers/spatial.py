"""Schedulers of mapspaces: each einsum gets the best mapping that a mapspace has.

On a systolic array there is a mapspace for each stationarity, and the best of the three counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from simaccel.analytic.estimate import evaluate
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, SpatialArraySpec, Stationarity
from simaccel.hardware.dataflow import Constraints, parse_constraints
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import Hierarchy, Level, Temporal
from simaccel.mapping.tree import Group, Mapping
from simaccel.mapspace.blocks import Floats, Objective, score
from simaccel.mapspace.candidates import Candidates
from simaccel.mapspace.limits import limits
from simaccel.mapspace.nests import EmptyMapspaceError, Mapped, Target, map_einsum, mapped_as
from simaccel.mapspace.search import Found
from simaccel.mapspace.space import STRATEGIES, Strategy
from simaccel.mapspace.systolic import dataflows
from simaccel.schedulers.einsums import Search
from simaccel.schedulers.problems import Options, Scheduler, mapping_of
from simaccel.schedulers.search import Goal
from simaccel.workload import Einsum, Vector, Workload

_INPUTS: Final = 2
_FEW: Final = 16
"""Mappings that are estimated in one go."""


class NotNestedError(SimaccelError):
    """An operator that no spatial array takes; the message says which and why."""


Choice = tuple[Target, ...]
"""One einsum on one array, by what the array holds if it is systolic."""


def choices(
    workload: Workload, accelerator: Accelerator, strategy: Strategy, asked: Constraints
) -> list[Choice]:
    """Return the einsums that are to be mapped, all of them checked before anything is searched.

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
        array = accelerator.array
        limits(operator, levels(accelerator), {}, asked)  # what no array knows is said first
        given: dict[Stationarity | None, Constraints] = (
            {None: parse_constraints(array.dataflow)}
            if isinstance(array, SpatialArraySpec)
            else dict(dataflows(operator, asked).items())
        )
        found.append(
            tuple(
                Target(
                    einsum=operator,
                    tensors=workload.tensors,
                    accelerator=accelerator,
                    strategy=strategy,
                    dataflow=dataflow,
                    asked=asked,
                    stationarity=stationarity,
                )
                for stationarity, dataflow in given.items()
            )
        )
        for target in found[-1]:
            target.problem()
    return found


def search_all(choices: list[Choice], options: Options) -> list[Mapped]:
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

            seen[shape] = _best(choice, replace(options, watch=watch))
        mapped = seen[shape]
        target = replace(target, stationarity=mapped.target.stationarity)
        found.append(mapped_as(target, mapped.found))
    return found


def _best(choice: Choice, options: Options) -> Mapped:
    """Search all targets of a choice, and take what is best with the slots that there is room for.

    A search counts one slot a tile, and that everything else happens behind the busiest resource.
    Where memory outside takes time, it is also made within half of the memories, so that all
    tiles can have two; and the estimate chooses among the good ones.
    """
    objective = options.effort.objective
    best: tuple[float, Mapped] | None = None
    empty: EmptyMapspaceError | None = None
    searches = [(target, room) for target in choice for room in _rooms(target.hierarchy)]
    for at, (target, room) in enumerate(searches):

        def watch(done: float, note: str, at: int = at) -> None:
            options.watch((at + done) / len(searches), note)

        try:
            mapped = map_einsum(replace(target, room=room), options.effort, options.each, watch)
        except EmptyMapspaceError as error:
            empty = empty or error
            continue
        if len(searches) == 1:
            return mapped_as(target, mapped.found)
        known = float("inf") if best is None else best[0]
        value, found = _estimated(mapped_as(target, mapped.found), objective, known)
        if best is None or value < best[0]:
            best = value, mapped_as(target, found)
    if best is None:
        assert empty is not None  # noqa: S101 - there was a search
        raise empty
    return best[1]


def _estimated(mapped: Mapped, objective: Objective, known: float) -> tuple[float, Found]:
    """Return the best of the good ones by its estimate; none is better than its score.

    They come by score, so the first that is no better than the best estimate ends it.
    """
    found, setting = mapped.found, mapped.target.setting
    assert found.good is not None  # noqa: S101 - narrows the type
    scores = score(objective, setting.costs(found.space, found.good))[0]
    best, value = found, float("inf")
    for start in range(0, len(scores), _FEW):
        if scores[start] >= min(value, known):
            break
        some = found.good.take(slice(start, start + _FEW))
        values = _objective(mapped, some, objective)
        at = int(values.argmin())
        if values[at] < value:
            value, best = float(values[at]), replace(found, best=some.take(slice(at, at + 1)))
    return value, best


def _objective(mapped: Mapped, candidates: Candidates, objective: Objective) -> Floats:
    """Return the objective with all slots, and with the time of all that waits."""
    if objective in ("dram-bytes", "footprint"):
        costs = mapped.target.setting.costs(mapped.found.space, candidates)
        return score(objective, costs)[0]
    setting, space = mapped.target.setting, mapped.found.space
    family = setting.family(space, candidates, double=True)
    cycles = evaluate(family, setting.accelerator).cycles().astype(np.float64)
    energy = setting.costs(space, candidates).energy_pj
    return {"cycles": cycles, "energy": energy, "edp": cycles * energy}[objective]


def _rooms(hierarchy: Hierarchy) -> list[Hierarchy]:
    """Return the hierarchies to search: as it is, and with room for two slots where they help."""
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


def _shape(target: Target) -> object:
    einsum = target.einsum
    operands = (*einsum.inputs, einsum.output)
    widths = tuple(target.tensors[one.tensor].bytes_per_element for one in operands)
    return tuple(einsum.ranks.items()), tuple(one.projection for one in operands), widths


def mapping_from(
    workload: Workload, accelerator: Accelerator, strategy: Strategy, mapped: list[Mapped]
) -> Mapping:
    """Put the mapping of a workload together; vector operators get the fastest blocks.

    Raises:
        NothingFitsError: not even the smallest block of a vector operator fits the buffer.

    """
    known = {one.target.einsum.name: one for one in mapped}
    search = Search(Goal(accelerator))
    groups: list[Group] = []
    for operator in workload.operators:
        if isinstance(operator, Vector):
            groups.append(search.group(workload, operator.name))
        else:
            groups.append(double_buffered(known[operator.name]))
    return mapping_of(workload, strategy, groups)


def double_buffered(mapped: Mapped) -> Group:
    """Return the mapping with two slots for tiles where the memory has room, inputs first."""
    found = mapped.found
    assert found.best is not None  # noqa: S101 - narrows the type
    return mapped.target.setting.group(found.space, found.best, double=True)


def elite(mapped: Mapped) -> Iterator[tuple[Group]]:
    """Yield the best mappings of a search that spread the work differently, two slots a tile."""
    found, setting = mapped.found, mapped.target.setting
    assert found.good is not None  # noqa: S101 - narrows the type
    for at in range(min(len(found.good), _FEW)):
        yield (setting.group(found.space, found.good.take(slice(at, at + 1)), double=True),)


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, strategy: Strategy
) -> Mapping:
    asked = parse_constraints(options.constraints)
    mapped = search_all(choices(workload, accelerator, strategy, asked), options)
    return mapping_from(workload, accelerator, strategy, mapped)


SCHEDULERS: dict[str, Scheduler] = {
    strategy: partial(_schedule, strategy=strategy) for strategy in STRATEGIES
}
