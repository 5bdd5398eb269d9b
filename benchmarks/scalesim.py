"""The same GEMMs on SCALE-Sim 3.0.0 (CALC mode: memory doesn't limit): cycles, time, memory.

SCALE-Sim lives in a virtual environment of its own, which is made once in ``out/venv-scalesim``
(git-ignored; ``make clean`` removes it), because it fails with numpy 2.4 and later. Where it can't
be installed, the benchmark says so and is skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.event_core import WHOLE, folds_of, gemm_mapping
from benchmarks.measure import (
    ROOT,
    Benchmark,
    Point,
    Row,
    aim,
    measure_here,
    print_row,
    run_child,
    table,
)
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.workload import gemm

VERSION = "3.0.0"
REQUIREMENTS = (f"scalesim=={VERSION}", "numpy<2.4")
VENV = ROOT / "out" / "venv-scalesim"
AIM = 1000
AIM_SHAPE = (512, 768, 3072)

_CONFIG = """\
[general]
run_name = run

[architecture_presets]
ArrayHeight = {side}
ArrayWidth = {side}
IfmapSramSzkB = 64
FilterSramSzkB = 64
OfmapSramSzkB = 64
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = 10
ReadRequestBuffer = 64
WriteRequestBuffer = 64

[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2

[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40

[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


def points() -> list[Point]:
    """Four GEMMs on two arrays; SCALE-Sim needs minutes for the largest."""
    shapes = {
        32: [(128, 128, 128), (512, 64, 512), (512, 768, 768), AIM_SHAPE],
        128: [(128, 128, 128), (512, 64, 512), (512, 768, 768), AIM_SHAPE],
    }
    return [
        {"side": side, "m": m, "k": k, "n": n, "repeats": 5}
        for side, found in shapes.items()
        for m, k, n in found
    ]


def accelerator(side: int) -> Accelerator:
    """Give an array that overlaps nothing, beside memory without any limit."""
    return load_accelerator(
        "edge",
        [
            f"array.rows={side}",
            f"array.cols={side}",
            "array.overlap=none",
            "buffer.capacity_bytes=unlimited",
            "buffer.read_bytes_per_second=unlimited",
            "buffer.write_bytes_per_second=unlimited",
            "dram.bandwidth_bytes_per_second=unlimited",
            "dram.latency_cycles=0",
            "dram.turnaround_cycles=0",
            "noc.distribution.topology=unlimited",
            "noc.collection.topology=unlimited",
        ],
    )


def simulate(point: Point) -> Row:
    """Simulate the GEMM as one tile; medians of CPU seconds from mapping to result."""
    hardware = accelerator(point["side"])
    workload = gemm(m=point["m"], k=point["k"], n=point["n"], bytes_per_element=1)
    row: Row = {}
    for name, fast in (("cpu_seconds", True), ("full_cpu_seconds", False)):
        seconds: list[float] = []
        for _ in range(point["repeats"]):
            started = time.process_time()
            program = lower(workload, gemm_mapping(workload, WHOLE))
            machine = Machine(hardware, program, fast_forward=fast)
            run = machine.run()
            seconds.append(time.process_time() - started)
        row |= {name: median(seconds), "folds": folds_of(machine), "cycles": run.cycles}
    return row


@cache
def python_with_scalesim() -> str | None:
    """Find or make a Python that has SCALE-Sim; None if it can't be installed."""
    python = VENV / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True, capture_output=True)
        if not _installed([*pip, "list", "--format", "freeze"]):
            subprocess.run([*pip, "install", *REQUIREMENTS], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(python)


def _installed(command: list[str]) -> bool:
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return f"scalesim=={VERSION}" in found.splitlines()


def write_inputs(point: Point, folder: Path) -> None:
    """Write the tool's files; rows need a trailing comma, the layout file is read but not used."""
    (folder / "scale.cfg").write_text(_CONFIG.format(side=point["side"]))
    sizes = f"{point['m']},{point['n']},{point['k']}"
    (folder / "topology.csv").write_text(f"Layer,M,N,K,\ngemm,{sizes},\n")
    (folder / "layout.csv").write_text("Layer,\ngemm," + "1," * 20 + "\n")


def measure(point: Point) -> Row:
    """Run both, each in a process of its own."""
    python = python_with_scalesim()
    if python is None:
        return point | {"skipped": f"scalesim {VERSION} is not installed and can't be"}
    row, ours = measure_here("scalesim", point)
    child = Path(__file__).with_name("scalesim_child.py")
    with TemporaryDirectory() as folder:
        write_inputs(point, Path(folder))
        theirs = run_child([python, "-P", str(child), folder])
    reported = json.loads(theirs.output.splitlines()[-1])
    return (
        point
        | row
        | {
            "peak_rss_bytes": ours.peak_rss_bytes,
            "scalesim_cycles": reported["reported_cycles"] + 1,
            "scalesim_cpu_seconds": reported["cpu_seconds"],
            "scalesim_process_cpu_seconds": theirs.cpu_seconds,
            "scalesim_peak_rss_bytes": theirs.peak_rss_bytes,
        }
    )


def report(rows: list[Row]) -> str:
    """Write both side by side."""
    title = "## Against SCALE-Sim\n\n"
    skipped = [row for row in rows if "skipped" in row]
    if skipped:
        return f"{title}Skipped: {skipped[0]['skipped']}."
    head = ["array", "GEMM", "folds", "cycles", "SCALE-Sim + 1", "CPU s", "event by event"]
    head += ["SCALE-Sim", "times faster", "RSS MB", "SCALE-Sim"]
    unequal = sum(row["cycles"] != row["scalesim_cycles"] for row in rows)
    return (
        f"{title}GEMMs, weight-stationary, against SCALE-Sim {VERSION} in CALC mode; here "
        "`overlap: none` and memory and NoC without limit. SCALE-Sim reports the index of the last "
        f"cycle, one less than cycles. Unequal: **{unequal} of {len(rows)}**. CPU seconds are "
        "those from reading the mapping (SCALE-Sim: its files, no trace written) to the result, "
        "without the start of Python; "
        f"here medians of {rows[0]['repeats']}. {_verdict(rows)}\n\n"
        + table(head, [_line(row) for row in rows])
    )


def _verdict(rows: list[Row]) -> str:
    ratios = [_ratio(row) for row in rows if (row["m"], row["k"], row["n"]) == AIM_SHAPE]
    if not ratios:
        return ""
    return f"Aim of {AIM:,} times on {'x'.join(map(str, AIM_SHAPE))}: {aim(min(ratios) >= AIM)}."


def _ratio(row: Row) -> float:
    return float(row["scalesim_cpu_seconds"] / row["cpu_seconds"])


def _line(row: Row) -> list[object]:
    return [
        f"{row['side']}x{row['side']}",
        f"{row['m']}x{row['k']}x{row['n']}",
        f"{row['folds']:,}",
        f"{row['cycles']:,}",
        f"{row['scalesim_cycles']:,}",
        f"{row['cpu_seconds']:.4f}",
        f"{row['full_cpu_seconds']:.4f}",
        f"{row['scalesim_cpu_seconds']:.2f}",
        f"**{_ratio(row):,.0f}**",
        f"{row['peak_rss_bytes'] / 1e6:.0f}",
        f"{row['scalesim_peak_rss_bytes'] / 1e6:.0f}",
    ]


BENCHMARK = Benchmark(name="scalesim", points=points, measure=measure, report=report)

if __name__ == "__main__":
    print_row(simulate)
