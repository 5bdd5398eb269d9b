"""Against chips: ``python -m validation.silicon.run`` predicts each set of measured rows.

It writes ``<chip>/<set>.csv`` with the predicted column, draws ``silicon.png``, and puts the table
of errors, and the largest of each set, into ``README.md``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib.pyplot as plt
import numpy as np

from validation.bound.readme import write_figures
from validation.silicon.predict import SETS

HERE: Final = Path(__file__).parent
_WORST: Final = 10


@dataclass(frozen=True)
class Measured:
    """A set of measured rows: its file, the measured column, its unit and what names a row."""

    name: str
    title: str
    file: str
    column: str
    unit: str
    labels: tuple[str, ...]
    rows: str


MEASURED: Final = (
    Measured(
        "tpu_v3",
        "TPU v3, operators and networks",
        "tpu_v3/measured.csv",
        "tpu_v3_cycles",
        "cycles",
        ("workload",),
        "all 22, 3 of them calibrate",
    ),
    Measured(
        "tpu_v4_gemm",
        "TPU v4, GEMMs",
        "tpu_v4/tpu_v4_gemm_calibration.csv",
        "fusion_median_us",
        "us",
        ("M", "N", "K"),
        "calibration",
    ),
    Measured(
        "tpu_v4_vector",
        "TPU v4, vector operators",
        "tpu_v4/tpu_v4_vector_calibration.csv",
        "op_median_us",
        "us",
        ("operator", "shape"),
        "calibration",
    ),
    Measured(
        "tpu_v4_layernorm",
        "TPU v4, layer norms",
        "tpu_v4/tpu_v4_layernorm_calibration.csv",
        "module_median_us",
        "us",
        ("B", "S", "D"),
        "calibration",
    ),
    Measured(
        "tpu_v6e_attention",
        "TPU v6e, attention of Llama-3.1-8B",
        "tpu_v6e/attention_part.csv",
        "p50_ns",
        "ns",
        ("phase", "chunk", "kv", "batch"),
        "every 24th of the source, 2 of them calibrate",
    ),
)


@dataclass(frozen=True)
class Errors:
    """The relative errors of a set's predictions, by the name of each row."""

    of: Measured
    measured: np.ndarray
    predicted: np.ndarray
    labels: Sequence[str]

    @property
    def errors(self) -> np.ndarray:
        """Predicted over measured, less 1."""
        return np.asarray(self.predicted / self.measured - 1)

    def line(self) -> str:
        """Write the row of the table."""
        size = np.abs(self.errors)
        shares = (np.median(size), size.mean(), np.quantile(size, 0.9), size.max())
        cells = " | ".join(f"{share:.1%}" for share in shares)
        return f"| {self.of.title} | {len(size)} ({self.of.rows}) | {cells} |"

    def worst(self) -> list[str]:
        """Write the rows with the largest errors."""
        order = np.argsort(-np.abs(self.errors))[:_WORST]
        return [
            f"| {self.labels[at]} | {self.measured[at]:,.6g} | {self.predicted[at]:,.6g} | "
            f"{self.errors[at]:+.1%} |"
            for at in order
        ]


def held(of: Measured) -> Errors:
    """Predict a set and write its rows with what was predicted."""
    with (HERE / of.file).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    predicted = SETS[of.name][0](rows)
    with (
        (HERE / of.file).with_name(f"{of.name}.csv").open("w", newline="", encoding="utf-8") as out
    ):
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*of.labels, of.column, "predicted", "error"])
        for row, value in zip(rows, predicted, strict=True):
            error = "" if value is None else f"{value / float(row[of.column]) - 1:.4f}"
            shown = "" if value is None else f"{value:.6g}"
            writer.writerow([*(row[name] for name in of.labels), row[of.column], shown, error])
    said = [(row, value) for row, value in zip(rows, predicted, strict=True) if value is not None]
    return Errors(
        of,
        np.array([float(row[of.column]) for row, _ in said]),
        np.array([float(value) for _, value in said]),
        [" ".join(row[name] for name in of.labels) for row, _ in said],
    )


def others(rows: Sequence[Mapping[str, str]]) -> str:
    """Write the mean errors of other tools on the TPU v3, over the rows that each has."""
    tools = ("mNPUsim", "Timeloop", "MAESTRO", "SCALE-Sim_v3")
    means = {
        tool: np.mean([abs(float(row[f"{tool}_err"])) for row in rows if row[f"{tool}_err"]])
        for tool in tools
    }
    return ", ".join(f"{tool} {mean:.1%}" for tool, mean in means.items())


def draw(sets: Sequence[Errors], path: Path) -> None:
    """Draw predicted over measured, a panel a set; grey lines: 25% more and less."""
    figure, axes = plt.subplots(1, len(sets), figsize=(3.2 * len(sets), 3.4), layout="constrained")
    for axis, one in zip(axes, sets, strict=True):
        ends = np.array([one.measured.min() * 0.8, one.measured.max() * 1.25])
        axis.plot(ends, ends, color="#888888", linewidth=1)
        for factor in (0.75, 1.25):
            axis.plot(ends, ends * factor, color="#CCCCCC", linewidth=0.8)
        axis.scatter(one.measured, one.predicted, s=8, color="#0072B2")
        axis.set(xscale="log", yscale="log", xlabel=f"measured ({one.of.unit})")
        axis.set_title(one.of.title, fontsize=9)
    axes[0].set_ylabel("predicted")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Predict all sets, draw them, and write the README's figures."""
    sets = [held(one) for one in MEASURED]
    draw(sets, HERE / "silicon.png")
    with (HERE / MEASURED[0].file).open(newline="", encoding="utf-8") as file:
        tools = others(list(csv.DictReader(file)))
    head = (
        "| set | rows | median | mean | 90% within | worst |\n| --- | --- | --- | --- | --- | --- |"
    )
    table = "\n".join((head, *(one.line() for one in sets)))
    worst = "\n\n".join(
        "\n".join(
            (
                f"{one.of.title}:",
                "",
                f"| row | measured ({one.of.unit}) | predicted | error |",
                "| --- | --- | --- | --- |",
                *one.worst(),
            )
        )
        for one in sets
    )
    for name, text in (("errors", table), ("others", tools), ("worst", worst)):
        write_figures(name, text, HERE / "README.md")
    print(table)


if __name__ == "__main__":
    main()
