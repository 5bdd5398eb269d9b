"""Explanation of a run, group by group: machine, bound and directives, and where they disagree.

The *machine*: cycles and stalls. The *bound*: cycles that no run of this mapping is below, and
bytes that no mapping with these groups moves less than. The *directives*: from the tree, reuse by
dimension and the bytes that it leaves to DRAM; from the run's counts, reuse by level, multicast and
what each level needs; and MAESTRO's runtime of the tree: of its levels on PEs with memories, of the
folds of a systolic array, of the passes of vector operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

from simaccel.analytic.floor.floor import ByteBound, floors_of, on_chip_bytes
from simaccel.analytic.prediction import GroupPrediction
from simaccel.diagnosis.limits import computing_unit
from simaccel.errors import SimaccelError
from simaccel.hardware import SpatialArraySpec
from simaccel.hardware.memory import leaves_core
from simaccel.hardware.resources import limits_of
from simaccel.machine.machine import OperatorRun
from simaccel.mapping.cores import CORES
from simaccel.mapping.space import BoundOperator, IterationSpace, space_of
from simaccel.mapping.tree import Fork, Group, Keep, Spread, nodes, paths
from simaccel.numbers import BYTE
from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.dimensions import Dimension, dimensions_of, dram_bytes_of
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.analysis.runtime import operator_times
from simaccel.papers.maestro.commands import disagreement
from simaccel.papers.maestro.dataflows.reading import DirectedLayer
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

    ``multicast``: PEs that take (or pass on) an element that is sent once.
    ``directives_dram_bytes``: by the directives, None where they have no figure.
    """

    tensor: str
    dram_bytes: int
    directives_dram_bytes: int | None
    reads_per_buffer_byte: Fraction | None
    macs_per_element_sent: Fraction | None
    macs_per_sum_back: Fraction | None
    multicast: Fraction | None


@dataclass(frozen=True, kw_only=True)
class NeededRate:
    """The bandwidth that a level needs so that the computing unit never waits for it.

    Needed are bytes for each cycle of computing, offered those of the cores that compute, None: no
    limit.
    """

    level: str
    bytes: int
    needed_bytes_per_cycle: Fraction
    offered_bytes_per_cycle: Fraction | None


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
    directives: disagreement.DirectiveRuntime
    disagreements: tuple[disagreement.Disagreement, ...]

    @property
    def stalls(self) -> list[tuple[str, int]]:
        """Cycles that its unit waits, by cause, the largest first."""
        return Counter(self.run.engines[self.unit].stalls).most_common()

    @property
    def dram_bytes(self) -> int:
        """Bytes that the group moves to and from DRAM."""
        return disagreement.dram_of(self.run)


def explain(
    result: ExperimentResult, directed: Sequence[DirectedLayer] = ()
) -> tuple[GroupExplanation, ...]:
    """Return the explanation of each group of a run.

    ``directed``: the directives from which the mapping was made, if it was; they are of whole
    layers, so that a layer cut over cores has those of its tree.
    """
    workload, accelerator = result.workload, result.accelerator
    ran = {run.name: run for run in result.run.operators}
    parts = {
        group.name: _GroupFigures(result, ran[group.name], group, space_of(workload, group), around)
        for group, around in result.mapping.groups_with_keeps()
    }
    predicted = {prediction.name: prediction for prediction in result.prediction.groups}
    written = {directives.name: directives for directives in directed}
    explanations = []
    for names, floor in floors_of(workload, result.mapping, on_chip_bytes(accelerator)):
        together = [(parts[name].run, parts[name].group, parts[name].space) for name in names]
        for run, group, space in together:
            part = parts[run.name]
            is_cut = any(isinstance(node, Spread) and node.level == CORES for node in group.tree)
            directed_as = None if is_cut else written.get(group.name)
            runtime = part.runtime() if directed_as is None else part.directed_runtime(directed_as)
            disagreements = (
                *disagreement.against_prediction(run, predicted[run.name]),
                *(disagreement.against_floor(floor, together) if run.name == names[-1] else ()),
                *disagreement.against_directives(run, runtime, part.directed_bytes),
            )
            explained = GroupExplanation(
                run=run,
                prediction=predicted[run.name],
                unit=computing_unit(run),
                together=names,
                floor=floor,
                dimensions=dimensions_of(space, group, accelerator),
                reuse=part.reuse(),
                needs=part.needs(),
                directives=runtime,
                disagreements=disagreements,
            )
            explanations.append(explained)
    return tuple(explanations)


