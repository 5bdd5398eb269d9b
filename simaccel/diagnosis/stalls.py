"""Cycles of a run, a window or an operator by engine and cause, from a trace.

An event names its operator, but the idle cycles of an engine without work in an operator are
recorded under the last operator that it worked for. All engines synchronise at the end of each
operator, and an engine that works in it is not idle before. So an operator lasts as long as its
engines are not idle, and all other cycles of an engine in it are idle. This is exact, also in a
window. If operators run at once on different cores, each is described by its first core, and the
sum of their cycles exceeds those of the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simaccel.analytic.native import mac_share
from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import core_of_name, on_core, without_core
from simaccel.trace import Stall, TraceReader
from simaccel.units import ARRAY, COMPUTE_UNITS
from simaccel.workload import Workload
from simaccel.workload.roles import operators_of

_BY = ("engine", "operator", "cause", "tile", "kind", "waits_for")
TOTAL = "total"
_WORTH_A_SEARCH = 0.02
"""Share of a run's cycles that waits for bandwidth must have to be worth another mapping."""

Causes = Mapping[str, int]
"""Cycles by cause, ``busy`` and ``idle`` included; causes without a cycle are left out."""


@dataclass(frozen=True)
class OperatorDiagnosis:
    """The cycles of an operator, or of all of them, by engine and cause.

    ``waits``: stalled cycles by engine, root cause and direct wait, the largest first.
    ``moved``: bytes by channel and tensor, known for a whole run.
    """

    name: str
    cycles: int
    engines: Mapping[str, Causes]
    waits: tuple[Stall, ...] = ()
    macs: int | None = None
    moved: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def unit_name(self, unit: str) -> str:
        """Return the name of an engine: that of a unit on the core of the engine to describe."""
        return on_core(core_of_name(self.compute), unit)

    def share(self, engine: str, cause: str) -> float:
        """Return the cycles of a cause of an engine as a fraction of all cycles."""
        causes = self.engines.get(engine, {})
        return causes.get(cause, 0) / self.cycles if self.cycles else 0.0

    def stalls(self, engine: str) -> list[tuple[str, int]]:
        """Return the stall causes of an engine and their cycles, the largest first."""
        causes = self.engines[engine].items()
        stalls = [(cause, n) for cause, n in causes if cause not in ("busy", "idle")]
        return sorted(stalls, key=lambda pair: (-pair[1], pair[0]))

    @property
    def critical(self) -> str:
        """The critical engine: the one that is busy longest.

        The work of the busiest engine hides all other work, so this is the engine to speed up or
        to unload; if it is busy all the time, it bounds the operator. Of equally busy engines it
        is the one that the others wait for longer; then the array and the SFU come before the
        DMA engines. The DMA engines share the DRAM: a transfer that queues there counts as busy.
        """
        order = sorted(self.engines, key=lambda e: (*COMPUTE_UNITS, e).index(e))
        blamed = Counter[str]()
        for wait in self.waits:
            blamed[wait.waits_for] += wait.cycles
        return max(order, key=lambda e: (self.engines[e].get("busy", 0), blamed[e]))

    @property
    def compute(self) -> str:
        """The engine to describe: of all arrays and SFUs the busiest one, of these the least idle.

        Where none has cycles, as beside the links, the busiest of all engines.
        """
        known = [name for name, causes in self.engines.items() if causes] or [*self.engines]
        units = [name for name in known if without_core(name) in COMPUTE_UNITS] or known
        causes = self.engines
        return max(units, key=lambda n: (causes[n].get("busy", 0), -causes[n].get("idle", 0)))

    def longest_wait(self, engine: str, cause: str) -> Stall | None:
        """Return the direct wait in which an engine lost most cycles to a root cause."""
        return next((w for w in self.waits if (w.engine, w.cause) == (engine, cause)), None)


@dataclass(frozen=True)
class Diagnosis:
    """The operators of a run or of a window of it, from cycle ``start`` up to ``end``."""

    start: int
    end: int
    total: OperatorDiagnosis
    operators: tuple[OperatorDiagnosis, ...]

    @property
    def costliest(self) -> OperatorDiagnosis | None:
        """The operator with most cycles, the first of equals; None without any."""
        return max(self.operators, key=lambda part: part.cycles, default=None)

    @property
    def waits_for_bytes(self) -> OperatorDiagnosis | None:
        """The operator whose compute engine waits most for DRAM bandwidth; None if hardly any."""
        most = max(self.operators, key=_bandwidth_wait, default=None)
        if most is None or _bandwidth_wait(most) < _WORTH_A_SEARCH * self.total.cycles:
            return None
        return most

    def part(self, operator: str | None) -> OperatorDiagnosis:
        """Return one operator, or the total.

        Raises:
            InputError: there is no such operator in this window.
        """
        if operator is None:
            return self.total
        names = [part.name for part in self.operators]
        if operator not in names:
            raise InputError(
                [Fault("command line", "--operator", operator, suggest(operator, names))]
            )
        return self.operators[names.index(operator)]


