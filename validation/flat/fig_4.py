"""Figure 4: what lies between L and A. `python -m validation.flat.fig_4`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, new_figure, save_figure, style
from simaccel.workload import ModelDimensions, attention
from validation.flat import paper
from validation.flat.exhibit import SHORT, Exhibit, Row, stated, table
from validation.flat.pictures import curves, finish

LENGTHS = (512, 2048, 16384)


def rows() -> list[Row]:
    """Return the bytes of Q, K and the logits of one sample, by formula and of our workload."""
    results = []
    for name, model in paper.FIG_4.items():
        for length in LENGTHS:
            sizes = ModelDimensions(
                hidden=model.hidden,
                heads=model.heads,
                head_size=model.head_size,
                ff_size=4 * model.hidden,
            )
            work = attention(sizes, batch=1, seq_len=length, scope="la")
            unit = "MB" if length < max(LENGTHS) else "GB"
            results.append(
                {
                    "model": name,
                    "seq_len": length,
                    "paper": stated()["fig_4", f"{name} {SHORT[length]} {unit}"],
                    "unit": unit,
                    "formula_bytes": 2 * (model.heads * length**2 + 2 * length * model.hidden),
                    "workload_bytes": sum(work.tensor_bytes(tensor) for tensor in ("Q", "K", "S")),
                }
            )
    return results


def printed(row: Row) -> float:
    """Return a size as the paper prints it: MiB, or MiB / 1000 to one decimal as GB."""
    mebibytes = row["workload_bytes"] / 2**20
    return round(mebibytes) if row["unit"] == "MB" else int(mebibytes / 100) / 10


def text(found: Sequence[Row]) -> str:
    """Return the table beside the paper's."""
    lines = [
        (
            row["model"],
            SHORT[row["seq_len"]],
            f"{row['paper']:g} {row['unit']}",
            f"{row['workload_bytes'] / 2**20:g} MiB",
        )
        for row in found
    ]
    return table(("model", "tokens", "paper", "Q, K and logits, two bytes each"), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw sizes over the length, the paper's as marks."""
    with style():
        figure = new_figure(SINGLE_COLUMN_INCHES, 2.4)
        axes = figure.subplots()
        for model in paper.FIG_4:
            model_rows = [row for row in results if row["model"] == model]
            sizes = [(row["seq_len"], row["workload_bytes"] / 2**20) for row in model_rows]
            curves(axes, {model: sizes}, first=list(paper.FIG_4).index(model))
        factor = {"MB": 1, "GB": 1000}
        marks = [(row["seq_len"], row["paper"] * factor[row["unit"]]) for row in results]
        axes.plot(*zip(*marks, strict=True), "kx", label="paper")
        axes.set(xscale="log", yscale="log", ylabel="MiB")
        axes.set_xticks(LENGTHS, [SHORT[length] for length in LENGTHS])
        axes.minorticks_off()
        axes.legend()
        finish(axes, "between L and A, one sample", "tokens")
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_4", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
