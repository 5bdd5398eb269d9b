"""Explanation of a run, group by group: machine, bound and directives, and where they disagree.

The *machine*: cycles and stalls. The *bound*: cycles that no run of this mapping is below, and
bytes that no mapping with these groups moves less than. The *directives*: from the tree, reuse by
dimension and the bytes that it leaves to DRAM; from the run's counts, reuse by level, multicast and
what each level needs; and MAESTRO's runtime of the tree: of its levels on PEs with memories, of the
folds of a systolic array, of the passes of vector operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from simaccel.analytic.floor.floor import ByteBound, floors_of, on_chip_bytes
from simaccel.analytic.prediction import GroupPrediction
from simaccel.diagnosis.disagreement import (
    DirectiveRuntime,
    Disagreement,
    against_directives,
    against_floor,
    against_prediction,
    dram_of,
)
from simaccel.errors import SimaccelError
from simaccel.hardware import SpatialArraySpec
from simaccel.hardware.memory import leaves_core
from simaccel.machine.machine import OperatorRun
from simaccel.mapping.space import BoundOperator, IterationSpace, space_of
from simaccel.mapping.tree import Do, Fork, Group, nodes, paths
from simaccel.numbers import BYTE
from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.dimensions import Dimension, dimensions_of, dram_bytes_of
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.analysis.runtime import operator_times
from simaccel.papers.maestro.dataflows.reading import DirectedLayer
from simaccel.run.limits import computing_unit
from simaccel.study.experiment import ExperimentResult
from simaccel.workload import Einsum
from simaccel.workload.names import tensor_of

_HELD: Final = {"ws": 1, "is": 0}
"""The input that a systolic array holds, by its stationarity; with ``os`` it holds none."""
ON_CHIP: Final = ("buffer_read", "buffer_write", "noc_distribution", "noc_collection")
"""Levels between the memories and the array."""


@dataclass(frozen=True, kw_only=True)
class Reuse:
    """Reuse of a tensor in a group: uses of each element; None where none passes a level.

    ``buffer``: bytes read from the buffer for each byte written to it. ``array``: MACs for each
    element sent to the array; ``sums``: MACs for each element that comes back from it.
    ``multicast``: PEs that take (or pass on) an element that is sent once. ``directives_bytes``:
    DRAM bytes by the directives, None where they have no figure.
    """

    tensor: str
    dram_bytes: int
    directives_bytes: int | None
    buffer: Fraction | None
    array: Fraction | None
    sums: Fraction | None
    multicast: Fraction | None


@dataclass(frozen=True, kw_only=True)
class NeededRate:
    """The bandwidth that a level needs so that the computing unit never waits for it.

    ``needed``: bytes for each cycle of computing; ``offered``: bytes per cycle, None: no limit.
    """

    level: str
    n_bytes: int
    needed: Fraction
    offered: Fraction | None


@dataclass(frozen=True, kw_only=True)
class GroupExplanation:
    """Machine, prediction, bound and directives of a group side by side, for all repetitions.

    ``unit``: the engine that computes. ``floor`` is that of the groups ``together``.
    """

    run: OperatorRun
    prediction: GroupPrediction
    unit: str
    together: tuple[str, ...]
    floor: ByteBound
    dimensions: tuple[Dimension, ...]
    reuse: tuple[Reuse, ...]
    needs: tuple[NeededRate, ...]
    directives: DirectiveRuntime
    disagreements: tuple[Disagreement, ...]

    @property
    def stalls(self) -> list[tuple[str, int]]:
        """Cycles that its unit waits, by cause, the largest first."""
        return Counter(self.run.engines[self.unit].stalls).most_common()

    @property
    def dram_bytes(self) -> int:
        """Bytes that the group moves to and from DRAM."""
        return dram_of(self.run)


def explain(
    result: ExperimentResult, directed: Sequence[DirectedLayer] = ()
) -> tuple[GroupExplanation, ...]:
    """Return the explanation of each group of a run.

    ``directed``: the directives from which the mapping was made, if it was.
    """
    workload, accelerator = result.workload, result.accelerator
    ran = {run.name: run for run in result.run.operators}
    parts = {
        group.name: (ran[group.name], group, space_of(workload, group))
        for group in result.mapping.groups
    }
    predicted = {prediction.name: prediction for prediction in result.prediction.groups}
    written = {directives.name: directives for directives in directed}
    kept = {group.name for group, around in result.mapping.groups_with_keeps() if around}
    explanations = []
    for names, floor in floors_of(workload, result.mapping, on_chip_bytes(accelerator)):
        together = [parts[name] for name in names]
        for run, group, space in together:
            unit = computing_unit(run)
            directed_bytes = {} if run.name in kept else _directed_bytes(result, space, group)
            directed_as = written.get(group.name)
            if directed_as is None:
                runtime = _runtime(result, space, group, run, directed_bytes)
            else:
                runtime = _directed_runtime(result, group, directed_as)
            disagreements = [
                *against_prediction(run, predicted[run.name]),
                *(against_floor(floor, together) if run.name == names[-1] else ()),
                *against_directives(run, runtime, directed_bytes),
            ]
            explained = GroupExplanation(
                run=run,
                prediction=predicted[run.name],
                unit=unit,
                together=names,
                floor=floor,
                dimensions=dimensions_of(space, group, accelerator),
                reuse=_reuse(result, group, space, run, directed_bytes),
                needs=_needs(result, run, unit),
                directives=runtime,
                disagreements=tuple(disagreements),
            )
            explanations.append(explained)
    return tuple(explanations)


# -- reuse


def _directed_bytes(
    result: ExperimentResult, space: IterationSpace, group: Group
) -> dict[str, int]:
    """Return the DRAM bytes by directives, in all repetitions."""
    times = result.workload.times(group.operators[0])
    return {name: times * n for name, n in dram_bytes_of(space, group).items()}


def _reuse(
    result: ExperimentResult,
    group: Group,
    space: IterationSpace,
    run: OperatorRun,
    directed_bytes: Map[str, int],
) -> tuple[Reuse, ...]:
    names = [name for op in space.operators for name, _ in op.uses]
    leaves = {leaf.operator: leaf for _, leaf in paths(group.tree)}
    moved = {name for _, name in run.moved}
    return tuple(
        _reuse_of(result, space, run, name, leaves, directed_bytes)
        for name in dict.fromkeys(names)
        if name in moved
    )


def _in_place(space: IterationSpace, run: OperatorRun, name: str) -> set[str]:
    """Return a tensor with those that vector operators make in its place."""
    moved, found = {one for _, one in run.moved}, {name}
    for op in space.operators:
        if not _is_einsum(op) and found & {*op.names} and op.output.name not in moved:
            found.add(op.output.name)
    return found


def _reuse_of(
    result: ExperimentResult,
    space: IterationSpace,
    run: OperatorRun,
    name: str,
    leaves: Map[str, Do],
    directed_bytes: Map[str, int],
) -> Reuse:
    moved, spatial = run.moved, isinstance(result.accelerator.array, SpatialArraySpec)
    width = Fraction(result.workload.tensors[tensor_of(name)].bits, BYTE)
    same = _in_place(space, run, name)
    readers = [
        operator
        for operator in space.operators
        if same & {*operator.names} and _is_einsum(operator)
    ]
    makers = [
        operator
        for operator in space.operators
        if operator.output.name == name and _is_einsum(operator)
    ]
    sent, back = moved.get(("noc_distribution", name), 0), moved.get(("noc_collection", name), 0)
    array = _ratio(_macs(result, run, readers) * width, sent)
    if spatial:
        taken = sum(
            n
            for (level, tensor), n in moved.items()
            if tensor == name and level.startswith("pe.") and level.endswith("_write")
        )
        multicast = _ratio(taken, sent) if readers and not makers else None
    else:
        multicast = _pes_of_element(array, readers, same, leaves)
    return Reuse(
        tensor=name,
        dram_bytes=moved.get(("dram_read", name), 0) + moved.get(("dram_write", name), 0),
        directives_bytes=directed_bytes.get(name),
        buffer=_ratio(moved.get(("buffer_read", name), 0), moved.get(("buffer_write", name), 0)),
        array=array,
        sums=_ratio(_macs(result, run, makers) * width, back),
        multicast=multicast,
    )


def _pes_of_element(
    array: Fraction | None, readers: Sequence[BoundOperator], same: set[str], leaves: Map[str, Do]
) -> Fraction | None:
    """Return the PEs of a systolic array that an element goes through: of a held one, one.

    What isn't held is used in each PE that it passes, once.
    """
    if array is None or len(readers) != 1:
        return None
    holds = leaves[readers[0].name].stationarity
    held = _HELD.get(holds or "ws")
    return Fraction(1) if held is not None and readers[0].names[held] in same else array


def _macs(result: ExperimentResult, run: OperatorRun, operators: Sequence[BoundOperator]) -> int:
    """Return the MACs of a group's einsums: of all of them, those of the run, padding too."""
    einsums = [one for one in operators if _is_einsum(one)]
    if not einsums:
        return 0
    found = sum(result.workload.times(einsum.name) * einsum.operator.macs for einsum in einsums)
    return run.macs if "+" not in run.name else found


