"""The limits of a run and of each of its rows, in the hardware's terms.

A row is an operator or a fused group. Where rows overlap, its cycles may be fewer than its own
work, part of which is done in the cycles of the rows beside it. Waiting is what a run takes beyond
its lower bound, by the causes of the computing unit: each term of the bound is subtracted from the
cycles that it accounts for. Loading is when an array's folds do nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from simaccel.analytic.native import mac_share
from simaccel.analytic.prediction import GroupPrediction, Prediction
from simaccel.hardware import Accelerator, ArraySpec, FoldGrid, Stationarity
from simaccel.hardware.chips import LINK_CHANNEL
from simaccel.hardware.cores import CORE_NOC, core_of_name, on_core, without_core
from simaccel.hardware.quantity import Amount
from simaccel.hardware.spec import copy_spec
from simaccel.machine.folds import Fold, FoldLoop, folds_of
from simaccel.machine.machine import OperatorRun, Run
from simaccel.numbers import SHARED
from simaccel.program.program import Compute, Folds, Node, Operator, Program, ProgramLoop
from simaccel.run.run import RunResult
from simaccel.units import ARRAY, COMPUTE_UNITS, FIELDS, LIMITS, LINK, LOADING, SFU, UNFILLED, UNITS
from simaccel.workload.roles import operators_of

_OF_RESOURCE: Final = {
    **{name: name for name in UNITS},
    "buffer_read": "buffer_port",
    "buffer_write": "buffer_port",
    "noc_distribution": "noc",
    "noc_collection": "noc",
}
"""Limits of resources other than memories outside, by the resource's name on a core."""
_HALF: Final = 2


@dataclass(frozen=True)
class RunLimit:
    """The limit of a row or of the run: its name in `LIMITS`, and its fraction of the cycles.

    ``memory``: the section of the memory that limits; empty if it isn't known which.
    """

    name: str
    share: float
    memory: str = "dram"

    @property
    def text(self) -> str:
        """The name of the limit as it is printed."""
        return LIMITS[self.name]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the accelerator that set the limit; none if the memory isn't known."""
        known = FIELDS.get(self.name, ())
        sections = {field.split(".")[0] for field in known}
        if sections != {"dram"}:
            return known
        return tuple(f"{self.memory}.{field.split('.')[1]}" for field in known if self.memory)


@dataclass(frozen=True)
class Row:
    """A row of a run, with its limit.

    ``busy_cycles``: its cycles, or the work of its busiest resource, if that is more.
    """

    run: OperatorRun
    predicted: GroupPrediction
    busy_cycles: int
    loading_cycles: int
    limit: RunLimit
    ideal_pe_cycles: Fraction
    """Cycles of one PE for its MACs; MACs of padding do no good."""

    def utilisation(self, accelerator: Accelerator) -> float:
        """Return the ideal cycles divided by its cycles, or by the array's work if that is more."""
        work = (n for name, n in self.predicted.resources.items() if without_core(name) == ARRAY)
        cycles = max(self.run.cycles, *work, 1)
        return float(self.ideal_pe_cycles) / accelerator.pes / cycles

    @property
    def cycles(self) -> int:
        """The cycles of the run that are this row's (`simaccel.machine.totals`)."""
        return self.run.cycles


def rows_of(result: RunResult) -> tuple[Row, ...]:
    """Return the rows of a run, in order of execution."""
    loading = loading_cycles(result.program, result.accelerator)
    rows, times = [], result.workload.times
    for run, predicted in result.groups():
        names = operators_of(result.workload, run.name)
        share, alone = mac_share(result.workload, result.accelerator, names), loading[run.name]
        limit = _limit(result.accelerator, run, predicted, alone, share)
        busy_cycles = max(run.cycles, predicted.resource_bound_cycles)
        known = result.workload.by_name.keys() & {*names}
        needed = sum(times(name) * result.workload.by_name[name].macs for name in known)
        ideal = min(run.macs, needed) * share
        rows.append(Row(run, predicted, busy_cycles, alone, limit, ideal))
    return tuple(rows)


def run_limit(result: RunResult, rows: Sequence[Row]) -> RunLimit:
    """Return the limit of a run, as that of a row with all work."""
    loading = sum(row.loading_cycles for row in rows)
    share = mac_share(result.workload, result.accelerator, result.workload.by_name)
    return _limit(result.accelerator, result.run, result.prediction, loading, share)


