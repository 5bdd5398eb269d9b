"""Tables of an exploration: for the terminal, as CSV, JSON, Parquet and one HTML page."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final

from simaccel.report.comparison import fits_text, shows_fits
from simaccel.report.figures.exploration import draw_pairs, draw_sensitivity
from simaccel.report.figures.style import style, svg_text
from simaccel.report.tables import Column, Table, page_html, pick, study_columns, tabulate
from simaccel.report.units import count_text
from simaccel.study.explore import ExploredDesigns
from simaccel.study.figure_table import FIGURES
from simaccel.study.figures import objective_of
from simaccel.study.points import Axis, StudyRow
from simaccel.study.store import MANIFEST
from simaccel.units import LIMITS

MOST_ROWS = 20
"""Default number of designs in a table; files have all."""
_MOST_REASONS: Final = 3
_VALUE: Final = re.compile(r"\bgot .*?; (?=allowed: )")
"""The value within the problem of a design that doesn't run."""
_SHOWN: Final = (
    *("cycles", "bound_cycles", "seconds", "utilisation", "dram_bytes", "dram_bound_bytes"),
    *("energy_pj", "edp_js", "area_mm2", "power_mw", "footprint_bytes"),
)
_OF_MODELS: Final = (
    *("first_token_seconds", "token_seconds", "tokens_per_second", "tokens_per_second_per_chip"),
    *("tokens_per_second_per_user", "energy_per_token_pj", "resident_bytes"),
)
"""Figures of whole transformers only; those per chip are left out for a single chip."""
_OF_CHIPS: Final = ("tokens_per_second_per_chip", "resident_bytes")


def exploration_table(found: ExploredDesigns, most: int | None = MOST_ROWS) -> Table:
    """Tabulate the best ``most`` designs (None: all)."""
    return tabulate(rows_shown(found, most), table_columns(found), bold=lambda one: one.best)


def _shown_figures(explored: ExploredDesigns) -> list[str]:
    known = {
        name
        for point in explored.rows
        for name, value in (point.figures or {}).items()
        if value is not None
    }
    if not known & {"first_token_seconds", "token_seconds"}:
        return [*_SHOWN]
    hidden = _OF_CHIPS if max(row.chips for row in explored.rows) == 1 else ()
    return [*_SHOWN, *(name for name in _OF_MODELS if name in known and name not in hidden)]


def _setting_text(row: StudyRow, at: int) -> str:
    return row.settings[at].text


def table_columns(explored: ExploredDesigns) -> list[Column]:
    """Return the columns of the table: settings, figures, what limits a design, its mark."""
    return [
        *(
            Column(settings[0].axis.name, partial(_setting_text, at=at), kind="text")
            for at, settings in enumerate(explored.dimensions)
        ),
        *study_columns(*_shown_figures(explored)),
        *[Column("fits", fits_text)] * shows_fits(explored.rows),
        Column("limit", lambda row: LIMITS[row.limit] if row.limit else None, kind="text"),
        Column("", lambda row: "best" if row.best else mark(row), kind="text"),
    ]


def rows_shown(found: ExploredDesigns, most: int | None = MOST_ROWS) -> list[StudyRow]:
    """Return designs by scenario and objective; those outside the limits or without a run last.

    At most ``most`` (None: all).
    """

    def order(row: StudyRow) -> tuple[Any, ...]:
        figures = row.figures
        value = math.inf if figures is None else objective_of(figures, found.plan.objective)
        return not row.within, figures is None, bool(row.problem), row.scenario, value

    return sorted(found.rows, key=order)[:most]


def mark(one: StudyRow) -> str:
    """Return the mark of a design."""
    if one.problem:
        return "does not run"
    if not one.within:
        return "outside the limits"
    return ", ".join(["best"] * one.best + ["frontier"] * one.frontier)


def counted_lines(exploration: ExploredDesigns, most: int | None = MOST_ROWS) -> list[str]:
    """Return the number of designs of each kind; ``most``: of those in the table."""
    points = exploration.rows
    failed = [point for point in points if point.problem]
    outside = sum(not point.within and not point.problem for point in points)
    on = [point for point in points if point.frontier]
    lost = [point for point in failed if point.lost]
    named = [([f"{s.axis.name}={s.text}" for s in each.settings], each.problem) for each in lost]
    reasons = _count_reasons([point.problem for point in failed if not point.lost])
    return [
        f"{count_text(len(points), 'design')}: {len(failed):,} do not run, "
        f"{outside:,} outside the limits, {len(on):,} on the frontier"
        + (f" (shown: {most})" if most is not None and len(points) > most else ""),
        *(f"does not run ({count:,}): {reason}" for reason, count in reasons[:_MOST_REASONS]),
        *(f"{' '.join(names) or 'the design'}: {problem}" for names, problem in named[:MOST_ROWS]),
        *[f"and {len(lost) - MOST_ROWS:,} more"] * (len(lost) > MOST_ROWS),
    ]


