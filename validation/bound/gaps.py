"""One mapping on the machine beside its lower bound; and many of them as figures."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from simaccel.analytic.prediction import Prediction, predict
from simaccel.cli.progress import ProgressBar
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.study.parallel import open_workers
from simaccel.workload import Workload

CAUSES: Final = {
    "dram_bandwidth": "DRAM bandwidth",
    "dram_latency": "DRAM latency",
    "dram_queue": "DRAM queue",
    "noc": "NoC",
    "buffer_port": "buffer port",
    "sfu": "SFU",
}
"""What an engine waits for, as it is drawn; all else is fill and drain."""
STYLES: Final = {
    "computes": ("o", "#0072B2"),
    "DRAM bandwidth": ("s", "#D55E00"),
    "DRAM latency": ("X", "#882255"),
    "DRAM queue": ("<", "#44AA99"),
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
class Gap:
    """What the machine takes and what it takes at least; ``note``: why there is no mapping."""

    cycles: int = 0
    bound: int = 0
    terms: str = ""
    """The bound's terms and their cycles."""
    faults: str = ""
    """Which figures differ that have to be equal, or is beyond its bound."""
    waits: str = ""
    """What the busier of array and SFU waits for most."""
    idle: float = 0.0
    """Part of the run that it waits."""
    note: str = ""

    @property
    def gap(self) -> float:
        """Part of the cycles that the bound does not have."""
        return (self.cycles - self.bound) / self.cycles


def gap_of(workload: Workload, accelerator: Accelerator, mapping: Mapping) -> Gap:
    """Run a mapping on the machine, beside its bound."""
    run = Machine(accelerator, lower(workload, mapping)).run()
    predicted = predict(workload, mapping, accelerator)
    waits, idle = _waits(run)
    return Gap(
        cycles=run.cycles,
        bound=predicted.bound_cycles,
        terms=" + ".join(f"{name} {n:,}" for name, n in predicted.bound_terms.items() if n),
        faults=", ".join(faults_of(run, predicted)),
        waits=waits if idle >= _IDLE else "computes",
        idle=idle,
    )


def faults_of(run: Run, predicted: Prediction) -> list[str]:
    """Name what differs though it has to be equal, or is beyond its bound."""
    moved = {level: n for level, n in run.moved.items() if n}
    faults = []
    if run.macs != predicted.macs:
        faults.append(f"MACs: {run.macs} on the machine, {predicted.macs} expected")
    if moved != predicted.moved:
        differ = sorted({level for level, _ in set(moved.items()) ^ set(predicted.moved.items())})
        faults.append(f"bytes of {' and '.join(map(' '.join, differ))}")
    for unit in _UNITS:
        busy = sum(operator.engines[unit].busy for operator in run.operators)
        if busy != predicted.resources[unit]:
            faults.append(f"{unit}: busy for {busy}, {predicted.resources[unit]} expected")
    for name, work in predicted.resources.items():
        if work > run.cycles:
            faults.append(f"{name}: {work} cycles of work in a run of {run.cycles}")
    if predicted.bound_cycles > run.cycles:
        faults.append(f"{run.cycles} cycles, below the bound of {predicted.bound_cycles}")
    return faults


def _waits(run: Run) -> tuple[str, float]:
    unit = max(_UNITS, key=lambda name: run.engines[name].busy if name in run.engines else 0)
    found: Counter[str] = Counter()
    for cause, cycles in run.engines[unit].stalls.items():
        found[CAUSES.get(cause, "fill and drain")] += cycles
    if not found:
        return "computes", 0.0
    return max(found, key=lambda one: found[one]), found.total() / run.cycles


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
    results: dict[int, U] = {}
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        for path in kept.glob("*.pkl"):
            results[int(path.stem)] = pickle.loads(path.read_bytes())  # noqa: S301 - our own
    left = [number for number in range(len(points)) if number not in results]

    def keep_result(at: int, result: U) -> None:
        if kept is not None:
            part = kept / f"{left[at]}.part"
            part.write_bytes(pickle.dumps(result))
            part.rename(part.with_suffix(".pkl"))

    with ProgressBar(what) as bar, open_workers(processes or os.cpu_count() or 1) as team:
        remaining = [points[number] for number in left]
        results |= zip(
            left,
            team.run(work, remaining, bar.show, on_result=keep_result),
            strict=True,
        )
    return [results[number] for number in range(len(points))]


HEAD: Final = ("", "mappings", "median", "90%", "95%", "99%", "worst", "within 1%", "within 5%")


def figures(name: str, found: Sequence[Gap]) -> list[str]:
    """Return the cells of a row about some mappings."""
    gaps = np.array([one.gap for one in found])
    cells = [f"{np.percentile(gaps, q):.2%}" for q in (50, 90, 95, 99, 100)]
    near = [f"{np.mean(gaps <= limit):.0%}" for limit in (0.01, 0.05)]
    return [name, f"{len(found):,}", *cells, *near]


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def draw_gaps(all_gaps: Sequence[Gap], path: Path) -> None:
    """Draw the gap over simulated cycles by what is waited for, and below how many are within."""
    import matplotlib as mpl  # noqa: PLC0415 - only this script draws

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (above, below) = plt.subplots(2, 1, figsize=(5.5, 6.5), layout="constrained")
    for name, (marker, colour) in STYLES.items():
        chosen = [gap for gap in all_gaps if gap.waits == name]
        if chosen:
            x = np.array([gap.cycles for gap in chosen], dtype=float)
            label = f"{name if name == 'computes' else f'waits: {name}'} ({len(chosen):,})"
            style = {"s": 14, "marker": marker, "color": colour, "alpha": 0.6, "linewidths": 0}
            above.scatter(x, [100 * gap.gap for gap in chosen], label=label, **style)
    above.set(xscale="log", xlabel="simulated cycles", ylabel="gap: above the bound (%)")
    above.legend(frameon=False, fontsize=7)
    gaps = np.sort([100 * gap.gap for gap in all_gaps])
    below.step(gaps, 100 * np.arange(1, len(gaps) + 1) / len(gaps), where="post", color="#0072B2")
    for share in (50, 95):
        below.axhline(share, color="grey", linewidth=0.6, linestyle="--")
        below.text(gaps[-1], share, f"{np.percentile(gaps, share):.2f}%", ha="right", va="top")
    below.set(xlabel="gap (%)", ylabel="mappings within (%)", ylim=(0, 101))
    figure.savefig(path, dpi=150)
    plt.close(figure)
