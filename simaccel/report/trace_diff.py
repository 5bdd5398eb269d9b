"""Tables of two runs of one workload side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from simaccel.diagnosis.difference import CycleDifference, Difference
from simaccel.report.tables import Column, Table, pick, tabulate
from simaccel.report.units import error_text, short_share_text, signed_text
from simaccel.report.verdict import engine_text
from simaccel.units import CAUSES, cause_text

_MOST_ROWS = 20
_MOST_FIELDS = 8
_NAMED = 0.1
"""Smallest share of the difference that the sentence names."""
_MOST_NAMED = 3


def groups_table(difference: Difference) -> Table:
    """Tabulate the cycles of each operator in both runs, and the totals."""
    columns = [
        Column("operator", "group", kind="text"),
        *_cycles_columns(difference),
        Column("in A", lambda one: _fusion_text(one.group, one.operators_a), kind="wrapped"),
        Column("in B", lambda one: _fusion_text(one.group, one.operators_b), kind="wrapped"),
    ]
    alike = all(one.operators_a == one.operators_b == (one.group,) for one in difference.groups)
    return tabulate(difference.groups, columns[: -2 if alike else None], _whole(difference))


def _fusion_text(group: str, names: Sequence[str]) -> str:
    """Return how a run fuses the operators of a group; empty if it is one operator of that name."""
    return "" if names == (group,) else ", ".join(names) or "nothing"


def causes_table(difference: Difference) -> Table:
    """Tabulate the largest changes by operator and cause, and the total.

    The remaining changes share a row, so that the rows always add up.
    """
    changed = [share for share in difference.shares if share.difference]
    shown = [*difference.shares[: min(len(changed), _MOST_ROWS)]]
    if rest := difference.shares[len(shown) :]:
        kind = "others" if len(changed) > len(shown) else "unchanged"
        a, b = sum(share.a for share in rest), sum(share.b for share in rest)
        shown.append(CycleDifference(f"{len(rest)} {kind}", "", a, b))
    columns = (
        Column("operator", "group", kind="text"),
        Column(f"cause ({difference.engine})", "cause", cause_text, "text"),
        *_cycles_columns(difference),
    )
    return tabulate(shown, columns, _whole(difference))


def _cycles_columns(difference: Difference) -> tuple[Column, ...]:
    return (
        Column("cycles A", "a", "cycles"),
        Column("cycles B", "b", "cycles"),
        Column("difference", "difference", signed_text),
        Column("of A", "difference", lambda n: error_text(n / difference.a) if n else ""),
    )


def _whole(difference: Difference) -> CycleDifference:
    total = "total"
    return CycleDifference(total, "", difference.a, difference.b, (total,), (total,))


def difference_lines(found: Difference) -> Iterator[str]:
    """Yield the fields in which the runs differ, then the effects on the cycles."""
    for field in found.fields[:_MOST_FIELDS]:
        yield f"{field.name}: {field.a} in A, {field.b} in B"
    if len(found.fields) > _MOST_FIELDS:
        yield f"and {len(found.fields) - _MOST_FIELDS} fields more"
    yield f"{_verdict(found)}{_by_cause(found)}{_by_operator(found)}"


def _verdict(found: Difference) -> str:
    if found.cycles:
        faster = f"{found.a / found.b:.3f} x as fast"
        return f"B takes {_change_text(found.cycles)} than A ({faster})."
    spent = "otherwise" if any(share.difference for share in found.shares) else "alike"
    return f"A and B take the same cycles, spent {spent}."


def _change_text(cycles: int) -> str:
    return f"{abs(cycles):,} cycles {'more' if cycles > 0 else 'fewer'}"


def _by_cause(found: Difference) -> str:
    sums: Counter[str] = Counter()
    for share in found.shares:
        sums[share.cause] += share.difference
    changed = sum(map(abs, sums.values()))
    ranked = sorted(sums.items(), key=lambda pair: -abs(pair[1]))
    named = [pair for pair in ranked if pair[1] and abs(pair[1]) >= _NAMED * changed]
    texts = [_cause_text(cause, n) for cause, n in named[:_MOST_NAMED]]
    return f" In all, {engine_text(found.engine)} {', '.join(texts)}." if texts else ""


def _cause_text(cause: str, cycles: int) -> str:
    if cause == "busy":
        return f"works {_change_text(cycles)}"
    if cause == "idle":
        return f"is idle {_change_text(cycles)}"
    return f"waits {_change_text(cycles)} for {CAUSES[cause].awaited}"


def _by_operator(found: Difference) -> str:
    named = [group for group in found.groups if group.difference * found.cycles > 0]
    named = [one for one in named if one.difference / found.cycles >= _NAMED][:_MOST_NAMED]
    if not named or len(found.groups) == 1:
        return ""
    parts = [f"{one.group} ({short_share_text(one.difference / found.cycles)})" for one in named]
    return f" It is in {', '.join(parts)}."


_CYCLES: Final = {"cycles_a": "a", "cycles_b": "b", "difference": "difference"}


def difference_json(difference: Difference) -> dict[str, Any]:
    """Return the difference as one JSON object (``simaccel trace diff --json``)."""
    return {
        **pick(difference, "engine", cycles_a="a", cycles_b="b", difference="cycles"),
        "fields": [pick(field, field="name", a="a", b="b") for field in difference.fields],
        "operators": [
            {"name": each.group} | pick(each, "operators_a", "operators_b", **_CYCLES)
            for each in difference.groups
        ],
        "causes": [
            {"operator": each.group} | pick(each, "cause", **_CYCLES) for each in difference.shares
        ],
    }
