"""Figures 10 to 13: utilisation and energy of L and A over the buffer, at three lengths each.

One run gives a point of a figure of utilisation (10, 11) and of the one of energy (12, 13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simaccel.report.figures.style import DOUBLE_COLUMN_INCHES, new_figure, save_figure, style
from simaccel.report.units import bytes_text
from validation.flat import paper
from validation.flat.exhibit import SHORT, Exhibit, Row, table
from validation.flat.pictures import curves, over_buffer
from validation.flat.points import Point, solve

SIZES = (20_000, 512 * 2**10, 32 * 2**20, 2 * 10**9)
"""Bytes: the smallest and the largest of the paper's, and the buffers of both platforms."""
_LEAST = {"edge": 0, "cloud": 128 * 2**10}
"""A 256 x 256 array needs an operand of one fold."""
WAYS = ("naive", "flex", "flat", "flash")


@dataclass(frozen=True)
class Sweep:
    """A platform, a model and the lengths of a figure."""

    platform: str
    model: str
    lengths: tuple[int, ...]

    def rows(self) -> list[Row]:
        """Return utilisation and energy of each length, buffer and way."""
        return [
            self._row(length, size, way)
            for length in self.lengths
            for size in self.sizes
            for way in WAYS
        ]

    @property
    def sizes(self) -> list[int]:
        """Bytes of the buffers."""
        return [max(size, _LEAST[self.platform]) for size in SIZES]

    def _row(self, length: int, size: int, way: str) -> Row:
        platform = replace(paper.PLATFORMS[self.platform], buffer_bytes=size)
        model = paper.FITTED[self.model]
        settings = (f"buffer.capacity_bytes={size} B",)
        ran = solve(
            Point(accelerator=self.platform, model=model, length=length, way=way, settings=settings)
        )
        row: Row = {
            "platform": self.platform,
            "model": self.model,
            "seq_len": length,
            "buffer_bytes": size,
            "way": way,
            "closed_form_la": "",
            "closed_form_block": "",
            "closed_form_la_uj": "",
        }
        if way != "flash":
            work = paper.optimal(platform, model, length, way)  # type: ignore[arg-type]
            alone = paper.attention_only(work)
            energy = paper.BATCH * paper.energy_pj(alone, platform)
            row["closed_form_la"] = paper.utilisation(alone, platform)
            row["closed_form_block"] = paper.utilisation(work, platform)
            row["closed_form_la_uj"] = energy * 1e-6
        return row | {
            "machine_la": ran.get("utilisation", ""),
            "machine_la_uj": ran["energy_pj"] * 1e-6 if ran["fits"] else "",
            "occupied_bytes": ran.get("peak_buffer_bytes", ""),
        }


def text(column: str, digits: int) -> Callable[[Sequence[Row]], str]:
    """Return what makes the text of a column: closed form / machine by length, way and buffer.

    Energies are relative to the largest of a length, as in the paper.
    """

    def made(results: Sequence[Row]) -> str:
        lines = []
        for length in dict.fromkeys(row["seq_len"] for row in results):
            shown = relative([row for row in results if row["seq_len"] == length], column)
            for way in WAYS:
                pairs = [pair for row, *pair in shown if row["way"] == way]
                cells = [" / ".join(_number(number, digits) for number in pair) for pair in pairs]
                lines.append((SHORT[length], way, *cells))
        sizes = dict.fromkeys(row["buffer_bytes"] for row in results)
        head = ("tokens", "closed form / machine", *map(bytes_text, sizes))
        return table(head, lines)

    return made


def relative(found: Sequence[Row], column: str) -> list[tuple[Row, float | str, float | str]]:
    """Return rows with closed form and machine; of energies, each as a share of its largest."""
    first, second = f"closed_form_{column}", f"machine_{column}"
    return [(row, _share(row, found, first), _share(row, found, second)) for row in found]


def _share(row: Row, found: Sequence[Row], name: str) -> float | str:
    value: float | str = row[name]
    if isinstance(value, str) or not name.endswith("uj"):
        return value
    return float(value / max(one[name] for one in found if one[name] != ""))


def _number(value: float | str, digits: int) -> str:
    return "-" if value == "" else f"{value:.{digits}f}"


def draw(column: str, label: str) -> Callable[[Sequence[Row], Path], None]:
    """Return what draws a column: a panel a length, the closed form dashed."""

    def made(results: Sequence[Row], path: Path) -> None:
        lengths = list(dict.fromkeys(row["seq_len"] for row in results))
        with style():
            figure = new_figure(DOUBLE_COLUMN_INCHES, 2.5)
            panels = figure.subplots(1, len(lengths), sharey=True)
            for axes, length in zip(panels, lengths, strict=True):
                shown = relative([row for row in results if row["seq_len"] == length], column)
                for place, kind, ways in ((2, "machine", WAYS), (1, "closed form", WAYS[:3])):
                    lines = {
                        f"{way}, {kind}": [
                            (result[0]["buffer_bytes"], result[place])
                            for result in shown
                            if result[0]["way"] == way and result[place] != ""
                        ]
                        for way in ways
                    }
                    dashed = [*lines] if kind == "closed form" else []
                    curves(axes, lines, dashed=dashed)  # type: ignore[arg-type]
                over_buffer(axes, f"{SHORT[length]} tokens")
                axes.set_ylim(0, 1.05)
            panels[0].set_ylabel(label)
            panels[-1].legend(fontsize="xx-small", loc="upper left", bbox_to_anchor=(1, 1))
            save_figure(figure, path, force=True)

    return made


FIG_10 = Sweep("edge", "BERT", (512, 4096, 65536))
FIG_11 = Sweep("cloud", "XLM", (4096, 16384, 262144))
EXHIBITS = {
    "fig_10": Exhibit("fig_10", FIG_10.rows, text("la", 2), draw("la", "utilisation, L and A")),
    "fig_11": Exhibit("fig_11", FIG_11.rows, text("la", 2), draw("la", "utilisation, L and A")),
    "fig_12": Exhibit(
        "fig_12", FIG_10.rows, text("la_uj", 2), draw("la_uj", "energy, of the largest"), "fig_10"
    ),
    "fig_13": Exhibit(
        "fig_13", FIG_11.rows, text("la_uj", 2), draw("la_uj", "energy, of the largest"), "fig_11"
    ),
}
