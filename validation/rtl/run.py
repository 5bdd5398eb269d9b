"""The machine against a systolic array in SystemVerilog: cycles and products of whole GEMMs.

``python -m validation.rtl.run [--shapes N] [--seed S]`` draws shapes and array sizes, runs each in
all 18 ways (stationarity, overlap, edge folds) on both, prints a table and fails if one cycle or
one number differs. A run of at least the default size, or with ``--write``, writes the cycles of
the hardware to ``cycles.csv`` and the table between the markers of ``README.md``.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator
from validation.rtl.simulate import EDGE_FOLDS, KINDS, OVERLAPS, Gemm, installed, simulate, ways

HERE = Path(__file__).parent
SHAPES = 208
SIZES = (
    (1, 1), (1, 5), (6, 1), (2, 2), (2, 7), (3, 3), (3, 8), (4, 4), (5, 2), (5, 6), (7, 3), (7, 7),
    (8, 4), (8, 8), (4, 12), (12, 5),
)  # fmt: skip
"""Arrays (rows, columns)."""
_MOST_STEPS = 10_000
"""Cycles of a shape times (PEs + 20), which a simulator's time follows."""
_PROGRAM = """\
program gemm
  operator gemm
    tile A {g}x{m}x{k} x1 of A[g={g},m={m},k={k}] 2B
    tile B {g}x{k}x{n} x1 of B[g={g},k={k},n={n}] 2B
    tile C {g}x{m}x{n} x1 of C[g={g},m={m},n={n}] 2B
    load A queue 0
    load B queue 1
    compute C = A B over g={g} m={m} k={k} n={n} folds {kind}
    store C
"""


@dataclass(frozen=True)
class Compared:
    """One GEMM on the hardware and on the machine."""

    rows: int
    cols: int
    gemm: Gemm
    rtl: int
    machine: int
    same_product: bool

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.rtl == self.machine and self.same_product


def machine_cycles(rows: int, cols: int, gemm: Gemm) -> int:
    """Run a GEMM on the machine with memories and NoC unlimited."""
    on: Accelerator = accelerator(array=gemm.spec(rows, cols).model_dump(exclude={"source"}))
    program = _PROGRAM.format(g=gemm.g, m=gemm.m, k=gemm.k, n=gemm.n, kind=gemm.kind)
    return Machine(on, parse_program(program)).run().cycles


def compare(rows: int, cols: int, gemms: list[Gemm]) -> Iterator[Compared]:
    """Run GEMMs on both; with ``none`` the clock stops with the last MAC, as SCALE-Sim's."""
    for gemm, found in zip(gemms, simulate(rows, cols, [(one,) for one in gemms]), strict=True):
        a, b = gemm.operands
        yield Compared(
            rows,
            cols,
            gemm,
            found.last_mac if gemm.overlap == "none" else found.last_out,
            machine_cycles(rows, cols, gemm),
            bool(np.array_equal(found.products[0], a @ b)),
        )


def draw(seed: int, count: int) -> dict[tuple[int, int], list[tuple[int, int, int, int]]]:
    """Draw shapes (g, m, k, n) by array, with sizes from below to several times its sides."""
    numbers = random.Random(seed)  # noqa: S311 - not for secrets
    errors: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {size: [] for size in SIZES}
    for index in range(count):
        rows, cols = SIZES[index % len(SIZES)]
        while True:
            most = numbers.choice((max(rows, cols), 3 * max(rows, cols), 30))
            g = numbers.choice((1, 1, 2))
            m, k, n = (numbers.randint(1, most) for _ in range(3))
            full = Gemm(g, m, k, n, "ws", "none", "full").spec(rows, cols)
            cycles = g * full.gemm_cycles(m=m, k=k, n=n, stationarity="ws")
            if cycles * (rows * cols + 20) <= _MOST_STEPS:
                break
        errors[rows, cols].append((g, m, k, n))
    return errors


def table(compared: list[Compared]) -> list[str]:
    """Count by stationarity, overlap and edge folds, in Markdown."""
    lines = ["| | " + " | ".join(f"{o}, {e}" for o in OVERLAPS for e in EDGE_FOLDS) + " |"]
    lines.append("|---" * 7 + "|")
    ran, differ = Counter(map(_way, compared)), Counter(_way(c) for c in compared if not c.same)
    for kind in KINDS:
        cells = (f"{differ[kind, o, e]} of {ran[kind, o, e]}" for o in OVERLAPS for e in EDGE_FOLDS)
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return lines


def _way(one: Compared) -> tuple[str, str, str]:
    return one.gemm.kind, one.gemm.overlap, one.gemm.edge_folds


def write(compared: list[Compared]) -> None:
    """Write the hardware's cycles and the table."""
    by_shape: dict[tuple[object, ...], dict[str, int]] = {}
    for comparison in compared:
        gemm = comparison.gemm
        key = comparison.rows, comparison.cols, gemm.g, gemm.m, gemm.k, gemm.n, gemm.kind
        by_shape.setdefault(key, {})[f"{gemm.overlap}_{gemm.edge_folds}"] = comparison.rtl
    with (HERE / "cycles.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        columns = [f"{o}_{e}" for o in OVERLAPS for e in EDGE_FOLDS]
        rows.writerow(["rows", "cols", "g", "m", "k", "n", "stationarity", *columns])
        rows.writerows([*key, *(cells[c] for c in columns)] for key, cells in by_shape.items())
    write_table("table", table(compared))


def write_table(name: str, lines: list[str]) -> None:
    """Write lines behind the marker of that name in ``README.md``."""
    readme = HERE / "README.md"
    before, marker, rest = readme.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    end = rest.index("<!-- end -->")
    text = f"{before}{marker}\n" + "\n".join(lines) + f"\n\n{rest[end:]}"
    readme.write_text(text, encoding="utf-8")


def main() -> None:
    """Compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if not installed():
        sys.exit("Icarus Verilog is not installed (Debian: apt-get install iverilog)")
    drawn = draw(asked.seed, asked.shapes)
    compared: list[Compared] = []
    for (rows, cols), shapes in track(
        drawn.items(), description="arrays", console=Console(stderr=True)
    ):
        gemms = [gemm for shape in shapes for gemm in ways(*shape)]
        compared += compare(rows, cols, gemms) if gemms else []
    print("\n".join(table(compared)))
    different = [comparison for comparison in compared if not comparison.same]
    for comparison in different[:20]:
        product = "" if comparison.same_product else "; the product differs"
        print(f"{comparison.rows} x {comparison.cols}, {comparison.gemm}: {comparison.rtl} cycles,")
        print(f"  the machine {comparison.machine}{product}")
    print(f"{len(compared)} GEMMs of {asked.shapes} shapes: {len(different)} differ")
    if asked.write or asked.shapes >= SHAPES:
        write(compared)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
