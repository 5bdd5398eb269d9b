"""Differences between machine, prediction, bound and directives, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from simaccel.analytic.floor.floor import ByteBound
from simaccel.analytic.prediction import GroupPrediction
from simaccel.diagnosis.limits import waiting_by_cause
from simaccel.hardware.memory import dram_bytes
from simaccel.machine.machine import OperatorRun
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group, Keep, Loop, Node, paths
from simaccel.mapping.view import TensorView
from simaccel.papers.maestro.analysis.runtime import OperatorTime

TOLERANCE: Final = 0.02
"""Of cycles, relative to the machine's. Bytes have none: one byte more is a disagreement."""
Reason = Literal["waits", "overlap", "mistake", "description", "tree", "loops", "floor"]
"""Why two figures may differ: waits that the bound hasn't, or groups that overlap; a mistake, as
both count alike; cycles of a description's directives, or of those of a tree; bytes by their loops;
bytes of the best tiles, whatever the loops.
"""
NECESSARY: Final = "necessary"
"""The share of the repeated loads that no order of loops avoids."""


Part = tuple[OperatorRun, Group, IterationSpace]
"""A group: what it did, its tree, and its ranks."""


def dram_of(run: OperatorRun) -> int:
    """Return the bytes that a group moves to and from DRAM."""
    return dram_bytes(run.moved)


@dataclass(frozen=True)
class DirectiveRuntime:
    """The cycles of a group by the directives, in all repetitions, or why there are none.

    ``written``: the directives, if there are some for the whole group. ``operators``: the times of
    its operators, one repetition each. ``memory``: the memory that takes longer than the array.
    ``folds``: whether the array is systolic. ``ideal_cycles``: cycles with an infinitely fast NoC;
    ``at_once_cycles``: and with array and SFU overlapped where branches run ahead;
    ``computing_cycles``: and with infinitely fast memories.
    """

    written: str = ""
    cycles: int | None = None
    silent: str = ""
    operators: tuple[OperatorTime, ...] = ()
    memory: str = ""
    folds: bool = False
    ideal_cycles: int | None = None
    at_once_cycles: int | None = None
    computing_cycles: int | None = None


@dataclass(frozen=True)
class RepeatedTransfer:
    """A tensor that crosses ``times`` its size, for each piece (rank, tile) of some loops."""

    tensor: str
    times: Fraction
    pieces: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AssumptionShare:
    """An assumption's share of a difference (other - machine), in the unit of that.

    ``assumption``: a wait's cause, what a run was freed of, ``NECESSARY``, or a transfer.
    """

    assumption: str | RepeatedTransfer
    amount: int


@dataclass(frozen=True)
class Disagreement:
    """Two figures of one quantity, in ``unit`` ("cycles" or "bytes"), and the reason.

    ``other`` is the figure of ``analysis`` for ``what``, ``machine`` that of the machine.
    ``shares``: of the difference by assumption, where they have been measured.
    """

    analysis: str
    what: str
    unit: str
    machine: int
    other: int
    reason: Reason
    shares: tuple[AssumptionShare, ...] = ()

    @property
    def rest(self) -> int:
        """The part of the difference that no share explains."""
        return self.other - self.machine - sum(share.amount for share in self.shares)

    @property
    def relative(self) -> float | None:
        """(other - machine) / machine; None if the machine's figure is 0."""
        return (self.other - self.machine) / self.machine if self.machine else None


def against_prediction(run: OperatorRun, predicted: GroupPrediction) -> Iterator[Disagreement]:
    """Yield the cycles of a group beyond its bound, and counts that differ from the prediction."""
    bound = predicted.bound_cycles
    by_cause = waiting_by_cause(run, predicted.bound_terms)
    if _differ(run.cycles, bound):
        shares = tuple(AssumptionShare(cause, -n) for cause, n in by_cause.items())
        reason: Reason = "overlap" if bound > run.cycles else "waits"
        yield Disagreement("bound", "cycles", "cycles", run.cycles, bound, reason, shares)
    for key in sorted(run.moved.keys() | predicted.moved.keys()):
        machine, other = run.moved.get(key, 0), predicted.moved.get(key, 0)
        if machine != other:
            what = f"{key[0]} bytes of {key[1]}"
            yield Disagreement("counts", what, "bytes", machine, other, "mistake")