@dataclass(frozen=True)
class _GroupFigures:
    """A group's run, its tree and ranks, and the keeps ``around`` it."""

    result: ExperimentResult
    run: OperatorRun
    group: Group
    space: IterationSpace
    around: tuple[Keep, ...]

    @cached_property
    def times(self) -> int:
        """Repetitions of the group."""
        return self.result.workload.times(self.group.operators[0])

    @cached_property
    def directed_bytes(self) -> dict[str, int]:
        """DRAM bytes by directives, in all repetitions."""
        if self.around:
            return {}
        return {name: self.times * n for name, n in dram_bytes_of(self.space, self.group).items()}

    # -- reuse

    def reuse(self) -> tuple[Reuse, ...]:
        """Return the reuse of each tensor that moves."""
        names = dict.fromkeys(name for op in self.space.operators for name, _ in op.uses)
        moved = {name for _, name in self.run.moved}
        return tuple(self._reuse_of(name) for name in names if name in moved)

    def _reuse_of(self, name: str) -> Reuse:
        moved = self.run.moved
        width = Fraction(self.result.workload.tensors[tensor_of(name)].bits, BYTE)
        same, einsums = self._in_place(name), list(filter(_is_einsum, self.space.operators))
        readers = [operator for operator in einsums if same & {*operator.names}]
        makers = [operator for operator in einsums if operator.output.name == name]
        sent, back = (moved.get((way, name), 0) for way in ("noc_distribution", "noc_collection"))
        array = _ratio(self._macs(readers) * width, sent)
        if isinstance(self.result.accelerator.array, SpatialArraySpec):
            taken = sum(
                n
                for (level, tensor), n in moved.items()
                if tensor == name and level.startswith("pe.") and level.endswith("_write")
            )
            multicast = _ratio(taken, sent) if readers and not makers else None
        else:
            multicast = self._pes_of_element(array, readers, same)
        read, written = (moved.get((way, name), 0) for way in ("buffer_read", "buffer_write"))
        return Reuse(
            tensor=name,
            dram_bytes=moved.get(("dram_read", name), 0) + moved.get(("dram_write", name), 0),
            directives_dram_bytes=self.directed_bytes.get(name),
            reads_per_buffer_byte=_ratio(read, written),
            macs_per_element_sent=array,
            macs_per_sum_back=_ratio(self._macs(makers) * width, back),
            multicast=multicast,
        )

    def _in_place(self, name: str) -> set[str]:
        """Return a tensor with those that vector operators make in its place."""
        moved, same = {tensor for _, tensor in self.run.moved}, {name}
        for op in self.space.operators:
            if not _is_einsum(op) and same & {*op.names} and op.output.name not in moved:
                same.add(op.output.name)
        return same

    def _pes_of_element(
        self, array: Fraction | None, readers: Sequence[BoundOperator], same: set[str]
    ) -> Fraction | None:
        """Return the PEs of a systolic array that an element goes through: of a held one, one.

        What isn't held is used in each PE that it passes, once.
        """
        if array is None or len(readers) != 1:
            return None
        leaves = {leaf.operator: leaf for _, leaf in paths(self.group.tree)}
        held = _HELD.get(leaves[readers[0].name].stationarity or "ws")
        return Fraction(1) if held is not None and readers[0].names[held] in same else array

    def _macs(self, einsums: Sequence[BoundOperator]) -> int:
        """Return the MACs of einsums: of all of a group, those of the run, padding too."""
        if einsums and "+" not in self.run.name:
            return self.run.macs
        times = self.result.workload.times
        return sum(times(einsum.name) * einsum.operator.macs for einsum in einsums)

    # -- what each level needs

    def needs(self) -> tuple[NeededRate, ...]:
        """Return the bandwidth that each level needs."""
        accelerator = self.result.accelerator
        computing = max(1, self.run.engines[computing_unit(self.run)].busy)
        moved = dict.fromkeys((*accelerator.every_backing, *ON_CHIP), 0)
        for (way, tensor), n_bytes in self.run.moved.items():
            at = way
            if leaves_core(way):
                at = accelerator.memory(self.result.workload.tensors[tensor_of(tensor)].lives)
            if at in moved:
                moved[at] += n_bytes
        busy = (name for name, account in self.run.engines.items() if account.busy)
        limits = limits_of(accelerator, busy)
        return tuple(
            NeededRate(
                level=level,
                bytes=n_bytes,
                needed_bytes_per_cycle=Fraction(n_bytes, computing),
                offered_bytes_per_cycle=limits[level],
            )
            for level, n_bytes in moved.items()
        )

    # -- directives

    def directed_runtime(self, directed: DirectedLayer) -> disagreement.DirectiveRuntime:
        """Return the analytic runtime of the directives that the group was made of."""
        written = "; ".join(map(str, directed.dataflow))
        workload = self.result.workload
        inputs = workload.operator(self.group.operators[0]).inputs
        tensors = (workload.tensors[operand.tensor] for operand in inputs)
        elements = [(tensor.bits, tensor.number) for tensor in tensors]
        try:
            hardware = hardware_of(self.result.accelerator, elements)
            (analysis,) = analyse([directed], [hardware])
        except SimaccelError as error:
            return disagreement.DirectiveRuntime(written=written, silent=str(error))
        cycles = int(analysis.figures()["runtime_cycles"] or 0)
        return disagreement.DirectiveRuntime(written=written, cycles=self.times * cycles)

    def runtime(self) -> disagreement.DirectiveRuntime:
        """Return the runtime of the tree as directives, or of the bytes that cross if that is more.

        Those are the counts of the directives; a tensor of which they tell nothing crosses once.
        """
        operators = operator_times(self.space, self.group, self.result.accelerator, self.around)
        silent = dict.fromkeys(operator.silent for operator in operators if operator.silent)
        if silent:
            return disagreement.DirectiveRuntime(silent="; ".join(silent), operators=operators)
        cycles = self.times * sum(operator.cycles or 0 for operator in operators)
        ideal = {
            operator.operator: self.times * ((operator.cycles or 0) - (operator.transfers or 0))
            for operator in operators
        }
        on_sfu = sum(ideal[op.name] for op in self.space.operators if not _is_einsum(op))
        memories = self._memory_cycles()
        slowest = max(memories, key=lambda name: memories[name], default="")
        least = memories.get(slowest, 0)
        computing = sum(ideal.values())
        if any(isinstance(node, Fork) and node.ahead for node in nodes(self.group.tree)):
            computing = max(on_sfu, computing - on_sfu)
        return disagreement.DirectiveRuntime(
            cycles=max(cycles, least),
            operators=operators,
            memory=slowest if least > cycles else "",
            folds=not isinstance(self.result.accelerator.array, SpatialArraySpec),
            ideal_cycles=max(least, sum(ideal.values())),
            at_once_cycles=max(least, computing),
            computing_cycles=computing,
        )

    def _memory_cycles(self) -> dict[str, int]:
        """Return the cycles of the bytes that cross each memory's channels, by its name."""
        crossing: Counter[str] = Counter()
        uses = [use for op in self.space.operators for use in op.uses]
        for name in dict.fromkeys(name for way, name in self.run.moved if leaves_core(way)):
            tensor = self.result.workload.tensors[tensor_of(name)]
            once = max(view.n_bytes for used, view in uses if used == name)
            n_bytes = self.directed_bytes.get(name, self.times * once)
            crossing[self.result.accelerator.memory(tensor.lives)] += n_bytes
        cycles = {}
        for at, n_bytes in crossing.items():
            memory = self.result.accelerator.every_backing[at]
            rate, channels = memory.channel_rate, memory.dram.channels
            cycles[at] = -(-n_bytes * rate.n_cycles // (rate.n_bytes * channels))
        return cycles


def _is_einsum(one: BoundOperator) -> bool:
    return isinstance(one.operator, Einsum)


def _ratio(above: int | Fraction, below: int) -> Fraction | None:
    return Fraction(above, below) if above and below else None
