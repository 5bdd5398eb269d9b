"""Nests searched per second on one core, and the time until Timeloop's best is found.

``before`` are the rates of the search that judged each mapping alone, those of ``before.json``.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final
from unittest.mock import patch

from benchmarks.measure import Benchmark, Point, Row, aim, measure_here, print_row, table
from simaccel.search.effort import Effort, Objective
from simaccel.search.mapspace import mapspace_search
from simaccel.search.mapspace.blocks import BlockOutcome, BlockTask, Score, run_block
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import map_einsum
from validation.ruby.exhibits import layers, toys
from validation.ruby.problems import ROW_STATIONARY, conv3, eyeriss, matmul, target, toy
from validation.ruby.timeloop import in_our_model, results

AIMS: Final = {"gemm": 1_000_000, "conv 3x3": 500_000}
"""Different mappings judged per CPU second."""
BEFORE: Final = Path(__file__).with_name("before.json")
PATIENCE: Final = 25_000
REPEATS: Final = 3
TIMELOOP = {"gemm": 1850, "conv 3x3": 429}
"""Mappings per CPU second, measured apart from this."""


_SAME: Final = {
    "mm100_5_uber_rand": "mm100_5_uber",
    "mm100_16_uber_rand": "mm100_16_uber",
    "mm100_5_rubyS": "mm100_5_rubyS_long",
    "mm100_16_rubyS": "mm100_16_rubyS_long",
    "eye_uber_del": "eye_uber_edp",
    "eye_ruby_del": "eye_ruby_edp",
    "eyeRS_uber_edp": "eyeX_Q3_M4",
    "eyeRS_ruby_edp": "eyeX_Q7_M2",
}
"""Runs of Timeloop's on the problem of another run: less or other search, or another objective."""
_DELAY: Final = "delay, energy"


def points() -> list[Point]:
    """Two problems for the rate, and all of Timeloop's results to catch up with."""
    rates = [{"kind": "rate", "problem": name, "patience": PATIENCE} for name in TIMELOOP]
    return [
        *rates,
        *({"kind": "race", "problem": name, "patience": PATIENCE} for name in results()),
    ]


def measure(point: Point) -> Row:
    """Measure one point."""
    return point | (rate(point) if point["kind"] == "rate" else race(point))


def rate(point: Point) -> Row:
    """Search the GEMM's mapspace whole and the convolution's at random; count what was judged."""
    if point["problem"] == "gemm":
        goal = target(matmul(), toy(16), "ruby-s")
    else:
        goal = target(conv3(), eyeriss(), "ruby-s", ROW_STATIONARY)
    effort = Effort(patience=point["patience"])
    map_einsum(goal, replace(effort, most=1))
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        searched = map_einsum(goal, effort).found
        seconds.append(time.process_time() - started)
    return {"mappings": searched.tried, "valid": searched.valid, "cpu_seconds": median(seconds)}


def race(point: Point) -> Row:
    """Search until a mapping is as good as Timeloop's, both in our model."""
    name = point["problem"]
    same = _SAME.get(name, name)
    case = next(case for case in (*toys(), *layers()) if case.timeloop == same)
    theirs = results()[name]
    objective: Objective = "cycles" if theirs["metric"] == _DELAY else "edp"
    judged = in_our_model(case.goal, theirs["mapping"])
    value, tie = judged.edp, float(judged.cycles)
    if objective == "cycles":
        value, tie = tie, judged.energy_pj
    watch = _Watch((value * (1 + 1e-9), tie * (1 + 1e-9)))
    effort = Effort(objective=objective, patience=point["patience"])
    ours = watch.search(case.goal, effort)
    return {
        "case": case.name,
        "mapspace": case.goal.strategy,
        "objective": objective,
        "timeloop": value * (1e-12 if objective == "edp" else 1),
        "ours": ours * (1e-12 if objective == "edp" else 1),
        "timeloop_cpu_seconds": float(theirs["cpu_s"]),
        "cpu_seconds_until_as_good": watch.seconds,
        "cpu_seconds": watch.whole,
    }


