"""Tables of where the cycles of a trace went, and what could be gained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from simaccel.analytic.native import mac_share
from simaccel.experiment.diagnosis import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.experiment.limits import operators_of
from simaccel.experiment.loading import loading_cycles
from simaccel.experiment.what_if import FREE_SLOTS, FreedRun, WhatIfResult
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import without_core
from simaccel.report.advice import freed_text
from simaccel.report.kinds import kind_of, kinds_text
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import (
    bytes_text,
    cycles_text,
    share_text,
    short_names,
    short_share_text,
)
from simaccel.report.verdict import (
    VerdictFigures,
    engine_text,
    is_bound,
    sentences,
    worst_causes,
)
from simaccel.trace import Stall, TraceReader
from simaccel.units import ARRAY, FREED, LIMITS, SFU

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.experiment.proposal import Proposal

_SMALLEST_SHARE = 0.0005
"""Below this a cause has no column."""
_MOST_WAITS = 12
_SMALLEST_WAIT = 0.01
_WORTH_A_VERDICT = 0.04
_WORTH_A_SUM = 0.1
_MOST_VERDICTS = 3


@dataclass(frozen=True)
class StallAnalysis:
    """The accounts to show, and the freed runs if they were asked for.

    ``loading``: cycles by operator in which the array only loads; ``kinds``: of the operators.
    """

    diagnosis: Diagnosis
    accelerator: Accelerator | None = None
    what_if: WhatIfResult | None = None
    proposal: Proposal | None = None
    loading: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    mac_shares: Mapping[str, Fraction] = field(default_factory=dict)

    def scene(self, part: OperatorDiagnosis) -> VerdictFigures:
        """Put together what the sentences about a part are made from."""
        gains: dict[tuple[str, ...], float] = {}
        for freed in self.what_if.freed if self.what_if else ():
            gain = speedup(self.what_if, freed, part.name)
            if gain is not None:
                gains[freed.resources] = gain
        operators = self.diagnosis.operators if part.name == TOTAL else ()
        loads = self.loading.values() if part.name == TOTAL else [self.loading.get(part.name, 0)]
        share = self.mac_shares.get(part.name, Fraction(1))
        return VerdictFigures(part, self.accelerator, gains, operators, sum(loads), share)


def analysis_of(
    trace: TraceReader,
    diagnosis: Diagnosis,
    what_if: WhatIfResult | None = None,
    proposal: Proposal | None = None,
) -> StallAnalysis:
    """Return the analysis of a trace: with kinds, and what loading the array takes."""
    accelerator = trace.accelerator() if trace.header.accelerator else None
    if accelerator is None or trace.partial or not trace.header.program or trace.unreadable():
        return StallAnalysis(diagnosis, accelerator, what_if, proposal)
    loading, workload = loading_cycles(trace.program(), accelerator), trace.workload()
    names = [part.name for part in diagnosis.operators]
    kinds = {name: kind_of(workload, name) for name in names}
    parts = {name: operators_of(workload, name) for name in names}
    parts[TOTAL] = [operator.name for operator in workload.operators]
    shares = {name: mac_share(workload, accelerator, every) for name, every in parts.items()}
    if diagnosis.total.cycles < trace.cycles:
        loading.clear()  # of a window it isn't known
    return StallAnalysis(diagnosis, accelerator, what_if, proposal, loading, kinds, shares)


def cycles_of(run: FreedRun, operator: str) -> int | None:
    """Return the cycles of an operator, or of the whole run."""
    return run.cycles if operator == TOTAL else run.operators.get(operator)


def speedup(what_if: WhatIfResult | None, freed: FreedRun, operator: str) -> float | None:
    """Divide the cycles of a part by those with something freed; None where there are none."""
    before = cycles_of(what_if.base, operator) if what_if else None
    after = cycles_of(freed, operator)
    return before / after if before and after else None


def overview_table(diagnosis: Diagnosis) -> Table:
    """Tabulate the operators: what the compute engine of each does, in percent of its cycles."""
    causes = _causes(diagnosis.operators, lambda part: [part.compute])
    table = make_table(
        ("operator",), ("cycles", "of all", "critical", "compute", *_headers(("busy", *causes)))
    )
    for at in (3, 4):
        table.columns[at].justify = "left"
    parts = (*diagnosis.operators, diagnosis.total)
    for part, name in zip(parts, short_names([part.name for part in parts]), strict=True):
        if part is diagnosis.total:
            table.add_section()
        engine = part.compute
        add_row(
            table,
            (
                name,
                cycles_text(part.cycles),
                share_text(part.cycles / diagnosis.total.cycles),
                f"{part.critical} {short_share_text(part.share(part.critical, 'busy'))}",
                engine,
                *(_share(part, engine, cause) for cause in ("busy", *causes)),
            ),
            style="bold" if part is diagnosis.total else "",
        )
    return table


def engines_table(part: OperatorDiagnosis) -> Table:
    """Tabulate what each engine did: cycles, and below them the part of all cycles."""
    causes = ["busy", *_causes([part], lambda one: list(one.engines), 0.0)]
    table = make_table((part.name,), _headers(causes))
    for engine in part.engines:
        cells = [_cycles_and_share(part, engine, cause) for cause in causes]
        add_row(table, (engine, *cells))
    return table


def _cycles_and_share(part: OperatorDiagnosis, engine: str, cause: str) -> str:
    n = part.engines[engine].get(cause, 0)
    return f"{cycles_text(n)}\n{share_text(n / part.cycles)}" if n else "\n"


def _share(part: OperatorDiagnosis, engine: str, cause: str) -> str:
    n = part.engines[engine].get(cause, 0)
    return share_text(n / part.cycles) if n else ""


def _headers(causes: Sequence[str]) -> list[str]:
    return [cause.replace("_", "\n") for cause in causes]


def _causes(
    parts: Sequence[OperatorDiagnosis],
    engines: Callable[[OperatorDiagnosis], Sequence[str]],
    least_share: float = _SMALLEST_SHARE,
) -> list[str]:
    """Name the causes of the given engines that are worth a column, the largest first."""
    sums: dict[str, int] = {}
    for part in parts:
        for engine in engines(part):
            for cause, n in part.engines[engine].items():
                if cause != "busy" and n >= least_share * part.cycles:
                    sums[cause] = sums.get(cause, 0) + n
    return sorted(sums, key=lambda cause: (cause == "idle", -sums[cause]))


def waits_table(part: OperatorDiagnosis) -> Table | None:
    """Tabulate the longest waits: of one operator those of all engines, else the compute one's."""
    whole = part.name == TOTAL
    table = make_table(
        ("engine", *(["operator"] if whole else []), "root cause", "waits for"),
        ("cycles", "of all" if whole else f"of {part.name}"),
    )
    for wait in _longest(part, whole=whole):
        place = [wait.operator] if whole else []
        share = share_text(wait.cycles / part.cycles)
        cause = wait.cause.replace("_", " ")
        cells = (wait.engine, *place, cause, direct_text(wait), cycles_text(wait.cycles), share)
        add_row(table, cells)
    return table if table.row_count else None


