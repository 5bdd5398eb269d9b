"""What a trace adds to a run, what it takes to look into one, and what commands take to start."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Final

import h5py

from benchmarks.measure import Benchmark, Point, Row, aim, measure_here, print_row, run_child, table
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.machine.walks import make_walks
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers import make_mapping
from simaccel.study.recording import record, trace_header
from simaccel.trace import TraceWriter
from simaccel.workload import Workload, build

BATCH = 64
REPEATS = 3
AIM_RATIO, AIM_SECONDS, AIM_VIEW_SECONDS, AIM_VIEW_BYTES = 1.5, 2.0, 5.0, 300 * 10**6
LOOKS: Final = {
    "info": (),
    "stalls": (),
    "stalls, again": (),
    "plot": ("-o", "page.png", "--force"),
    "view": ("-o", "page.html", "--force"),
}
"""What is done with a trace; the second time, what-if runs are remembered."""
STARTS: Final = {
    "help": ("--help",),
    "version": ("--version",),
    "bad option": ("run", "--nonsense"),
    "unknown accelerator": ("compare", "--hw", "nonsense", "--workload", "bert"),
    "unknown workload": ("run", "--hw", "edge", "--workload", "nonsense"),
    "bad field": ("run", "--hw", "edge", "--workload", "bert", "--set", "array.nonsense=1"),
    "no trace": ("trace", "stalls", "README.md"),
    "trivial run": (
        *("run", "--hw", "toy", "--workload", "gemm", "--shape", "M=9,K=7,N=5"),
        *("--dataflow", "naive", "--quiet"),
    ),
}
"""Commands that hardly do anything; all but the last, help and version end with an error."""
AIM_START, AIM_RUN, AIM_START_BYTES = 0.25, 0.6, 60 * 10**6
BEFORE: Final = Path(__file__).with_name("before_commands.json")


def points() -> list[Point]:
    """Runs with and without a trace; commands on a usual trace, and on one of a million rows."""
    runs = [
        ("edge", 512, "flat"),
        ("edge", 8192, "flash"),
        ("edge", 65_536, "flex"),
        ("cloud", 65_536, "flash"),
    ]
    made = [{"what": "record", "hw": h, "seq_len": s, "dataflow": d} for h, s, d in runs]
    small = {"what": "look", "hw": "edge", "seq_len": 512, "dataflow": "flat", "full": False}
    return [*made, {"what": "start"}, small, small | {"full": True}]


def workload_of(point: Point) -> Workload:
    """Build a BERT block; of batch 2 where every row of it is written: a million."""
    batch = 2 if point.get("full") else BATCH
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
            walks = make_walks(program, accelerator)
            header = trace_header(workload, accelerator, mapping, program, walks)
            with TraceWriter(path, header, force=True) as writer:
                told = Machine(accelerator, program, writer, walks=walks).run()
                writer.finish(told.cycles, told.engines, {}, told.served_cycles)
            traced.append(time.process_time() - started)
        row |= {"events": run.events, "traced_events": told.events, **_size(path)}
    seconds = {"cpu_seconds": bare, "traced_cpu_seconds": traced}
    return row | {name: statistics.median(second) for name, second in seconds.items()}


def _size(path: Path) -> Row:
    with h5py.File(path) as file:
        return {"rows": int(file.attrs["rows"]), "trace_bytes": path.stat().st_size}


def look(point: Point) -> Row:
    """Record a run, then look into it with commands, each a process of its own."""
    accelerator, workload = load_accelerator(point["hw"]), workload_of(point)
    mapping = make_mapping(workload, accelerator, point["dataflow"])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.h5"
        _record(path, point, workload, mapping)
        times = {}
        for name, options in LOOKS.items():
            cache = Path(folder) / "cache"
            if not name.endswith("again"):
                rmtree(cache, ignore_errors=True)
            what = name.partition(",")[0]
            files = [
                str(Path(folder) / option) if option.startswith("page") else option
                for option in options
            ]
            times[name] = _cost(("trace", what, str(path), *files), cache, name.endswith("again"))
        return point | _size(path) | {"commands": times}


def start(point: Point) -> Row:
    """Run commands that hardly do anything."""
    with TemporaryDirectory() as folder:
        cache = Path(folder)
        return point | {"commands": {name: _cost(one, cache) for name, one in STARTS.items()}}


def _cost(line: Sequence[str], cache: Path, once: bool = False) -> Row:  # noqa: FBT001, FBT002
    """Run a command a few times, what it remembers only if ``once``; least CPU time."""
    costs = []
    for _ in range(1 if once else REPEATS):
        if not once:
            rmtree(cache, ignore_errors=True)
        costs.append(run_child([sys.executable, "-c", _ANY_CODE, str(cache), *line]))
    return {
        "cpu_seconds": min(cost.cpu_seconds for cost in costs),
        "peak_rss_bytes": max(cost.peak_rss_bytes for cost in costs),
    }


_ANY_CODE = """
import os, runpy, sys
os.environ["SIMACCEL_CACHE"] = sys.argv.pop(1)
sys.argv[0] = "simaccel"
try:
    runpy.run_module("simaccel", run_name="__main__", alter_sys=True)
