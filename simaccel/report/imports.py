"""What became of the nodes of an imported model: a table, and what is not modelled."""

from __future__ import annotations

from rich.table import Table

from simaccel.report.layout import add_row, make_table
from simaccel.report.units import cycles_text, share_text
from simaccel.workload.onnx_files import Imported, totals

_MOST_LISTED = 20


def import_table(imported: Imported) -> Table:
    """Tabulate nodes by what became of them, with their shares of MACs and of other elements."""
    table = make_table(
        ("nodes",), ("count", "MACs", "share", "other elements", "share"), ("kinds",)
    )
    found = totals(imported.rows)
    macs = sum(one for _, one, _ in found.values()) or 1
    works = sum(one for _, _, one in found.values()) or 1
    for how, (nodes, own, work) in found.items():
        kinds = sorted({row.kind for row in imported.rows if row.how == how})
        figures = (cycles_text(nodes), cycles_text(own), share_text(own / macs))
        others = (cycles_text(work), share_text(work / works))
        add_row(table, (how, *figures, *others, ", ".join(kinds)))
    return table


def import_lines(imported: Imported) -> list[str]:
    """Return how many nodes were constants, and which are not modelled."""
    lines = [f"{imported.constants} nodes are constants"]
    rows = [row for row in imported.rows if row.how == "not modelled"]
    lines += [f"not modelled: {row.node} ({row.kind}): {row.become}" for row in rows[:_MOST_LISTED]]
    more = len(rows) - _MOST_LISTED
    return [*lines, f"not modelled: {more} more (--json lists all)"] if more > 0 else lines


def import_line(imported: Imported) -> str:
    """Say in a line what a run of an imported model leaves out."""
    found = totals(imported.rows)
    works = sum(one for _, _, one in found.values()) or 1
    parts = [f"{nodes} {how}" for how, (nodes, _, _) in found.items()]
    share = share_text(found["not modelled"][2] / works)
    return f"ONNX nodes: {', '.join(parts)} ({share} of elements without MACs)"