def _longest(part: OperatorDiagnosis, *, whole: bool) -> list[Stall]:
    waits = [w for w in part.waits if w.cycles >= _SMALLEST_WAIT * part.cycles]
    return [w for w in waits if not whole or w.engine == part.compute][:_MOST_WAITS]


def direct_text(wait: Stall) -> str:
    """Return what an engine waits for directly."""
    if not wait.tile:
        return "the end of the operator" if wait.cause == "drain" else "its own access"
    if wait.kind == "end":
        return f"the end of {wait.tile}, on {wait.waits_for}"
    if wait.kind == "free":
        return f"a free slot of {wait.tile}, held by {wait.waits_for}"
    return f"{wait.tile} from {wait.waits_for}"


def what_if_table(what_if: WhatIfResult, operator: str) -> Table:
    """Tabulate the cycles with resources freed, of the whole run or of one operator."""
    table = make_table(("infinitely fast",), ("cycles", "saved", "speedup"), ("meaning",))
    before = cycles_of(what_if.base, operator) or 0
    add_row(table, ("nothing", cycles_text(before), "", "", "the run as it is"))
    for freed in what_if.freed:
        after = cycles_of(freed, operator) or 0
        gain = speedup(what_if, freed, operator)
        figures = (
            cycles_text(after),
            cycles_text(before - after),
            "-" if gain is None else f"{gain:.3f} x",
        )
        meaning = (
            FREED[freed.resources[0]][1].format(slots=FREE_SLOTS)
            if len(freed.resources) == 1
            else "both"
        )
        add_row(table, (freed_text(freed.resources), *figures, meaning))
    return table


