"""Nests searched per second on one core, and the time until Timeloop's best is found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.measure import Benchmark, Point, Row, aim, measure_here, print_row, table
from simaccel.schedulers.blocks import Outcome, Task
from simaccel.schedulers.nests import Target, map_einsum
from simaccel.schedulers.ruby import Effort
from validation.ruby.exhibits import layers, toys
from validation.ruby.problems import ROW_STATIONARY, conv3, eyeriss, matmul, target, toy
from validation.ruby.timeloop import in_our_model, results

AIM = 1_000_000
TIMELOOP = {"gemm": 1850, "conv 3x3": 429}
"""Mappings per CPU second, measured apart from this."""


def points() -> list[Point]:
    """Two problems for the rate, and two of Timeloop's results to catch up with."""
    rates = [{"kind": "rate", "problem": name, "patience": 100_000} for name in TIMELOOP]
    names = ("mm100_16_rubyS_long", "mm100_16_uber", "eyeX_Q7_M2", "eyeX_Q3_M4")
    return [*rates, *({"kind": "race", "problem": name, "patience": 400_000} for name in names)]


def measure(point: Point) -> Row:
    """Measure one point."""
    return point | (rate(point) if point["kind"] == "rate" else race(point))


def rate(point: Point) -> Row:
    """Search at random and count: all mappings, and those that fit."""
    if point["problem"] == "gemm":
        goal = target(matmul(), toy(16), "ruby-s")
    else:
        goal = target(conv3(), eyeriss(), "ruby-s", ROW_STATIONARY)
    effort = Effort(exhaustive=0, patience=point["patience"])
    map_einsum(goal, replace(effort, most=1))
    started = time.process_time()
    found = map_einsum(goal, effort).found
    seconds = time.process_time() - started
    return {"mappings": found.gone, "valid": found.valid, "cpu_seconds": seconds}


def race(point: Point) -> Row:
    """Search until a mapping is as good as Timeloop's, both in our model."""
    case = next(case for case in (*toys(), *layers()) if case.timeloop == point["problem"])
    theirs = results()[point["problem"]]
    wanted = float(in_our_model(case.goal, theirs["mapping"]).edp[0])
    watch = _Watch(wanted)
    watch.search(case.goal, Effort(exhaustive=0, patience=point["patience"]))
    return {
        "case": case.name,
        "mapspace": case.goal.strategy,
        "timeloop_edp": wanted * 1e-12,
        "edp": watch.best * 1e-12,
        "timeloop_cpu_seconds": float(theirs["cpu_s"]),
        "cpu_seconds_until_as_good": watch.seconds,
    }


class _Watch:
    """Notes when the best so far reaches a value."""

    def __init__(self, wanted: float) -> None:
        self.wanted = wanted * (1 + 1e-9)
        self.best = float("inf")
        self.seconds: float | None = None
        self._started = time.process_time()

    def search(self, goal: Target, effort: Effort) -> None:
        """Search to the end."""
        map_einsum(goal, effort, self._each)

    def _each(self, work: Callable[[Task], Outcome], tasks: Sequence[Task]) -> Iterator[Outcome]:
        for task in tasks:
            outcome = work(task)
            if outcome.found is not None:
                self.best = min(self.best, outcome.found.best[0])
            if self.seconds is None and self.best <= self.wanted:
                self.seconds = time.process_time() - self._started
            yield outcome


def report(rows: list[Row]) -> str:
    """Write the rates and the races."""
    rates = [row for row in rows if row["kind"] == "rate"]
    races = [row for row in rows if row["kind"] == "race"]
    lines = []
    for row in rates:
        each = row["mappings"] / row["cpu_seconds"]
        valid = row["valid"] / row["cpu_seconds"]
        times = f"{each / TIMELOOP[row['problem']]:,.0f}"
        lines.append(
            [row["problem"], f"{row['mappings']:,}", f"**{each:,.0f}**", f"{valid:,.0f}", times]
        )
    best = max(row["mappings"] / row["cpu_seconds"] for row in rates)
    caught = []
    for row in races:
        seconds = row["cpu_seconds_until_as_good"]
        figures = [f"{row['timeloop_edp']:.4g}", f"{row['edp']:.4g}"]
        ours = "not reached" if seconds is None else f"**{seconds:.2f}**"
        caught.append(
            [row["case"], row["mapspace"], *figures, ours, f"{row['timeloop_cpu_seconds']:.1f}"]
        )
    return (
        "## Ruby\n\n"
        "Random search with refinement in Ruby-S mapspaces on one core: a matrix product of 100^3 "
        "on 16 PEs, a 3x3 convolution on the Eyeriss-like array. A mapping is drawn, checked and, "
        "where its fan-outs fit, evaluated with all levels, operands and remainders. Timeloop's "
        f"rates were measured apart from this. Aim of {AIM:,} per second: {aim(best >= AIM)}.\n\n"
        + table(["problem", "mappings", "per CPU second", "of them valid", "times Timeloop"], lines)
        + "\n\nCPU seconds until a mapping is at least as good as Timeloop's best (EDP in J "
        "cycles, both in our cost model), and Timeloop's CPU seconds for its whole search:\n\n"
        + table(["case", "mapspace", "Timeloop's EDP", "EDP", "CPU s", "Timeloop: CPU s"], caught)
    )


BENCHMARK = Benchmark(
    name="ruby",
    points=points,
    measure=lambda point: measure_here("ruby", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(measure)
