"""Fronts of the mappings that a scheduler considers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from simaccel.hardware import Accelerator
from simaccel.mapping.documents import mapping_document
from simaccel.pareto import pick_evenly, undominated_rows
from simaccel.schedulers import Options, settle_options
from simaccel.schedulers.fronts import front
from simaccel.search.effort import require_energies
from simaccel.search.front import FIGURES, Figure, FrontFigures
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.study.figure_table import METRICS
from simaccel.study.figures import run_figures
from simaccel.study.points import Figures, Record
from simaccel.workload import Workload

_MOST_OF_FRONT: Final = 64
"""Most points of a front that run; of more, evenly spaced ones."""
FRONT_COLUMNS: Final[Mapping[Figure, str]] = {name: METRICS[name].column for name in FIGURES}
"""The columns of the figures that a front may have."""


def pareto(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    figures: FrontFigures,
) -> Record:
    """Return the front of the mappings that a scheduler considers, each run on the machine.

    As JSON: ``points`` with their figures and ``mapping``, the first figure's best first; ``seen``:
    the mappings considered; ``points_in_all``: of the front, also those that didn't run;
    ``proved``: no mapping considered beats one of the points.

    Raises:
        NothingFitsError: no mapping fits the buffer.
        SimaccelError: as of ``make_mapping``.
    """
    options = settle_options(options, accelerator)
    for figure in (figures.x, figures.y):
        require_energies(accelerator, figure)
    frontier = front(workload, accelerator, dataflow, options, figures)
    places = pick_evenly(np.arange(len(frontier.points)), _MOST_OF_FRONT)
    chosen = [frontier.points[int(at)] for at in places]
    mappings = (mapping_of(workload, dataflow, tree.body) for tree in chosen)
    results = [simulate(workload, accelerator, mapping) for mapping in mappings]
    added_up = frontier.seen == len(frontier.points) or all(
        (tree.cycles, tree.buffer_bytes) == (result.run.cycles, result.prediction.buffer_bytes)
        for tree, result in zip(chosen, results, strict=True)
    )
    points: list[Record] = [
        {**front_figures(result), "mapping": mapping_document(result.mapping)} for result in results
    ]
    both = (figures.x, figures.y)
    signs = {FRONT_COLUMNS[name]: -1 if name == "utilisation" else 1 for name in both}
    rows = [[sign * (point[name] or 0) for name, sign in signs.items()] for point in points]
    kept = undominated_rows(np.array(rows)).tolist()
    left_out = len(frontier.points) - len(chosen)
    return {
        "seen": frontier.seen,
        "points_in_all": len(kept) + left_out,
        "proved": frontier.proved and added_up and not left_out,
        "points": [points[at] for at in kept],
    }


def front_figures(result: ExperimentResult) -> Figures:
    """Return the figures of a run for fronts; the footprint is what the mapping reserves."""
    found = run_figures(result) | {"footprint_bytes": result.prediction.buffer_bytes}
    return {column: found[column] for column in FRONT_COLUMNS.values()}
