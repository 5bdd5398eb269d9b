"""What each constant of a search is worth: picks and runs with half and with twice of it.

``python -m validation.search.effort [NAME ...]`` schedules a few workloads with each field of
`SearchEffort` changed alone, in a process of its own, and writes `effort.csv`: cycles of the picks
and runs of the machine as they are with the field as it is, and with it changed (geometric means).
With names, rows of other fields stay as they are.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import numpy as np

import simaccel.search.effort as effort_module
from simaccel.search.effort import EFFORT

TABLE: Final = Path(__file__).with_name("effort.csv")
FIELDS: Final = ("field", "value", "factor", "cycles", "worst", "runs")
FACTORS: Final = (0.5, 2.0)
CASES: Final = (
    ("edge", "attention", "flat"),
    ("edge", "block", "best"),
    ("edge", "convolution", "flex"),
    ("edge_tpu", "product", "flex"),
    ("edge", "network", "flex"),
)
"""Accelerator, workload and dataflow."""
_FIRST: Final = 8
"""Operators of the network, of which holding gains 0.6% by bounds."""


def figures() -> list[tuple[int, int]]:
    """Return cycles and runs of each case, with the effort as it is in this process."""
    from simaccel.importers.accelerators import load_accelerator  # noqa: PLC0415 - after a change
    from simaccel.machine.machine import Machine  # noqa: PLC0415
    from simaccel.mapping.tree import Mapping  # noqa: PLC0415
    from simaccel.program.lowering import lower  # noqa: PLC0415
    from simaccel.schedulers import Options, make_mapping  # noqa: PLC0415
    from simaccel.search.judge import Judge, RunOutcome  # noqa: PLC0415
    from simaccel.workload import Workload, build, conv2d, gemm  # noqa: PLC0415

    mobilenet = build("mobilenet_v2")
    workloads = {
        "attention": build("bert", batch=4, seq_len=251, scope="la"),
        "block": build("bert", batch=1, seq_len=64, scope="block"),
        "convolution": conv2d(m=64, c=31, p=28, q=28, r=3, s=3, stride=2, bytes_per_element=2),
        "product": gemm(m=499, k=768, n=1000),
        "network": mobilenet.select_operators([op.name for op in mobilenet.operators[:_FIRST]]),
    }
    ran: list[int] = []
    run = Judge.run

    def count(judge: Judge, workload: Workload, mapping: Mapping, below: float) -> RunOutcome:
        ran[-1] += 1
        return run(judge, workload, mapping, below)

    Judge.run = count  # type: ignore[method-assign,assignment]
    made = []
    for hw, name, dataflow in CASES:
        workload, on = workloads[name], load_accelerator(hw)
        ran.append(0)
        mapping = make_mapping(workload, on, dataflow, Options())
        made.append((Machine(on, lower(workload, mapping)).run().cycles, ran[-1]))
    return made


def changed(name: str, factor: float) -> list[tuple[int, int]]:
    """Return the figures with one field so many times as large, from a process of its own."""
    words = [sys.executable, "-m", "validation.search.effort", "--one", name, str(factor)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: list[tuple[int, int]] = json.loads(done.stdout)
    return found


def run_one(name: str, factor: float) -> None:
    """Print the figures with one field changed; whole numbers stay whole."""
    value = getattr(EFFORT, name) * factor
    whole = isinstance(getattr(EFFORT, name), int)
    new = (
        max(round(value), 1)
        if whole
        else 1 + (value - factor)
        if name.startswith("near")
        else value
    )
    effort_module.EFFORT = replace(EFFORT, **{name: new})  # type: ignore[misc]
    print(json.dumps(figures()))


def main(words: list[str]) -> int:
    """Write a row for each field and factor."""
    os.environ["SIMACCEL_CACHE"] = "off"
    if words[:1] == ["--one"]:
        run_one(words[1], float(words[2]))
        return 0
    before = np.array(changed("gap", 1.0), dtype=np.float64)
    rows: list[list[object]] = []
    for field in fields(EFFORT):
        for factor in FACTORS if not words or field.name in words else ():
            ratios = np.array(changed(field.name, factor)) / before
            cycles, runs = np.exp(np.log(ratios).mean(axis=0))
            value = getattr(EFFORT, field.name)
            worst = ratios[:, 0].max()
            row = [field.name, value, factor, f"{cycles:.4f}", f"{worst:.4f}", f"{runs:.3f}"]
            rows.append(row)
            print(*row, flush=True)
    order = [field.name for field in fields(EFFORT)]
    if words:
        with TABLE.open(newline="", encoding="utf-8") as file:
            rows += [[*row] for row in csv.reader(file) if row[0] in order and row[0] not in words]
    rows.sort(key=lambda row: order.index(str(row[0])))
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
