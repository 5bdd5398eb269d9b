"""Tables of the cycles of a trace by cause, and of possible gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from simaccel.diagnosis.free_slots import FREE_SLOTS
from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.diagnosis.verdict import StallAnalysis, cycles_of, speedup
from simaccel.diagnosis.what_if import WhatIfResult
from simaccel.report.tables import Table, add_row, make_table
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
    causes = _causes(diagnosis.operators, lambda part: [part.compute])
    table = make_table(
        ("operator",), ("cycles", "of all", "critical", "compute", *_headers(("busy", *causes)))
    )
    for at in (3, 4):
        table.columns[at].justify = "left"
    every = sorted(diagnosis.operators, key=lambda part: -part.cycles)
    chosen = diagnosis.operators if top is None or top >= len(every) else every[:top]
    parts = (*chosen, diagnosis.total)
    for part, name in zip(parts, short_names([part.name for part in parts]), strict=True):
        if part is diagnosis.total:
            if len(chosen) < len(every):
                add_row(table, _join_cells(every[len(chosen) :], diagnosis.total, len(causes)))
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


def _join_cells(
    parts: Sequence[OperatorDiagnosis], total: OperatorDiagnosis, causes: int
) -> tuple[str, ...]:
    """Return the cells of several operators in one row, without what differs among them."""
    cycles = sum(part.cycles for part in parts)
    figures = (cycles_text(cycles), share_text(cycles / total.cycles))
    return (count_text(len(parts), "other"), *figures, *[""] * (3 + causes))


def engines_table(part: OperatorDiagnosis) -> Table:
    """Tabulate the activity of each engine in cycles and in percent."""
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
    return [cause_text(cause).replace(" ", "\n") for cause in causes]


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
    table = make_table(
        ("engine", *(["operator"] if whole else []), "root cause", "waits for"),
        ("cycles", "of all" if whole else f"of {part.name}"),
    )
    for wait in _longest(part, whole=whole):
        place = [wait.operator] if whole else []
        share = share_text(wait.cycles / part.cycles)
        cause = cause_text(wait.cause)
        cells = (wait.engine, *place, cause, direct_text(wait), cycles_text(wait.cycles), share)
        add_row(table, cells)
    return table if table.row_count else None


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
