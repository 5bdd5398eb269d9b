"""Fast-forward against event by event at full size: every figure, and what each way takes."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measure import Benchmark, Point, Row, measure_here, print_row, table
from simaccel.importers.accelerators import load_accelerator
from simaccel.schedulers import make_mapping
from simaccel.study.experiment import result_json, simulate
from simaccel.workload import build

BATCH, SEQ_LEN = 8, 512


def points() -> list[Point]:
    """All dataflows on FLAT's two accelerators."""
    return [
        {"hw": hw, "dataflow": dataflow, "batch": BATCH, "seq_len": SEQ_LEN}
        for hw in ("edge", "cloud")
        for dataflow in ("naive", "flex", "flat", "flash")
    ]


def compare(point: Point) -> Row:
    """Run a BERT block both ways."""
    accelerator = load_accelerator(point["hw"])
    workload = build("bert", batch=point["batch"], seq_len=point["seq_len"], scope="block")
    mapping = make_mapping(workload, accelerator, point["dataflow"])
    results: dict[bool, tuple[dict[str, Any], float]] = {}
    for fast in (True, False):
        started = time.process_time()
        result = simulate(workload, accelerator, mapping, fast_forward=fast)
        results[fast] = result_json(result), time.process_time() - started
    (skipped, fast_seconds), (full, full_seconds) = results[True], results[False]
    full_figures, other = figures(full), figures(skipped)
    return point | {
        "cycles": full["cycles"],
        "figures": len(full_figures),
        "different": sorted(
            name for name in full_figures | other if full_figures.get(name) != other.get(name)
        ),
        "events": full["events"],
        "events_fast": skipped["events"],
        "cpu_seconds": full_seconds,
        "cpu_seconds_fast": fast_seconds,
    }


def figures(document: dict[str, Any]) -> dict[str, object]:
    """Give every figure by its path, but events and wall time."""
    fields: dict[str, object] = {}

    def walk(path: str, value: object) -> None:
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                walk(f"{path}.{key}", item)
        else:
            fields[path] = value

    kept = {k: v for k, v in document.items() if k not in ("events", "wall_seconds")}
    walk("", kept)
    return fields


def report(rows: list[Row]) -> str:
    """Write what was compared."""
    head = ["hw", "dataflow", "cycles", "figures", "different", "events: all", "fast-forward"]
    head += ["CPU s: all", "fast-forward", "ratio"]
    lines = [
        [
            row["hw"],
            row["dataflow"],
            f"{row['cycles']:,}",
            row["figures"],
            ", ".join(row["different"]) or "none",
            f"{row['events']:,}",
            f"{row['events_fast']:,}",
            f"{row['cpu_seconds']:.2f}",
            f"{row['cpu_seconds_fast']:.2f}",
            f"{row['cpu_seconds'] / row['cpu_seconds_fast']:.0f}",
        ]
        for row in rows
    ]
    wrong = sum(bool(row["different"]) for row in rows)
    return (
        "## Exactness\n\n"
        f"A BERT block at sequence length {rows[0]['seq_len']} and batch {rows[0]['batch']}, event "
        "by event and with fast-forward: every figure of `simaccel run --json` but the events and "
        f"the wall time. Runs that differ: **{wrong} of {len(rows)}**. Seconds include lowering "
        "and the prediction.\n\n" + table(head, lines)
    )


BENCHMARK = Benchmark(
    name="exactness",
    points=points,
    measure=lambda point: measure_here("exactness", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(compare)