def _count_reasons(problems: Sequence[str]) -> list[tuple[str, int]]:
    """Return reasons and how often each occurs; of those that differ in a value, without it.

    >>> _count_reasons(["a: got 1; allowed: 2", "a: got 3; allowed: 2", "b: got 1; allowed: 2"])
    [('a: allowed: 2', 2), ('b: got 1; allowed: 2', 1)]
    """
    alike: dict[str, list[str]] = {}
    for problem in problems:
        alike.setdefault(_VALUE.sub("", problem), []).append(problem)
    counts = {
        every[0] if len(set(every)) == 1 else reason: len(every) for reason, every in alike.items()
    }
    return Counter(counts).most_common()


def effort_lines(found: ExploredDesigns) -> list[str]:
    """Return the effort of this run: the only line that differs in a second run."""
    return [
        f"runs: {found.ran:,} made, {found.reused:,} taken from the store",
        *(
            f"damaged, {'begun anew' if name == MANIFEST else 'run again'}: {name}"
            for name in found.damaged
        ),
    ]


def _axis_column(axis: Axis) -> str:
    """Name the column of an axis; a figure of the same name is what a design needs of it."""
    return f"axis_{axis.column}" if axis.column in FIGURES else axis.column


def rows(explored: ExploredDesigns) -> list[dict[str, Any]]:
    """Return all designs in order as data, all with the same columns; unknown values are None."""
    unknown = dict.fromkeys(FIGURES)
    return [
        {
            **{_axis_column(setting.axis): setting.value for setting in row.settings},
            **unknown,
            **(row.figures or {}),
            "fits": row.fits,
            "limit": row.limit or None,
            **pick(row, "within", "frontier", "best"),
            "problem": row.problem or None,
        }
        for row in explored.rows
    ]


def exploration_json(found: ExploredDesigns) -> dict[str, Any]:
    """Return an exploration as one JSON object."""
    return {
        "objective": found.plan.objective,
        "limits": [str(limit) for limit in found.plan.limits],
        "designs": rows(found),
    }


def write_parquet(found: ExploredDesigns, path: Path) -> None:
    """Write all designs as one Parquet table, with the types of CSV's columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    every = rows(found)
    table = {name: _column([row[name] for row in every]) for name in every[0]}
    pq.write_table(pa.table(table), path)


def _column(values: Sequence[Any]) -> Sequence[Any]:
    """Return a column of one type: floats if it mixes integers and floats, text if other types."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) > 1:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values


_STYLE: Final = """th, td { padding: .15em .7em; text-align: right; white-space: nowrap; }
th { position: sticky; top: 0; background: #fff; cursor: pointer; }
tr.best { font-weight: bold; } tr.frontier { background: #fff6e0; }
div.all { max-height: 40em; overflow: auto; }"""
_PAGE: Final = """{lines}
<h2>Best</h2>
{shown}
<h2>Frontier</h2>
{pairs}
<h2>Sensitivity</h2>
{sensitivity}
<h2>All designs</h2>
<p>A click on a name sorts.</p>
<div class="all">{designs}</div>
<script>
for (const head of document.querySelectorAll("div.all th")) head.onclick = () => {{
  const body = head.closest("table").tBodies[0], at = head.cellIndex;
  const up = head.dataset.up !== "1"; head.dataset.up = up ? "1" : "0";
  const value = row => row.cells[at].textContent;
  const order = (a, b) => a === b ? 0 : a === "" ? 1 : b === "" ? -1 :
    isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
  [...body.rows].sort((a, b) => (up ? 1 : -1) * order(value(a), value(b)))
    .forEach(row => body.append(row));
}};
</script>"""


def exploration_page(exploration: ExploredDesigns, title: str) -> str:
    """Return the page, a self-contained HTML document."""
    best = [row for row in rows_shown(exploration, None) if row.frontier][:MOST_ROWS]
    best = best or rows_shown(exploration)
    shown = table_columns(exploration)
    cells = [[column.cell(row) for column in shown] for row in best]
    objective = f"objective: {exploration.plan.objective}"
    limits = ", ".join(map(str, exploration.plan.limits))
    lines = [objective + (f"; limits: {limits}" if limits else ""), *counted_lines(exploration)]
    every = rows(exploration)
    with style():
        pictures = {
            "pairs": svg_text(draw_pairs(exploration, title)),
            "sensitivity": svg_text(draw_sensitivity(exploration, title)),
        }
    body = _PAGE.format(
        lines="\n".join(f"<p>{escape(line)}</p>" for line in lines),
        shown=_html_table([column.heading for column in shown], cells, best),
        designs=_html_table(
            [*every[0]], [[*map(_plain, row.values())] for row in every], exploration.rows
        ),
        **pictures,
    )
    return page_html(title, body, _STYLE)


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _html_table(
    heads: Sequence[str], cells: Sequence[Sequence[str]], designs: Sequence[StudyRow]
) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "\n".join(
        f'<tr class="{"best " * one.best}{"frontier" * one.frontier}">'
        + "".join(f"<td>{escape(text)}</td>" for text in row)
        + "</tr>"
        for row, one in zip(cells, designs, strict=True)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
