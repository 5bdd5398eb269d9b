"""Designs next to an accelerator, each with the figures of its run: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from simaccel.experiment.run import ExperimentResult
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import area_text, bytes_text, cycles_text, work_energy_text
from simaccel.study.neighbour_designs import NeighbourDesign, NeighbourRun, figures_of_design

if TYPE_CHECKING:
    from rich.table import Table


def designs_table(result: ExperimentResult, runs: Sequence[NeighbourRun]) -> Table:
    """Tabulate the run as it is, and each design with its speedup over it."""
    figures = ("cycles", "speedup", "DRAM", "energy", "area")
    table = make_table(("what if",), figures, ("note",))
    for ran in (figures_of_design(NeighbourDesign("the run as it is"), result), *runs):
        if ran.problem:
            add_row(table, (ran.design.text, *["-"] * len(figures), ran.problem))
            continue
        cells = (
            cycles_text(ran.cycles),
            f"{result.run.cycles / ran.cycles:.3f} x",
            bytes_text(ran.dram_bytes),
            "unknown" if ran.energy_pj is None else work_energy_text(ran.energy_pj),
            area_text(ran.area_mm2),
        )
        add_row(table, (ran.design.text, *cells, ""))
    return table


def designs_json(result: ExperimentResult, runs: Sequence[NeighbourRun]) -> dict[str, Any]:
    """Return the designs as JSON: their fields, figures and speedup, or the problem."""
    rows = []
    for ran in runs:
        figures = {k: v for k, v in asdict(ran).items() if k not in ("design", "problem")}
        figures["speedup"] = result.run.cycles / ran.cycles if ran.cycles else None
        known = {"problem": ran.problem} if ran.problem else figures
        rows.append({**asdict(ran.design), **known})
    return {"designs": rows}