except SystemExit:
    pass
"""
"""Errors are measured, too: whatever the exit code is."""


def _record(path: Path, point: Point, workload: Workload, mapping: Mapping) -> None:
    accelerator = load_accelerator(point["hw"])
    record(path, workload, accelerator, mapping, fast_forward=not point["full"])


def measure(point: Point) -> Row:
    """Measure a run in a process of its own, or commands, which have one anyway."""
    if point["what"] == "record":
        return measure_here("tracing", point)[0]
    return start(point) if point["what"] == "start" else look(point)


def report(rows: list[Row]) -> str:
    """Write what traces take."""
    runs = [row for row in rows if row["what"] == "record"]
    commands = [line for row in rows if row["what"] != "record" for line in _command_lines(row)]
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
        + "\n\nCommands, each a process of its own, byte code cached; least CPU time of "
        f"{REPEATS}. The smaller trace is that of `make run`, the larger one of batch 2 without "
        "fast-forward. *Before*: the code before imports were made lazy, what-if runs remembered "
        "and rows summed block by block, in turns with it on the same machine.\n\n"
        + table(["command", "CPU s", "before", "ratio", "RSS MB", "before", "aim"], commands)
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


def name_of(row: Row, command: str) -> str:
    """Return what a command is called here and in ``before_commands.json``."""
    if row["what"] == "start":
        return command
    return f"trace {command}, {row['rows']:,} rows"


def before() -> dict[str, Row]:
    """Return what commands took before."""
    if not BEFORE.exists():
        return {}
    found: dict[str, Row] = json.loads(BEFORE.read_text(encoding="utf-8"))
    return found


def _command_lines(row: Row) -> Iterator[list[object]]:
    old = before()
    for command, cost in row["commands"].items():
        name, seconds = name_of(row, command), cost["cpu_seconds"]
        was = old.get(name)
        then = (
            [f"{was['cpu_seconds']:.2f}", f"**{seconds / was['cpu_seconds']:.2f}**"]
            if was
            else ["", ""]
        )
        memory = f"{was['peak_rss_bytes'] / 1e6:.0f}" if was else ""
        now = f"{cost['peak_rss_bytes'] / 1e6:.0f}"
        yield [name, f"{seconds:.2f}", *then, now, memory, _aim(command, cost)]


def _aim(command: str, cost: Row) -> str:
    """Say what is wanted of a command, and whether it is so."""
    seconds = {"view": AIM_VIEW_SECONDS, "trivial run": AIM_RUN}.get(
        command, AIM_SECONDS if command in LOOKS else AIM_START
    )
    memory = AIM_VIEW_BYTES if command == "view" else None
    memory = memory if command in LOOKS else AIM_START_BYTES
    met = cost["cpu_seconds"] <= seconds
    text = f"{seconds:g} s"
    if memory is not None:
        met = met and cost["peak_rss_bytes"] <= memory
        text += f", {memory / 1e6:.0f} MB"
    return f"{text}: {aim(met)}"


BENCHMARK = Benchmark(name="tracing", points=points, measure=measure, report=report)

if __name__ == "__main__":
    if len(sys.argv) > 1 and json.loads(sys.argv[1])["what"] == "record":
        print_row(record_both)
