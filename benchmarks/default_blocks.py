"""Default runs of a block on chips whose compiler is described, beside the machine's own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.measure import Benchmark, Point, Row, aim, table
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.study.experiment import simulate
from simaccel.workload import build

AIM = 2.0
"""Times as long as the machine alone that a default run should take at most."""


def points() -> list[Point]:
    """A prefill and a decode on each chip."""
    return [
        {"hw": hw, "model": "llama3-8b", "phase": phase, "tokens": 512, "repeats": 5}
        for hw in ("tpu_v3", "tpu_v4", "tpu_v5e", "tpu_v6e", "tpu_v7_chiplet")
        for phase in ("prefill", "decode")
    ]


def measure(point: Point) -> Row:
    """Measure default runs and those of their program alone in turns; medians of CPU time."""
    sizes = {"prompt" if point["phase"] == "prefill" else "kv_len": point["tokens"]}
    workload = build(point["model"], phase=point["phase"], scope="block", **sizes)
    accelerator = load_accelerator(point["hw"])
    program = simulate(workload, accelerator, "deployed").program
    runs = (
        lambda: simulate(workload, accelerator, "deployed"),
        lambda: Machine(accelerator, program).run(),
    )
    times = [[_cpu_seconds(run) for run in runs] for _ in range(point["repeats"])]
    whole, machine = (median(column) for column in zip(*times, strict=True))
    return point | {"cpu_seconds": whole, "machine_cpu_seconds": machine}


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def report(rows: list[Row]) -> str:
    """Write what each run took."""
    worst = max(_ratio(row) for row in rows)
    head = ["hw", "phase", "default run: CPU ms", "machine: CPU ms", "ratio"]
    return (
        "## Default blocks\n\n"
        f"A block of {rows[0]['model']}, {rows[0]['tokens']} tokens, by `deployed`: from the "
        f"workload to the checked result, and its program on the machine alone. Aim: at most "
        f"{AIM:g} times the machine's time {aim(worst <= AIM)} (at most {worst:.1f}).\n\n"
        + table(head, [_line(row) for row in rows])
    )


def _ratio(row: Row) -> float:
    ratio: float = row["cpu_seconds"] / row["machine_cpu_seconds"]
    return ratio


def _line(row: Row) -> list[object]:
    each = (f"{1000 * row[name]:.0f}" for name in ("cpu_seconds", "machine_cpu_seconds"))
    return [row["hw"], row["phase"], *each, f"{_ratio(row):.1f}"]


BENCHMARK = Benchmark(name="default_blocks", points=points, measure=measure, report=report)
