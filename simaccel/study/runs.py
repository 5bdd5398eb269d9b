"""Runs of one workload on one design, and the keys under which their results are stored."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from simaccel.errors import SimaccelError, WorkerDiedError
from simaccel.experiment.parallel import Watch, run_with
from simaccel.experiment.pipeline import pipeline_row, run_pipeline
from simaccel.experiment.run import given_up_json, resident_bytes, result_json, simulate
from simaccel.experiment.store import ResultStore, result_key
from simaccel.experiment.workers import TaskWorkers
from simaccel.hardware import Accelerator
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.tree import Mapping
from simaccel.numbers import plain
from simaccel.papers.maestro.dataflows.reading import parse_directives
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.run.memories import MemoryOverflowError
from simaccel.schedulers import Options
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.effort import STRATEGIES
from simaccel.study.figures import figures_of, record_of
from simaccel.study.manifest import ROW
from simaccel.study.points import Point, Record, StudyRow
from simaccel.study.space import DIRECTIVES
from simaccel.workload import Workload

_MANY_BLOCKS: Final = 50_000
"""Blocks of memory from which garbage is collected after a run: it takes 0.1 s, and saves seconds.
"""


@dataclass(frozen=True)
class RunKey:
    """All that decides the result of a run; ``description``: of the workload, with its dataflows.

    ``stages``: of a pipeline, with ``micro_batches`` (None: as many as stages).
    """

    workload: Workload
    accelerator: Accelerator
    dataflow: str | Mapping
    options: Options
    description: str = ""
    stages: int | None = None
    micro_batches: int | None = None
    fast_forward: bool = True

    @cached_property
    def key(self) -> str:
        """Digest of everything that decides the result."""
        others = {"dataflow": str(self.dataflow), "description": self.description}
        others |= {"stages": str(self.stages), "micro_batches": str(self.micro_batches)}
        return result_key("run", self.accelerator, self.workload, self.options, **others)


def run_keys(point: Point) -> list[RunKey]:
    """Return the runs of a point, one for each of its workloads."""
    return [
        RunKey(
            load.workload,
            point.accelerator,
            point.dataflow,
            point.options,
            load.description if point.dataflow == DIRECTIVES else "",
            point.stages,
            point.micro_batches,
            point.fast_forward,
        )
        for load in point.loads
    ]


def run_point(point: Point) -> StudyRow:
    """Run a point of one workload; an error that the user can cause becomes the row's problem."""
    (run_key,) = run_keys(point)
    try:
        record, resident = _simulate_key(run_key)
    except SimaccelError as error:
        overflows = isinstance(error, MemoryOverflowError)
        row = replace(point.row, problem=str(error), overflows=overflows)
        return replace(row, exit_code=error.exit_code)
    figures = figures_of(point, [record_of(record, resident)])
    return replace(point.row, result=record, figures=figures)


def run_points(
    points: Sequence[Point],
    team: TaskWorkers,
    watch: Watch,
    on_row: Callable[[int, StudyRow], None],
    store: ResultStore,
) -> list[StudyRow]:
    """Return the rows of points of one workload, from the store or by running them.

    ``on_row`` is called with each row at once. A row whose process died is not stored.
    """
    keys = [run_keys(point)[0].key for point in points]
    rows: dict[int, StudyRow] = {}
    for at, (key, point) in enumerate(zip(keys, points, strict=True)):
        if (kept := store.get(key)) is not None:
            rows[at] = replace(point.row, **json.loads(kept))
            on_row(at, rows[at])
    rest = [at for at in range(len(points)) if at not in rows]

    def keep(number: int, row: StudyRow) -> None:
        at = rest[number]
        rows[at] = row
        on_row(at, row)
        if row.exit_code != WorkerDiedError.exit_code:
            store.put(keys[at], json.dumps(plain({name: getattr(row, name) for name in ROW})))

    if rest:
        todo = [points[at] for at in rest]
        run_with(
            team,
            run_point,
            todo,
            watch,
            lost=lambda point: point.row.without_process(),
            on_result=keep,
        )
    return [rows[at] for at in range(len(points))]


def run(run_key: RunKey) -> Record:
    """Return the stored figures of a run, or the ``problem`` if the user caused an error."""
    try:
        return record_of(*_simulate_key(run_key))
    except MemoryOverflowError as error:
        return {"problem": error.shortage, "overflows": True}
    except SimaccelError as error:
        return {"problem": str(error).partition("\n")[0]}


def _directed_mapping(run_key: RunKey) -> Mapping | None:
    """Return the mapping of a description; None for runs with a scheduler."""
    if not run_key.description:
        return None
    names = {one.name for one in run_key.workload.operators}
    layers = [one for one in parse_directives(run_key.description).layers if one.name in names]
    mapping = directed_mapping(layers, run_key.workload, run_key.accelerator)
    require_mapping(run_key.workload, mapping, run_key.accelerator, "description")
    return mapping


def _simulate_key(run_key: RunKey) -> tuple[Record, int]:
    """Return a run as JSON has it, with what its choice gave up, and the resident bytes.

    A search leaves objects that refer to one another; many of them are collected before the next.
    """
    before = sys.getallocatedblocks()
    try:
        return _simulate_alone(run_key)
    finally:
        if sys.getallocatedblocks() - before > _MANY_BLOCKS:
            gc.collect()


def _simulate_alone(run_key: RunKey) -> tuple[Record, int]:
    dataflow = _directed_mapping(run_key) or run_key.dataflow
    if run_key.stages is not None:
        pipeline = run_pipeline(
            run_key.workload,
            run_key.accelerator,
            dataflow,
            stages=run_key.stages,
            micro_batches=run_key.micro_batches,
            options=run_key.options,
            fast_forward=run_key.fast_forward,
        )
        return pipeline_row(pipeline), pipeline.resident_bytes
    losses: list[ObjectiveLosses] = []
    result = simulate(
        run_key.workload,
        run_key.accelerator,
        dataflow,
        options=replace(run_key.options, on_losses=losses.append),
        fast_forward=run_key.fast_forward,
    )
    options = run_key.options
    searched = options.effort.aim if dataflow in STRATEGIES else options.objective
    return {**result_json(result), **given_up_json(losses, searched)}, resident_bytes(result)
