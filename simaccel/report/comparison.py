"""A table of several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from simaccel.report.layout import add_row, make_table
from simaccel.report.units import (
    bytes_text,
    cycles_text,
    energy_text,
    error_text,
    seconds_text,
    share_text,
)

_NOTHING = "-"


@dataclass(frozen=True)
class Compared:
    """One row: what was asked for, and the result as JSON or the reason why there is none."""

    dataflow: str
    seq_len: int | None = None
    result: dict[str, Any] | None = None
    problem: str = ""
    exit_code: int = 0


def speedup(row: Compared, rows: Sequence[Compared]) -> float | None:
    """Divide the cycles of the first dataflow of the same length by those of this row."""
    first = next(one for one in rows if one.seq_len == row.seq_len)
    if row.result is None or first.result is None:
        return None
    return float(first.result["cycles"] / row.result["cycles"])


def comparison_table(rows: Sequence[Compared]) -> Table:
    """Tabulate runs; one that has no result gets its reason from ``problem_lines``."""
    lengths = any(row.seq_len is not None for row in rows)
    figures = ("cycles", "time", "util.", "DRAM", "energy", "est. error", "speedup")
    table = make_table((), (*(["seq-len"] if lengths else []), "dataflow", *figures))
    table.columns[int(lengths)].justify = "left"
    before = rows[0].seq_len
    for row in rows:
        if row.seq_len != before:
            table.add_section()
        before = row.seq_len
        length = [str(row.seq_len)] if lengths else []
        add_row(table, [*length, row.dataflow, *_figures(row, rows)])
    return table


def _figures(row: Compared, rows: Sequence[Compared]) -> list[str]:
    result = row.result
    if result is None:
        return ["does not run", *[_NOTHING] * 6]
    faster = speedup(row, rows)
    moved = result["bytes"]["dram"]
    return [
        cycles_text(result["cycles"]),
        seconds_text(result["seconds"]),
        share_text(result["utilisation"]),
        bytes_text(sum(sum(by_tensor.values()) for by_tensor in moved.values())),
        energy_text(sum(result["energy_pj"].values())),
        error_text(result["estimate"]["relative_error"]),
        _NOTHING if faster is None else f"{faster:.2f} x",
    ]


def problem_lines(rows: Sequence[Compared]) -> list[str]:
    """Say why runs have no result."""
    return [
        f"{row.dataflow}{f' at {row.seq_len}' if row.seq_len else ''}: {row.problem}"
        for row in rows
        if row.result is None
    ]


def comparison_json(rows: Sequence[Compared]) -> list[dict[str, Any]]:
    """Give the rows as a list (the format of ``simaccel compare --json``)."""
    found: list[dict[str, Any]] = []
    for row in rows:
        asked = {"seq_len": row.seq_len, "dataflow": row.dataflow}
        if row.result is None:
            found.append({**asked, "error": row.problem, "exit_code": row.exit_code})
        else:
            found.append({**row.result, **asked, "speedup": speedup(row, rows)})
    return found
