"""Designs next to an accelerator, each with the figures of its run: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from simaccel.experiment.neighbour_designs import Design, DesignRun, figures_of_design
from simaccel.experiment.run import ExperimentResult
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import area_text, bytes_text, cycles_text, work_energy_text

if TYPE_CHECKING:
    from rich.table import Table


def designs_table(result: ExperimentResult, runs: Sequence[DesignRun]) -> Table:
    """Tabulate the run as it is, and each design with its speedup over it."""
    figures = ("cycles", "speedup", "DRAM", "energy", "area")
    table = make_table(("what if",), figures, ("note",))
    for one in (figures_of_design(Design("the run as it is"), result), *runs):
        if one.problem:
            add_row(table, (one.design.text, *["-"] * len(figures), one.problem))
            continue
        cells = (
            cycles_text(one.cycles),
            f"{result.run.cycles / one.cycles:.3f} x",
            bytes_text(one.dram_bytes),
            "unknown" if one.energy_pj is None else work_energy_text(one.energy_pj),
            area_text(one.area_mm2),
        )
        add_row(table, (one.design.text, *cells, ""))
    return table


def designs_json(result: ExperimentResult, runs: Sequence[DesignRun]) -> dict[str, Any]:
    """Return the designs as JSON: their fields, figures and speedup, or the problem."""
    rows = []
    for one in runs:
        figures = {k: v for k, v in asdict(one).items() if k not in ("design", "problem")}
        figures["speedup"] = result.run.cycles / one.cycles if one.cycles else None
        known = {"problem": one.problem} if one.problem else figures
        rows.append({**asdict(one.design), **known})
    return {"designs": rows}
