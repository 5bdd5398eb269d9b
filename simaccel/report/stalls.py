"""Tables of the cycles of a trace by cause, and of possible gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import Any, Final

from simaccel.diagnosis.free_slots import FREE_SLOTS
from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.diagnosis.verdict import StallAnalysis, cycles_of, speedup
from simaccel.diagnosis.what_if import WhatIfResult
from simaccel.report.tables import Column, Table, tabulate, texts
from simaccel.report.units import (
    count_text,
    cycles_text,
    share_text,
    short_names,
    short_share_text,
)
from simaccel.report.verdict import freed_text, sentences
from simaccel.trace import Stall
from simaccel.units import FREED, cause_text

_SMALLEST_SHARE = 0.0005
"""Causes with smaller shares have no column."""
_MOST_WAITS = 12
_SMALLEST_WAIT = 0.01


def overview_table(diagnosis: Diagnosis, top: int | None = None) -> Table:
    """Tabulate the activity of each operator's compute engine, in percent of its cycles.

    ``top``: number of rows, the longest first, and the remaining ones together; None: all, in
    program order.
    """
    causes = ["busy", *_causes(diagnosis.operators, lambda part: [part.compute])]
    every = sorted(diagnosis.operators, key=lambda part: -part.cycles)
    chosen = diagnosis.operators if top is None or top >= len(every) else every[:top]
    parts = (*chosen, diagnosis.total)
    names = short_names([part.name for part in parts])
    rows = [
        {"name": name, "cycles": part.cycles, "part": part}
        for part, name in zip(parts, names, strict=True)
    ]
    if rest := every[len(chosen) :]:  # in one row, without what differs among them
        joined = {"name": count_text(len(rest), "other"), "part": None}
        rows.insert(-1, {**joined, "cycles": sum(part.cycles for part in rest)})
    of_part = partial(Column, path="part", missing="")
    columns = (
        Column("operator", "name", kind="text"),
        Column("cycles", "cycles", "cycles"),
        Column("of all", "cycles", lambda cycles: share_text(cycles / diagnosis.total.cycles)),
        of_part("critical", text=_critical_text, kind="text"),
        of_part("compute", text=lambda part: part.compute, kind="text"),
        *(
            of_part(head, text=partial(_compute_share, cause=cause))
            for cause, head in _headers(causes).items()
        ),
    )
    return tabulate(rows[:-1], columns, rows[-1])


def _critical_text(part: OperatorDiagnosis) -> str:
    return f"{part.critical} {short_share_text(part.share(part.critical, 'busy'))}"


def engines_table(part: OperatorDiagnosis) -> Table:
    """Tabulate the activity of each engine in cycles and in percent."""
    causes = ["busy", *_causes([part], lambda one: list(one.engines), 0.0)]
    columns = (
        Column(head, "", partial(_cycles_and_share, part, cause=cause))
        for cause, head in _headers(causes).items()
    )
    return tabulate(part.engines, (Column(part.name, "", kind="text"), *columns))


def _cycles_and_share(part: OperatorDiagnosis, engine: str, cause: str) -> str:
    n = part.engines[engine].get(cause, 0)
    return f"{cycles_text(n)}\n{share_text(n / part.cycles)}" if n else "\n"


def _compute_share(part: OperatorDiagnosis, cause: str) -> str:
    n = part.engines[part.compute].get(cause, 0)
    return share_text(n / part.cycles) if n else ""


def _headers(causes: Sequence[str]) -> dict[str, str]:
    return {cause: cause_text(cause).replace(" ", "\n") for cause in causes}


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
    """Tabulate the longest waits: of one operator's engines, or of the run's compute engine."""
    whole = part.name == TOTAL
    waits = _longest(part, whole=whole)
    columns = (
        *texts("engine", *["operator"] * whole),
        Column("root cause", "cause", cause_text, "text"),
        Column("waits for", "", direct_text, "text"),
        Column("cycles", "cycles", "cycles"),
        Column(
            f"of {'all' if whole else part.name}", "cycles", lambda n: share_text(n / part.cycles)
        ),
    )
    return tabulate(waits, columns) if waits else None


def _longest(part: OperatorDiagnosis, *, whole: bool) -> list[Stall]:
    waits = [w for w in part.waits if w.cycles >= _SMALLEST_WAIT * part.cycles]
    return [w for w in waits if not whole or w.engine == part.compute][:_MOST_WAITS]


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
        saved = cycles_text(before - after)
        rows.append((freed_text(freed.resources), after, saved, speed, meaning))
    columns = (
        Column("infinitely fast", "", itemgetter(0), "text"),
        Column("cycles", "", lambda row: cycles_text(row[1])),
        Column("saved", "", itemgetter(2)),
        Column("speedup", "", itemgetter(3)),
        Column("meaning", "", itemgetter(4), "wrapped"),
    )
    return tabulate(rows, columns)


def part_json(analysis: StallAnalysis, part: OperatorDiagnosis) -> dict[str, Any]:
    """Return one operator (or the total) as JSON."""
    return {
        "name": part.name,
        "cycles": part.cycles,
        "critical": part.critical,
        "compute": part.compute,
        "engines": {
            name: {
                "busy": causes.get("busy", 0),
                "idle": causes.get("idle", 0),
                "stalls": {c: n for c, n in causes.items() if c not in ("busy", "idle")},
            }
            for name, causes in part.engines.items()
        },
        "waits": [{name: getattr(wait, name) for name in _OF_WAITS} for wait in part.waits],
        "verdict": sentences(analysis.scene(part)),
    }


_OF_WAITS: Final = ("engine", "operator", "cause", "tile", "kind", "waits_for", "cycles")


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
    freed = [asdict(run) | {"speedup": speedup(what_if, run, TOTAL)} for run in what_if.freed]
    base = {"cycles": what_if.base.cycles, "operators": what_if.base.operators}
    order = ("resources", "cycles", "speedup", "operators")
    return {"slots": FREE_SLOTS, **base, "freed": [{n: run[n] for n in order} for run in freed]}