def _bandwidth_wait(part: OperatorDiagnosis) -> int:
    """Return the cycles that the compute engine of a part waits for DRAM bandwidth."""
    return dict(part.stalls(part.compute)).get("dram_bandwidth", 0)


def diagnose(trace: TraceReader, start: int = 0, end: int | None = None) -> Diagnosis:
    """Return the cycles from ``start`` up to ``end`` by operator, engine and cause.

    Raises:
        TraceError: the window is no part of the run.
    """
    end = trace.cycles if end is None else end
    whole = (start, end) == (0, trace.cycles)
    known = trace.figures if whole else {}
    by_name = {document["name"]: document for document in known.get("operators", ())}
    by_operator: dict[str, list[Stall]] = defaultdict(list)
    for row in trace.account(_BY, start, end):
        by_operator[row.operator].append(row)
    parts = [_part(name, stalls, trace.engines) for name, stalls in by_operator.items()]
    order = [*dict.fromkeys(site.operator for site in trace.header.sites.values()), ""]
    parts = sorted((p for p in parts if p.cycles), key=lambda part: order.index(part.name))
    operators = tuple(
        _with_figures(part, by_name.get(part.name, {}))
        for part in parts
        if part.name or any(set(causes) - {"idle"} for causes in part.engines.values())
    )
    total = _with_figures(_sum(parts, trace.engines, end - start), known)
    if not total.moved and total.cycles and trace.header.accelerator:
        use = trace.bandwidth(bins=1, start=start, end=end)
        pairs = zip(use.channels, use.moved, strict=True)
        total = replace(total, moved={name: {"": int(moved.sum())} for name, moved in pairs})
        if len(operators) == 1:
            operators = (replace(operators[0], moved=total.moved),)
    return Diagnosis(start, end, total, operators)


def ideal_cycles(part: OperatorDiagnosis, workload: Workload, accelerator: Accelerator) -> float:
    """Return the cycles of a part's MACs if all PEs of the arrays that work on it were busy.

    0 where MACs are unknown.
    """
    busy = [name for name, causes in part.engines.items() if causes.get("busy")]
    arrays = sum(without_core(name) == ARRAY for name in busy)
    if not part.macs or not arrays:
        return 0.0
    is_run = part.name == TOTAL
    names = [*workload.by_name] if is_run else operators_of(workload, part.name)
    return (
        float(part.macs * mac_share(workload, accelerator, names)) / accelerator.array.pes / arrays
    )


def _part(name: str, rows: Sequence[Stall], engines: Sequence[str]) -> OperatorDiagnosis:
    """Return the sum of an operator's rows; engines of its cores count for all of its cycles."""
    causes: dict[str, dict[str, int]] = {engine: defaultdict(int) for engine in engines}
    for row in rows:
        causes[row.engine][row.cause] += row.cycles
    core = min(core_of_name(row.engine) for row in rows)
    own = (counts for engine, counts in causes.items() if core_of_name(engine) == core)
    cycles = max(sum(counts.values()) for counts in own)
    waits = tuple(row for row in rows if row.cause not in ("busy", "idle"))
    return OperatorDiagnosis(
        name, cycles, {engine: dict(counts) for engine, counts in causes.items()}, waits
    )


def _sum(
    operators: Sequence[OperatorDiagnosis], engines: Sequence[str], most: int
) -> OperatorDiagnosis:
    """Return the sum of operators; ``most``: the cycles within which they run."""
    causes = {engine: Counter[str]() for engine in engines}
    for part in operators:
        for engine, own in part.engines.items():
            causes[engine].update(own)
    waits = sorted((w for part in operators for w in part.waits), key=lambda w: -w.cycles)
    cycles = min(sum(part.cycles for part in operators), most)
    return OperatorDiagnosis(
        TOTAL, cycles, {name: dict(own) for name, own in causes.items()}, tuple(waits)
    )


def _with_figures(part: OperatorDiagnosis, figures: Mapping[str, Any]) -> OperatorDiagnosis:
    """Return a part with the figures that the run has counted, where they are known."""
    if "bytes" not in figures:
        return part
    moved = {
        f"{where}_{way}": tensors
        for where, ways in figures["bytes"].items()
        for way, tensors in ways.items()
    }
    return replace(part, macs=figures.get("macs"), moved=moved)
