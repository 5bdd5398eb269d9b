"""Figure 17: DRAM bandwidth that L and A need. `python -m validation.flat.fig_17`.

The closed form: where the hungrier of L and A has utilisation 0.95. The machine: a mapping that was
searched with the platform's bandwidth runs with less and less, until L and A together fall below
0.95 of what that mapping reaches with as much bandwidth as it likes (arrays larger than a head
never reach 0.95 itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.report.figures.style import DOUBLE_COLUMN_INCHES, new_figure, save_figure, style
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import simulate
from validation import PLAIN
from validation.flat import paper
from validation.flat.exhibit import SHORT, Exhibit, Row, stated, table
from validation.flat.pictures import curves, finish
from validation.flat.points import Point
from validation.flat.ways import ATTENTION, TWICE, attended, crossing_twice

TARGET = 0.95
CASES = (("cloud", "XLM"), ("edge", "BERT"))
LENGTHS = (512, 4096, 16384, 65536)
WAYS = ("flex-2", "flat", "flash")
_CLOSE = 1.02
"""How near the two ends of the search for a bandwidth are at its end."""
_PLENTY = 64
_PAIRS = (
    ("closed_form_flex", "closed_form_flat"),
    ("flex-2_bytes_per_second", "flat_bytes_per_second"),
    ("flex-2_bytes_per_second", "flash_bytes_per_second"),
)


def rows() -> list[Row]:
    """Return bytes per second by the closed form (flex, flat) and on the machine, by length."""
    results = []
    for platform, name in CASES:
        model, hardware = paper.FITTED[name], paper.PLATFORMS[platform]
        for length in LENGTHS:
            row: Row = {"platform": platform, "model": name, "seq_len": length}
            for flow in ("flex", "flat"):
                need = paper.bandwidth_for(hardware, model, length, flow, TARGET)
                row[f"closed_form_{flow}"] = need
            for way in WAYS:
                row |= _on_the_machine(platform, model, length, way)
            results.append(row)
    return results


def _on_the_machine(platform: str, model: paper.Model, length: int, way: str) -> Row:
    point = Point(accelerator=platform, model=model, length=length, way=way)
    whole = point.workload()
    names: tuple[str, ...] = ATTENTION
    if way == "flex-2":
        whole, names = crossing_twice(whole), (*TWICE[0], *TWICE[1])
    work = whole.select_operators(names)
    try:
        mapping = mapping_of(work, way, attended(whole, point.hardware, way))
    except SimaccelError:
        return {f"{way}_utilisation": "", f"{way}_bytes_per_second": ""}
    program = lower(work, mapping)
    base = paper.PLATFORMS[platform].dram_bytes_per_second

    def accelerator(bandwidth: float) -> Accelerator:
        setting = f"dram.bandwidth_bytes_per_second={bandwidth / 1e9:.6f} GB/s"
        return load_accelerator(platform, [*PLAIN, setting, "dram.in_flight_bytes=unlimited"])

    def cycles(bandwidth: float) -> int:
        return Machine(accelerator(bandwidth), program).run().cycles

    plenty = simulate(work, accelerator(_PLENTY * base), mapping)
    low, high = base / _PLENTY, base * _PLENTY
    while high / low > _CLOSE:
        middle = (low * high) ** 0.5
        if plenty.run.cycles / cycles(middle) >= TARGET:
            high = middle
        else:
            low = middle
    return {f"{way}_utilisation": plenty.utilisation, f"{way}_bytes_per_second": high}


def saved(row: Row, more: str, less: str) -> float | None:
    """Return by what share a column of bandwidths is below another."""
    if "" in (row[more], row[less]):
        return None
    return 1 - float(row[less]) / float(row[more])


def text(results: Sequence[Row]) -> str:
    """Return bandwidths in GB/s, and the mean reduction beside the paper's."""
    lines = [
        (
            row["platform"],
            SHORT[row["seq_len"]],
            *(f"{row[f'closed_form_{flow}'] / 1e9:.1f}" for flow in ("flex", "flat")),
            *(_machine(row, way) for way in WAYS),
        )
        for row in results
    ]
    head = ("platform", "tokens", "closed form: flex", "closed form: flat")
    wide = table((*head, *(f"machine: {way}" for way in WAYS)), lines)
    return f"{_stated(results)}\n\nGB/s; in brackets utilisation with plenty:\n\n{wide}"


def _machine(row: Row, way: str) -> str:
    need, reached = row[f"{way}_bytes_per_second"], row[f"{way}_utilisation"]
    return "-" if need == "" else f"{need / 1e9:.1f} ({reached:.2f})"


def _stated(results: Sequence[Row]) -> str:
    lines = []
    for platform, model in CASES:
        platform_rows = [row for row in results if row["platform"] == platform]
        line = [
            f"{model} {platform}",
            f"{stated()['fig_17', f'less bandwidth {model} {platform}']:.0%}",
        ]
        for more, less in _PAIRS:
            shares = [
                share for row in platform_rows if (share := saved(row, more, less)) is not None
            ]
            line.append(f"{sum(shares) / len(shares):.0%}")
        lines.append(line)
    head = ("mean reduction against flex", "paper", "closed form", "machine: flat")
    return table((*head, "machine: flash"), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw bandwidths over the length, a panel a platform."""
    with style():
        figure = new_figure(DOUBLE_COLUMN_INCHES, 2.6)
        panels = figure.subplots(1, 2)
        for axes, (platform, model) in zip(panels, CASES, strict=True):
            platform_rows = [row for row in results if row["platform"] == platform]
            formulas = {
                f"{flow}, closed form": [
                    (row["seq_len"], row[f"closed_form_{flow}"] / 1e9) for row in platform_rows
                ]
                for flow in ("flex", "flat")
            }
            ran = {
                f"{way}, machine": [
                    (row["seq_len"], row[f"{way}_bytes_per_second"] / 1e9)
                    for row in platform_rows
                    if row[f"{way}_bytes_per_second"] != ""
                ]
                for way in WAYS
            }
            curves(axes, formulas, dashed=formulas)
            curves(axes, ran, first=len(formulas))
            axes.axhline(
                paper.PLATFORMS[platform].dram_bytes_per_second / 1e9, color="black", linewidth=0.5
            )
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(LENGTHS, [SHORT[length] for length in LENGTHS])
            axes.minorticks_off()
            finish(axes, f"{model}, {platform}; black: the platform's", "tokens")
        panels[0].set_ylabel("GB/s")
        panels[1].legend(fontsize="x-small")
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_17", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
