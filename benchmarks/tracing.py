"""What a trace adds to a run, and what it takes to look into one."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py

from benchmarks.measure import Benchmark, Point, Row, aim, measure_here, print_row, run_child, table
from simaccel.experiment.recording import record, trace_header
from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers import make_mapping
from simaccel.trace import TraceWriter
from simaccel.workload import Workload, build

BATCH = 64
REPEATS = 5
AIM_RATIO, AIM_SECONDS, AIM_VIEW_SECONDS, AIM_VIEW_BYTES = 1.5, 2.0, 5.0, 300 * 10**6
LOOKS = ("info", "stalls", "plot", "view")


def points() -> list[Point]:
    """Runs with and without a trace; commands on a usual trace, and on one of a million rows."""
    runs = [
        ("edge", 512, "flat"),
        ("edge", 8192, "flash"),
        ("edge", 65_536, "flex"),
        ("cloud", 65_536, "flash"),
    ]
    made = [{"what": "record", "hw": h, "seq_len": s, "dataflow": d} for h, s, d in runs]
    small = {"hw": "edge", "seq_len": 512, "dataflow": "flat", "full": False}
    large = {"hw": "edge", "seq_len": 512, "dataflow": "flat", "full": True}
    looked = [{"what": look, **one} for one in (small, large) for look in LOOKS]
    return [*made, *looked]


def workload_of(point: Point) -> Workload:
    """Build a BERT block; of batch 3 where every row of it is written."""
    batch = 3 if point.get("full") else BATCH
    return build("bert", batch=batch, seq_len=point["seq_len"], scope="block")


def record_both(point: Point) -> Row:
    """Run a program without and with a trace, in turns; medians of CPU seconds."""
    accelerator, workload = load_accelerator(point["hw"]), workload_of(point)
    mapping = make_mapping(workload, accelerator, point["dataflow"])
    program = lower(workload, mapping)
    bare, traced = [], []
    row = dict(point)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.h5"
        for _ in range(REPEATS):
            started = time.process_time()
            run = Machine(accelerator, program).run()
            bare.append(time.process_time() - started)
            started = time.process_time()
            with TraceWriter(
                path, trace_header(workload, accelerator, mapping, program), force=True
            ) as writer:
                told = Machine(accelerator, program, writer).run()
                writer.finish(told.cycles, told.engines, {}, told.served_cycles)
            traced.append(time.process_time() - started)
        row |= {"events": run.events, "traced_events": told.events, **_size(path)}
    seconds = {"cpu_seconds": bare, "traced_cpu_seconds": traced}
    return row | {name: statistics.median(found) for name, found in seconds.items()}


def _size(path: Path) -> Row:
    with h5py.File(path) as file:
        return {"rows": int(file.attrs["rows"]), "trace_bytes": path.stat().st_size}


def look(point: Point) -> Row:
    """Record a run, then look into it with a command in a process of its own."""
    accelerator, workload = load_accelerator(point["hw"]), workload_of(point)
    mapping = make_mapping(workload, accelerator, point["dataflow"])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.h5"
        _record(path, point, workload, mapping)
        command = [sys.executable, "-m", "simaccel", "trace", point["what"], str(path)]
        drawn = {"plot": "page.png", "view": "page.html"}.get(point["what"])
        if drawn:
            command += ["-o", str(Path(folder) / drawn)]
        cost = run_child(command)
        return point | {
            **_size(path),
            "cpu_seconds": cost.cpu_seconds,
            "peak_rss_bytes": cost.peak_rss_bytes,
        }


def _record(path: Path, point: Point, workload: Workload, mapping: Mapping) -> None:
    accelerator = load_accelerator(point["hw"])
    record(path, workload, accelerator, mapping, fast_forward=not point["full"])


def measure(point: Point) -> Row:
    """Measure a run in a process of its own, or a command, which has one anyway."""
    return measure_here("tracing", point)[0] if point["what"] == "record" else look(point)


def report(rows: list[Row]) -> str:
    """Write what traces take."""
    runs = [row for row in rows if row["what"] == "record"]
    looks = [row for row in rows if row["what"] != "record"]
    worst = max(row["traced_cpu_seconds"] / row["cpu_seconds"] for row in runs)
    head = ["hw", "dataflow", "sequence", "events", "with a trace", "rows", "kB", "machine: CPU s"]
    head += ["with a trace: CPU s", "ratio"]
    return (
        "## Traces\n\n"
        f"A BERT block at batch {BATCH}: the machine alone, and with everything that a trace takes "
        f"(header, lanes, rows, HDF5), in turns; medians of {REPEATS}, CPU time. Aim: at most "
        f"{AIM_RATIO:g} times the machine's own time {aim(worst <= AIM_RATIO)} (at most "
        f"{worst:.2f}).\n\n"
        + table(head, [_run_line(row) for row in runs])
        + "\n\nCommands on a trace, each a process of its own (start-up included); the larger "
        "trace is of batch 3, without fast-forward.\n\n"
        + table(
            ["command", "rows", "kB", "CPU s", "RSS MB", "aim"], [_look_line(row) for row in looks]
        )
    )


def _run_line(row: Row) -> list[object]:
    return [
        row["hw"],
        row["dataflow"],
        f"{row['seq_len']:,}",
        f"{row['events']:,}",
        f"{row['traced_events']:,}",
        f"{row['rows']:,}",
        f"{row['trace_bytes'] / 1e3:.0f}",
        f"{row['cpu_seconds']:.3f}",
        f"{row['traced_cpu_seconds']:.3f}",
        f"{row['traced_cpu_seconds'] / row['cpu_seconds']:.2f}",
    ]


def _look_line(row: Row) -> list[object]:
    view = row["what"] == "view"
    seconds = AIM_VIEW_SECONDS if view else AIM_SECONDS
    wanted = f"{seconds:g} s"
    met = row["cpu_seconds"] <= seconds
    if view:
        wanted += f", {AIM_VIEW_BYTES / 1e6:.0f} MB"
        met = met and row["peak_rss_bytes"] <= AIM_VIEW_BYTES
    return [
        f"`trace {row['what']}`",
        f"{row['rows']:,}",
        f"{row['trace_bytes'] / 1e3:.0f}",
        f"{row['cpu_seconds']:.2f}",
        f"{row['peak_rss_bytes'] / 1e6:.0f}",
        f"{wanted}: {aim(met)}",
    ]


BENCHMARK = Benchmark(name="tracing", points=points, measure=measure, report=report)

if __name__ == "__main__":
    if len(sys.argv) > 1 and json.loads(sys.argv[1])["what"] == "record":
        print_row(record_both)
