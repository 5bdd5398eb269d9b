"""A BERT block at any sequence length: the cost follows the program, not its trip counts."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Benchmark, Point, Row, aim, measure_here, print_row, table
from simaccel.importers.accelerators import load_accelerator
from simaccel.program.program import size
from simaccel.schedulers import NothingFitsError, make_mapping
from simaccel.study.recording import record
from simaccel.workload import build

SEQ_LENS = (512, 2048, 8192, 32_768, 65_536, 131_072, 262_144)
BATCH = 64
AIM_SECONDS, AIM_RSS_BYTES, AIM_TRACE_BYTES = 2.0, 300 * 10**6, 5 * 10**6


def points() -> list[Point]:
    """Both accelerators, all lengths, three dataflows."""
    return [
        {"hw": hw, "seq_len": seq_len, "dataflow": dataflow, "batch": BATCH}
        for hw in ("edge", "cloud")
        for dataflow in ("flex", "flat", "flash")
        for seq_len in SEQ_LENS
    ]


def search_and_record(point: Point) -> Row:
    """Search a mapping, then run it with a trace."""
    accelerator = load_accelerator(point["hw"], ["dram.capacity_bytes=unlimited"])
    workload = build("bert", batch=point["batch"], seq_len=point["seq_len"], scope="block")
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        mapping = make_mapping(workload, accelerator, point["dataflow"])
    except NothingFitsError as error:
        return point | {"nothing_fits": str(error)}
    fields = {
        "search_cpu_seconds": time.process_time() - cpu,
        "search_wall_seconds": time.perf_counter() - wall,
    }
    cpu, wall = time.process_time(), time.perf_counter()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.h5"
        result = record(path, workload, accelerator, mapping)
        fields["run_cpu_seconds"] = time.process_time() - cpu
        fields["run_wall_seconds"] = time.perf_counter() - wall
        trace_bytes = path.stat().st_size
    return (
        point
        | fields
        | {
            "cycles": result.run.cycles,
            "macs": result.run.macs,
            "events": result.run.events,
            "program_nodes": size(result.program),
            "trace_bytes": trace_bytes,
        }
    )


def measure(point: Point) -> Row:
    """Measure one run in a process of its own; memory and CPU time are of the whole process."""
    row, cost = measure_here("long_sequences", point)
    return row | {"process_cpu_seconds": cost.cpu_seconds, "peak_rss_bytes": cost.peak_rss_bytes}


def report(rows: list[Row]) -> str:
    """Write what each run took."""
    head = ["hw", "dataflow", "sequence", "MACs", "cycles", "nodes", "events"]
    head += ["run: wall s", "CPU s", "search: CPU s", "RSS MB", "trace kB"]
    return (
        "## Long sequences\n\n"
        f"A BERT block at batch {rows[0]['batch']}, run with a trace; each in a process of its "
        "own, whose peak memory is given. Nodes are those of the program's tree. Aims: "
        f"{_verdicts(rows)}.\n\n" + table(head, [_line(row) for row in rows])
    )


def _verdicts(rows: list[Row]) -> str:
    done = [row for row in rows if "cycles" in row]
    wall, cpu, rss, trace = (
        max((row[name] for row in done), default=0)
        for name in ("run_wall_seconds", "run_cpu_seconds", "peak_rss_bytes", "trace_bytes")
    )
    return (
        f"run under {AIM_SECONDS:g} s {aim(wall < AIM_SECONDS)} in wall time "
        f"(at most {wall:.2f} s), {aim(cpu < AIM_SECONDS)} in CPU time ({cpu:.2f} s); "
        f"memory under {AIM_RSS_BYTES / 1e6:.0f} MB {aim(rss < AIM_RSS_BYTES)} "
        f"({rss / 1e6:.0f} MB); "
        f"trace under {AIM_TRACE_BYTES / 1e6:.0f} MB {aim(trace < AIM_TRACE_BYTES)} "
        f"({trace / 1e3:.0f} kB)"
    )


def _line(row: Row) -> list[object]:
    name = [row["hw"], row["dataflow"], f"{row['seq_len']:,}"]
    if "nothing_fits" in row:
        return [*name, "nothing fits: " + row["nothing_fits"], *[""] * 8]
    return [
        *name,
        f"{row['macs']:.2e}",
        f"{row['cycles']:,}",
        row["program_nodes"],
        f"{row['events']:,}",
        f"{row['run_wall_seconds']:.2f}",
        f"{row['run_cpu_seconds']:.2f}",
        f"{row['search_cpu_seconds']:.2f}",
        f"{row['peak_rss_bytes'] / 1e6:.0f}",
        f"{row['trace_bytes'] / 1e3:.0f}",
    ]


BENCHMARK = Benchmark(name="long_sequences", points=points, measure=measure, report=report)

if __name__ == "__main__":
    print_row(search_and_record)