def _is_einsum(one: BoundOperator) -> bool:
    return isinstance(one.operator, Einsum)


def _ratio(above: int | Fraction, below: int) -> Fraction | None:
    return Fraction(above, below) if above and below else None


# -- what each level needs


def _needs(result: ExperimentResult, run: OperatorRun, unit: str) -> tuple[NeededRate, ...]:
    accelerator, computing = result.accelerator, run.engines[unit].busy
    backing = accelerator.every_backing
    moved = dict.fromkeys((*backing, *ON_CHIP), 0)
    for (way, tensor), n_bytes in run.moved.items():
        at = way
        if leaves_core(way):
            at = accelerator.memory(result.workload.tensors[tensor_of(tensor)].lives)
        if at in moved:
            moved[at] += n_bytes
    rates = {name: (memory.channel_rate, memory.dram.channels) for name, memory in backing.items()}
    rates |= {
        "buffer_read": (accelerator.read_rate, 1),
        "buffer_write": (accelerator.write_rate, 1),
        "noc_distribution": (accelerator.distribution_rate, 1),
        "noc_collection": (accelerator.collection_rate, 1),
    }
    needs = []
    for level, n_bytes in moved.items():
        rate, parts = rates[level]
        offered = None if rate.unlimited else Fraction(rate.n_bytes, rate.n_cycles) * parts
        needed = Fraction(n_bytes, max(1, computing))
        needs.append(NeededRate(level=level, n_bytes=n_bytes, needed=needed, offered=offered))
    return tuple(needs)


