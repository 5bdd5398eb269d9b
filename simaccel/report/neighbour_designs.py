"""Designs next to an accelerator, each with the figures of its run: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simaccel.experiment.run import ExperimentResult, result_json
from simaccel.report.comparison import dram_bytes, speedups
from simaccel.report.layout import add_row, make_table
from simaccel.report.metrics import METRICS
from simaccel.report.units import area_text, bytes_text, cycles_text
from simaccel.study.neighbour_designs import DESIGN
from simaccel.study.points import Setting, StudyRow

if TYPE_CHECKING:
    from rich.table import Table


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
        cells = (
            cycles_text(row.run["cycles"]),
            f"{faster:.3f} x",
            bytes_text(dram_bytes(row.run)),
            METRICS["energy"].cell(row),
            area_text(row.area_mm2),
        )
        add_row(table, (text, *cells, ""))
    return table


def designs_json(result: ExperimentResult, rows: Sequence[StudyRow]) -> dict[str, Any]:
    """Return the designs as JSON: their fields, figures and speedup, or the problem."""
    documents = []
    every = _with_base(result, rows)
    for row, faster in list(zip(every, _speedups(every), strict=True))[1:]:
        design = row.settings[0]
        held = design.fields.get("stationarity")
        named = {"text": design.text, "fields": {} if held else dict(design.fields)}
        figures: dict[str, Any] = {"problem": row.problem}
        if not row.problem:
            figures = {
                "cycles": row.run["cycles"],
                "dram_bytes": dram_bytes(row.run),
                "energy_pj": METRICS["energy"].value(row),
                "area_mm2": row.area_mm2,
                "speedup": faster,
            }
        documents.append({**named, "stationarity": held, **figures})
    return {"designs": documents}


def _with_base(result: ExperimentResult, rows: Sequence[StudyRow]) -> list[StudyRow]:
    """Return the run as it is, and the rows of the designs."""
    given = Setting(DESIGN, "", "the run as it is")
    chips = result.accelerator.pod.count
    return [StudyRow("", result=result_json(result), settings=(given,), chips=chips), *rows]


def _speedups(rows: Sequence[StudyRow]) -> list[float | None]:
    """Return how many times as fast as the first row each is; None where it doesn't run."""
    return speedups([replace(row, settings=(), seq_len=None) for row in rows])
