"""The points of the frozen table, and what a run says of each."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, TypeVar

from simaccel.analytic.prediction import Prediction, predict
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, OperatorRun, Run
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.search.effort import Effort
from simaccel.study.experiment import energy_pj
from simaccel.workload import Workload, build, network
from validation import PLAIN

EFFORT: Final = Effort(patience=2_000, exhaustive=20_000, seed=0)
"""Of mapspaces. Those of at most 20,000 mappings are searched completely."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One experiment."""

    accelerator: str
    overrides: str
    workload: str
    batch: int
    seq_len: int | None
    scope: str
    dataflow: str
    pipeline: bool

    @property
    def hardware(self) -> str:
        """Name of the accelerator with what is set in it."""
        return f"{self.accelerator} {self.overrides}".strip()

    def problem(self) -> tuple[Workload, Accelerator]:
        """Return workload and accelerator."""
        settings = self.overrides.split(";") if self.overrides else ()
        plain = PLAIN if self.accelerator in ("edge", "cloud") else ()
        accelerator = load_accelerator(self.accelerator, [*plain, *settings])
        if self.seq_len is None:
            return network(self.workload, batch=self.batch, scope="layers"), accelerator
        batch, seq_len = self.batch, self.seq_len
        return build(self.workload, batch=batch, seq_len=seq_len, scope=self.scope), accelerator


@dataclass(frozen=True, kw_only=True)
class Row:
    """Figures of one group, of all (``total``), or why there is no mapping.

    ``buffer_bytes``: read from and written to the buffer; ``pe_bytes``: memories of the PEs.
    Seconds are CPU seconds of one process, and only the total has them.
    """

    operator: str = "total"
    cycles: int | None = None
    macs: int | None = None
    dram_bytes: int | None = None
    buffer_bytes: int | None = None
    noc_bytes: int | None = None
    pe_bytes: int | None = None
    energy_uj: float | None = None
    peak_buffer_bytes: int | None = None
    events: int | None = None
    schedule_seconds: float | None = None
    machine_seconds: float | None = None
    error: str = ""


POINT: Final = [field.name for field in fields(Point)]
HEAD: Final = [*POINT, *(field.name for field in fields(Row))]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Do it; say how many CPU seconds it took."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def measure(point: Point) -> list[Row]:
    """Schedule a point and run it, beside what is predicted of it; or say why not."""
    try:
        return _measure(point)
    except (SimaccelError, AssertionError) as error:
        return [Row(error=f"{type(error).__name__}: {error}")]


def _measure(point: Point) -> list[Row]:
    workload, accelerator = point.problem()
    options = Options(tolerance=0.0, pipeline=point.pipeline, effort=EFFORT)
    mapping, schedule_seconds = timed(
        lambda: make_mapping(workload, accelerator, point.dataflow, options)
    )
    program = lower(workload, mapping)
    run, machine_seconds = timed(lambda: Machine(accelerator, program).run())
    require_equal(run, predict(workload, mapping, accelerator))

    def row(name: str, of: Run | OperatorRun, **more: float) -> Row:
        return Row(
            operator=name,
            cycles=of.cycles,
            macs=of.macs,
            energy_uj=round(sum(energy_pj(of, accelerator).values()) / 1e6, 3),
            dram_bytes=moved(of, "dram"),
            buffer_bytes=moved(of, "buffer"),
            noc_bytes=moved(of, "noc"),
            pe_bytes=moved(of, "pe"),
            **more,  # type: ignore[arg-type] # figures that only the total has
        )

    total = row(
        "total",
        run,
        peak_buffer_bytes=run.peak_buffer_bytes,
        events=run.events,
        schedule_seconds=round(schedule_seconds, 4),
        machine_seconds=round(machine_seconds, 4),
    )
    return [*(row(operator.name, operator) for operator in run.operators), total]


def require_equal(run: Run, predicted: Prediction) -> None:
    """Hold bytes and MACs of a run against what is predicted, and its cycles against the bound.

    Raises:
        AssertionError: they differ, or the run is shorter than its bound.
    """
    done = {level: n for level, n in run.moved.items() if n}
    expected, macs, bound = predicted.moved, predicted.macs, predicted.bound_cycles
    assert done == expected, f"bytes differ: {set(done.items()) ^ set(expected.items())}"
    assert run.macs == macs, f"MACs differ: {run.macs} on the machine, {macs} expected"
    assert run.cycles >= bound, f"{run.cycles} cycles are fewer than the bound of {bound}"


def moved(of: Run | OperatorRun, level: str) -> int:
    """Sum the bytes of a level: dram, buffer, noc, or pe with all its memories."""
    return sum(n for (where, _), n in of.moved.items() if where.startswith(level))


Table = dict[Point, list[Row]]


def read(path: Path) -> Table:
    """Read a table: the rows of each point, in order."""
    table: Table = {}
    with path.open(newline="", encoding="utf-8") as stream:
        for line in csv.DictReader(stream):
            point = Point(
                accelerator=line["accelerator"],
                overrides=line["overrides"],
                workload=line["workload"],
                batch=int(line["batch"]),
                seq_len=int(line["seq_len"]) if line["seq_len"] else None,
                scope=line["scope"],
                dataflow=line["dataflow"],
                pipeline=line["pipeline"] == "True",
            )
            table.setdefault(point, []).append(_row(line))
    return table


def _row(line: dict[str, str]) -> Row:
    texts = {"operator": line["operator"], "error": line["error"]}
    broken = ("energy_uj", "schedule_seconds", "machine_seconds")
    numbers = {
        field.name: (float if field.name in broken else int)(line[field.name])
        for field in fields(Row)
        if field.name not in texts and line[field.name]
    }
    return Row(**texts, **numbers)  # type: ignore[arg-type] # by the kinds of the fields


def lines(point: Point, rows: Sequence[Row]) -> Iterator[dict[str, object]]:
    """Yield the lines of a table of one point."""
    for row in rows:
        yield asdict(point) | asdict(row)
