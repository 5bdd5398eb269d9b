"""Machine against closed form over a seeded draw of nests: table, CSV and picture.

``python -m validation.analytic.nest_run [COUNT]`` writes ``nests.csv``, ``nests.png`` and the
figures between the markers of ``README.md``, and fails as ``validation.analytic.run`` does, which
calls it too. Buffer space has to be equal besides.
"""

from __future__ import annotations

import csv
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.progress import track

from simaccel.experiment.run import simulate
from simaccel.mapspace.nests import EmptyMapspaceError
from simaccel.program.program import reserved_bytes
from validation.analytic.nest_points import NestPoint, draw_nests
from validation.analytic.readme import write_figures

HERE = Path(__file__).parent
COUNT = 150
MEDIAN_TOLERANCE = 0.01
P95_TOLERANCE = 0.10
"""Above what is measured (see README.md), so that a regression shows."""
COLOURS = {
    "compute": ("o", "#0072B2"),
    "DRAM": ("s", "#D55E00"),
    "NoC": ("^", "#009E73"),
    "buffer port": ("D", "#CC79A7"),
    "fill and drain": ("v", "#666666"),
}
"""Marker and colour by what the array waits for most, if it is idle for 5% of a run at least."""
_CAUSES = {
    "dram_bandwidth": "DRAM",
    "dram_latency": "DRAM",
    "dram_queue": "DRAM",
    "noc": "NoC",
    "buffer_port": "buffer port",
    "array": "fill and drain",
    "drain": "fill and drain",
}
_IDLE = 0.05


@dataclass(frozen=True)
class NestOutcome:
    """One point: what machine and closed form say, or that no mapping fits."""

    point: NestPoint
    cycles: int = 0
    estimate: int = 0
    resource_bound: int = 0
    exact: bool = True
    waits: str = ""
    """What the array waits for most."""
    idle: float = 0.0
    """Part of the run that it waits."""
    note: str = ""

    @property
    def error(self) -> float:
        """(estimate - simulated) / simulated."""
        return (self.estimate - self.cycles) / self.cycles


def measure(point: NestPoint) -> NestOutcome:
    """Run one point on the machine and through the closed form."""
    try:
        result = simulate(
            point.workload(), point.accelerator(), point.mapspace, options=point.options()
        )
    except EmptyMapspaceError as error:
        return NestOutcome(point, note=str(error))
    run, predicted = result.run, result.estimate
    waits: dict[str, int] = {}
    for cause, cycles in run.engines["array"].stalls.items():
        waits[_CAUSES[cause]] = waits.get(_CAUSES[cause], 0) + cycles
    idle = sum(waits.values()) / run.cycles
    return NestOutcome(
        point,
        cycles=run.cycles,
        estimate=predicted.cycles,
        resource_bound=predicted.resource_bound_cycles,
        exact=run.moved == predicted.moved
        and run.macs == predicted.macs
        and reserved_bytes(result.program) == predicted.buffer_bytes,
        waits=max(waits, key=lambda one: waits[one]) if idle >= _IDLE else "compute",
        idle=idle,
    )


def measure_all(points: list[NestPoint]) -> list[NestOutcome]:
    """Measure in parallel, in the order of the points, with progress."""
    with ProcessPoolExecutor() as pool:
        found = pool.map(measure, points, chunksize=2)
        return list(track(found, description="nests", total=len(points)))


def write_csv(outcomes: list[NestOutcome], path: Path) -> None:
    """Write one row a point."""
    with path.open("w", newline="", encoding="utf-8") as file:
        names = [name for name in asdict(outcomes[0].point) if name != "settings"]
        writer = csv.writer(file, lineterminator="\n")
        figures = ["cycles", "estimate", "resource_bound", "relative_error", "waits", "idle"]
        writer.writerow([*names, "settings", *figures, "note"])
        for o in outcomes:
            error = f"{o.error:.5f}" if o.cycles else ""
            settings = "; ".join(o.point.settings)
            row = [getattr(o.point, name) for name in names]
            row += [settings, o.cycles, o.estimate, o.resource_bound, error]
            writer.writerow([*row, o.waits, f"{o.idle:.3f}", o.note])


