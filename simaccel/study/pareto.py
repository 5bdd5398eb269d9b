"""Pareto fronts: the mappings of a scheduler that no other one beats in two figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simaccel.experiment.run import ExperimentResult, energy_pj, simulate
from simaccel.hardware import Accelerator
from simaccel.hardware.energy.required import require_energies
from simaccel.hardware.memory import dram_bytes
from simaccel.pareto import Front, pick_evenly, undominated_rows
from simaccel.schedulers import Options, settle_options
from simaccel.schedulers.fronts import front
from simaccel.search.front import Figure, FrontFigures
from simaccel.search.judge import mapping_of
from simaccel.workload import Workload

MOST: Final = 64
"""The most points of a front that are run; of more, evenly spaced ones are selected."""


@dataclass(frozen=True)
class FrontPoint:
    """One mapping of a front, run on the machine: its figures by their names."""

    result: ExperimentResult
    figures: dict[Figure, float]


def pareto(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    asked: FrontFigures,
) -> Front[FrontPoint]:
    """Return the front of the mappings that a scheduler considers, each run on the machine.

    Raises:
        NothingFitsError: no mapping fits the buffer.
        SimaccelError: as of ``make_mapping``.

    """
    options = settle_options(options, accelerator)
    for figure in (asked.x, asked.y):
        require_energies(accelerator, figure)
    frontier = front(workload, accelerator, dataflow, options, asked)
    chosen = [frontier.points[int(at)] for at in pick_evenly(np.arange(len(frontier.points)), MOST)]
    results = [
        simulate(workload, accelerator, mapping_of(workload, dataflow, tree.body))
        for tree in chosen
    ]
    added_up = frontier.seen == len(frontier.points) or all(
        (tree.cycles, tree.buffer_bytes) == (result.run.cycles, result.prediction.buffer_bytes)
        for tree, result in zip(chosen, results, strict=True)
    )
    points = [FrontPoint(result, figures_of(result)) for result in results]
    signs = {name: -1 if name == "utilisation" else 1 for name in (asked.x, asked.y)}
    rows = np.array([[signs[name] * point.figures[name] for name in signs] for point in points])
    kept = undominated_rows(rows)
    return Front(
        points=tuple(points[int(at)] for at in kept),
        seen=frontier.seen,
        more=len(frontier.points) - len(chosen),
        proved=frontier.proved
        and added_up
        and len(chosen) == len(frontier.points) > max(kept.tolist()),
    )


def figures_of(result: ExperimentResult) -> dict[Figure, float]:
    """Return a run's figures for fronts: cycles, pJ, joule seconds, bytes.

    ``footprint`` is what the mapping reserves in the buffer.
    """
    run = result.run
    energy = sum(energy_pj(run, result.accelerator).values())
    return {
        "cycles": run.cycles,
        "utilisation": result.utilisation,
        "energy": energy,
        "edp": energy * 1e-12 * result.accelerator.seconds(run.cycles),
        "dram-bytes": dram_bytes(run.moved),
        "footprint": result.prediction.buffer_bytes,
    }
