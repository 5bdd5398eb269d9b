"""Against chips: ``python -m validation.silicon.run [SET...]`` predicts each set of measured rows.

It writes ``<chip>/<set>.csv`` with the predicted column, puts the errors into ``README.md`` and the
largest of each set into that of its chip, and draws ``silicon.png`` if it ran all sets: minutes,
most of them attention.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib.pyplot as plt
import numpy as np

from simaccel.errors import SimaccelError
from validation.bound.readme import write_figures
from validation.silicon.measured import MEASURED, Measured, measured_rows
from validation.silicon.predict import predict_each

HERE: Final = Path(__file__).parent
_WORST: Final = 10
_PANELS: Final = 6


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
    """Predict a set and write its rows, or sums of them, with what was predicted."""
    rows = [row for row in measured_rows(of) if of.part(row)]
    said: list[tuple[str, float, float]] = []
    for row, value in zip(rows, predict_each(of.set, rows), strict=True):
        label = " ".join(row[name] for name in of.labels)
        if isinstance(value, str):
            raise SimaccelError(f"{of.file}: {label}: {value}")
        said.append((label, float(row[of.column]), value))
    if of.added:
        said = _added(said)
    with (
        (HERE / of.file).with_name(f"{of.name}.csv").open("w", newline="", encoding="utf-8") as out
    ):
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([" ".join(of.labels), of.column, "predicted", "error"])
        for label, measured, value in said:
            shown = f"{measured:.6g}", f"{value:.6g}", f"{value / measured - 1:.4f}"
            writer.writerow([label, *shown])
    labels, figures = [row[0] for row in said], np.array([row[1:] for row in said])
    return Errors(of, figures[:, 0], figures[:, 1], labels)


def _added(rows: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    sums: dict[str, tuple[float, float]] = {}
    for label, measured, value in rows:
        old = sums.get(label, (0.0, 0.0))
        sums[label] = old[0] + measured, old[1] + value
    return [(label, *both) for label, both in sums.items()]


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
    lines = -(-len(sets) // _PANELS)
    size = 3.0 * _PANELS, 3.2 * lines
    figure, grid = plt.subplots(lines, _PANELS, figsize=size, layout="constrained", squeeze=False)
    for axis in grid.flat[len(sets) :]:
        axis.set_axis_off()
    for axis, one in zip(grid.flat, sets, strict=False):
        ends = np.array([one.measured.min() * 0.8, one.measured.max() * 1.25])
        axis.plot(ends, ends, color="#888888", linewidth=1)
        for factor in (0.75, 1.25):
            axis.plot(ends, ends * factor, color="#CCCCCC", linewidth=0.8)
        axis.scatter(one.measured, one.predicted, s=8, color="#0072B2")
        axis.set(xscale="log", yscale="log", xlabel=f"measured ({one.of.unit})")
        axis.set_title(one.of.title, fontsize=8)
    for line in grid:
        line[0].set_ylabel("predicted")
    figure.savefig(path, dpi=90)
    plt.close(figure)


def write_pages(sets: Sequence[Errors]) -> None:
    """Write the largest errors of each set into the page of its chip."""
    for one in sets:
        table = "\n".join(
            (
                HEAD,
                one.line(),
                "",
                f"| {', '.join(one.of.labels)} | measured ({one.of.unit}) | predicted | error |",
                "| --- | --- | --- | --- |",
                *one.worst(),
            )
        )
        write_figures(one.of.name, table, (HERE / one.of.file).with_name("README.md"))


HEAD: Final = (
    "| set | rows | median | mean | 90% within | worst |\n| --- | --- | --- | --- | --- | --- |"
)


def write_table(sets: Sequence[Errors], path: Path) -> None:
    """Write the errors of these sets into the table of all; lines of the others stay."""
    old = path.read_text(encoding="utf-8").split("<!-- errors -->")[1].splitlines()
    lines = {one.of.title: one.line() for one in sets}
    for line in old:
        title = line.removeprefix("| ").split(" |")[0]
        lines.setdefault(title, line)
    known = (lines[of.title] for of in MEASURED if of.title in lines)
    write_figures("errors", "\n".join((HEAD, *known)), path)


def main() -> None:
    """Predict the sets, all or those named, and write their figures; of all draw the picture."""
    chosen = [one for one in MEASURED if one.name in sys.argv[1:] or not sys.argv[1:]]
    sets = [held(one) for one in chosen]
    write_pages(sets)
    write_table(sets, HERE / "README.md")
    print("\n".join((HEAD, *(one.line() for one in sets))))
    if len(sets) == len(MEASURED):
        draw(sets, HERE / "silicon.png")
        with (HERE / MEASURED[0].file).open(newline="", encoding="utf-8") as file:
            write_figures("others", others(list(csv.DictReader(file))), HERE / "README.md")


if __name__ == "__main__":
    main()