# -- directives


def _directed_runtime(
    result: ExperimentResult, group: Group, directed: DirectedLayer
) -> DirectiveRuntime:
    """Return the analytic runtime of the directives that a group was made of."""
    written = "; ".join(map(str, directed.dataflow))
    inputs = result.workload.operator(group.operators[0]).inputs
    tensors = (result.workload.tensors[operand.tensor] for operand in inputs)
    try:
        hardware = hardware_of(
            result.accelerator, [(tensor.bits, tensor.number) for tensor in tensors]
        )
        (analysis,) = analyse([directed], [hardware])
    except SimaccelError as error:
        return DirectiveRuntime(written=written, silent=str(error))
    cycles = int(analysis.figures()["runtime_cycles"] or 0)
    times = result.workload.times(group.operators[0])
    return DirectiveRuntime(written=written, cycles=times * cycles)


def _runtime(
    result: ExperimentResult,
    space: IterationSpace,
    group: Group,
    run: OperatorRun,
    directed_bytes: Map[str, int],
) -> DirectiveRuntime:
    """Return the runtime of a tree as directives, or of the bytes that cross if that is more.

    Those are the counts of the directives; a tensor of which they tell nothing crosses once.
    """
    operators = operator_times(space, group, result.accelerator)
    silent = dict.fromkeys(operator.silent for operator in operators if operator.silent)
    if silent:
        return DirectiveRuntime(silent="; ".join(silent), operators=operators)
    times = result.workload.times(group.operators[0])
    cycles = times * sum(operator.cycles or 0 for operator in operators)
    ideal = {
        operator.operator: times * ((operator.cycles or 0) - (operator.transfers or 0))
        for operator in operators
    }
    vectors = {operator.name for operator in space.operators if not _is_einsum(operator)}
    on_sfu = sum(n for name, n in ideal.items() if name in vectors)
    memories = _memory_cycles(result, space, run, directed_bytes)
    slowest = max(memories, key=lambda name: memories[name], default="")
    least = memories.get(slowest, 0)
    computing = sum(ideal.values())
    if any(isinstance(node, Fork) and node.ahead for node in nodes(group.tree)):
        computing = max(on_sfu, computing - on_sfu)
    return DirectiveRuntime(
        cycles=max(cycles, least),
        operators=operators,
        memory=slowest if least > cycles else "",
        folds=not isinstance(result.accelerator.array, SpatialArraySpec),
        ideal_cycles=max(least, sum(ideal.values())),
        at_once_cycles=max(least, computing),
        computing_cycles=computing,
    )


def _memory_cycles(
    result: ExperimentResult, space: IterationSpace, run: OperatorRun, directed_bytes: Map[str, int]
) -> dict[str, int]:
    """Return the cycles of the bytes that cross each memory's channels, by its name."""
    crossing: dict[str, int] = {}
    for name in dict.fromkeys(name for way, name in run.moved if leaves_core(way)):
        tensor = result.workload.tensors[tensor_of(name)]
        at = result.accelerator.memory(tensor.lives)
        once = max(view.n_bytes for op in space.operators for used, view in op.uses if used == name)
        n_bytes = directed_bytes.get(name, result.workload.times(space.operators[0].name) * once)
        crossing[at] = crossing.get(at, 0) + n_bytes
    cycles = {}
    for at, n_bytes in crossing.items():
        memory = result.accelerator.every_backing[at]
        rate, channels = memory.channel_rate, memory.dram.channels
        cycles[at] = -(-n_bytes * rate.n_cycles // (rate.n_bytes * channels))
    return cycles