def next_limit(result: RunResult, limit: RunLimit) -> RunLimit:
    """Return the limit with the most work after another: the next one if that were freed."""
    work, on = result.prediction.resources, result.accelerator
    others = (name for name in work if _name_limit(on, name).split("_")[0] not in limit.name)
    busiest = max(others, key=lambda name: work[name])
    share = work[busiest] / max(1, result.run.cycles)
    return RunLimit(_name_limit(on, busiest), share, _section(on, busiest))


def _name_limit(accelerator: Accelerator, resource: str) -> str:
    name = without_core(resource)
    if name in accelerator.every_backing:
        waits = accelerator.every_backing[name].waits_for_requests
        return "dram_queue" if waits else "dram_bandwidth"
    if name.startswith(LINK_CHANNEL):
        return LINK
    return CORE_NOC if name.startswith(CORE_NOC) else _OF_RESOURCE[name]


def _limit(
    accelerator: Accelerator,
    run: Run | OperatorRun,
    predicted: Prediction | GroupPrediction,
    loading: int,
    share: Fraction,
) -> RunLimit:
    """Return the busiest resource, or the cause of most waiting if none is busy half of the time.

    Of equally busy ones the first, which is the array. Of a row that others overlap no resource has
    more work than its cycles.
    """
    cycles = max(run.cycles, 1)
    work = {name: min(n, cycles) for name, n in predicted.resources.items()}
    busiest = max(work, key=lambda name: work[name])
    for cause, n in waits_of_unit(run).most_common(1):
        if work[busiest] * _HALF < cycles and n > work[busiest]:
            return RunLimit(cause, n / cycles, only_memory(accelerator))
    name = _name_limit(accelerator, busiest)
    if name == ARRAY:
        whole = predicted.resources[busiest]
        accounts = run.engines.items()
        arrays = sum(account.busy > 0 for lane, account in accounts if without_core(lane) == ARRAY)
        ideal = run.native_macs * share / (accelerator.array.pes * max(arrays, 1))
        if loading * _HALF > whole:  # the largest part: loading, unused PEs, or MACs
            name = LOADING
        elif ideal * _HALF < whole - loading:
            name = UNFILLED
    return RunLimit(name, work[busiest] / cycles, _section(accelerator, busiest))


def _section(accelerator: Accelerator, resource: str) -> str:
    """Return the section of a resource's memory; of other resources the DRAM's."""
    name = without_core(resource)
    if name in accelerator.memories.by_class():
        return f"memories.{name}"
    return "cores.shared_buffer" if name == SHARED else "dram"


def only_memory(accelerator: Accelerator) -> str:
    """Return the memory's section if only one takes time, as waits don't name it; else empty."""
    _, *others = accelerator.every_backing.values()
    free = (one.channel_rate.unlimited and not one.dram.latency_cycles for one in others)
    return "dram" if all(free) else ""


def waits_of_unit(run: Run | OperatorRun) -> Counter[str]:
    """Return the cycles that the computing unit waits, by cause.

    The unit is the array, or the SFU if the array is idle for longer than it waits for any cause.
    Waits for kernel starts are the most of any engine: while one waits for a start, none works.
    """
    account = run.engines[computing_unit(run)]
    if account.idle > max(account.stalls.values(), default=0):
        account = run.engines[computing_unit(run, SFU)]
    starts = max(engine.stalls.get("start", 0) for engine in run.engines.values())
    return Counter({**account.stalls, "start": starts})