def verdicts(analysis: StallAnalysis, part: OperatorDiagnosis) -> Iterator[str]:
    """Return what an expert would: of one operator, or of those that make up the run.

    Of a run the operator that costs most comes first, with those like it.
    """
    diagnosis = analysis.diagnosis
    if len(diagnosis.operators) == 1:
        part = diagnosis.operators[0]
    if part.name != TOTAL or diagnosis.costliest is None:
        yield " ".join(sentences(analysis.scene(part)))
        return
    alike = _group_alike(diagnosis)
    yield _lead(analysis, diagnosis.costliest, alike)
    yield from by_kind(analysis)
    yield " ".join(sentences(analysis.scene(diagnosis.total)))
    yield from _bound_together(diagnosis)
    for first, *others in alike[:_MOST_VERDICTS]:
        if (
            first is not diagnosis.costliest
            and first.cycles >= _WORTH_A_VERDICT * diagnosis.total.cycles
        ):
            yield " ".join([*sentences(analysis.scene(first)), *_names_text(others)])


def by_kind(analysis: StallAnalysis) -> Iterator[str]:
    """Sum up by kind of operator and what limits it, where a kind has several operators.

    Of vector operators that wait for DRAM also the work that stays where their tensors do not move.
    """
    groups: dict[tuple[str, str], list[OperatorDiagnosis]] = {}
    for part in analysis.diagnosis.operators:
        if part.name in analysis.kinds:
            groups.setdefault((analysis.kinds[part.name], _limit_of(part)), []).append(part)
    total = analysis.diagnosis.total.cycles
    for (kind, limit), parts in sorted(groups.items(), key=lambda item: -_cycles(item[1])):
        share = _cycles(parts) / total
        if len(parts) < 2 or share < _WORTH_A_SUM:  # noqa: PLR2004 - one is told of already
            continue
        text = f"{short_share_text(share)} of the cycles: {kinds_text(len(parts), kind)}, {limit}"
        if without_core(parts[0].compute) == SFU and "DRAM" in limit:
            work = sum(part.engines[part.unit_name(SFU)].get("busy", 0) for part in parts)
            text += f"; with their tensors on chip {short_share_text(work / total)} is left"
        yield f"{text}."


def _cycles(parts: Sequence[OperatorDiagnosis]) -> int:
    return sum(part.cycles for part in parts)


def _limit_of(part: OperatorDiagnosis) -> str:
    """Say what bounds an operator, or what it waits for most."""
    worst = worst_causes(VerdictFigures(part))
    if is_bound(part) or not worst:
        return f"bound by {engine_text(part.compute)}"
    return f"waiting for {LIMITS[worst[0]]}"


def _lead(
    analysis: StallAnalysis, part: OperatorDiagnosis, alike: Sequence[Sequence[OperatorDiagnosis]]
) -> str:
    """Tell of the operator that costs most, and of a dataflow that moves fewer bytes for it."""
    share = short_share_text(part.cycles / analysis.diagnosis.total.cycles)
    said = sentences(analysis.scene(part))
    others = next((group[1:] for group in alike if group[0] is part), ())
    told = said[:1] if is_bound(part) else [*said, *_names_text(others)]
    return " ".join(
        [f"{part.name} costs most, {share} of the cycles.", *told, *_describe_proposal(analysis)]
    )