def against_directives(
    run: OperatorRun, runtime: DirectiveRuntime, dram_bytes: Mapping[str, int]
) -> Iterator[Disagreement]:
    """Yield differences of a group's runtime and DRAM bytes by tensor from the directives'."""
    if runtime.cycles is not None and _differ(run.cycles, runtime.cycles):
        figures = run.cycles, runtime.cycles
        reason: Reason = "tree" if runtime.operators else "description"
        yield Disagreement("directives", "runtime", "cycles", *figures, reason)
    for tensor, described in dram_bytes.items():
        machine = sum(run.moved.get((way, tensor), 0) for way in ("dram_read", "dram_write"))
        if machine != described:
            what = f"DRAM bytes of {tensor}"
            yield Disagreement("directives", what, "bytes", machine, described, "loops")


def against_floor(floor: ByteBound, parts: Sequence[Part]) -> Iterator[Disagreement]:
    """Yield the bytes of groups beyond the bound, and the loops that load tensors again."""
    names = [run.name for run, _, _ in parts]
    moved = sum(dram_of(run) for run, _, _ in parts)
    if moved == floor.least_bytes:
        return
    shares = [share for part in parts for share in _repeated_transfers(*part)]
    if floor.least_bytes > floor.compulsory_bytes:
        shares.append(AssumptionShare(NECESSARY, floor.least_bytes - floor.compulsory_bytes))
    what = f"DRAM bytes of {', '.join(names)}" if len(names) > 1 else "DRAM bytes"
    figures = "bytes", moved, floor.least_bytes
    yield Disagreement("bound", what, *figures, "floor", tuple(shares))


def _differ(machine: int, other: int) -> bool:
    return abs(other - machine) > TOLERANCE * machine


def _repeated_transfers(
    run: OperatorRun, group: Group, space: IterationSpace
) -> Iterator[AssumptionShare]:
    """Yield each tensor that crosses more than once: how often, by which loops, and its bytes."""
    times = space.workload.times(group.operators[0])
    loops: dict[str, dict[tuple[str, int], None]] = {}
    sizes: dict[str, int] = {}
    for outside, leaf in paths(group.tree):
        for name, view in space.bound_operator(leaf.operator).uses:
            known = loops.setdefault(name, {})
            sizes[name] = max(sizes.get(name, 0), times * view.n_bytes)
            repeating = _repeating(space, outside, name, view)
            known |= dict.fromkeys((loop.rank, loop.tile) for loop in repeating)
    for name, pieces in loops.items():
        crossed = sum(run.moved.get((level, name), 0) for level in ("dram_read", "dram_write"))
        if crossed > sizes[name]:
            again = RepeatedTransfer(name, Fraction(crossed, sizes[name]), tuple(pieces))
            yield AssumptionShare(again, sizes[name] - crossed)


def _repeating(
    space: IterationSpace, outside: Sequence[Node], name: str, view: TensorView
) -> Iterator[Loop]:
    """Yield the loops that don't move a tile but enclose one that does."""
    moving, left = space.moves(view), dict(space.sizes)
    loops = []
    for node in outside:
        if isinstance(node, Keep) and node.tensor == name:
            break
        if isinstance(node, Loop):
            if node.tile < left.get(node.rank, 0):
                loops.append(node)
            left[node.rank] = min(node.tile, left.get(node.rank, node.tile))
    last = max((at for at, loop in enumerate(loops) if loop.rank in moving), default=-1)
    yield from (loop for loop in loops[: last + 1] if loop.rank not in moving)
