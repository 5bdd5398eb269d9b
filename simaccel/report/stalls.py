"""Stalls of a trace: tables of the cycles by cause and of possible gains, and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import Any, Final

from simaccel.diagnosis.free_slots import FREE_SLOTS
from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.diagnosis.verdict import VerdictFigures, cycles_of, is_bound, speedup, worst_causes
from simaccel.diagnosis.what_if import WhatIfResult
from simaccel.hardware.cores import without_core
from simaccel.report.results import cause_heading, columns_of, engines_table
from simaccel.report.tables import Column, Table, pick, tabulate, texts
from simaccel.report.units import bytes_text, count_text, short_share_text
from simaccel.report.verdict import engine_text, freed_text, sentences
from simaccel.study.stall_analysis import StallAnalysis
from simaccel.trace import Stall
from simaccel.units import ARRAY, FREED, LIMITS, SFU, cause_text

_SMALLEST_SHARE = 0.0005
"""Causes with smaller shares have no column."""
_MOST_WAITS = 12
_SMALLEST_WAIT = 0.01


def stall_parts(
    analysis: StallAnalysis, operator: str | None, top: int | None = None, *, each: bool = False
) -> Iterator[Table | str]:
    """Yield the verdicts, the tables of a run or an operator, and the runs with freed resources.

    ``top``: rows of the table of operators. ``each``: also a table of engines for each operator.
    """
    diagnosis = analysis.diagnosis
    part = diagnosis.part(operator)
    yield from (*verdicts(analysis, part), "")
    if operator is None:
        yield overview_table(diagnosis, top)
    for shown in (*diagnosis.operators * (each and operator is None), part):
        yield engines_table(shown.engines, shown.cycles, shown.name, counts=True)
    if waits := waits_table(part):
        yield waits
    if analysis.lacks:
        yield from ("", f"no what-if: {analysis.lacks}")
    if analysis.what_if is not None:
        yield from _what_if_parts(analysis, analysis.what_if, operator)


def _what_if_parts(
    analysis: StallAnalysis, rerun: WhatIfResult, operator: str | None
) -> Iterator[Table | str]:
    is_whole, now = analysis.diagnosis.total.cycles == analysis.cycles, rerun.base.cycles
    where = f"{operator or 'the whole run'}{'' if is_whole else ', not only of this window'}"
    yield from ("", f"what if, for {where}: the same program with a resource infinitely fast")
    yield "(what other designs would make of the workload: simaccel run --designs)"
    yield what_if_table(rerun, operator or TOTAL)
    if not any(ARRAY in freed.resources for freed in rerun.freed):
        yield "array and SFU are left out: as the memory takes no time, the run would take none"
    if any(freed.cycles > now for freed in rerun.freed):
        yield (
            "a negative saving is real: a transfer that comes earlier shares buffer ports and DRAM "
            "with more urgent ones"
        )
    if now != analysis.cycles:
        yield (
            f"the trace's {analysis.cycles:,} cycles are those of simaccel "
            f"{analysis.version}; this one takes {now:,}, to which the table compares"
        )


def overview_table(diagnosis: Diagnosis, top: int | None = None) -> Table:
    """Tabulate the activity of each operator's compute engine, in percent of its cycles.

    ``top``: number of rows, the longest first, and the remaining ones together; None: all, in
    program order.
    """
    causes = _causes(diagnosis.operators)
    every = sorted(diagnosis.operators, key=lambda part: -part.cycles)
    chosen = diagnosis.operators if top is None or top >= len(every) else every[:top]
    rows = [pick(part, "name", "cycles", part="") for part in (*chosen, diagnosis.total)]
    if rest := every[len(chosen) :]:  # in one row, without what differs among them
        joined = {"name": count_text(len(rest), "other"), "part": None}
        rows.insert(-1, {**joined, "cycles": sum(part.cycles for part in rest)})
    of_part = partial(Column, value="part", missing="")

    def busy(part: OperatorDiagnosis) -> str:
        return f"{part.critical} {short_share_text(part.share(part.critical, 'busy'))}"

    def share(part: OperatorDiagnosis, cause: str) -> str:
        n = part.engines[part.compute].get(cause, 0)
        return f"{n / part.cycles:.1%}" if n else ""

    columns = (
        Column("operator", "name", kind="name"),
        Column("cycles", "cycles", "cycles"),
        Column("of all", lambda row: row["cycles"] / diagnosis.total.cycles, "share"),
        of_part("critical", text=busy, kind="text"),
        of_part("compute", text=lambda part: part.compute, kind="text"),
        *(of_part(cause_heading(cause), text=partial(share, cause=cause)) for cause in causes),
    )
    return tabulate(rows[:-1], columns, rows[-1])


def _causes(parts: Sequence[OperatorDiagnosis]) -> list[str]:
    """Name the causes of the computing engines that are worth a column, in order of columns."""
    worth = (
        {cause: n for cause, n in part.engines[part.compute].items() if n >= least}
        for part in parts
        for least in [_SMALLEST_SHARE * part.cycles]
    )
    return columns_of(worth)


def waits_table(part: OperatorDiagnosis) -> Table | None:
    """Tabulate the longest waits: of one operator's engines, or of the run's compute engine."""
    whole = part.name == TOTAL
    waits = [
        wait
        for wait in part.waits
        if wait.cycles >= _SMALLEST_WAIT * part.cycles
        and (not whole or wait.engine == part.compute)
    ]
    columns = (
        *texts("engine", *["operator"] * whole),
        Column("root cause", "cause", cause_text, "text"),
        Column("waits for", direct_text, kind="text"),
        Column("cycles", "cycles", "cycles"),
        Column(
            f"of {'all' if whole else part.name}", lambda wait: wait.cycles / part.cycles, "share"
        ),
    )
    return tabulate(waits[:_MOST_WAITS], columns) if waits else None


def direct_text(wait: Stall) -> str:
    """Return the direct cause of a wait."""
    if not wait.tile:
        return "the end of the operator" if wait.cause == "drain" else "its own access"
    if wait.kind == "end":
        return f"the end of {wait.tile}, on {wait.waits_for}"
    if wait.kind == "free":
        return f"a free slot of {wait.tile}, held by {wait.waits_for}"
    return f"{wait.tile} from {wait.waits_for}"


def what_if_table(what_if: WhatIfResult, operator: str) -> Table:
    """Tabulate the cycles with unlimited resources, of the whole run or of one operator."""
    before = cycles_of(what_if.base, operator) or 0
    rows = [("nothing", before, "", "", "the run as it is")]
    for freed in what_if.freed:
        after, gain = cycles_of(freed, operator) or 0, speedup(what_if, freed, operator)
        meaning = "both"
        if len(freed.resources) == 1:
            meaning = FREED[freed.resources[0]][1].format(slots=FREE_SLOTS)
        speed = "-" if gain is None else f"{gain:.3f} x"
        rows.append((freed_text(freed.resources), after, f"{before - after:,}", speed, meaning))
    columns = (
        Column("infinitely fast", itemgetter(0), kind="text"),
        Column("cycles", itemgetter(1), "cycles"),
        Column("saved", itemgetter(2)),
        Column("speedup", itemgetter(3)),
        Column("meaning", itemgetter(4), kind="wrapped"),
    )
    return tabulate(rows, columns)


def part_json(analysis: StallAnalysis, part: OperatorDiagnosis) -> dict[str, Any]:
    """Return one operator (or the total) as JSON."""
    return {
        **pick(part, "name", "cycles", "critical", "compute"),
        "engines": {
            name: {
                "busy": causes.get("busy", 0),
                "idle": causes.get("idle", 0),
                "stalls": {c: n for c, n in causes.items() if c not in ("busy", "idle")},
            }
            for name, causes in part.engines.items()
        },
        "waits": [pick(wait, *_OF_WAITS) for wait in part.waits],
        "verdict": sentences(analysis.scene(part)),
    }


_OF_WAITS: Final = ("engine", "operator", "cause", "tile", "kind", "waits_for", "cycles")


def stalls_json(analysis: StallAnalysis, operator: str | None) -> dict[str, Any]:
    """Return the whole analysis as one JSON object (``simaccel trace stalls --json``)."""
    diagnosis, rerun = analysis.diagnosis, analysis.what_if
    parts = diagnosis.operators if operator is None else (diagnosis.part(operator),)
    return {
        "from": diagnosis.start,
        "to": diagnosis.end,
        "cycles": diagnosis.total.cycles,
        "total": part_json(analysis, diagnosis.total),
        "operators": [part_json(analysis, part) for part in parts],
        "costliest": None if diagnosis.costliest is None else diagnosis.costliest.name,
        "proposal": None if analysis.proposal is None else asdict(analysis.proposal),
        "what_if": rerun
        and {
            "slots": FREE_SLOTS,
            **pick(rerun.base, "cycles", "operators"),
            "freed": [
                pick(run, "resources", "cycles")
                | {"speedup": speedup(rerun, run, TOTAL), "operators": run.operators}
                for run in rerun.freed
            ],
        },
    }


_WORTH_A_LEAD: Final = 0.2
"""Smallest share of the cycles with which an operator is described before the whole run."""
_WORTH_A_VERDICT: Final = 0.04
_WORTH_A_SUM: Final = 0.1
_MOST_VERDICTS: Final = 3
_MOST_NAMES: Final = 5


def verdicts(analysis: StallAnalysis, part: OperatorDiagnosis) -> Iterator[str]:
    """Yield the diagnosis of one operator, or of the operators that dominate the run.

    For a run, the operator with most cycles comes first, with similar ones; if it is a small part,
    the diagnosis of the whole run comes before it.
    """
    diagnosis = analysis.diagnosis
    if len(diagnosis.operators) == 1:
        part = diagnosis.operators[0]
    if part.name != TOTAL or diagnosis.costliest is None:
        yield " ".join(sentences(analysis.scene(part)))
        return
    alike, whole = _group_alike(diagnosis), " ".join(sentences(analysis.scene(diagnosis.total)))
    lead = _lead(analysis, diagnosis.costliest, alike)
    leads = diagnosis.costliest.cycles >= _WORTH_A_LEAD * diagnosis.total.cycles
    yield lead if leads else whole
    yield from by_kind(analysis)
    yield whole if leads else lead
    for first, *others in alike[:_MOST_VERDICTS]:
        is_long = first.cycles >= _WORTH_A_VERDICT * diagnosis.total.cycles
        if is_long and first is not diagnosis.costliest:
            yield " ".join([*sentences(analysis.scene(first)), *_names_text(others)])


def by_kind(analysis: StallAnalysis) -> Iterator[str]:
    """Yield a summary by kind of operator and limit, for kinds with several operators.

    For DRAM-bound vector operators, it includes the cycles left if their tensors stayed on chip.
    """
    groups: dict[tuple[str, str], list[OperatorDiagnosis]] = {}
    for part in analysis.diagnosis.operators:
        if part.name in analysis.kinds:
            groups.setdefault((analysis.kinds[part.name], _limit_of(part)), []).append(part)
    total = max(analysis.diagnosis.total.cycles, _cycles(analysis.diagnosis.operators))
    for (kind, limit), parts in sorted(groups.items(), key=lambda item: -_cycles(item[1])):
        share = _cycles(parts) / total
        if len(parts) < 2 or share < _WORTH_A_SUM:  # noqa: PLR2004 - one was reported already
            continue
        text = f"{short_share_text(share)} of the cycles: {kinds_text(len(parts), kind)}, {limit}"
        if "DRAM" in limit and all(_is_vector(part) for part in parts):
            work = sum(part.engines[part.unit_name(SFU)].get("busy", 0) for part in parts)
            text += f"; with their tensors on chip {short_share_text(work / total)} is left"
        yield f"{text}."


def _is_vector(part: OperatorDiagnosis) -> bool:
    """Return whether the operator computes on the SFU alone."""
    on_array = part.engines.get(part.unit_name(ARRAY), {}).get("busy", 0)
    return without_core(part.compute) == SFU and not on_array


def _cycles(parts: Sequence[OperatorDiagnosis]) -> int:
    return sum(part.cycles for part in parts)


def _limit_of(part: OperatorDiagnosis) -> str:
    """Return the unit that bounds an operator, or the resource that it waits for most, as text."""
    worst = worst_causes(VerdictFigures(part))
    if is_bound(part) or not worst:
        return f"bound by {engine_text(part.compute)}"
    return f"waiting for {LIMITS[worst[0]]}"


def _lead(
    analysis: StallAnalysis, part: OperatorDiagnosis, alike: Sequence[Sequence[OperatorDiagnosis]]
) -> str:
    """Return the verdict on the operator with the most cycles, and the dataflow proposed for it."""
    share = short_share_text(part.cycles / analysis.diagnosis.total.cycles)
    diagnosis = sentences(analysis.scene(part))
    others = next((group[1:] for group in alike if group[0] is part), ())
    shown = diagnosis[:1] if is_bound(part) else [*diagnosis, *_names_text(others)]
    if (flow := analysis.proposal) is not None:
        shown.append(
            f"Dataflow {flow.dataflow} moves {bytes_text(flow.proposed_bytes)} with DRAM for "
            f"{', '.join(flow.operators)} instead of {bytes_text(flow.moved_bytes)}, alone "
            f"in {flow.proposed_cycles:,} instead of {flow.cycles:,} "
            f"cycles ({flow.cycles / flow.proposed_cycles:.2f} x)."
        )
    return " ".join([f"{part.name} costs most, {share} of the cycles.", *shown])


def _names_text(others: Sequence[OperatorDiagnosis]) -> list[str]:
    return [f"The same holds for {_list_names(others)}."] if others else []


def _list_names(parts: Sequence[OperatorDiagnosis]) -> str:
    rest = len(parts) - _MOST_NAMES
    first = ", ".join(part.name for part in parts[: _MOST_NAMES if rest > 1 else None])
    return f"{first} and {count_text(rest, 'other')}" if rest > 1 else first


def _group_alike(found: Diagnosis) -> list[list[OperatorDiagnosis]]:
    """Group operators that wait for the same causes, the longest first."""
    groups: dict[tuple[str, ...], list[OperatorDiagnosis]] = {}
    for one in sorted(found.operators, key=lambda p: -p.cycles):
        if not is_bound(one):
            causes = worst_causes(VerdictFigures(one))
            groups.setdefault((one.compute, *sorted(causes)), []).append(one)
    return list(groups.values())


def kinds_text(count: int, kind: str) -> str:
    """Return the number of operators or groups of a kind in words.

    >>> kinds_text(3, "fused GEMM"), kinds_text(2, "elementwise"), kinds_text(1, "row-wise")
    ('3 fused GEMMs', '2 elementwise passes', '1 row-wise pass')
    """
    if kind.endswith("wise"):
        return f"{count:,} {kind} pass{'es' * (count != 1)}"
    return count_text(count, kind)