class FreeArray(ArraySpec):
    """An array of whose folds only a part takes time; the bytes it moves are unchanged.

    ``timed``: the part: ``nothing``; ``streaming``; or ``skewed``, all but loading the stationary
    operand: streaming, skew and draining.
    """

    timed: Literal["nothing", "streaming", "skewed"] = "nothing"

    def lead_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:  # noqa: ARG002
        """Return 0: nothing is loaded before the first fold."""
        return grid.high * 0

    def fold_cycles(
        self,
        rows: Amount,
        cols: Amount,
        stream: Amount,
        stationarity: Stationarity,  # noqa: ARG002 - as ArraySpec has it
        first_rows: Amount | None = None,  # noqa: ARG002
        row_rate: int = 1,  # noqa: ARG002
    ) -> Amount:
        """Return the timed cycles of a fold; skew counts unless the next one follows directly."""
        if self.timed != "skewed":
            return stream * int(self.timed == "streaming") + rows * 0
        high, wide = self._sides(rows, cols)
        return stream + (high + wide - 2) * int(self.overlap != "stream")

    def tail_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Return the cycles after the last fold."""
        return super().tail_cycles(grid, stationarity) * int(self.timed == "skewed")


def without_loading(accelerator: Accelerator) -> Accelerator:
    """Return an accelerator whose systolic array is loaded and unloaded in no time.

    A spatial array, or one that is free of more, stays as it is.
    """
    if type(accelerator.array) is not ArraySpec:
        return accelerator
    loaded = copy_spec(accelerator.array, FreeArray, timed="skewed")
    return copy_spec(accelerator, Accelerator, array=loaded)


def loading_cycles(program: Program, accelerator: Accelerator) -> Counter[str]:
    """Return the cycles by operator in which the array of core 0 only loads or unloads.

    They are those beyond an array that is loaded in no time; none in a spatial array.
    """
    found: Counter[str] = Counter()
    if isinstance(accelerator.array, ArraySpec):
        _add_loading(program.body, "", 1, (accelerator, without_loading(accelerator)), found)
    return found


def _add_loading(
    body: Sequence[Node],
    operator: str,
    times: int,
    both: tuple[Accelerator, Accelerator],
    loading: Counter[str],
) -> None:
    for node in body:
        if isinstance(node, Operator):
            _add_loading(node.body, node.name, times, both, loading)
        elif isinstance(node, ProgramLoop):
            trips = node.trips if node.core is None else int(node.core == 0)
            _add_loading(node.body, operator, times * trips, both, loading)
        elif isinstance(node, Compute) and isinstance(node.on, Folds):
            slow, fast = (_cycles(folds_of(node, node.on, machine).folds) for machine in both)
            loading[operator] += times * (slow - fast)


def _cycles(node: Fold | FoldLoop) -> int:
    if isinstance(node, Fold):
        return node.cycles
    return node.trips * sum(map(_cycles, node.body))


BUSY: Final = "busy"
IDLE: Final = "idle"
OF_UNIT: Final = (BUSY, IDLE)
"""Activities that are no stalls."""
_DRAM: Final = ("dram_bandwidth", "dram_queue")
_PORT: Final = ("buffer_port",)
_COVERED: Final[Mapping[str, tuple[str, ...]]] = {
    "fill": ("dram_latency", "dram_bandwidth", CORE_NOC, "noc", "buffer_port", ARRAY),
    "between": (SFU, ARRAY, "noc", "drain"),
    "start": ("start",),
    "drain": ("drain", IDLE),
    "buffer_read": _PORT,
    "buffer_write": _PORT,
    "noc": ("noc",),
    **{name: (name, "drain", IDLE) for name in UNITS},
    **{name: (name,) for name in COMPUTE_UNITS},
}
"""Causes from which a term is subtracted, the likeliest first; terms of memories: `_DRAM`."""


def computing_unit(run: Run | OperatorRun, unit: str = "") -> str:
    """Return the computing engine of a run: the array if it does any work, else the SFU.

    Of several cores it is on that whose unit is busiest, of these the least idle. ``unit``: which
    it is to be.
    """
    cores = [
        (without_core(name) != ARRAY, -account.busy, account.idle, core_of_name(name))
        for name, account in run.engines.items()
        if account.busy and without_core(name) in COMPUTE_UNITS
    ]
    on_sfu, _, _, core = min(cores, default=(True, 0, 0, 0))
    return on_core(core, unit or (SFU if on_sfu else ARRAY))


def waiting_by_cause(run: Run | OperatorRun, terms: Mapping[str, int]) -> dict[str, int]:
    """Return the cycles beyond a bound by cause, the largest first; they add up to cycles - bound.

    ``terms``: the bound's, in cycles. The cause ``busy`` is work of the unit beyond the bound.
    Empty if the bound is above the cycles, which a group that overlaps with others may have.
    """
    unit = computing_unit(run)
    account = run.engines[unit]
    left = Counter({BUSY: account.busy, IDLE: account.idle, **account.stalls})
    if sum(terms.values()) > run.cycles:
        return {}
    plain = without_core(unit)
    for term in sorted(terms, key=lambda name: name not in (unit, plain)):
        link = (CORE_NOC,) if term.startswith(CORE_NOC) else _DRAM
        own = (BUSY,) if term in (unit, plain) else _COVERED.get(term, link)
        _take(left, terms[term], (*own, BUSY))
    return {cause: n for cause, n in left.most_common() if n}


def _take(left: Counter[str], cycles: int, causes: tuple[str, ...]) -> None:
    """Subtract cycles from some causes in order, and the rest from the largest others."""
    for cause in (*causes, *(name for name, _ in left.most_common() if name not in causes)):
        taken = min(cycles, left[cause])
        left[cause] -= taken
        cycles -= taken
