"""Against chips: ``python -m validation.silicon.run [SET...]`` predicts each set of measured rows.

It writes ``<chip>/<set>.csv`` with the predicted column, puts the errors into ``README.md`` and the
largest of each set into that of its chip, and draws ``silicon.png`` if it ran all sets: minutes,
most of them attention.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib.pyplot as plt
import numpy as np

from simaccel.errors import SimaccelError
from simaccel.units import LIMITS
from validation.bound.readme import write_figures
from validation.silicon.measured import MEASURED, Measured, measured_rows
from validation.silicon.predict import limits_each, predict_each

HERE: Final = Path(__file__).parent
_WORST: Final = 10
_Said = tuple[str, float, float, Counter[str]]
"""Label, measured, predicted, cycles by limit."""
_PANELS: Final = 6


@dataclass(frozen=True)
class Errors:
    """The relative errors of a set's predictions, by the name of each row."""

    of: Measured
    measured: np.ndarray
    predicted: np.ndarray
    labels: Sequence[str]
    limits: Sequence[str]
    """What limits the kernels of a row that take most of its cycles, as the machine books it."""

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

    def by_limit(self) -> list[str]:
        """Write the errors by what the machine books, what most rows have first."""
        lines = []
        for limit, count in Counter(self.limits).most_common():
            errors = self.errors[[one == limit for one in self.limits]]
            size = np.abs(errors)
            shares = f"{np.median(size):.1%} | {np.median(errors):+.1%} | {size.max():.1%}"
            lines.append(f"| {limit} | {count} | {shares} |")
        return lines

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
    said: list[_Said] = []
    values, books = predict_each(of.set, rows), limits_each(of.set, rows)
    for row, value, booked in zip(rows, values, books, strict=True):
        label = " ".join(row[name] for name in of.labels)
        if isinstance(value, str):
            raise SimaccelError(f"{of.file}: {label}: {value}")
        said.append((label, float(row[of.column]), value, booked))
    if of.added:
        said = _added(said)
    limits = [LIMITS[booked.most_common(1)[0][0]] for *_, booked in said]
    path = (HERE / of.file).with_name(f"{of.name}.csv")
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([" ".join(of.labels), of.column, "predicted", "error", "limit"])
        for (label, measured, value, _), limit in zip(said, limits, strict=True):
            shown = f"{measured:.6g}", f"{value:.6g}", f"{value / measured - 1:.4f}"
            writer.writerow([label, *shown, limit])
    labels, figures = [row[0] for row in said], np.array([row[1:3] for row in said])
    return Errors(of, figures[:, 0], figures[:, 1], labels, limits)


def _added(rows: Sequence[_Said]) -> list[_Said]:
    sums: dict[str, _Said] = {}
    for label, measured, value, booked in rows:
        _, old, sum_, books = sums.get(label, (label, 0.0, 0.0, Counter[str]()))
        sums[label] = label, old + measured, sum_ + value, books + booked
    return list(sums.values())


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
    for axis, errors in zip(grid.flat, sets, strict=False):
        ends = np.array([errors.measured.min() * 0.8, errors.measured.max() * 1.25])
        axis.plot(ends, ends, color="#888888", linewidth=1)
        for factor in (0.75, 1.25):
            axis.plot(ends, ends * factor, color="#CCCCCC", linewidth=0.8)
        axis.scatter(errors.measured, errors.predicted, s=8, color="#0072B2")
        axis.set(xscale="log", yscale="log", xlabel=f"measured ({errors.of.unit})")
        axis.set_title(errors.of.title, fontsize=8)
    for line in grid:
        line[0].set_ylabel("predicted")
    figure.savefig(path, dpi=90)
    plt.close(figure)


def write_pages(sets: Sequence[Errors]) -> None:
    """Write the largest errors of each set into the page of its chip."""
    for errors in sets:
        labels = ", ".join(errors.of.labels)
        table = "\n".join(
            (
                HEAD,
                errors.line(),
                "",
                f"| {labels} | measured ({errors.of.unit}) | predicted | error |",
                "| --- | --- | --- | --- |",
                *errors.worst(),
                "",
                "| what the machine books most | rows | median | bias (median) | worst |",
                "| --- | --- | --- | --- | --- |",
                *errors.by_limit(),
            )
        )
        write_figures(errors.of.name, table, (HERE / errors.of.file).with_name("README.md"))


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
