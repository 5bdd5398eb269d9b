"""Differences between machine, prediction, bound and directives, each with its assumption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from simaccel.analytic.floor.floor import ByteBound
from simaccel.analytic.prediction import GroupPrediction
from simaccel.hardware.memory import dram_bytes
from simaccel.machine.machine import OperatorRun
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group, Keep, Loop, Node, paths
from simaccel.mapping.view import TensorView
from simaccel.papers.maestro.analysis.runtime import OperatorTime
from simaccel.run.limits import computing_unit, waiting_by_cause
from simaccel.units import cause_text

TOLERANCE: Final = 0.02
"""Of cycles, relative to the machine's. Bytes have none: one byte more is a disagreement."""
_DIRECTIVES: Final = (
    "the directives charge the first fill at each invocation of a cluster, overlap everything else "
    "without limits of slots and know no DRAM latency; the machine's tiles stay where they are"
)
_LOOPS: Final = (
    "the directives multiply pieces of the loops outside of a tile by what it leaves; what stays "
    "from elsewhere, or is padded, they don't see"
)


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
class AssumptionShare:
    """An assumption's share of a difference (other - machine), in the unit of that."""

    assumption: str
    amount: int


@dataclass(frozen=True)
class Disagreement:
    """Two figures of one quantity, in ``unit`` ("cycles" or "bytes"), and why they may differ.

    ``other`` is the figure of ``analysis`` for ``what``, ``machine`` that of the machine.
    ``shares``: of the difference by assumption, where they have been measured.
    """

    analysis: str
    what: str
    unit: str
    machine: int
    other: int
    assumption: str
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
    terms = ", ".join(f"{name} {n:,}" for name, n in predicted.bound_terms.items())
    assumed = f"no wait beside the bound's own terms: {terms}"
    if bound > run.cycles:
        assumed = "the bound is of the group alone; here it overlaps others"
    disagreements = _cycles("bound", "cycles", run.cycles, bound, assumed)
    shares = tuple(AssumptionShare(cause_text(cause), -n) for cause, n in by_cause.items())
    yield from (replace(disagreement, shares=shares) for disagreement in disagreements)
    mistake = "none: both count the same loops, so this is an error in simaccel"
    for key in sorted(run.moved.keys() | predicted.moved.keys()):
        machine, other = run.moved.get(key, 0), predicted.moved.get(key, 0)
        if machine != other:
            what = f"{key[0]} bytes of {key[1]}"
            yield Disagreement("counts", what, "bytes", machine, other, mistake)


def against_directives(
    run: OperatorRun, runtime: DirectiveRuntime, dram_bytes: Mapping[str, int]
) -> Iterator[Disagreement]:
    """Yield differences of a group's runtime and DRAM bytes by tensor from the directives'."""
    if runtime.cycles is not None:
        assumed = _state_assumption(run, runtime) if runtime.operators else _DIRECTIVES
        yield from _cycles("directives", "runtime", run.cycles, runtime.cycles, assumed)
    for tensor, described in dram_bytes.items():
        machine = sum(run.moved.get((way, tensor), 0) for way in ("dram_read", "dram_write"))
        if machine != described:
            what = f"DRAM bytes of {tensor}"
            yield Disagreement("directives", what, "bytes", machine, described, _LOOPS)


def against_floor(floor: ByteBound, parts: Sequence[Part]) -> Iterator[Disagreement]:
    """Yield the bytes of groups beyond the bound, and the loops that load tensors again."""
    names = [run.name for run, _, _ in parts]
    moved = sum(dram_of(run) for run, _, _ in parts)
    if moved == floor.least_bytes:
        return
    repeated = [crossing for part in parts for crossing in _repeated_crossings(*part)]
    assumed = "tiles of the best shape for all memory on chip, whatever the loops"
    if floor.least_bytes == floor.compulsory_bytes:
        assumed = "that a tensor between two groups crosses once, however little memory there is"
    texts = "; ".join(text for text, _ in repeated)
    cause = f"the mapping moves {texts}" if repeated else "no tensor crosses twice"
    shares = [AssumptionShare(text, -more) for text, more in repeated]
    if floor.least_bytes > floor.compulsory_bytes:
        text = "the repeated loads that the memory on chip makes necessary in any order"
        shares.append(AssumptionShare(text, floor.least_bytes - floor.compulsory_bytes))
    what = f"DRAM bytes of {', '.join(names)}" if len(names) > 1 else "DRAM bytes"
    assumed = f"the bound assumes {assumed}; {cause}"
    figures = "bytes", moved, floor.least_bytes
    yield Disagreement("bound", what, *figures, assumed, tuple(shares))


def _state_assumption(run: OperatorRun, runtime: DirectiveRuntime) -> str:
    """Return what the directives of a tree assume, and what holds in this run, as text."""
    if runtime.memory:
        assumptions = [f"the directives take the bytes of {runtime.memory} at its full rate"]
    else:
        transfers = sum(operator.transfers or 0 for operator in runtime.operators)
        every = sum(operator.cycles or 0 for operator in runtime.operators)
        share = f"{100 * transfers / max(1, every):.0f}%"
        assumptions = [
            f"the directives charge the first fill of each block again ({share} of their cycles)"
        ]
    folds = "skew or preload of a fold, no " if runtime.folds else ""
    assumptions.append(f"hide all else; know no {folds}slots, no DRAM latency")
    if len(runtime.operators) > 1:
        assumptions.append("run one operator after the other")
    return f"{'; '.join(assumptions)} ({_waits(run, computing_unit(run))})"


def _cycles(
    analysis: str, what: str, machine: int, other: int, assumption: str
) -> Iterator[Disagreement]:
    if abs(other - machine) > TOLERANCE * machine:
        yield Disagreement(analysis, what, "cycles", machine, other, assumption)


def _waits(run: OperatorRun, unit: str) -> str:
    """Return the cause for which a unit waits longest, as text."""
    top = Counter(run.engines[unit].stalls).most_common(1)
    if not top or not top[0][1]:
        return f"its {unit} never waits"
    cause, cycles = top[0]
    return f"its {unit} waits {cycles:,} cycles for {cause_text(cause)}"


def _repeated_crossings(
    run: OperatorRun, group: Group, space: IterationSpace
) -> Iterator[tuple[str, int]]:
    """Yield each tensor that crosses more than once: how often, by which loops, and its bytes."""
    times = space.workload.times(group.operators[0])
    loops: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for outside, leaf in paths(group.tree):
        for name, view in space.bound_operator(leaf.operator).uses:
            known = loops.setdefault(name, [])
            sizes[name] = max(sizes.get(name, 0), times * view.n_bytes)
            for loop in _repeating(space, outside, name, view):
                text = f"{loop.rank} {loop.tile:,}"
                known.extend([text] * (text not in known))
    for name, pieces in loops.items():
        crossed = sum(run.moved.get((level, name), 0) for level in ("dram_read", "dram_write"))
        if crossed > sizes[name]:
            often = f"{name} {crossed / sizes[name]:.2f} times"
            text = f"{often} (for each piece of {' and '.join(pieces)})" if pieces else often
            yield text, crossed - sizes[name]


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
