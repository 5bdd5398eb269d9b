"""Machine against closed form over a seeded draw of experiments: table, CSV and picture.

``python -m validation.analytic.run [COUNT]`` writes ``points.csv``, ``scatter.png`` and the
figures between the markers of ``README.md``; without COUNT also what
``validation.analytic.nest_run`` writes. It fails when an exact figure differs (MACs,
bytes per tensor and level), when a run is shorter than its resource bound, or when the errors
leave the tolerance.
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
from simaccel.schedulers import NothingFitsError, Options
from validation.analytic import nest_run
from validation.analytic.points import Point, draw
from validation.analytic.readme import write_figures

HERE = Path(__file__).parent
COUNT = 400
MEDIAN_TOLERANCE = 0.01
"""The aim of the project for the median of the absolute relative errors."""
P95_TOLERANCE = 0.10
"""Above what is measured (see README.md), so that a regression shows."""


@dataclass(frozen=True)
class Outcome:
    """One point: what machine and closed form say, or that nothing fits."""

    point: Point
    cycles: int = 0
    estimate: int = 0
    resource_bound: int = 0
    exact: bool = True
    bound_by: str = ""
    worst_operator: str = ""
    note: str = ""

    @property
    def error(self) -> float:
        """(estimate - simulated) / simulated."""
        return (self.estimate - self.cycles) / self.cycles


def measure(point: Point) -> Outcome:
    """Run one point on the machine and through the closed form."""
    try:
        result = simulate(
            point.workload(),
            point.accelerator(),
            point.dataflow,
            options=Options(pipeline=point.pipeline),
        )
    except NothingFitsError as error:
        return Outcome(point, note=str(error))
    pairs = result.operators()
    worst = max(pairs, key=lambda pair: abs(pair[1].cycles - pair[0].cycles))
    run, predicted = worst
    longest = max(pairs, key=lambda pair: pair[0].cycles)[1]
    return Outcome(
        point,
        cycles=result.run.cycles,
        estimate=result.estimate.cycles,
        resource_bound=result.estimate.resource_bound_cycles,
        exact=result.run.moved == result.estimate.moved and result.run.macs == result.estimate.macs,
        bound_by=longest.bound_by,
        worst_operator=f"{run.name} {(predicted.cycles - run.cycles) / run.cycles:+.1%}",
    )


def measure_all(points: list[Point]) -> list[Outcome]:
    """Measure in parallel, in the order of the points, with progress."""
    with ProcessPoolExecutor() as pool:
        found = pool.map(measure, points, chunksize=2)
        return list(track(found, description="points", total=len(points)))


def write_csv(outcomes: list[Outcome], path: Path) -> None:
    """Write one row a point."""
    with path.open("w", newline="", encoding="utf-8") as file:
        columns = [*asdict(outcomes[0].point), "cycles", "estimate", "resource_bound"]
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*columns, "relative_error", "bound_by", "note"])
        for o in outcomes:
            error = f"{o.error:.5f}" if o.cycles else ""
            figures = [o.cycles, o.estimate, o.resource_bound, error, o.bound_by, o.note]
            writer.writerow([*asdict(o.point).values(), *figures])


def draw_scatter(outcomes: list[Outcome], path: Path) -> None:
    """Draw estimate over simulated cycles, and the error below, by what bounds the run."""
    import matplotlib as mpl  # noqa: PLC0415 - only this script draws

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(5.5, 6.0), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    styles = {"array": ("o", "#0072B2"), "dram": ("s", "#D55E00"), "sfu": ("^", "#009E73")}
    for name in ("array", "dram", "sfu", "buffer"):
        marker, colour = styles.get(name, ("D", "#CC79A7"))
        chosen = [o for o in outcomes if o.bound_by.startswith(name)]
        x = np.array([o.cycles for o in chosen], dtype=float)
        label = f"bound by {name} ({len(chosen)})"
        style = {"s": 14, "marker": marker, "color": colour, "alpha": 0.7, "linewidths": 0}
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


def summary(outcomes: list[Outcome]) -> str:
    """Give the figures and the worst ten as Markdown."""
    ran = [o for o in outcomes if o.cycles]
    errors = np.abs([o.error for o in ran])
    lines = [
        f"{len(outcomes)} points drawn, {len(ran)} run, {len(outcomes) - len(ran)} don't fit.",
        "",
        "| median | 90% | 95% | 99% | worst | within 1% | within 5% |",
        "|---|---|---|---|---|---|---|",
        "| "
        + " | ".join(f"{np.percentile(errors, q):.2%}" for q in (50, 90, 95, 99, 100))
        + f" | {np.mean(errors <= 0.01):.0%} | {np.mean(errors <= 0.05):.0%} |",
        "",
        "The worst ten:",
        "",
        "| error | cycles | accelerator | buffer B | DRAM B/s | workload | dataflow | operator |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for o in sorted(ran, key=lambda o: -abs(o.error))[:10]:
        p = o.point
        flow = p.dataflow + (" pipelined" if p.pipeline and p.dataflow[:2] == "fl" else "")
        lines.append(
            f"| {o.error:+.1%} | {o.cycles:,} | {p.hw} | {p.buffer_bytes:,} | "
            f"{p.dram_bytes_per_second:,} | {p.model} {p.scope} B={p.batch} N={p.seq_len} | "
            f"{flow} | {o.worst_operator} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, write, judge."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    outcomes = measure_all(draw(count))
    ran = [o for o in outcomes if o.cycles]
    text = summary(outcomes)
    sys.stdout.write(text + "\n")
    if count == COUNT:
        write_csv(outcomes, HERE / "points.csv")
        draw_scatter(ran, HERE / "scatter.png")
        write_figures("figures", text, HERE / "README.md")
    errors = np.abs([o.error for o in ran])
    broken = [o for o in ran if not o.exact or o.resource_bound > o.cycles]
    for o in broken:
        sys.stderr.write(f"not exact, or below the resource bound: {o.point}\n")
    within = np.median(errors) <= MEDIAN_TOLERANCE and np.percentile(errors, 95) <= P95_TOLERANCE
    others = nest_run.check() if count == COUNT else 0
    return 0 if within and not broken and not others else 1


if __name__ == "__main__":
    sys.exit(main())
