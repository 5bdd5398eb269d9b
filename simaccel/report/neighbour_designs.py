"""Designs next to an accelerator, each with the figures of its run: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from simaccel.experiment.run import ExperimentResult, result_json
from simaccel.report.comparison import figure_cells, speedups
from simaccel.report.tables import Table, add_row, make_table
from simaccel.study.figures import run_figures
from simaccel.study.neighbour_designs import DESIGN
from simaccel.study.points import Setting, StudyRow

_COLUMNS: Final = ("cycles", "dram_bytes", "energy_pj", "area_mm2")


def designs_table(result: ExperimentResult, rows: Sequence[StudyRow]) -> Table:
    """Tabulate the run as it is, and each design with its speedup over it."""
    heads = ("cycles", "speedup", "DRAM", "energy", "area")
    table = make_table(("what if",), heads, ("note",))
    every = _with_base(result, rows)
    for row, faster in zip(every, _speedups(every), strict=True):
        text = row.settings[0].text
        if row.problem:
            add_row(table, (text, *["-"] * len(heads), row.problem))
            continue
        cycles, *cells = figure_cells(row, _COLUMNS)
        add_row(table, (text, cycles, f"{faster:.3f} x", *cells, ""))
    return table


def designs_json(result: ExperimentResult, rows: Sequence[StudyRow]) -> dict[str, Any]:
    """Return the designs as JSON: fields, figures and speedup, or the problem; nothing of none."""
    documents = []
    every = _with_base(result, rows)
    for row, faster in list(zip(every, _speedups(every), strict=True))[1:]:
        design = row.settings[0]
        held = design.fields.get("stationarity")
        named = {"text": design.text, "fields": {} if held else dict(design.fields)}
        figures: dict[str, Any] = {"problem": row.problem}
        if row.figures is not None:
            figures = {name: row.figures[name] for name in _COLUMNS} | {"speedup": faster}
        documents.append({**named, "stationarity": held, **figures})
    return {"designs": documents} if documents else {}


def _with_base(result: ExperimentResult, rows: Sequence[StudyRow]) -> list[StudyRow]:
    """Return the run as it is, and the rows of the designs."""
    given = Setting(DESIGN, "", "the run as it is")
    chips = result.accelerator.pod.count
    whole = StudyRow("", settings=(given,), chips=chips, figures=run_figures(result))
    return [replace(whole, result=result_json(result)), *rows]


def _speedups(rows: Sequence[StudyRow]) -> list[float | None]:
    """Return how many times as fast as the first row each is; None where it doesn't run."""
    return speedups([replace(row, settings=(), seq_len=None) for row in rows])
