"""One mapping on the machine and through the closed form; and many of them as figures."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from simaccel.analytic.estimate import Estimate, estimate
from simaccel.cli.progress import Bar
from simaccel.experiment.parallel import run_all
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.workload import Workload

CAUSES: Final = {
    "dram_bandwidth": "DRAM",
    "dram_latency": "DRAM",
    "dram_queue": "DRAM",
    "noc": "NoC",
    "buffer_port": "buffer port",
    "sfu": "SFU",
}
"""What an engine waits for, as it is drawn; all else is fill and drain."""
STYLES: Final = {
    "compute": ("o", "#0072B2"),
    "DRAM": ("s", "#D55E00"),
    "NoC": ("^", "#009E73"),
    "buffer port": ("D", "#CC79A7"),
    "SFU": ("P", "#E69F00"),
    "fill and drain": ("v", "#666666"),
}
"""Marker and colour by what the busiest unit waits for most, if it is idle for 5% at least."""
_IDLE: Final = 0.05
_UNITS: Final = ("array", "sfu")

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Compared:
    """What machine and closed form say of a mapping; ``note``: why there is none."""

    cycles: int = 0
    estimate: int = 0
    resource_bound: int = 0
    faults: str = ""
    """Which figures differ that have to be exact."""
    bound_by: str = ""
    waits: str = ""
    """What the busier of array and SFU waits for most."""
    idle: float = 0.0
    """Part of the run that it waits."""
    worst_group: str = ""
    note: str = ""

    @property
    def error(self) -> float:
        """(estimate - simulated) / simulated."""
        return (self.estimate - self.cycles) / self.cycles


def compare(workload: Workload, accelerator: Accelerator, mapping: Mapping) -> Compared:
    """Run a mapping on the machine and through the closed form."""
    run = Machine(accelerator, lower(workload, mapping)).run()
    predicted = estimate(workload, mapping, accelerator)
    pairs = list(zip(run.operators, predicted.operators, strict=True))
    worst, expected = max(pairs, key=lambda pair: abs(pair[1].cycles - pair[0].cycles))
    longest = max(pairs, key=lambda pair: pair[0].cycles)[1]
    waits, idle = _waits(run)
    return Compared(
        cycles=run.cycles,
        estimate=predicted.cycles,
        resource_bound=predicted.resource_bound_cycles,
        faults=", ".join(faults_of(run, predicted)),
        bound_by=longest.bound_by,
        waits=waits if idle >= _IDLE else "compute",
        idle=idle,
        worst_group=f"{worst.name} {expected.cycles / max(worst.cycles, 1) - 1:+.1%}",
    )


def faults_of(run: Run, predicted: Estimate) -> list[str]:
    """Name what differs though it has to be equal, or is beyond its bound."""
    moved = {level: n for level, n in run.moved.items() if n}
    found = []
    if run.macs != predicted.macs:
        found.append(f"MACs: {run.macs} on the machine, {predicted.macs} expected")
    if moved != predicted.moved:
        differ = sorted({level for level, _ in set(moved.items()) ^ set(predicted.moved.items())})
        found.append(f"bytes of {' and '.join(map(' '.join, differ))}")
    if predicted.resource_bound_cycles > run.cycles:
        found.append("shorter than the resource bound")
    if predicted.buffer_bytes < run.peak_buffer_bytes:
        found.append(f"peak of {run.peak_buffer_bytes} B above {predicted.buffer_bytes} B")
    return found


def _waits(run: Run) -> tuple[str, float]:
    unit = max(_UNITS, key=lambda name: run.engines[name].busy if name in run.engines else 0)
    found: dict[str, int] = {}
    for cause, cycles in run.engines[unit].stalls.items():
        what = CAUSES.get(cause, "fill and drain")
        found[what] = found.get(what, 0) + cycles
    if not found:
        return "compute", 0.0
    return max(found, key=lambda one: found[one]), sum(found.values()) / run.cycles


def measure_all(
    work: Callable[[T], U],
    points: Sequence[T],
    what: str,
    processes: int | None = None,
    kept: Path | None = None,
) -> list[U]:
    """Measure in parallel, in the order of the points, with progress.

    ``kept``: a folder that has what was measured of them before, and gets what is measured now.
    """
    found: dict[int, U] = {}
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        for path in kept.glob("*.pkl"):
            found[int(path.stem)] = pickle.loads(path.read_bytes())  # noqa: S301 - our own
    left = [number for number in range(len(points)) if number not in found]

    def note(at: int, one: U) -> None:
        if kept is not None:
            part = kept / f"{left[at]}.part"
            part.write_bytes(pickle.dumps(one))
            part.rename(part.with_suffix(".pkl"))

    with Bar(what) as bar:
        some = [points[number] for number in left]
        jobs = processes or os.cpu_count() or 1
        found |= zip(
            left, run_all(work, some, jobs, bar.show, note=note) if some else (), strict=True
        )
    return [found[number] for number in range(len(points))]


HEAD: Final = ("", "points", "median", "90%", "95%", "99%", "worst", "within 1%", "within 5%")


def figures(name: str, found: Sequence[Compared]) -> list[str]:
    """Return the cells of a row about some points."""
    errors = np.abs([one.error for one in found])
    cells = [f"{np.percentile(errors, q):.2%}" for q in (50, 90, 95, 99, 100)]
    near = [f"{np.mean(errors <= limit):.0%}" for limit in (0.01, 0.05)]
    return [name, f"{len(found):,}", *cells, *near]


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def judge(found: Sequence[Compared], median: float, p95: float, worst: float) -> list[str]:
    """Name the tolerances that are left."""
    errors = np.abs([one.error for one in found])
    return [
        f"{name}: {value:.2%}, allowed {allowed:.2%}"
        for name, value, allowed in (
            ("median", np.median(errors), median),
            ("95%", np.percentile(errors, 95), p95),
            ("worst", errors.max(), worst),
        )
        if value > allowed
    ]


def draw_scatter(found: Sequence[Compared], path: Path) -> None:
    """Draw estimate over simulated cycles, and the error below, by what is waited for."""
    import matplotlib as mpl  # noqa: PLC0415 - only this script draws

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(5.5, 6.0), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    for name, (marker, colour) in STYLES.items():
        chosen = [one for one in found if one.waits == name]
        if not chosen:
            continue
        x = np.array([one.cycles for one in chosen], dtype=float)
        style = {"s": 14, "marker": marker, "color": colour, "alpha": 0.6, "linewidths": 0}
        label = f"{'computes' if name == 'compute' else f'waits for {name}'} ({len(chosen):,})"
        above.scatter(x, [one.estimate for one in chosen], label=label, **style)
        below.scatter(x, [100 * one.error for one in chosen], **style)
    ends = [min(one.cycles for one in found), max(one.cycles for one in found)]
    above.plot(ends, ends, color="black", linewidth=0.6)
    above.set(xscale="log", yscale="log", ylabel="estimated cycles")
    above.legend(frameon=False, fontsize=8)
    below.axhline(0, color="black", linewidth=0.6)
    for limit in (-5, 5):
        below.axhline(limit, color="grey", linewidth=0.6, linestyle="--")
    below.set(xlabel="simulated cycles", ylabel="error of the estimate (%)")
    figure.savefig(path, dpi=150)
    plt.close(figure)
