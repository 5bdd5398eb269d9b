"""Operators under a roofline: operations per byte, what is attainable and what the machine does.

The accelerator is a quarter of a TPU v3 (one of four arrays, with a quarter of the bandwidth), so
that its ridge is the chip's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simaccel.importers.accelerators import load_accelerator
from simaccel.report.figures.style import SERIES_COLOURS, SERIES_MARKERS
from simaccel.schedulers import Options
from simaccel.study.experiment import simulate
from simaccel.workload import Workload
from validation.flat.exhibit import Row
from validation.flat.pictures import finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHIP = "mxu_128"


def peak() -> tuple[float, float]:
    """Return operations per second (two a MAC) and bytes per second."""
    chip = load_accelerator(CHIP)
    bandwidth = chip.dram.bandwidth_bytes_per_second
    assert bandwidth is not None
    return 2.0 * chip.array.pes * chip.clock_hz, float(bandwidth)


def ridge() -> float:
    """Return the operations per byte from which on the array is the limit."""
    operations, bandwidth = peak()
    return operations / bandwidth


def attainable(intensity: float) -> float:
    """Return the roof over an intensity, in operations per second."""
    operations, bandwidth = peak()
    return min(operations, intensity * bandwidth)


def ran(whole: Workload, names: Sequence[str], dataflow: str) -> Row:
    """Run operators on the chip; what is between them moves only if the machine moves it."""
    work = whole.select_operators(names)
    made = {operator.output.tensor for operator in work.operators}
    read = {operand.tensor for operator in work.operators for operand in operator.inputs}
    outside = [name for name in work.tensors if not (name in made and name in read)]
    least = sum(work.tensor_bytes(name) for name in outside)
    chip = load_accelerator(CHIP, ["dram.capacity_bytes=unlimited"])
    result = simulate(work, chip, dataflow, options=Options(tolerance=0.0, pipeline=True))
    moved = result.run.moved.items()
    dram = sum(n for (level, _), n in moved if level.startswith("dram"))
    intensity = 2 * work.macs / least
    return {
        "operators": "+".join(names),
        "macs": work.macs,
        "least_bytes": least,
        "intensity": intensity,
        "roof_share": attainable(intensity) / peak()[0],
        "machine_bytes": dram,
        "machine_intensity": 2 * work.macs / dram,
        "machine_utilisation": result.utilisation,
        "machine_groups": " ".join(group.name for group in result.run.operators),
    }


def draw_roof(axes: Axes, kinds: Mapping[str, Sequence[Row]], title: str) -> None:
    """Draw the roof, and operators as the machine runs them (filled) below where they might be."""
    span = [16, ridge(), 2048]
    axes.plot(span, [attainable(intensity) / peak()[0] for intensity in span], color="black")
    for at, (label, kind) in enumerate(kinds.items()):
        colour, mark = SERIES_COLOURS[at], SERIES_MARKERS[at]
        xs = [row["intensity"] for row in kind]
        axes.plot(xs, [row["roof_share"] for row in kind], mark, color=colour, mfc="none", ms=4)
        ys = [row["machine_utilisation"] for row in kind]
        axes.plot(xs, ys, mark, color=colour, label=label, ms=3)
    axes.set(xscale="log", yscale="log", ylabel="share of peak")
    axes.legend(fontsize="x-small", loc="lower right")
    finish(axes, title, "operations per byte (each tensor once)")
