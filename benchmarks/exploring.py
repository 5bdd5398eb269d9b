"""Tasks in many processes: how much of what they take is work, and what a tiny one costs."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.measure import Benchmark, Point, Row, aim, measure_here, print_row, table
from simaccel.importers.accelerators import load_accelerator
from simaccel.study.explore import ExplorationObjective, explore
from simaccel.study.parallel import TaskWorkers, open_workers
from simaccel.study.parameters import read_axis
from simaccel.study.points import WeightedWorkload
from simaccel.study.space import DesignSpace
from simaccel.workload import gemm

WANTED = 0.9
"""Of the time of two processes that is work, for points of a second."""


def points() -> list[Point]:
    """Points of a second, 10,000 that do nothing, and 500 designs of a small GEMM."""
    return [
        {"what": "points of 1 s", "jobs": 2, "count": 40, "seconds": 1.0},
        {"what": "points of nothing", "jobs": 2, "count": 10_000, "seconds": 0.0},
        {"what": "points of nothing", "jobs": 1, "count": 10_000, "seconds": 0.0},
        {"what": "small designs", "jobs": 2, "count": 500, "seconds": None},
        {"what": "small designs", "jobs": 1, "count": 500, "seconds": None},
    ]


def spin(seconds: float) -> tuple[float, float, float]:
    """Compute for so many CPU seconds; when it began and ended, and the CPU seconds it had."""
    began, cpu = time.time(), time.process_time()
    while time.process_time() - cpu < seconds:
        sum(range(1000))
    return began, time.time(), time.process_time() - cpu


def work(point: Point) -> Row:
    """Run the tasks; figures of each, seen from inside."""
    started = time.perf_counter()
    with open_workers(point["jobs"]) as team:
        ready = time.perf_counter() - started
        row = _designs(team, point) if point["seconds"] is None else _tasks(team, point)
        done = time.perf_counter()
    return point | row | {"start_seconds": ready, "stop_seconds": time.perf_counter() - done}


def _tasks(team: TaskWorkers, point: Point) -> Row:
    told = team.run(spin, [point["seconds"]] * point["count"])
    first, last = min(one[0] for one in told), max(one[1] for one in told)
    return {
        "work_cpu_seconds": sum(one[2] for one in told),
        "occupied": sum(end - begin for begin, end, _ in told) / (last - first) / point["jobs"],
        "seconds": last - first,
    }


def _designs(team: TaskWorkers, point: Point) -> Row:
    axis = read_axis("--axis", f"dram-latency=1:{point['count']}:+1", point["count"])
    space = DesignSpace(
        (load_accelerator("toy"),), (WeightedWorkload(gemm(m=9, k=7, n=5)),), (axis,), ("naive",)
    )
    began = time.perf_counter()
    explore(space.dimensions, space.designs(range(space.size)), ExplorationObjective(), team)
    return {"seconds": time.perf_counter() - began}


def measure(point: Point) -> Row:
    """Measure in a process of its own, which the scheduler shares with nobody else."""
    os.environ["SIMACCEL_CACHE"] = "off"
    row, cost = measure_here("exploring", point)
    return row | {"cpu_seconds": cost.cpu_seconds, "peak_rss_bytes": cost.peak_rss_bytes}


def report(rows: list[Row]) -> str:
    """Tabulate, and say whether the aim is met."""
    head = ("points", "processes", "CPU s", "of it work", "occupied", "wall s", "start s",
            "CPU ms a point", "RSS MB")  # fmt: skip
    lines = [_line(row) for row in rows]
    seconds = [row for row in rows if row["jobs"] > 1 and row.get("seconds") and _is_work(row)]
    verdict = ""
    if seconds:
        least = min(row["occupied"] for row in seconds)
        verdict = (
            f"Points of a second keep {least:.1%} of two processes busy from the first to the "
            f"last; the aim of {WANTED:.0%} is {aim(least >= WANTED)}. "
        )
    return "\n\n".join(
        (
            "## Exploring",
            "*CPU s*: of the whole command, all processes; *work*: of it inside points. "
            "*Occupied*: points' own wall time over that of all processes, from the beginning of "
            "the first point to the end of the last one: how much of the processors others had "
            "meanwhile does not matter. Wall seconds do suffer from them. *RSS*: of the process "
            "that has the scheduler. " + verdict,
            table(head, lines),
        )
    )


def _is_work(row: Row) -> bool:
    return bool(row.get("work_cpu_seconds", 0) > 0.5 * row["count"])


def _line(row: Row) -> list[Any]:
    busy = row.get("work_cpu_seconds")
    share = "" if busy is None else f"{busy / row['cpu_seconds']:.1%}"
    occupied = f"{row['occupied']:.1%}" if _is_work(row) else ""
    return [
        f"{row['count']:,} {row['what']}",
        row["jobs"],
        f"{row['cpu_seconds']:.1f}",
        share if _is_work(row) else "",
        occupied,
        f"{row['seconds']:.1f}",
        f"{row['start_seconds']:.1f}",
        f"{1000 * row['cpu_seconds'] / row['count']:.2f}",
        f"{row['peak_rss_bytes'] / 1e6:.0f}",
    ]


BENCHMARK = Benchmark(name="exploring", points=points, measure=measure, report=report)

if __name__ == "__main__":
    print_row(work)
