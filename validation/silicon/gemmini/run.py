"""Gemmini's RTL on FireSim: DOSA's mappings executed as trees, beside its cycles and Timeloop's.

``python -m validation.silicon.gemmini.run`` executes the rows of the test file, with the mechanisms
added one by one, writes ``results.csv``, draws ``scatter.png``, puts the figures into the README.
``--train`` runs all rows of the train file, too, and writes ``train.csv``.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simaccel.errors import SimaccelError
from validation.bound.readme import write_figures
from validation.ruby.pictures import bare, plots
from validation.silicon.gemmini.calibrate import calibration_rows, macs
from validation.silicon.gemmini.model import MEASURED, Row, simulated
from validation.silicon.gemmini.rows import HERE, measured, read

STEPS: Final = {
    "as written": ("without_blocks.yaml", False),
    "+ instructions": ("without_requests.yaml", False),
    "+ commands": ("without_requests.yaml", True),
    "+ requests": (MEASURED.name, True),
}
"""What is added to the step before: the accelerator's file, and whether commands load anew."""
_LAYER: Final = ("R", "P", "Q", "C", "K", "stride_h")
_HEAD: Final = (
    "| | mean | median | 90% within | within 25% | worst |\n|---|---:|---:|---:|---:|---:|"
)
_WORST: Final = 10


def errors_line(name: str, ratios: Sequence[float]) -> str:
    """Tabulate the relative errors of ratios to what was measured."""
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    count = len(errors)
    mean, median = sum(errors) / count, errors[count // 2]
    within = sum(error <= 0.25 for error in errors) / count
    cells = (mean, median, errors[int(0.9 * count)], within, errors[-1])
    return f"| {name} | " + " | ".join(f"{cell:.1%}" for cell in cells) + " |"


def test_results() -> list[dict[str, Any]]:
    """Execute all rows of the test file, step by step."""
    results = []
    for line, row in enumerate(read("test"), 2):
        steps = {
            name: simulated(row, HERE / file, commands=commands).cycles
            for name, (file, commands) in STEPS.items()
        }
        run = simulated(row)
        array = run.engines["array"]
        results.append(
            {"line": line, "set": row["set"]}
            | {name: int(row[name]) for name in _LAYER}
            | {"mapping": row["mapping"], "rtl": measured(row)}
            | {"timeloop": int(float(row["timeloop_cycles"])), "ours": run.cycles}
            | steps
            | {"array_busy": round(array.busy / run.cycles, 3)}
        )
    return results


def test_tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """Tabulate the errors by step and by what holds the machine up."""

    def ratios(name: str, chosen: Sequence[Mapping[str, Any]] = rows) -> list[float]:
        return [row[name] / row["rtl"] for row in chosen]

    lines = [_HEAD, errors_line("Timeloop", ratios("timeloop"))]
    lines += [errors_line(f"simaccel, {name}", ratios(name)) for name in STEPS]
    parts = {
        "array busy 90% and more": [row for row in rows if row["array_busy"] >= 0.9],
        "less: loads hold it up": [row for row in rows if row["array_busy"] < 0.9],
    }
    lines += ["", _HEAD.replace("| |", "| whole model, by what the machine books |", 1)]
    for name, part_rows in parts.items():
        lines.append(errors_line(f"{name} ({len(part_rows)} rows)", ratios("ours", part_rows)))
        lines.append(errors_line("Timeloop on these", ratios("timeloop", part_rows)))
    return "\n".join(lines)


def worst_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Tabulate the rows that are furthest off."""
    lines = ["| line | layer | mapping | RTL | ours | Timeloop |", "|---:|---|---|---:|---:|---:|"]
    order = sorted(rows, key=lambda row: -abs(row["ours"] / row["rtl"] - 1))
    for row in order[:_WORST]:
        layer = f"{row['R']}x{row['R']}, {row['P']}x{row['Q']}, {row['C']} to {row['K']}"
        layer += f", stride {row['stride_h']}" if row["stride_h"] > 1 else ""
        others = (f"{row[name] / row['rtl'] - 1:+.0%}" for name in ("ours", "timeloop"))
        cells = (str(row["line"]), layer, f"`{row['mapping']}`", f"{row['rtl']:,}", *others)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def train_results() -> list[dict[str, Any]]:
    """Execute all rows of the train file; those that no array of 256 MACs can be are left out."""
    calibrated = {line for line, _ in calibration_rows()}
    results = []
    for line, row in enumerate(read("train"), 2):
        what, ours = "calibrated" if line in calibrated else "predicted", 0
        try:
            ours = simulated(row).cycles
        except SimaccelError as error:
            what = str(error).splitlines()[0]
        if measured(row) * 256 < macs(row):
            what = "left out"
        results.append({"line": line, "mapping": row["mapping"], "rtl": measured(row)})
        results[-1] |= {"ours": ours, "what": what}
    return results


def train_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Tabulate the errors over the train file."""
    lines = [_HEAD.replace("| |", "| train file |", 1)]
    for what in ("calibrated", "predicted"):
        ratios = [row["ours"] / row["rtl"] for row in rows if row["what"] == what]
        lines.append(errors_line(f"{what} ({len(ratios)} rows)", ratios))
    others = [row for row in rows if row["what"] not in ("calibrated", "predicted")]
    named = ", ".join(str(row["line"]) for row in others if row["what"] == "left out")
    lines += ["", f"Below MACs / 256 and left out, by line: {named}."]
    refused = [row for row in others if row["what"] != "left out"]
    if refused:
        lines.append(f"Refused: {len(refused)}, the first: `{refused[0]['what']}`.")
    return "\n".join(lines)


def draw(rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw simaccel's and Timeloop's cycles over the RTL's."""
    plt = plots()
    figure, axes = plt.subplots(figsize=(5.4, 5.0), layout="constrained")
    kinds = {"timeloop": ("#E69F00", "s", "Timeloop"), "ours": ("#0072B2", "o", "simaccel")}
    for name, (colour, marker, label) in kinds.items():
        axes.scatter(
            [row["rtl"] for row in rows],
            [row[name] / row["rtl"] for row in rows],
            s=14,
            marker=marker,
            facecolor="none",
            edgecolor=colour,
            linewidth=0.8,
            label=label,
        )
    for level, style in ((1, "-"), (0.75, ":"), (1.25, ":")):
        axes.axhline(level, color="grey", linewidth=0.7, linestyle=style)
    axes.set(xscale="log", xlabel="cycles, RTL on FireSim", ylabel="cycles / RTL's (dotted: 25%)")
    axes.set_ylim(0, 2.1)
    axes.legend(frameon=False, fontsize=8)
    bare(axes)
    figure.savefig(HERE / "scatter.png", dpi=130)
    plt.close(figure)


def write(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a CSV file."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def speed(rows: Sequence[Row]) -> float:
    """Return how many rows are predicted in a CPU second."""
    started = time.process_time()
    for row in rows:
        simulated(row)
    return len(rows) / (time.process_time() - started)


def main() -> None:
    """Execute the rows, write what came out."""
    rows = test_results()
    write("results.csv", rows)
    draw(rows)
    readme = HERE / "README.md"
    write_figures("figures", test_tables(rows), readme)
    write_figures("worst", worst_table(rows), readme)
    print(test_tables(rows), worst_table(rows), sep="\n\n")
    print(f"{speed(read('test')):.0f} rows of the test file in a CPU second")
    if "--train" in sys.argv[1:]:
        train = train_results()
        write("train.csv", train)
        write_figures("train", train_table(train), readme)
        print(train_table(train))


if __name__ == "__main__":
    main()
