"""The analysis of a trace's stalls: diagnosis, stored what-if runs, another dataflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Final

from simaccel.diagnosis.limits import loading_cycles
from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis, diagnose, ideal_cycles
from simaccel.diagnosis.verdict import VerdictFigures, speedup
from simaccel.diagnosis.what_if import FreedRun, Progress, WhatIfResult, waited_for_ports, what_if
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.memory import DRAM_WAYS, dram_bytes
from simaccel.program.program import Program, Sfu, commands
from simaccel.program.text import program_text
from simaccel.search.problems import Options, parts
from simaccel.study.experiment import simulate
from simaccel.study.store import cache, code_digest, result_key
from simaccel.trace import TraceReader
from simaccel.workload import VECTORS, Workload
from simaccel.workload.roles import kind_of, operators_of

FUSED: Final = "flash"
"""What an attention is searched with: of the dataflows with a fork the one with most choices."""
ALONE: Final = "flex"
"""What an operator on its own is searched with."""
_FEWER: Final = 0.95
"""Of the bytes that a run moves; what saves less is not worth another dataflow."""
_WITHIN: Final = 0.05
"""How far above the fastest it may be: what is proposed is to be better, not the best."""


@dataclass(frozen=True)
class Proposal:
    """A dataflow for some operators of a run: DRAM bytes and cycles now, and with it."""

    dataflow: str
    operators: tuple[str, ...]
    moved_bytes: int
    cycles: int
    proposed_bytes: int
    proposed_cycles: int
    """Of these operators alone, on the machine."""


def propose(workload: Workload, accelerator: Accelerator, diagnosis: Diagnosis) -> Proposal | None:
    """Return a dataflow with fewer bytes and cycles for the operator that waits longest.

    Only that operator is searched, or the attention that it belongs to: a fraction of a second,
    where a search for the whole workload takes many.

    Return None where hardly anything waits for DRAM bandwidth, where bytes are not known by
    operator (a window of a run), on spatial arrays, and where nothing better is found.
    """
    most = diagnosis.waits_for_bytes
    if most is None or not isinstance(accelerator.array, ArraySpec):
        return None
    own = tuple(operators_of(workload, most.name))
    attentions = (group for group in parts(workload) if isinstance(group, tuple))
    names = next((group for group in attentions if not {*own}.isdisjoint(group)), own)
    if not workload.by_name.keys() >= set(names):  # an exchange between chips
        return None
    members = {part.name: operators_of(workload, part.name) for part in diagnosis.operators}
    now = [part for part in diagnosis.operators if {*members[part.name]} & {*names}]
    moved = sum(sum(part.moved.get(way, {}).values()) for part in now for way in DRAM_WAYS)
    if not moved or Counter(names) != Counter(chain(*(members[part.name] for part in now))):
        return None
    dataflow = FUSED if len(names) > 1 else ALONE
    alone = workload.select_operators(names)
    try:
        best = simulate(alone, accelerator, dataflow, options=Options(tolerance=_WITHIN)).run
    except SimaccelError:  # nothing fits, or an operator that this dataflow doesn't take
        return None
    times = workload.times(names[0])
    bytes_then = times * dram_bytes(best.moved)
    cycles_now, cycles_then = sum(part.cycles for part in now), times * best.cycles
    if bytes_then > _FEWER * moved or cycles_then >= cycles_now:
        return None
    return Proposal(dataflow, names, moved, cycles_now, bytes_then, cycles_then)


@dataclass(frozen=True)
class StallAnalysis:
    """The diagnosis of a run, and its runs with freed resources, if these were made.

    ``lacks``: why they couldn't be made. ``loading``: cycles by operator in which the array only
    loads; ``kinds``: of the operators; ``ideal``: cycles of their MACs on all PEs. ``cycles``: of
    the whole run, by simaccel ``version``.
    """

    diagnosis: Diagnosis
    accelerator: Accelerator | None = None
    what_if: WhatIfResult | None = None
    proposal: Proposal | None = None
    lacks: str = ""
    loading: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    ideal: Mapping[str, float] = field(default_factory=dict)
    cycles: int = 0
    version: str = ""

    def scene(self, part: OperatorDiagnosis) -> VerdictFigures:
        """Return the figures from which the sentences about a part are made."""
        gains: dict[tuple[str, ...], float] = {}
        for freed in self.what_if.freed if self.what_if else ():
            gain = speedup(self.what_if, freed, part.name)
            if gain is not None:
                gains[freed.resources] = gain
        operators = self.diagnosis.operators if part.name == TOTAL else ()
        loads = self.loading.values() if part.name == TOTAL else [self.loading.get(part.name, 0)]
        ideal = self.ideal.get(part.name, 0.0)
        return VerdictFigures(part, self.accelerator, gains, operators, sum(loads), ideal)


def analyse_stalls(
    trace: TraceReader,
    operator: str | None = None,
    window: tuple[int, int] | None = None,
    *,
    what_if: bool = True,
    proposes: bool = True,
    progress: Progress | None = None,
) -> StallAnalysis:
    """Return the analysis of a trace's stalls, of all cycles or of a window.

    ``what_if``: run the program with resources without limit, and, if ``proposes``, look for
    another dataflow for what waits longest for DRAM. ``operator``: one that it has to have.

    Raises:
        InputError: there is no such operator.
        TraceError: the window is no part of the run.
    """
    diagnosis = diagnose(trace, *(window or ()))
    diagnosis.part(operator)
    accelerator, lacks = trace.accelerator() if trace.header.accelerator else None, _lacking(trace)
    if accelerator is None or lacks:
        return StallAnalysis(diagnosis, accelerator, lacks=lacks * what_if)
    program, workload = trace.program(), trace.workload()
    freed = remembered_what_if(accelerator, program, progress, trace) if what_if else None
    proposal = propose(workload, accelerator, diagnosis) if freed and proposes else None
    loading = loading_cycles(program, accelerator)
    kinds = {part.name: kind_of(workload, part.name) for part in diagnosis.operators}
    parts = (*diagnosis.operators, diagnosis.total)
    ideal = {part.name: ideal_cycles(part, workload, accelerator) for part in parts}
    if diagnosis.total.cycles < trace.cycles:
        loading.clear()  # of a window it isn't known
    facts = loading, kinds, ideal, trace.cycles, trace.header.version
    return StallAnalysis(diagnosis, accelerator, freed, proposal, "", *facts)


def _lacking(trace: TraceReader) -> str:
    """Return why the program of a trace can't run again; empty if it can."""
    if trace.partial:
        return "the trace is partial, there is no whole run to compare with"
    if not trace.header.accelerator or not trace.header.program:
        return "the trace holds no accelerator or no program"
    return trace.unreadable()


