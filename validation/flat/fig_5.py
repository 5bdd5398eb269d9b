"""Figure 5: what fusing operators of TrXL at batch 1 does. `python -m validation.flat.fig_5`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simaccel.report.figures.style import (
    DOUBLE_COLUMN_INCHES,
    SERIES_COLOURS,
    new_figure,
    save_figure,
    style,
)
from simaccel.workload import build
from validation.flat.exhibit import Exhibit, Row, table
from validation.flat.rooflines import ran, ridge

LENGTH = 512
SINGLE = (("K",), ("L",), ("A",), ("O",))
FUSED = (
    ("L", "softmax", "A"),
    ("K", "L"),
    ("V", "A"),
    ("A", "O"),
    ("K", "L", "softmax", "A"),
    ("L", "softmax", "A", "O"),
)


def rows() -> list[Row]:
    """Return single and fused operators; the machine fuses where that is faster."""
    whole = build("trxl", batch=1, seq_len=LENGTH)
    found = [{"kind": "one operator"} | ran(whole, names, "flex") for names in SINGLE]
    found += [{"kind": "fused"} | ran(whole, names, "best") for names in FUSED]
    return found


def text(results: Sequence[Row]) -> str:
    """Return all of them."""
    lines = [
        (
            row["operators"].replace("softmax+", ""),
            f"{row['intensity']:.0f}",
            "compute" if row["intensity"] >= ridge() else "DRAM",
            f"{row['roof_share']:.2f}",
            f"{row['machine_utilisation']:.2f}",
            row["machine_groups"],
        )
        for row in results
    ]
    head = ("operators", "operations per byte", "roofline's limit", "roofline", "machine")
    return table((*head, "what the machine runs"), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw what the roofline allows and what the machine reaches, side by side."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 2.4)
        axes = figure.subplots()
        places = range(len(results))
        roofs = [row["roof_share"] for row in results]
        axes.bar([at - 0.2 for at in places], roofs, 0.38, color="#BBBBBB", label="roofline")
        reached = [row["machine_utilisation"] for row in results]
        colour = SERIES_COLOURS[0]
        axes.bar([at + 0.2 for at in places], reached, 0.38, color=colour, label="machine")
        for at, row in enumerate(results):
            axes.annotate(f"{row['intensity']:.0f}", (at, 1.02), ha="center", fontsize=6)
        names = [row["operators"].replace("softmax+", "") for row in results]
        axes.set_xticks(places, names)
        axes.set(ylabel="share of peak", ylim=(0, 1.12))
        axes.set_title(f"TrXL, batch 1; above: operations per byte (ridge: {ridge():.0f})", pad=10)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_5", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
