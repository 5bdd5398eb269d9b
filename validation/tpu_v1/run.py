"""TPU v1: active, weight stall, weight shift and TOPS of six programs beside the chip's counters.

``python -m validation.tpu_v1.run`` runs the six programs of the paper with inferred shapes and with
the alternatives, and figure 11; it writes ``programs.csv``, ``sensitivity.csv``, ``what_if.csv``,
draws ``programs.png`` and ``sensitivity.png`` and puts the figures into the README.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from validation.bound.readme import write_figures
from validation.tpu_v1.pictures import draw_sensitivity, draw_shares
from validation.tpu_v1.programs import (
    HERE,
    INFERRED,
    PROGRAMS,
    Shares,
    counters,
    run,
    shapes,
    shares,
)
from validation.tpu_v1.sensitivity import RESOURCES, Row, by_set, by_what_if

_PARTS: Final = ("active", "useful", "weight_stall", "weight_shift", "rest", "raw_stalls")
All = Mapping[str, Mapping[str, Shares]]


def write(name: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as a CSV file."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def program_rows(runs: All) -> list[Row]:
    """Return the shares of all programs and shapes, in percent, beside the chip's."""
    chip = counters()
    rows: list[Row] = []
    for program, by_shape in runs.items():
        published = {what: by_program[program] for what, by_program in chip.items()}
        chips: Row = {"program": program, "shapes": "chip", "cycles": ""}
        chips |= {part: published[part] for part in _PARTS}
        rows.append(chips | {"tops": published["tops"], "off": ""})
        for which, shape_run in by_shape.items():
            figures = asdict(shape_run)
            rows.append(
                {"program": program, "shapes": which, "cycles": shape_run.cycles}
                | {part: round(100 * figures[part], 1) for part in _PARTS}
                | {
                    "tops": round(shape_run.tops, 2),
                    "off": f"{shape_run.tops / published['tops'] - 1:+.1%}",
                }
            )
    return rows


def program_table(rows: Sequence[Row]) -> str:
    """Tabulate them."""
    names = ("program", "shapes", *_PARTS, "tops", "off")
    parts = ("active", "useful", "weight stall", "weight shift", "the rest", "RAW stalls")
    head = ("", "", *parts, "TOPS", "")
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    for row in rows:
        cells = [str(row[name]) for name in names]
        cells[0] = cells[0].upper() if row["shapes"] == "chip" else ""
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def without_rest_table(rows: Sequence[Row]) -> str:
    """Tabulate active, stall and shift as parts of the time that is none of the rest."""
    parts = ("active", "weight_stall", "weight_shift")
    lines = ["|  | active: chip | here | weight stall: chip | here | weight shift: chip | here |"]
    lines.append("|---|" + "---:|" * (2 * len(parts)))
    for program in PROGRAMS:
        cells = [program.upper()]
        for part in parts:
            for row in (row for row in rows if row["program"] == program):
                if row["shapes"] in ("chip", INFERRED):
                    whole = sum(float(str(row[part])) for part in parts)
                    cells.append(f"{100 * float(str(row[part])) / whole:.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sensitivity_table(by_setting: Sequence[Row], freed: Sequence[Row]) -> str:
    """Tabulate the speed with four times of each resource, and with an infinite amount."""
    cases = list(dict.fromkeys(str(row["freed"]) for row in freed))
    head = ["", *(f"4 x {resource}" for resource in RESOURCES), *(f"{case} free" for case in cases)]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for program in PROGRAMS:
        speeds = [
            row["speed"]
            for resource in RESOURCES
            for row in by_setting
            if (row["program"], row["resource"], row["scale"]) == (program, resource, 4.0)
        ]
        speeds += [row["speed"] for row in freed if row["program"] == program]
        lines.append("| " + " | ".join([program.upper(), *(f"{n:.2f}" for n in speeds)]) + " |")
    return "\n".join(lines)


def main() -> int:
    """Run all."""
    runs = {
        program: {which: shares(run(program, which)) for which in shapes(program)}
        for program in PROGRAMS
    }
    rows, by_setting, freed = program_rows(runs), list(by_set()), list(by_what_if())
    write("programs.csv", rows)
    write("sensitivity.csv", by_setting)
    write("what_if.csv", freed)
    readme: Path = HERE / "README.md"
    write_figures("programs", program_table(rows), readme)
    write_figures("without rest", without_rest_table(rows), readme)
    write_figures("sensitivity", sensitivity_table(by_setting, freed), readme)
    ours = {program: by_shape[INFERRED] for program, by_shape in runs.items()}
    draw_shares(counters(), ours, HERE / "programs.png")
    draw_sensitivity(by_setting, HERE / "sensitivity.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
