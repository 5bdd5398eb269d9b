"""A network on a spatial array: what search and run take, and events per second."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.measure import Benchmark, Point, Row, measure_here, print_row, table
from simaccel.analytic.prediction import predict
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.search.effort import Effort
from simaccel.workload import network

PATIENCE: Final = 1_000
LIMITS: Final = (
    "dram.bandwidth_bytes_per_second=2 GB/s",
    "dram.latency_cycles=20",
    "noc.distribution.topology=bus",
    "noc.distribution.link_bytes_per_cycle=16",
    "noc.collection.topology=bus",
    "noc.collection.link_bytes_per_cycle=8",
)


def points() -> list[Point]:
    """ResNet-50 as the array comes, with limits, and one layer of it event by event."""
    base = {"hw": "eyeriss_like", "network": "resnet50", "mapspace": "ruby-s"}
    return [
        base | {"layer": None, "limits": [], "fast_forward": True},
        base | {"layer": None, "limits": [*LIMITS], "fast_forward": True},
        base | {"layer": "res3b_branch2a", "limits": [*LIMITS], "fast_forward": False},
    ]


def run_network(point: Point) -> Row:
    """Search, lower, run and predict, each with its CPU and wall time."""
    accelerator = load_accelerator(point["hw"], point["limits"])
    workload = network(point["network"], layer=point["layer"])
    options = Options(effort=Effort(patience=PATIENCE))
    seconds: dict[str, tuple[float, float]] = {}

    def done(what: str, cpu: float, wall: float) -> tuple[float, float]:
        now = time.process_time(), time.perf_counter()
        seconds[what] = now[0] - cpu, now[1] - wall
        return now

    clock = time.process_time(), time.perf_counter()
    mapping = make_mapping(workload, accelerator, point["mapspace"], options)
    clock = done("search", *clock)
    program = lower(workload, mapping)
    clock = done("lower", *clock)
    run = Machine(accelerator, program, fast_forward=point["fast_forward"]).run()
    clock = done("run", *clock)
    predicted = predict(workload, mapping, accelerator)
    done("predict", *clock)
    return point | {
        "operators": len(workload.operators),
        "macs": workload.macs,
        "cycles": run.cycles,
        "bound_cycles": predicted.bound_cycles,
        "events": run.events,
        **{f"{what}_cpu_seconds": cpu for what, (cpu, _) in seconds.items()},
        **{f"{what}_wall_seconds": wall for what, (_, wall) in seconds.items()},
    }


def report(rows: list[Row]) -> str:
    """Write a table."""
    head = ["layers", "limits", "fast-forward", "cycles", "above the bound", "events"]
    head += ["search: CPU s", "lower", "run", "predict", "all: wall s", "events/s"]
    lines = [
        [
            row["layer"] or row["operators"],
            "yes" if row["limits"] else "none",
            "yes" if row["fast_forward"] else "no",
            f"{row['cycles']:,}",
            f"{1 - row['bound_cycles'] / row['cycles']:.2%}",
            f"{row['events']:,}",
            *(f"{row[f'{what}_cpu_seconds']:.2f}" for what in ("search", "lower", "run")),
            f"{row['predict_cpu_seconds']:.2f}",
            f"{sum(row[name] for name in row if name.endswith('wall_seconds')):.2f}",
            f"**{row['events'] / row['run_cpu_seconds']:,.0f}**",
        ]
        for row in rows
    ]
    first = rows[0]
    return (
        "## Nests\n\n"
        f"{first['network']} on {first['hw']} with {first['mapspace']} and a patience of "
        f"{PATIENCE:,} mappings: search, lowering, run on the machine and prediction in CPU "
        "seconds, their sum in wall time, and events per CPU second of the run. Limits: DRAM of 2 "
        "GB/s, buses of 16 B and 8 B per cycle.\n\n" + table(head, lines)
    )


BENCHMARK = Benchmark(
    name="nests",
    points=points,
    measure=lambda point: measure_here("nests", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(run_network)
