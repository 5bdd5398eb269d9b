"""Figures of runs and designs: sums over workloads, and what is derived from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from simaccel.analytic.memories import resident_bytes
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of, edp_js, power_figures
from simaccel.numbers import plain
from simaccel.pareto import undominated_rows
from simaccel.search import effort
from simaccel.study.experiment import ExperimentResult, result_json, simulated_chips
from simaccel.study.figure_table import DRAM_FIGURES, FIGURES, METRICS, place_of, total_of
from simaccel.study.points import Figures, Point, Record, base_point, chips_alike, memory_share
from simaccel.workload.language.phase import phase_of, tokens_of

_MINIMISED: Final = ("energy", "edp", "dram-bytes", "footprint", "area", "power")
OBJECTIVES: Final = {"cycles": "seconds", **{name: METRICS[name].column for name in _MINIMISED}}
"""The figure of each objective; cycles are compared in seconds, as clocks may differ."""
FRONTIER: Final = ("seconds", "energy_pj", "area_mm2", "footprint_bytes")
"""The figures of the Pareto frontier."""


def record_of(run: Record) -> Record:
    """Return what is stored of a run: its figures as JSON, with the energy of all chips.

    Those that are idle have the leakage of the others.
    """
    energy = {level: chips_alike(run) * amount for level, amount in run["energy_pj"].items()}
    if "leakage" in energy:
        chips = run.get("chip_count", 1) / simulated_chips(run["engines"])
        energy["leakage"] = chips * run["energy_pj"]["leakage"]
    return {
        **{key: total_of(place_of(run, fig.path)) for key, fig in FIGURES.items() if fig.path},
        "ideal_cycles": run["utilisation"] * run["cycles"],
        "energy_pj": plain(energy),
        "resident_bytes": resident_bytes(each["by_part"] for each in run["memories"]),
        "memory_share": memory_share(run["memories"]),
        "limit": run["limit"]["name"],
    }


def run_figures(result: ExperimentResult) -> Figures:
    """Return the figures of one run."""
    point = base_point(result.workload, result.accelerator)
    return figures_of(point, [record_of(result_json(result))])


def figures_of(design: Point, records: Sequence[Record]) -> Figures:
    """Return the figures of a design: weighted sums over workloads, and the largest footprint.

    Powers are averages over all workloads. Area, energy, EDP and power are those of all chips,
    cycles and bytes those of each.
    """
    accelerator = design.accelerator
    weights = [load.weight for load in design.loads]

    def sum_figure(name: str) -> float:
        total = sum(w * record[name] for w, record in zip(weights, records, strict=True))
        return int(total) if total == int(total) else total  # a sum of integers is an integer

    energy: dict[str, float] = {}
    for weight, record in zip(weights, records, strict=True):
        for level, pj in record["energy_pj"].items():
            energy[level] = energy.get(level, 0.0) + weight * (math.nan if pj is None else pj)
    # work costs no energy only where nothing has a price
    cycles, every = sum_figure("cycles"), sum(energy.values()) or math.nan
    seconds = cycles / accelerator.clock_hz
    figures: Figures = plain(
        {
            "energy_pj": every,
            "edp_js": edp_js(every, seconds),
            **power_figures(energy if every > 0 else {"all": every}, seconds),
        }
    )
    return {
        "cycles": cycles,
        "bound_cycles": sum_figure("bound_cycles"),
        "seconds": seconds,
        **figures,
        **static_figures(accelerator),
        "footprint_bytes": max(record["footprint_bytes"] for record in records),
        **{name: sum_figure(name) for name in DRAM_FIGURES},
        "utilisation": sum_figure("ideal_cycles") / cycles,
        "resident_bytes": max(record["resident_bytes"] for record in records),
        "memory_share": max(
            (share for record in records if (share := record["memory_share"]) is not None),
            default=None,
        ),
        **_token_figures(design, records, seconds, every),
    }


def _token_figures(
    design: Point, records: Sequence[Record], seconds: float, energy_pj: float
) -> Figures:
    """Return times by phase, and rates and energies of tokens; None is not known.

    ``seconds`` and ``energy_pj`` (of all chips) are sums over all workloads. A time is the mean
    over the workloads of its phase. Tokens are those that come out; of prefills alone those that
    go in. A user gets a token in each decode step.
    """
    clock, chips = design.accelerator.clock_hz, design.accelerator.pod.count
    phases = [phase_of(load.workload) for load in design.loads]
    tokens, times = 0.0, {"prefill": (0.0, 0.0), "decode": (0.0, 0.0)}
    for load, record, phase in zip(design.loads, records, phases, strict=True):
        of_run = tokens_of(load.workload) or math.nan
        if phase == "prefill" and "decode" in phases:
            of_run = load.workload.parameters["batch"]
        tokens += load.weight * of_run
        if phase is not None:
            weight, total = times[phase]
            times[phase] = weight + load.weight, total + load.weight * record["cycles"] / clock
    first, later = (total / weight if weight else math.nan for weight, total in times.values())
    named = {
        "first_token_seconds": first,
        "token_seconds": later,
        "tokens_per_second": tokens / seconds,
        "tokens_per_second_per_chip": tokens / seconds / chips,
        "tokens_per_second_per_user": 1 / later,
        "energy_per_token_pj": energy_pj / tokens,
    }
    figures: Figures = plain(named)
    return figures


def limit_of(records: Sequence[Record]) -> str:
    """Return the limit of a design's longest run, by its name in `LIMITS`."""
    longest: Record = max(records, key=lambda record: int(record["cycles"]))
    return str(longest["limit"])


def static_figures(accelerator: Accelerator) -> Figures:
    """Return the figures of a design that are known without a run: the area of all chips."""
    area = area_of(accelerator).mm2
    return {"area_mm2": None if area is None else accelerator.pod.count * area}


def searched_objective(objective: str) -> effort.Objective | None:
    """Return the objective of searches: that of an exploration, where a search can minimise it."""
    return next((name for name in effort.OBJECTIVES if name == objective), None)


def objective_of(figures: Mapping[str, float | int | None], objective: str) -> float:
    """Return the figure of an objective; infinity if it is unknown."""
    found = figures[OBJECTIVES[objective]]
    return math.inf if found is None else float(found)


def frontier(designs: Sequence[Figures]) -> list[bool]:
    """Return for each design whether it is on the Pareto frontier of the figures ``FRONTIER``.

    Unknown figures count as infinite.
    """
    if not designs:
        return []
    table = np.array(
        [
            [math.inf if (v := design[name]) is None else v for name in FRONTIER]
            for design in designs
        ]
    )
    best = {tuple(row) for row in table[undominated_rows(table)]}
    return [tuple(row) in best for row in table]
