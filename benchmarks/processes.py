"""CPU seconds of whole commands as users type them, cold, beside a yardstick of plain Python.

Every command is a process of its own that finds no mapping from before, but byte code, as in a
checkout that was used. The yardstick, steps of a loop in plain Python, runs before and after each:
what other work on the machine does to CPU time it does to both. ``SIMACCEL_OTHER=FOLDER`` names
another checkout, whose commands run in turn with these: the ratio is that of two commits on one
machine in one hour. ``SIMACCEL_POINTS=TEXT`` takes the commands in which the text occurs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.measure import ROOT, Benchmark, Point, Row, aim, run_child, table

OTHER: Final = "SIMACCEL_OTHER"
SOME: Final = "SIMACCEL_POINTS"
STEPS: Final = 3_000_000
"""Steps of the yardstick."""
AIMS: Final = {"median": (50, 1.5), "95%": (95, 6.0), "worst": (100, 12.0)}
"""Percentile, CPU seconds."""
NETWORK_AIM: Final = (8.0, 250e6)
"""CPU seconds and bytes of ResNet-50 and ONNX networks."""
MOST_SLOWER: Final = 1.1
"""The most times as long as at the other commit that a command may take."""

COMMANDS: Final = tuple(
    """
compare --hw edge,cloud --workload bert --batch 8 --dataflow flex,flat,best --seq-len 512 --jobs 1
run --hw simba_like --workload {light}/light_squeezenet.onnx
run --hw edge_tpu --workload {light}/light_resnet50.onnx
run --hw tpu_v4 --dataflow best --workload llama3-8b --prompt 2048
run --hw eyeriss_like --workload alexnet
run --hw edge --workload resnet50
run --hw mxu_128 --dataflow best --workload bert --seq-len 512 --batch 8 --scope block
run --hw tpu_v5e_8x8 --workload llama3-70b --prompt 8192 --scope model
run --hw tpu_v5e --workload llama3-8b --prompt 512
run --hw tpu_v5e --workload resnet50 --batch 8
run --hw edge --workload {light}/light_squeezenet.onnx
run --hw tpu_v4_4x4x4 --workload llama3-70b --prompt 2048 --scope model
run --hw edge_tpu --dataflow best --workload bert --seq-len 128 --batch 1 --scope block
run --hw tpu_v5e_4x4 --workload llama3-8b --prompt 1024 --scope model
run --hw edge_tpu --dataflow flex --workload mobilenet_v2
compare --hw edge --workload bert --batch 64 --scope la \
--dataflow naive,flex,flat,flash --seq-len 512,8192 --set allow-overflow --jobs 1
run --hw mxu_128 --dataflow flex --workload bert --seq-len 4096 --batch 1 --scope block
run --hw cloud --dataflow best --workload bert --seq-len 2048 --batch 8 --scope block
run --hw tpu_v5e_8x8 --workload llama3-70b --phase decode --kv-len 1024 --batch 64 --scope model
run --hw cloud --workload alexnet
run --hw edge --workload llama3-8b --phase decode --prompt 512
run --hw edge --dataflow best --workload bert --seq-len 512 --batch 64 --scope block
run --hw simba_like --workload resnet50 --layer res4a_branch2b
run --hw cloud --dataflow best --workload t5 --seq-len 512 --batch 64 --scope la
run --hw eyeriss_like --workload resnet50 --layer res3b_branch2b
run --hw tpu_v4 --dataflow best --workload bert --seq-len 2048 --batch 8 --scope block
run --hw edge --dataflow flat --workload bert --seq-len 8192 --batch 1 --scope block
run --hw tpu_v5e --dataflow best --workload bert --seq-len 512 --batch 64 --scope block
map --hw eyeriss_like --workload alexnet --layer conv2 --mapspace pfm -o {out}
run --hw coral_edge_tpu --workload mobilenet_v2
run --hw edge --dataflow flex --workload bert --seq-len 128 --batch 1 --scope block
run --hw tpu_v5e --dataflow flex --workload t5 --seq-len 128 --batch 8 --scope block
bound --workload resnet50
run --hw edge_tpu --dataflow flash --workload bert --seq-len 2048 --batch 1 --scope block
run --hw tpu_v5e --workload llama3-8b --phase decode --prompt 1024
run --hw edge --workload t5 --seq-len 1024 --batch 8 --scope block
run --hw tpu_v5e --workload bert --seq-len 2048 --batch 8 --scope block
map --hw edge --workload bert --seq-len 512 --batch 8 --dataflow flash -o {out}
run --hw cloud --workload bert --seq-len 512 --batch 64 --scope block
run --hw tpu_v4 --workload bert --seq-len 512 --batch 64 --scope block
run --hw edge --workload bert --seq-len 512 --batch 64 --scope la
run --hw coral_edge_tpu --workload bert --seq-len 128 --batch 1 --scope block
run --hw edge --workload gemm --shape M=512,K=768,N=3072
run --hw cloud --dataflow flash --workload bert --seq-len 8192 --batch 64 --scope la
bound --workload bert --seq-len 512 --batch 16
""".strip().splitlines()
)


def points() -> list[Point]:
    """Return the commands, or those that are asked for."""
    return [{"command": each} for each in COMMANDS if os.environ.get(SOME, "") in each]


def yardstick() -> float:
    """Return the CPU seconds of a loop in plain Python."""
    started, total = time.process_time(), 0
    for step in range(STEPS):
        total += step & 7
    return time.process_time() - started


def measure(point: Point) -> Row:
    """Run a command here, and in the other checkout if there is one."""
    row = point | _run(point["command"], ROOT)
    if OTHER in os.environ:
        row["other"] = _run(point["command"], Path(os.environ[OTHER]))
    return row


@cache
def _compile(checkout: Path) -> None:
    """Write the byte code of a checkout: a quarter of a second of a command that finds none."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", checkout / "simaccel"], check=True)


