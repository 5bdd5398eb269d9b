"""Figure 2: operators of models and of ResNet-50 on a TPU v3. `python -m validation.flat.fig_2`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simaccel import network
from simaccel.report.figures.style import DOUBLE_COLUMN_INCHES, new_figure, save_figure, style
from simaccel.workload import Einsum, build
from validation.flat.exhibit import Exhibit, Row, table
from validation.flat.rooflines import draw_roof, ran, ridge

MODELS = ("bert", "trxl", "xlm")
LENGTH = 512
BATCHES = (1, 64)
KINDS = {"Q": "FC", "FF1": "FC", "FF2": "FC", "L": "L, A", "A": "L, A"}
"""K, V and O are as Q."""


def rows() -> list[Row]:
    """Return each GEMM of the models at two batches, and ResNet-50's distinct layers."""
    results = []
    for model in MODELS:
        for batch in BATCHES:
            whole = build(model, batch=batch, seq_len=LENGTH)
            for name, kind in KINDS.items():
                about = {"model": model, "batch": batch, "kind": kind}
                results.append(about | ran(whole, (name,), "flex"))
    for batch in BATCHES:
        whole = network("resnet50", batch=batch, scope="layers")
        layers = {
            tuple(sorted(operator.ranks.items())): operator.name
            for operator in whole.operators
            if isinstance(operator, Einsum) and operator.name != "fc1000"
        }
        for name in layers.values():
            about = {"model": "resnet50", "batch": batch, "kind": "CONV"}
            results.append(about | ran(whole, (name,), "flex"))
    return results


def text(results: Sequence[Row]) -> str:
    """Return which operators DRAM limits, and what the machine reaches."""
    lines = []
    for kind in ("CONV", "FC", "L, A"):
        for batch in BATCHES:
            kind_rows = [row for row in results if (row["kind"], row["batch"]) == (kind, batch)]
            if not kind_rows:
                continue
            low, high = (f([row["intensity"] for row in kind_rows]) for f in (min, max))
            below = sum(row["intensity"] < ridge() for row in kind_rows)
            reached = [row["machine_utilisation"] for row in kind_rows]
            roof = sum(row["roof_share"] for row in kind_rows) / len(kind_rows)
            lines.append(
                (
                    kind,
                    batch,
                    f"{low:.0f} to {high:.0f}",
                    f"{below} of {len(kind_rows)}",
                    f"{roof:.2f}",
                    f"{sum(reached) / len(reached):.2f}",
                )
            )
    head = ("operators", "batch", "operations per byte", "below the ridge")
    ridge_line = f"Ridge of a TPU v3: {ridge():.0f} operations per byte."
    means = ("roofline allows (mean share of peak)", "machine reaches")
    return f"{ridge_line}\n\n" + table((*head, *means), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw a panel a batch."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 2.7)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, batch in zip(panels, BATCHES, strict=True):
            kinds = {
                kind: [row for row in results if row["kind"] == kind and row["batch"] == batch]
                for kind in ("CONV", "FC", "L, A")
            }
            title = f"batch {batch}; hollow: roof, filled: machine"
            draw_roof(axes, kinds, title)
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_2", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
