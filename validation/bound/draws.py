"""The draws: their points, how one is measured, and how its lines in the table read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import NothingFitsError, Options, make_mapping
from simaccel.search.judge import mapping_of, operators_of
from simaccel.search.mapspace.nests import EmptyMapspaceError
from simaccel.workload import Workload
from validation.bound.gaps import Gap, gap_of
from validation.bound.nest_points import NestPoint, draw_nests
from validation.bound.points import Point, draw
from validation.bound.small_points import SmallPoint, small_point

HERE: Final = Path(__file__).parent
WHOLE: Final = "whole mappings"


@dataclass(frozen=True)
class Outcome:
    """A mapping as its line says it, what it is counted with, and what came out."""

    columns: dict[str, object]
    text: str
    kind: str
    gap: Gap


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A draw: so many points, each measured as one mapping or several."""

    name: str
    count: int
    points: Callable[[int], Sequence[Any]]
    measure: Callable[[Any], list[Outcome]]

    @property
    def table(self) -> Path:
        """Return where the table is written."""
        return HERE / f"{self.name}.csv"

    @property
    def picture(self) -> Path:
        """Return where the picture is drawn."""
        return HERE / f"{self.name}.png"


def of_dataflow(point: Point) -> list[Outcome]:
    """Measure what a dataflow picks: each group alone, and the whole where there are several."""
    flow = point.dataflow + ", pipelined" * (point.pipeline and point.dataflow.startswith("fl"))
    text = (
        f"{point.hw}, {point.buffer_bytes:,} B, {point.dram_bytes_per_second / 1e9:g} GB/s: "
        f"{point.model} {point.scope} B={point.batch} N={point.seq_len}, {flow}"
    )
    workload, accelerator = point.workload(), point.accelerator()
    try:
        mapping = make_mapping(
            workload, accelerator, point.dataflow, Options(pipeline=point.pipeline)
        )
    except NothingFitsError as error:
        columns = vars(point) | {"group": ""}
        return [Outcome(columns, text, point.dataflow, Gap(note=str(error)))]
    return [
        Outcome(
            vars(point) | {"group": name},
            f"{text}, {name}",
            WHOLE if name == WHOLE else point.dataflow,
            gap_of(of, accelerator, mapped),
        )
        for name, of, mapped in _parts(workload, mapping)
    ]


def _parts(workload: Workload, mapping: Mapping) -> Iterator[tuple[str, Workload, Mapping]]:
    """Yield the groups of a mapping alone, those that share what is kept as one, and the whole."""
    for one in mapping.body:
        names = operators_of([one])
        alone = workload.select_operators(names)
        yield "+".join(names), alone, mapping_of(alone, mapping.dataflow, [one])
    if len(mapping.body) > 1:
        yield WHOLE, workload, mapping


def of_mapspace(point: NestPoint) -> list[Outcome]:
    """Measure what a mapspace's search finds."""
    text = f"{point.hw}: {point.network} {point.layer}, {point.mapspace}, {point.objective}"
    columns = vars(point) | {"settings": "; ".join(point.settings)}
    workload, accelerator = point.workload(), point.accelerator()
    try:
        mapping = make_mapping(workload, accelerator, point.mapspace, point.options())
    except EmptyMapspaceError as error:
        return [Outcome(columns, text, point.hw, Gap(note=str(error)))]
    return [Outcome(columns, text, point.hw, gap_of(workload, accelerator, mapping))]


def of_small(seed: int) -> list[Outcome]:
    """Measure a small point; where its gap is wide, also without what may be the reason."""
    point = small_point(seed)

    def gap_on(accelerator: Accelerator) -> Gap:
        return gap_of(point.workload, accelerator, point.mapping)

    gap = gap_on(point.accelerator())
    columns = {
        "seed": seed,
        "kind": point.kind,
        "shape": point.shape,
        "settings": "; ".join(point.settings),
    }
    for name, settings in WHAT_IFS.items():
        wide = gap.gap > WIDE
        columns[name] = f"{gap_on(point.accelerator(*settings)).gap:.4f}" if wide else ""
    return [Outcome(columns, _small_text(point), point.kind, gap)]


def _small_text(point: SmallPoint) -> str:
    settings = dict(one.split("=", 1) for one in point.settings)
    dram = {name.partition(".")[2]: text for name, text in settings.items() if "dram" in name}
    return (
        f"{point.seed}: {point.kind} {point.shape}, {settings['array.rows']} x "
        f"{settings['array.cols']} PEs, latency {dram['latency_cycles']}, "
        f"{dram['in_flight_bytes']} B in flight, {dram['bandwidth_bytes_per_second']}"
    )


WIDE: Final = 0.1
"""Gap above which the what-ifs are run."""
WHAT_IFS: Final = {
    "without latency": ("dram.latency_cycles=0",),
    "without a bandwidth": ("dram.bandwidth_bytes_per_second=unlimited",),
    "all in flight": ("dram.in_flight_bytes=unlimited",),
}
DRAWS: Final = (
    Draw(name="points", count=400, points=draw, measure=of_dataflow),
    Draw(name="nests", count=150, points=draw_nests, measure=of_mapspace),
    Draw(name="small", count=2_000, points=range, measure=of_small),
)


def write_csv(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write one row a mapping."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            [*outcomes[0].columns, "cycles", "bound", "gap", "terms", "waits", "idle", "note"]
        )
        for one in outcomes:
            found = one.gap
            gap, idle = (f"{found.gap:.5f}", f"{found.idle:.3f}") if found.cycles else ("", "")
            cells = [found.cycles, found.bound, gap, found.terms, found.waits, idle, found.note]
            writer.writerow([*one.columns.values(), *cells])
