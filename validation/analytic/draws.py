"""The three draws: their points, how one is measured, and how its line in the table reads."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simaccel.mapspace.nests import EmptyMapspaceError
from simaccel.schedulers import NothingFitsError, Options, make_mapping
from validation.analytic.compared import Compared, compare
from validation.analytic.nest_points import NestPoint, draw_nests
from validation.analytic.points import Point, draw
from validation.analytic.small_points import SmallPoint, small_point

HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """A point as its line says it, what group it is counted in, and what came out."""

    columns: dict[str, object]
    text: str
    group: str
    compared: Compared


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A draw; ``median``, ``p95`` and ``worst`` are what fails it, above what is measured."""

    name: str
    count: int
    points: Callable[[int], Sequence[Any]]
    measure: Callable[[Any], Outcome]
    median: float
    p95: float
    worst: float

    @property
    def table(self) -> Path:
        """Return where the table is written."""
        return HERE / f"{self.name}.csv"

    @property
    def picture(self) -> Path:
        """Return where the picture is drawn."""
        return HERE / f"{self.name}.png"


def of_dataflow(point: Point) -> Outcome:
    """Measure a dataflow."""
    flow = point.dataflow + ", pipelined" * (point.pipeline and point.dataflow.startswith("fl"))
    text = (
        f"{point.hw}, {point.buffer_bytes:,} B, {point.dram_bytes_per_second / 1e9:g} GB/s: "
        f"{point.model} {point.scope} B={point.batch} N={point.seq_len}, {flow}"
    )
    workload, accelerator = point.workload(), point.accelerator()
    options = Options(pipeline=point.pipeline)
    try:
        mapping = make_mapping(workload, accelerator, point.dataflow, options)
    except NothingFitsError as error:
        return Outcome(vars(point), text, point.dataflow, Compared(note=str(error)))
    return Outcome(vars(point), text, point.dataflow, compare(workload, accelerator, mapping))


def of_mapspace(point: NestPoint) -> Outcome:
    """Measure what a mapspace's search finds."""
    text = f"{point.hw}: {point.network} {point.layer}, {point.mapspace}, {point.objective}"
    columns = vars(point) | {"settings": "; ".join(point.settings)}
    workload, accelerator = point.workload(), point.accelerator()
    try:
        mapping = make_mapping(workload, accelerator, point.mapspace, point.options())
    except EmptyMapspaceError as error:
        return Outcome(columns, text, point.hw, Compared(note=str(error)))
    return Outcome(columns, text, point.hw, compare(workload, accelerator, mapping))


def of_small(seed: int) -> Outcome:
    """Measure a small point, and where the estimate is off also without what may be the reason."""
    point = small_point(seed)
    found = compare(point.workload, point.accelerator(), point.mapping)
    columns = {
        "seed": seed,
        "kind": point.kind,
        "shape": point.shape,
        "settings": "; ".join(point.settings),
    }
    for name, settings in WHAT_IFS.items():
        columns[name] = ""
        if abs(found.error) > ASKED:
            other = compare(point.workload, point.accelerator(*settings), point.mapping)
            columns[name] = f"{other.error:.4f}"
    return Outcome(columns, _small_text(point), point.kind, found)


def _small_text(point: SmallPoint) -> str:
    settings = dict(one.split("=", 1) for one in point.settings)
    dram = {name.partition(".")[2]: text for name, text in settings.items() if "dram" in name}
    return (
        f"{point.seed}: {point.kind} {point.shape}, {settings['array.rows']} x "
        f"{settings['array.cols']} PEs, latency {dram['latency_cycles']}, "
        f"{dram['in_flight_bytes']} B in flight, {dram['bandwidth_bytes_per_second']}"
    )


ASKED: Final = 0.03
"""Error above which the what-ifs are run."""
WHAT_IFS: Final = {
    "without latency": ("dram.latency_cycles=0",),
    "without a bandwidth": ("dram.bandwidth_bytes_per_second=unlimited",),
    "all in flight": ("dram.in_flight_bytes=unlimited",),
}
DRAWS: Final = (
    Draw(
        name="points",
        count=400,
        points=draw,
        measure=of_dataflow,
        median=0.005,
        p95=0.03,
        worst=0.05,
    ),
    Draw(
        name="nests",
        count=150,
        points=draw_nests,
        measure=of_mapspace,
        median=0.005,
        p95=0.03,
        worst=0.05,
    ),
    Draw(
        name="small",
        count=2_000,
        points=range,
        measure=of_small,
        median=0.005,
        p95=0.03,
        worst=0.10,
    ),
)


def write_csv(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write one row a point."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        figures = ["cycles", "estimate", "resource_bound", "relative_error"]
        others = ["bound_by", "waits", "idle", "worst_group", "note"]
        writer.writerow([*outcomes[0].columns, *figures, *others])
        for one in outcomes:
            found = one.compared
            error = f"{found.error:.5f}" if found.cycles else ""
            cells = [found.cycles, found.estimate, found.resource_bound, error, found.bound_by]
            cells += [found.waits, f"{found.idle:.3f}", found.worst_group, found.note]
            writer.writerow([*one.columns.values(), *cells])
