"""Runs of the points of a study, and the keys under which their records are stored."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from simaccel.analytic.memories import MemoryOverflowError
from simaccel.dataflows import DEPLOYED
from simaccel.errors import SimaccelError, WorkerDiedError
from simaccel.numbers import plain
from simaccel.study.experiment import result_json, simulate
from simaccel.study.figures import figures_of, limit_of, record_of
from simaccel.study.parallel import TaskWorkers, Watch
from simaccel.study.pipeline import pipeline_row, run_pipeline
from simaccel.study.points import LOST, Point, Record, StudyRow
from simaccel.study.store import ResultStore, result_key

_LOST: Final = {"problem": LOST, "lost": True}
"""The record of a run whose process died."""
_MANY_BLOCKS: Final = 50_000
"""Blocks of memory from which garbage is collected after a run: it takes 0.1 s, and saves seconds.
"""


def key_of(point: Point) -> str:
    """Return the digest of everything that decides the result of a point of one workload."""
    others = {"dataflow": str(point.dataflow), "description": point.workload.source[1]}
    others |= {"stages": str(point.stages), "micro_batches": str(point.micro_batches)}
    return result_key("run", point.accelerator, point.workload, point.options, **others)


def row_of(point: Point, records: Sequence[Record]) -> StudyRow:
    """Return the row of a point from the records of its workloads."""
    failed = [record for record in records if "problem" in record]
    if failed:
        lost = any(record.get("lost") for record in failed)
        return replace(
            point.row,
            problem=failed[0]["problem"],
            exit_code=WorkerDiedError.exit_code if lost else failed[0]["exit_code"],
            overflows=any(record.get("overflows") for record in failed),
        )
    if "cycles" not in records[0]:  # it is what a search found, not a run
        return replace(point.row, **records[0])
    figures, result = figures_of(point, records), records[0].get("result")
    return replace(point.row, result=result, figures=figures, limit=limit_of(records))


def run_rows(
    points: Sequence[Point],
    team: TaskWorkers,
    watch: Watch = lambda _done, _note: None,
    store: ResultStore | None = None,
    on_row: Callable[[int, StudyRow], None] = lambda _number, _row: None,
    **how: Any,  # noqa: ANN401 - as of `make_record`
) -> tuple[list[StudyRow], int]:
    """Run points, except those with a problem; return a row for each, and how many runs were made.

    The other runs are in the store, or equal ones. ``on_row`` is called with each row of a point of
    one workload at once; ``how``: as of `make_record`. A run whose process died is not stored.
    """
    store = store or ResultStore()
    runs = [(at, run) for at, point in enumerate(points) if not point.problem for run in point.runs]
    keys = [key_of(run) for _, run in runs]
    places: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        places.setdefault(key, []).append(number)
    records = {key: known for key in places if (known := store.get(key)) is not None}
    todo = [key for key in places if key not in records]

    def tell(key: str) -> None:
        for at in (runs[number][0] for number in places[key]):
            if len(points[at].loads) == 1:
                on_row(at, row_of(points[at], [records[key]]))

    def keep(number: int, record: Record) -> None:
        key = todo[number]
        if record is not _LOST:
            store.put(key, record)
        records[key] = store.get(key) or record
        tell(key)

    for key in records:
        tell(key)
    tasks = [runs[places[key][0]][1] for key in todo]
    work = partial(make_record, **how)
    team.run(work, tasks, watch, lost=lambda _: _LOST, on_result=keep)
    each = (records[key] for key in keys)
    rows = [
        point.row if point.problem else row_of(point, [*islice(each, len(point.loads))])
        for point in points
    ]
    return rows, sum(records[key] is not _LOST for key in todo)


def make_record(
    point: Point, *, whole: bool = False, find: Callable[[Point], Record] | None = None
) -> Record:
    """Run a point of one workload; return its figures, or the ``problem`` if the user caused one.

    ``whole``: with the run as JSON has it (``result``), and all lines of a problem. ``find``: what
    is searched instead of a run; it returns attributes of the point's row.
    """
    try:
        if find is not None:
            return find(point)
        result = _simulate_point(point)
    except SimaccelError as error:
        overflows, text = False, str(error)
        if isinstance(error, MemoryOverflowError):
            overflows, text = True, text if whole else error.shortage
        text = text if whole else text.partition("\n")[0]
        return {"problem": text, "exit_code": error.exit_code, "overflows": overflows}
    return record_of(result) | ({"result": plain(result)} if whole else {})


def _simulate_point(point: Point) -> Record:
    """Return a run as JSON has it, with what its choice gave up.

    A search leaves objects that refer to one another; many of them are collected before the next.
    """
    before = sys.getallocatedblocks()
    if point.dataflow == DEPLOYED:  # an objective is that of the dataflows that search
        point = replace(point, options=replace(point.options, objective="cycles"))
    try:
        if point.stages is not None:
            return pipeline_row(run_pipeline(point))
        result = simulate(
            point.workload,
            point.accelerator,
            point.dataflow,
            options=point.options,
            fast_forward=point.fast_forward,
        )
        return {**result_json(result), **result.given_up}
    finally:
        if sys.getallocatedblocks() - before > _MANY_BLOCKS:
            gc.collect()