def _run(command: str, checkout: Path) -> Row:
    """Run a command of a checkout with nothing known; ``cycles`` are None where it prints none."""
    _compile(checkout)
    spec = find_spec("onnx")
    assert spec is not None and spec.origin is not None  # noqa: PT018 - a requirement
    light = Path(spec.origin).parent / "backend" / "test" / "data" / "light"
    with tempfile.TemporaryDirectory() as folder:
        words = command.format(light=light, out=Path(folder) / "mapping.yaml").split()
        words += ["--quiet"] * (words[0] == "run")
        cold = {"SIMACCEL_CACHE": "off", "XDG_CACHE_HOME": folder, "PYTHONPATH": str(checkout)}
        variables = [f"{name}={value}" for name, value in cold.items()]
        before = yardstick()
        cost = run_child(
            ["/usr/bin/env", *variables, sys.executable, "-m", "simaccel", *words], cwd=checkout
        )
        yard = (before + yardstick()) / 2
    cycles = re.search(r"([\d,]+) cycles", cost.output)
    return {
        "cpu_seconds": cost.cpu_seconds,
        "yard_seconds": yard,
        "peak_rss_bytes": cost.peak_rss_bytes,
        "cycles": cycles and int(cycles[1].replace(",", "")),
    }


def _line(name: str, seconds: Any) -> list[object]:  # noqa: ANN401 - numbers of any kind
    figures = np.percentile(seconds, [0, 50, 90, 95, 100])
    return [name, len(seconds), *(f"{figure:.1f}" for figure in figures), f"{sum(seconds):.0f}"]


def _in_yards(row: Row) -> float:
    return float(row["cpu_seconds"] / row["yard_seconds"])


def report(rows: list[Row]) -> str:
    """Write the distribution, and each command."""
    others = [row["other"] for row in rows if "other" in row]
    kinds = {"CPU s": [row["cpu_seconds"] for row in rows]}
    kinds["yardsticks"] = [_in_yards(row) for row in rows]
    if others:
        kinds["CPU s of the other commit"] = [row["cpu_seconds"] for row in others]
    lines = [_line(*kind) for kind in kinds.items()]
    aims = [
        f"{name} {most:g} {aim(bool(np.percentile(kinds['CPU s'], q) <= most))}"
        for name, (q, most) in AIMS.items()
    ]
    longest = sorted(rows, key=lambda row: -row["cpu_seconds"])
    head = ["CPU s", "yard", "MB", "cycles", "command"]
    if others:
        head[1:1] = ["other", "times", "cycles, times"]
    seconds, most_bytes = NETWORK_AIM
    networks = [row for row in rows if "onnx" in row["command"] or "resnet50" in row["command"]]
    fits = [row["cpu_seconds"] < seconds and row["peak_rss_bytes"] < most_bytes for row in networks]
    return (
        "## Processes\n\n"
        f"{len(rows)} whole commands, cold, one run each; the yardstick is a loop of {STEPS:,} "
        f"steps before and after. Aims, CPU s: {', '.join(aims)}; ResNet-50 and ONNX networks "
        f"below {seconds:g} CPU s and {most_bytes / 1e6:g} MB: {sum(fits)} of {len(fits)}."
        + (_slower(rows) if others else "")
        + "\n\n"
        + table(["", "commands", "least", "median", "90%", "95%", "worst", "sum"], lines)
        + "\n\n"
        + table(head, [_cells(row, bool(others)) for row in longest])
    )


def _slower(rows: list[Row]) -> str:
    slower = sum(_ratio(row) > MOST_SLOWER for row in rows)
    return f" More than {MOST_SLOWER - 1:.0%} slower than at the other commit: {slower}."


def _ratio(row: Row) -> float:
    return _in_yards(row) / _in_yards(row["other"])


def _cells(row: Row, with_other: bool) -> list[object]:  # noqa: FBT001 - a column more
    cells: list[object] = [
        f"{row['cpu_seconds']:.1f}",
        f"{row['yard_seconds']:.2f}",
        f"{row['peak_rss_bytes'] / 1e6:.0f}",
        f"{row['cycles']:,}" if row["cycles"] else "",
        row["command"].replace("{light}/", ""),
    ]
    if with_other:
        other = row["other"]
        times = f"{row['cycles'] / other['cycles']:.4f}" if row["cycles"] else ""
        cells[1:1] = [f"{other['cpu_seconds']:.1f}", f"{_ratio(row):.2f}", times]
    return cells


BENCHMARK = Benchmark(name="processes", points=points, measure=measure, report=report)
