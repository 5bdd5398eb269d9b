"""Picks of the schedulers against a wide random search, both on the machine.

``python -m validation.search.run [NAME ...] [--runs N]`` measures the settings whose names have
all of these words, or all; those that ``picks.csv`` has from the same sources are kept. It fails
where a pick is more than 1% slower than the best that was found.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simaccel.machine.machine import Machine
from simaccel.mapping.text import tree_lines
from simaccel.mapping.tree import Tree
from simaccel.program.lowering import lower
from simaccel.schedulers import Options
from simaccel.study.scheduling import schedule_workload
from simaccel.study.store import VARIABLE, code_digest
from validation.search.settings import Setting, settings
from validation.search.trees import fused, kinds
from validation.search.wide import Best, wide

TABLE = Path(__file__).with_name("picks.csv")
FIELDS = ("setting", "picked", "found", "ratio", "runs", "tree", "cpu_seconds", "code")
RUNS = 200
TOLERANCE = 1.01


def measure(setting: Setting, runs: int) -> dict[str, Any]:
    """Schedule, search widely, and put both cycles side by side."""
    started = time.process_time()
    workload, accelerator = setting.workload, setting.accelerator
    options = Options(tolerance=0.0, pipeline=setting.pipeline)
    mapping = schedule_workload(workload, accelerator, setting.dataflow, options)
    picked = Machine(accelerator, lower(workload, mapping)).run().cycles
    groups = kinds(workload, setting.dataflow, pipeline=setting.pipeline)
    widest = [wide(group, accelerator, runs // len(groups)) for group in groups]
    if setting.dataflow == "best":
        whole = wide(fused(workload), accelerator, runs)
        widest = min([widest, [whole]], key=lambda ways: sum(way.cycles for way in ways))
    cycles = sum(way.cycles for way in widest)
    return {
        "setting": setting.name,
        "picked": picked,
        "found": cycles,
        "ratio": f"{picked / cycles:.4f}",
        "runs": sum(way.runs for way in widest),
        "tree": " | ".join(map(_text, widest)) if picked > cycles else "",
        "cpu_seconds": f"{time.process_time() - started:.1f}",
        "code": code_digest()[:12],
    }


def _text(best: Best) -> str:
    tree: Tree = best.tree
    return "; ".join(" ".join(line.split()) for line in tree_lines(tree))


def read() -> dict[str, dict[str, Any]]:
    """Return the rows of the table by setting, those of other sources left out."""
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {row["setting"]: row for row in rows if row["code"] == code_digest()[:12]}


def write(rows: dict[str, dict[str, Any]]) -> None:
    """Write the table, in the order of the settings."""
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[one.name] for one in settings() if one.name in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, write after each setting, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N")
    asked = parser.parse_args(arguments)
    os.environ[VARIABLE] = "off"
    rows = read()
    chosen = [
        setting for setting in settings() if all(word in setting.name for word in asked.words)
    ]
    for setting in chosen:
        if setting.name not in rows:
            rows[setting.name] = measure(setting, asked.runs)
            write(rows)
        row = rows[setting.name]
        print(f"{row['ratio']}  {int(row['picked']):>16,} {int(row['found']):>16,}  {setting.name}")
    ratios = [float(rows[setting.name]["ratio"]) for setting in chosen]
    print(f"{len(ratios)} settings, the worst {max(ratios):.4f} of the best found")
    return int(max(ratios) > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