def _describe_proposal(analysis: StallAnalysis) -> Iterator[str]:
    """Say what the proposed dataflow would move, and in how many cycles."""
    one = analysis.proposal
    if one is not None:
        yield (
            f"Dataflow {one.dataflow} moves {bytes_text(one.proposed_bytes)} with DRAM for "
            f"{', '.join(one.operators)} instead of {bytes_text(one.moved_bytes)}, alone "
            f"in {cycles_text(one.proposed_cycles)} instead of {cycles_text(one.cycles)} "
            f"cycles ({one.cycles / one.proposed_cycles:.2f} x)."
        )


def _names_text(others: Sequence[OperatorDiagnosis]) -> list[str]:
    return [f"The same holds for {', '.join(p.name for p in others)}."] if others else []


def _group_alike(found: Diagnosis) -> list[list[OperatorDiagnosis]]:
    """Group operators that wait for the same causes, the longest first."""
    groups: dict[tuple[str, ...], list[OperatorDiagnosis]] = {}
    for one in sorted(found.operators, key=lambda p: -p.cycles):
        if not is_bound(one):
            causes = worst_causes(VerdictFigures(one))
            groups.setdefault((one.compute, *sorted(causes)), []).append(one)
    return list(groups.values())


def _bound_together(found: Diagnosis) -> Iterator[str]:
    """Say of the operators that are bound by their compute engine that they are."""
    for engine in (ARRAY, SFU):
        bound = [p for p in found.operators if is_bound(p) and p.compute == p.unit_name(engine)]
        if bound:
            share = sum(p.cycles for p in bound) / found.total.cycles
            names = ", ".join(p.name for p in bound)
            part = f"{short_share_text(share)} of the cycles"
            yield f"Bound by {engine_text(engine)}: {names} ({part})."


def part_json(analysis: StallAnalysis, part: OperatorDiagnosis) -> dict[str, Any]:
    """Return one operator (or the total) as JSON."""
    return {
        "name": part.name,
        "cycles": part.cycles,
        "critical": part.critical,
        "compute": part.compute,
        "engines": {name: _engine_json(causes) for name, causes in part.engines.items()},
        "waits": [_wait_json(wait) for wait in part.waits],
        "verdict": sentences(analysis.scene(part)),
    }


def _engine_json(causes: Mapping[str, int]) -> dict[str, Any]:
    stalls = {cause: n for cause, n in causes.items() if cause not in ("busy", "idle")}
    return {"busy": causes.get("busy", 0), "idle": causes.get("idle", 0), "stalls": stalls}


def _wait_json(wait: Stall) -> dict[str, Any]:
    fields = ("engine", "operator", "cause", "tile", "kind", "waits_for", "cycles")
    return {name: getattr(wait, name) for name in fields}


def stalls_json(analysis: StallAnalysis, operator: str | None) -> dict[str, Any]:
    """Return the whole analysis as one JSON object (``simaccel trace stalls --json``)."""
    diagnosis = analysis.diagnosis
    parts = diagnosis.operators if operator is None else (diagnosis.part(operator),)
    return {
        "from": diagnosis.start,
        "to": diagnosis.end,
        "cycles": diagnosis.total.cycles,
        "total": part_json(analysis, diagnosis.total),
        "operators": [part_json(analysis, part) for part in parts],
        "costliest": None if diagnosis.costliest is None else diagnosis.costliest.name,
        "proposal": None if analysis.proposal is None else asdict(analysis.proposal),
        "what_if": None if analysis.what_if is None else _what_if_json(analysis.what_if),
    }


def _what_if_json(what_if: WhatIfResult) -> dict[str, Any]:
    return {
        "slots": FREE_SLOTS,
        "cycles": what_if.base.cycles,
        "operators": what_if.base.operators,
        "freed": [
            {
                "resources": list(freed.resources),
                "cycles": freed.cycles,
                "speedup": speedup(what_if, freed, TOTAL),
                "operators": freed.operators,
            }
            for freed in what_if.freed
        ],
    }
