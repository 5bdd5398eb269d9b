"""Array folds simulated per second without fast-forward, beside bare SimPy hand-offs.

A hand-off is one item that a producer puts into a ``simpy.Store`` of capacity 1 and a consumer
gets. Both rates are taken in turns in the same process, in CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from statistics import median

import simpy

from benchmarks.measure import (
    Benchmark,
    Point,
    Row,
    aim,
    measure_here,
    print_row,
    share_text,
    shares,
    table,
)
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group, Mapping
from simaccel.program.lowering import lower
from simaccel.search.judge import mapping_of
from simaccel.workload import Workload, gemm

AIM = 0.3
"""Folds per hand-off."""
TICK_SECONDS = 1e-6
"""What takes less CPU time is not told apart from nothing."""


def points() -> list[Point]:
    """The edge accelerator, and one whose buffer ports keep every fold waiting."""
    common = {"m": 4096, "repeats": 5, "handoffs": 100_000}
    slow = ["buffer.read_bytes_per_second=60GB/s", "buffer.write_bytes_per_second=30GB/s"]
    return [
        {"case": "edge", "overrides": [], **common},
        {"case": "edge, slow ports", "overrides": slow, **common},
    ]


def handoffs_per_second(count: int) -> float:
    """Measure SimPy alone."""

    def produce(store: simpy.Store) -> Generator[simpy.Event, None, None]:
        for item in range(count):
            yield store.put(item)

    def consume(store: simpy.Store) -> Generator[simpy.Event, None, None]:
        for _ in range(count):
            yield store.get()

    environment = simpy.Environment()
    store = simpy.Store(environment, 1)
    environment.process(produce(store))
    environment.process(consume(store))
    started = time.process_time()
    environment.run()
    return count / max(time.process_time() - started, TICK_SECONDS)


BLOCKS = "loop m 64\nloop n 64\nkeep A buffer x2, B buffer x2, C buffer x2\ndo gemm array ws"
"""A tile of A with all of K stays while the tiles of B pass."""
WHOLE = "keep A buffer, B buffer, C buffer\ndo gemm array ws"
"""One command."""


def gemm_mapping(workload: Workload, tree: str) -> Mapping:
    """Return the mapping of a workload of one GEMM that a text says."""
    group = Group(operators=("gemm",), tree=parse_tree(tree))
    return mapping_of(workload, "given", [group])


def make_machine(point: Point) -> Machine:
    """Give a machine that has a GEMM m x 768 x 768 in tiles of 64 x 768 x 64 before it."""
    accelerator = load_accelerator("edge", point["overrides"])
    workload = gemm(m=point["m"], k=768, n=768)
    program = lower(workload, gemm_mapping(workload, BLOCKS))
    return Machine(accelerator, program, fast_forward=False)


def folds_of(machine: Machine) -> int:
    """Count the folds that were executed."""
    return sum(
        times
        for engine in machine.engines
        for times, op in zip(engine.counts, engine.plan.ops, strict=True)
        if op.macs
    )


def rates(point: Point) -> Row:
    """Measure hand-offs and folds in turns."""
    handoffs: list[float] = []
    folds: list[float] = []
    for _ in range(point["repeats"]):
        handoffs.append(handoffs_per_second(point["handoffs"]))
        machine = make_machine(point)
        started = time.process_time()
        run = machine.run()
        folds.append(folds_of(machine) / (time.process_time() - started))
    array = run.engines["array"]
    return point | {
        "folds": folds_of(machine),
        "events": run.events,
        "busy": array.busy / run.cycles,
        "port_stall": array.stalls.get("buffer_port", 0) / run.cycles,
        "handoffs_per_second": median(handoffs),
        "folds_per_second": median(folds),
        "ratio": median(f / h for f, h in zip(folds, handoffs, strict=True)),
        "shares": shares(make_machine(point).run),
    }


def report(rows: list[Row]) -> str:
    """Write the rates and what the time goes to."""
    head = ["accelerator", "folds", "events per fold", "array busy", "array waits for ports"]
    head += ["hand-offs/s", "folds/s", "ratio", f"aim {AIM}"]
    lines = [
        [
            row["case"],
            f"{row['folds']:,}",
            f"{row['events'] / row['folds']:.2f}",
            f"{row['busy']:.0%}",
            f"{row['port_stall']:.0%}",
            f"{row['handoffs_per_second']:,.0f}",
            f"{row['folds_per_second']:,.0f}",
            f"**{row['ratio']:.2f}**",
            aim(row["ratio"] >= AIM),
        ]
        for row in rows
    ]
    where = [f"- {row['case']}: {share_text(row['shares'])}" for row in rows]
    return (
        "## Event core\n\n"
        f"A GEMM {rows[0]['m']} x 768 x 768 in tiles of 64 x 768 x 64 without fast-forward, and "
        "bare SimPy hand-offs (producer, `simpy.Store` of capacity 1, consumer), in turns; medians "
        f"of {rows[0]['repeats']}, CPU time. The second accelerator has ports of 60 and 30 GB/s: "
        "the worst case, where every fold waits on them beside the DMA engines.\n\n"
        + table(head, lines)
        + "\n\nWhere the time goes, by module, with the profiler on:\n\n"
        + "\n".join(where)
    )


BENCHMARK = Benchmark(
    name="event_core",
    points=points,
    measure=lambda point: measure_here("event_core", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(rates)
