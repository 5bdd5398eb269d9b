"""Tables of two runs of one workload side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from simaccel.diagnosis.difference import Difference, GroupDifference
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import cycles_text, error_text, short_share_text
from simaccel.report.verdict import engine_text
from simaccel.units import CAUSES, cause_text

if TYPE_CHECKING:
    from rich.table import Table

_MOST_ROWS = 20
_FIGURES = ("cycles A", "cycles B", "difference", "of A")
_MOST_FIELDS = 8
_NAMED = 0.1
"""Smaller shares of the difference are not named in the sentence."""
_MOST_NAMED = 3


def groups_table(difference: Difference) -> Table:
    """Tabulate the cycles of each operator, and their total."""
    told = {
        group.name: (
            _fusion_text(group.name, group.operators_a),
            _fusion_text(group.name, group.operators_b),
        )
        for group in difference.groups
    }
    apart = any(any(both) for both in told.values())
    table = make_table(("operator",), _FIGURES, ("in A", "in B") if apart else ())
    for group in difference.groups:
        figures = _figures(group.a, group.b, difference.a)
        add_row(table, (group.name, *figures, *(told[group.name] if apart else ())))
    table.add_section()
    last = _figures(difference.a, difference.b, difference.a)
    add_row(table, ("total", *last, *(("", "") if apart else ())), style="bold")
    return table


def _fusion_text(group: str, names: Sequence[str]) -> str:
    """Return how a run fuses the operators of a group; empty if it is one operator of that name."""
    return "" if names == (group,) else ", ".join(names) or "nothing"


def causes_table(difference: Difference) -> Table:
    """Tabulate operators and causes by how much they changed, and their total.

    The smallest changes are summed in one row, so that the rows always add up.
    """
    table = make_table(("operator", f"cause ({difference.engine})"), _FIGURES)
    changed = [share for share in difference.shares if share.difference]
    shown = difference.shares[: min(len(changed), _MOST_ROWS)]
    rest = difference.shares[len(shown) :]
    for share in shown:
        add_row(
            table,
            (share.group, cause_text(share.cause), *_figures(share.a, share.b, difference.a)),
        )
    if rest:
        sums = sum(share.a for share in rest), sum(share.b for share in rest)
        kind = "others" if len(changed) > len(shown) else "unchanged"
        add_row(table, (f"{len(rest)} {kind}", "", *_figures(*sums, difference.a)))
    table.add_section()
    add_row(table, ("total", "", *_figures(difference.a, difference.b, difference.a)), style="bold")
    return table


def _figures(a: int, b: int, whole: int) -> tuple[str, ...]:
    change = error_text((b - a) / whole) if b != a else ""
    return cycles_text(a), cycles_text(b), signed_text(b - a), change


def signed_text(cycles: int) -> str:
    """Write a difference of cycles.

    >>> signed_text(1234), signed_text(-5), signed_text(0)
    ('+1,234', '-5', '0')
    """
    return f"{cycles:+,}" if cycles else "0"


def difference_lines(found: Difference) -> Iterator[str]:
    """Return the fields that differ between the runs, then the effect on the cycles."""
    for field in found.fields[:_MOST_FIELDS]:
        yield f"{field.name}: {field.a} in A, {field.b} in B"
    if len(found.fields) > _MOST_FIELDS:
        yield f"and {len(found.fields) - _MOST_FIELDS} fields more"
    yield f"{_verdict(found)}{_by_cause(found)}{_by_operator(found)}"


def _verdict(found: Difference) -> str:
    if found.cycles:
        faster = f"{found.a / found.b:.3f} x as fast"
        return f"B takes {_change_text(found.cycles)} than A ({faster})."
    spent = "otherwise" if any(one.difference for one in found.shares) else "alike"
    return f"A and B take the same cycles, spent {spent}."


def _change_text(cycles: int) -> str:
    return f"{cycles_text(abs(cycles))} cycles {'more' if cycles > 0 else 'fewer'}"


def _by_cause(found: Difference) -> str:
    """Return a sentence on the causes that changed most over all operators."""
    sums: Counter[str] = Counter()
    for one in found.shares:
        sums[one.cause] += one.difference
    changed = sum(map(abs, sums.values()))
    ranked = sorted(sums.items(), key=lambda pair: -abs(pair[1]))
    named = [pair for pair in ranked if pair[1] and abs(pair[1]) >= _NAMED * changed]
    told = [_cause_text(cause, n) for cause, n in named[:_MOST_NAMED]]
    return f" In all, {engine_text(found.engine)} {', '.join(told)}." if told else ""


def _cause_text(cause: str, cycles: int) -> str:
    if cause == "busy":
        return f"works {_change_text(cycles)}"
    if cause == "idle":
        return f"is idle {_change_text(cycles)}"
    return f"waits {_change_text(cycles)} for {CAUSES[cause].awaited}"


def _by_operator(found: Difference) -> str:
    """Return a sentence on the operators with the largest differences."""
    named = [one for one in found.groups if one.difference * found.cycles > 0]
    named = [one for one in named if one.difference / found.cycles >= _NAMED][:_MOST_NAMED]
    if not named or len(found.groups) == 1:
        return ""
    parts = [f"{one.name} ({short_share_text(one.difference / found.cycles)})" for one in named]
    return f" It is in {', '.join(parts)}."


def difference_json(difference: Difference) -> dict[str, Any]:
    """Return the difference as one JSON object (``simaccel trace diff --json``)."""
    return {
        "engine": difference.engine,
        "cycles_a": difference.a,
        "cycles_b": difference.b,
        "difference": difference.cycles,
        "fields": [
            {"field": field.name, "a": field.a, "b": field.b} for field in difference.fields
        ],
        "operators": [_group_json(group) for group in difference.groups],
        "causes": [
            {
                "operator": share.group,
                "cause": share.cause,
                "cycles_a": share.a,
                "cycles_b": share.b,
                "difference": share.difference,
            }
            for share in difference.shares
        ],
    }


def _group_json(one: GroupDifference) -> dict[str, Any]:
    return {
        "name": one.name,
        "operators_a": list(one.operators_a),
        "operators_b": list(one.operators_b),
        "cycles_a": one.a,
        "cycles_b": one.b,
        "difference": one.difference,
    }