def draw_scatter(outcomes: list[NestOutcome], path: Path) -> None:
    """Draw estimate over simulated cycles, and the error below, by what the array waits for."""
    import matplotlib as mpl  # noqa: PLC0415 - only this script draws

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(5.5, 6.0), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    for name, (marker, colour) in COLOURS.items():
        chosen = [o for o in outcomes if o.waits == name]
        x = np.array([o.cycles for o in chosen], dtype=float)
        style = {"s": 14, "marker": marker, "color": colour, "alpha": 0.7, "linewidths": 0}
        label = f"{'computes' if name == 'compute' else f'waits for {name}'} ({len(chosen)})"
        above.scatter(x, [o.estimate for o in chosen], label=label, **style)
        below.scatter(x, [100 * o.error for o in chosen], **style)
    ends = [min(o.cycles for o in outcomes), max(o.cycles for o in outcomes)]
    above.plot(ends, ends, color="black", linewidth=0.6)
    above.set(xscale="log", yscale="log", ylabel="estimated cycles")
    above.legend(frameon=False, fontsize=8)
    below.axhline(0, color="black", linewidth=0.6)
    for limit in (-5, 5):
        below.axhline(limit, color="grey", linewidth=0.6, linestyle="--")
    below.set(xlabel="simulated cycles", ylabel="error of the estimate (%)")
    figure.savefig(path, dpi=150)


def _row(name: str, outcomes: list[NestOutcome]) -> str:
    errors = np.abs([o.error for o in outcomes])
    cells = [f"{np.percentile(errors, q):.2%}" for q in (50, 90, 95, 100)]
    near = [f"{np.mean(errors <= limit):.0%}" for limit in (0.01, 0.05)]
    return f"| {name} | {len(outcomes)} | {' | '.join([*cells, *near])} |"


def summary(outcomes: list[NestOutcome]) -> str:
    """Give the figures and the worst ten as Markdown."""
    ran = [o for o in outcomes if o.cycles]
    lines = [
        f"{len(outcomes)} points drawn, {len(ran)} run.",
        "",
        "| accelerator | points | median | 90% | 95% | worst | within 1% | within 5% |",
        "|---|---|---|---|---|---|---|---|",
        _row("all", ran),
        *(
            _row(hw, [o for o in ran if o.point.hw == hw])
            for hw in sorted({o.point.hw for o in ran})
        ),
        "",
        "The worst ten:",
        "",
        "| error | cycles | accelerator | layer | mapspace | the array waits |",
        "|---|---|---|---|---|---|",
    ]
    for o in sorted(ran, key=lambda o: -abs(o.error))[:10]:
        p = o.point
        lines.append(
            f"| {o.error:+.1%} | {o.cycles:,} | {p.hw} | {p.network} {p.layer} | "
            f"{p.mapspace}, {p.objective} | {o.idle:.0%}, {o.waits} |"
        )
    return "\n".join(lines)


def check(count: int = COUNT) -> int:
    """Measure, write, judge: 1 if the tolerances are left or an exact figure differs."""
    outcomes = measure_all(draw_nests(count))
    ran = [o for o in outcomes if o.cycles]
    text = summary(outcomes)
    sys.stdout.write(text + "\n")
    if count == COUNT:
        write_csv(outcomes, HERE / "nests.csv")
        draw_scatter(ran, HERE / "nests.png")
        write_figures("nests", text, HERE / "README.md")
    errors = np.abs([o.error for o in ran])
    broken = [o for o in ran if not o.exact or o.resource_bound > o.cycles]
    for o in broken:
        sys.stderr.write(f"not exact, or below the resource bound: {o.point}\n")
    within = np.median(errors) <= MEDIAN_TOLERANCE and np.percentile(errors, 95) <= P95_TOLERANCE
    return 0 if within and not broken else 1


if __name__ == "__main__":
    sys.exit(check(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT))