class _Watch:
    """Notes when the best so far is as good as wanted."""

    def __init__(self, wanted: Score) -> None:
        self.wanted = wanted
        self.seconds: float | None = None
        self.whole = 0.0
        self._started = time.process_time()

    def search(self, goal: MappingTarget, effort: Effort) -> float:
        """Search to the end; give the best value of the objective."""
        with patch.object(mapspace_search, "run_block", self._run_block):
            found = map_einsum(goal, effort).found
        self.whole = time.process_time() - self._started
        return found.score

    def _run_block(self, task: BlockTask) -> BlockOutcome:
        outcome = run_block(task)
        good = outcome.found is not None and outcome.found.best <= self.wanted
        if self.seconds is None and good:
            self.seconds = time.process_time() - self._started
        return outcome


def report(rows: list[Row]) -> str:
    """Write the rates and the races."""
    rates = [row for row in rows if row["kind"] == "rate"]
    races = [row for row in rows if row["kind"] == "race"]
    before = json.loads(BEFORE.read_text(encoding="utf-8"))["ruby"]
    lines = []
    for row in rates:
        name, old = row["problem"], before[row["problem"]]
        line: list[object] = [name, f"{row['mappings']:,}"]
        for what, was in (("mappings", old["judged"]), ("valid", old["valid"])):
            each = row[what] / row["cpu_seconds"]
            line += [f"**{each:,.0f}**", f"{was:,.0f}", f"{each / was:.1f}"]
        valid = row["valid"] / row["cpu_seconds"]
        lines.append([*line, f"{valid / TIMELOOP[name]:,.0f}"])
    met = all(row["mappings"] / row["cpu_seconds"] >= AIMS[row["problem"]] for row in rates)
    every = ", ".join(f"{name} {most:,}" for name, most in AIMS.items())
    caught = []
    for row in races:
        seconds = row["cpu_seconds_until_as_good"]
        caught.append(
            [
                row["problem"],
                row["case"],
                row["mapspace"],
                row["objective"],
                f"{row['timeloop']:.4g}",
                f"{row['ours']:.4g}",
                "**not reached**" if seconds is None else f"**{seconds:.2f}**",
                f"{row['cpu_seconds']:.2f}",
                f"{row['timeloop_cpu_seconds']:.2f}",
            ]
        )
    reached = sum(row["cpu_seconds_until_as_good"] is not None for row in races)
    return (
        "## Ruby\n\n"
        "Searches of Ruby-S mapspaces on one core: a matrix product of 100^3 on 16 PEs, whole, and "
        "a 3x3 convolution on the Eyeriss-like array, at random with refinement, the perfect "
        "mapspace inside first. A tiling is drawn, checked and, where it fits, evaluated in all "
        "its orders, with all levels, operands and remainders; every mapping counts once. *Before* "
        "each mapping was drawn and evaluated alone; the same hour, in turns. Timeloop's rates, "
        "of valid ones, were measured apart from this. Aims of different mappings judged per "
        f"second, {every}: {aim(met)}.\n\n"
        + table(
            [
                "problem",
                "mappings judged",
                "per CPU second",
                "before",
                "times",
                "of them valid",
                "before",
                "times",
                "times Timeloop",
            ],
            lines,
        )
        + "\n\nCPU seconds from nothing until a mapping is at least as good as Timeloop's best "
        "(EDP in J cycles, or cycles and then energy, both in our cost model), those of our whole "
        f"search, and Timeloop's for its own. As good: {reached} of {len(races)}.\n\n"
        + table(
            [
                "run",
                "case",
                "mapspace",
                "objective",
                "Timeloop's",
                "ours",
                "CPU s until as good",
                "CPU s",
                "Timeloop: CPU s",
            ],
            caught,
        )
    )


BENCHMARK = Benchmark(
    name="ruby",
    points=points,
    measure=lambda point: measure_here("ruby", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(measure)