def remembered_what_if(
    accelerator: Accelerator,
    program: Program,
    progress: Progress | None = None,
    trace: TraceReader | None = None,
) -> WhatIfResult:
    """Return the result of ``what_if`` for all its cases, from the store if it is there.

    Programs with a plug-in's operator aren't stored, as the key doesn't include its code.
    ``trace``: of this program; if this version wrote it, its run needn't be repeated.
    """
    works = {command.work for command in commands(program.body) if isinstance(command, Sfu)}
    if not works <= VECTORS.own.keys():
        return what_if(accelerator, program, progress=progress)
    base = None if trace is None else _run_of_trace(trace)
    store, key = cache(), result_key("what-if", accelerator, program=program_text(program))
    answer = store.recall(key, _read_result)
    if answer is None:
        answer = what_if(accelerator, program, progress=progress, base=base)
        store.remember(key, asdict(answer))
    return answer


def _run_of_trace(trace: TraceReader) -> FreedRun | None:
    """Return the run of a trace, if this version wrote it with its figures."""
    operators = trace.figures.get("operators")
    if trace.header.code != code_digest() or trace.partial or not operators:
        return None
    cycles = {one["name"]: one.get("cycles") for one in operators}
    if None in cycles.values():
        return None
    return FreedRun((), trace.cycles, cycles, waited_for_ports(trace.totals))


def _read_result(found: dict[str, Any]) -> WhatIfResult:
    base, *freed = (
        FreedRun(**{**one, "resources": tuple(one["resources"])})
        for one in (found["base"], *found["freed"])
    )
    return WhatIfResult(base, tuple(freed))
