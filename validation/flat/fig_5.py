"""Figure 5: what fusing operators of TrXL at batch 1 does. `python -m validation.flat.fig_5`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, new_figure, save_figure, style
from simaccel.workload import build
from validation.flat.exhibit import Exhibit, Row, table
from validation.flat.rooflines import draw_roof, ran, ridge

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


def text(found: Sequence[Row]) -> str:
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
        for row in found
    ]
    head = ("operators", "operations per byte", "roofline's limit", "roofline", "machine")
    return table((*head, "what the machine runs"), lines)


def draw(found: Sequence[Row], path: Path) -> None:
    """Draw them under the roof."""
    with style():
        figure = new_figure(SINGLE_COLUMN_INCHES, 2.7)
        axes = figure.subplots()
        kinds = {
            kind: [row for row in found if row["kind"] == kind]
            for kind in ("one operator", "fused")
        }
        draw_roof(axes, kinds, "TrXL, batch 1; hollow: roof, filled: machine")
        for row in found:
            label = row["operators"].replace("softmax+", "")
            place = row["intensity"], row["machine_utilisation"]
            axes.annotate(label, place, fontsize=5, xytext=(2, 3), textcoords="offset points")
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_5", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
