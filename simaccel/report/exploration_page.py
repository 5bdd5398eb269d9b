"""An exploration as one HTML page: what was asked, pictures, the frontier, all designs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from simaccel.report.exploration import (
    MOST_ROWS,
    columns,
    counted_lines,
    figure_heads,
    row_cells,
    rows,
    rows_shown,
)
from simaccel.report.figures.exploration import draw_frontier, draw_pairs, draw_sensitivity
from simaccel.report.figures.style import style, svg_text
from simaccel.study.explore import ExploredDesigns
from simaccel.study.points import StudyRow

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; }}
h1 {{ font-size: 1.3em; }} h2 {{ font-size: 1.1em; margin-top: 2em; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .15em .7em; text-align: right; white-space: nowrap; }}
tr {{ border-bottom: 1px solid #ddd; }}
th {{ position: sticky; top: 0; background: #fff; cursor: pointer; }}
tr.best {{ font-weight: bold; }} tr.frontier {{ background: #fff6e0; }}
div.all {{ max-height: 40em; overflow: auto; }}
svg {{ max-width: 100%; height: auto; }}
</style>
<h1>{title}</h1>
{lines}
<h2>Best</h2>
{shown}
<h2>Frontier</h2>
{frontier}
<h2>Pairs</h2>
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
</script>
</html>
"""


def exploration_page(exploration: ExploredDesigns, title: str) -> str:
    """Return the page, which needs nothing else."""
    names = [dimension[0].axis.name for dimension in exploration.dimensions]
    best = [row for row in rows_shown(exploration, None) if row.frontier][:MOST_ROWS]
    best = best or rows_shown(exploration)
    shown = [row_cells(exploration, row) for row in best]
    marks = [_class(row) for row in best]
    asked = f"objective: {exploration.plan.objective}"
    limits = ", ".join(map(str, exploration.plan.limits))
    lines = [asked + (f"; limits: {limits}" if limits else ""), *counted_lines(exploration)]
    every = [[_plain(value) for value in row.values()] for row in rows(exploration)]
    with style():
        pictures = {
            "frontier": svg_text(draw_frontier(exploration, title)),
            "pairs": svg_text(draw_pairs(exploration, title)),
            "sensitivity": svg_text(draw_sensitivity(exploration, title)),
        }
    return _PAGE.format(
        title=escape(title),
        lines="\n".join(f"<p>{escape(line)}</p>" for line in lines),
        shown=_table([*names, *figure_heads(exploration), "limit", ""], shown, marks),
        designs=_table(columns(exploration), every, [_class(point) for point in exploration.rows]),
        **pictures,
    )


def _class(one: StudyRow) -> str:
    return " ".join(name for name in ("best", "frontier") if getattr(one, name))


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(heads: Sequence[str], cells: Sequence[Sequence[str]], marks: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "\n".join(
        f'<tr class="{kind}">' + "".join(f"<td>{escape(one)}</td>" for one in row) + "</tr>"
        for row, kind in zip(cells, marks, strict=True)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
