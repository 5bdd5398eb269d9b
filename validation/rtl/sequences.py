"""Two or three GEMMs behind one another: the machine against the array in SystemVerilog.

``python -m validation.rtl.sequences [--sequences N] [--seed S]`` draws sequences of shapes and
sizes of arrays, runs each in 24 ways (weight-, output-, input-stationary, or weight- and
input-stationary in turn; overlap; edge folds) on both and prints by how many cycles they differ.
It fails if a product differs, if the hardware took other cycles than ``rule_cycles`` says, or if
the machine did, other than later where a stream is shorter than the array's rows in use. On the
machine a sequence is one operator: all tiles are there before cycle 0 (memories and NoC are
unlimited), and its blocks follow one another. A run of at least the default size, or with
``--write``, writes the cycles of both to ``sequences.csv`` and the table to ``README.md``.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from simaccel.hardware import Stationarity
from simaccel.machine.machine import Machine
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator
from validation.rtl.run import write_table
from validation.rtl.simulate import EDGE_FOLDS, OVERLAPS, Gemm, Run, installed, simulate

HERE = Path(__file__).parent
SEQUENCES = 240
SIZES = (
    (1, 1),
    (1, 4),
    (5, 1),
    (2, 2),
    (2, 5),
    (3, 3),
    (4, 2),
    (3, 6),
    (4, 4),
    (6, 4),
    (5, 7),
    (8, 3),
)
"""Arrays (rows, columns)."""
_MOST_STEPS = 5_000
"""Cycles of a sequence times (PEs + 20), which a simulator's time follows."""
WAYS: dict[str, tuple[Stationarity, ...]] = {
    "ws": ("ws",),
    "os": ("os",),
    "is": ("is",),
    "ws, is": ("ws", "is"),
}
"""What stays, in turn."""

Shapes = tuple[tuple[int, int, int, int], ...]
"""g, m, k, n of each GEMM."""


@dataclass(frozen=True)
class Compared:
    """One sequence on the hardware and on the machine."""

    rows: int
    cols: int
    shapes: Shapes
    way: str
    run: Run
    rtl: int
    machine: int
    same_products: bool

    @property
    def later(self) -> int:
        """Cycles that the machine takes more."""
        return self.machine - self.rtl

    @property
    def short(self) -> bool:
        """Whether a stream has fewer steps than the most rows that a fold of the run uses."""
        folds = list(_folds(self.rows, self.cols, self.run))
        return min(steps for _, steps, _, _ in folds) < max(high for _, _, high, _ in folds)

    @property
    def explained(self) -> bool:
        """Whether the hardware follows the rule, and the machine does where no stream is short.

        Where one is, the machine may be later, but not earlier.
        """
        rule = rule_cycles(self.rows, self.cols, self.run) == self.rtl
        return rule and self.same_products and (not self.later or (self.later > 0 and self.short))


def machine_cycles(rows: int, cols: int, run: Run) -> int:
    """Run a sequence on the machine with all tiles there before cycle 0."""
    on = accelerator(array=run[0].spec(rows, cols).model_dump(exclude={"source"}))
    return Machine(on, parse_program("\n".join(_program(run)) + "\n")).run().cycles


def _program(run: Run) -> Iterator[str]:
    yield "program gemms"
    yield "  operator gemms"
    for at, gemm_run in enumerate(run):
        for name, ranks in (("A", "gmk"), ("B", "gkn"), ("C", "gmn")):
            sizes = [getattr(gemm_run, rank) for rank in ranks]
            tensor = ",".join(f"{rank}={size}" for rank, size in zip(ranks, sizes, strict=True))
            yield f"    tile {name}{at} {'x'.join(map(str, sizes))} x1 of {name}{at}[{tensor}] 2B"
    for at, _ in enumerate(run):
        yield f"    load A{at} queue 0"
        yield f"    load B{at} queue 1"
    for at, gemm_run in enumerate(run):
        over = f"g={gemm_run.g} m={gemm_run.m} k={gemm_run.k} n={gemm_run.n}"
        yield f"    compute C{at} = A{at} B{at} over {over} folds {gemm_run.kind}"
    for at, _ in enumerate(run):
        yield f"    store C{at}"


def rule_cycles(rows: int, cols: int, run: Run) -> int:
    """Compose the folds of all GEMMs as the hardware's registers let them follow one another.

    Weights begin to shift in when the stream before begins (``none``: when all before is over), a
    stream begins behind the one before (else: when that is over) and its own weights; sums start on
    their way when their stream has ended and those before have left the rows.
    """
    overlap = run[0].overlap
    began = streamed = over = swapped = left = end = 0
    for kind, steps, high, wide in _folds(rows, cols, run):
        holds = kind != "os"
        began = max(
            streamed if holds else swapped,
            0 if overlap == "stream" else over,
            ((over if overlap == "none" else began) + high) * holds,
        )
        streamed = began + steps
        over = streamed + high + wide - 2
        swapped = max(streamed, left)
        left = swapped + high
        out = over if holds or overlap == "none" else swapped + 2 * high + wide - 3
        end = max(end, out)
    return end


def _folds(rows: int, cols: int, run: Run) -> Iterator[tuple[str, int, int, int]]:
    """Give stationarity, steps, rows and columns in use of each fold."""
    for one in run:
        high, wide, steps = one.grid
        sides = itertools.product(range(one.g), range(0, wide, cols), range(0, high, rows))
        for _, across, down in sides:
            full = one.edge_folds == "full"
            used = min(rows, high - down), min(cols, wide - across)
            yield one.kind, steps, *((rows, cols) if full else used)


def ways(shapes: Shapes) -> Iterator[tuple[str, Run]]:
    """Give all ways of running a sequence."""
    for (way, kinds), overlap, edge_folds in itertools.product(WAYS.items(), OVERLAPS, EDGE_FOLDS):
        turns = itertools.cycle(kinds)
        yield way, [Gemm(*shape, next(turns), overlap, edge_folds) for shape in shapes]


def compare(rows: int, cols: int, sequences: Sequence[Shapes]) -> Iterator[Compared]:
    """Run sequences on both; with ``none`` the clock stops with the last MAC, as SCALE-Sim's."""
    drawn = [(shapes, *way) for shapes in sequences for way in ways(shapes)]
    result = simulate(rows, cols, [run for _, _, run in drawn])
    for (shapes, way, run), outcome in zip(drawn, result, strict=True):
        expected = [gemm_run.operands[0] @ gemm_run.operands[1] for gemm_run in run]
        yield Compared(
            rows,
            cols,
            shapes,
            way,
            run,
            outcome.last_mac if run[0].overlap == "none" else outcome.last_out,
            machine_cycles(rows, cols, run),
            all(map(np.array_equal, outcome.products, expected)),
        )


def draw(seed: int, count: int) -> dict[tuple[int, int], list[Shapes]]:
    """Draw sequences by array: every rank by itself below, about, or over the array's sides."""
    numbers = random.Random(seed)  # noqa: S311 - not for secrets
    drawn: dict[tuple[int, int], list[Shapes]] = {size: [] for size in SIZES}
    for index in range(count):
        rows, cols = SIZES[index % len(SIZES)]
        while True:
            shapes = tuple(_shape(numbers, max(rows, cols)) for _ in range(numbers.choice((2, 3))))
            blocks = [Gemm(*shape, "ws", "none", "full") for shape in shapes]
            cycles = sum(
                block.g
                * block.spec(rows, cols).gemm_cycles(
                    m=block.m, k=block.k, n=block.n, stationarity="ws"
                )
                for block in blocks
            )
            if cycles * (rows * cols + 20) <= _MOST_STEPS:
                break
        drawn[rows, cols].append(shapes)
    return drawn


def _shape(numbers: random.Random, side: int) -> tuple[int, int, int, int]:
    g = numbers.choice((1, 1, 1, 2))
    m, k, n = (numbers.randint(1, numbers.choice((3, side, 20))) for _ in range(3))
    return g, m, k, n


def tables(compared: Sequence[Compared]) -> list[str]:
    """Count by way, and by whether a stream is short, in Markdown."""
    cells = defaultdict(list)
    for comparison in compared:
        cells[comparison.way, comparison.run[0].overlap, comparison.run[0].edge_folds].append(
            comparison
        )
    pairs = list(itertools.product(OVERLAPS, EDGE_FOLDS))
    lines = ["| | " + " | ".join(f"{o}, {e}" for o, e in pairs) + " |", "|---" * 7 + "|"]
    for way in WAYS:
        row_cells = [cells[way, *pair] for pair in pairs]
        texts = (
            f"{sum(comparison.later != 0 for comparison in cell)} of {len(cell)}"
            for cell in row_cells
        )
        lines.append(f"| {way} | " + " | ".join(texts) + " |")
    lines += ["", "| | no short stream | a short one | later | earlier |", "|---" * 5 + "|"]
    for way, pair in itertools.product(WAYS, pairs):
        cell = cells[way, *pair]
        if not any(comparison.later for comparison in cell):
            continue
        long, short = ([o for o in cell if o.short is is_short] for is_short in (False, True))
        lines.append(
            f"| {way}; {', '.join(pair)}"
            f" | {sum(comparison.later != 0 for comparison in long)} of {len(long)} differ"
            f" | {sum(comparison.later != 0 for comparison in short)} of {len(short)} differ"
            f" | {_by([comparison for comparison in short if comparison.later > 0])}"
            f" | {_by([comparison for comparison in short if comparison.later < 0])} |"
        )
    return lines


def _by(compared: Sequence[Compared]) -> str:
    if not compared:
        return "0"
    cycles = [abs(one.later) for one in compared]
    share = [abs(one.later) / one.rtl for one in compared]
    mean = sum(cycles) / len(cycles)
    return f"{len(cycles)}: by {mean:.1f} in the mean, at most {max(cycles)} ({max(share):.0%})"


def write(compared: Sequence[Compared]) -> None:
    """Write the cycles of both and the tables."""
    columns = [f"{o}_{e}" for o, e in itertools.product(OVERLAPS, EDGE_FOLDS)]
    by_way: dict[tuple[object, ...], dict[str, Compared]] = {}
    for comparison in compared:
        gemms = "; ".join(" ".join(map(str, shape)) for shape in comparison.shapes)
        cells = by_way.setdefault((comparison.rows, comparison.cols, gemms, comparison.way), {})
        cells[f"{comparison.run[0].overlap}_{comparison.run[0].edge_folds}"] = comparison
    with (HERE / "sequences.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        machine = [f"{column}_machine" for column in columns]
        rows.writerow(["rows", "cols", "g m k n", "stationarity", *columns, *machine])
        for key, cells in by_way.items():
            both = [cells[c].rtl for c in columns], [cells[c].machine for c in columns]
            rows.writerow([*key, *both[0], *both[1]])
    write_table("sequences", tables(compared))


def main() -> None:
    """Compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if not installed():
        sys.exit("Icarus Verilog is not installed (Debian: apt-get install iverilog)")
    drawn = draw(asked.seed, asked.sequences)
    compared: list[Compared] = []
    for (rows, cols), sequences in track(
        drawn.items(), description="arrays", console=Console(stderr=True)
    ):
        compared += compare(rows, cols, sequences) if sequences else []
    print("\n".join(tables(compared)))
    wrong = [comparison for comparison in compared if not comparison.explained]
    for comparison in wrong[:20]:
        products = "" if comparison.same_products else "; a product differs"
        print(f"{comparison.rows} x {comparison.cols}, {comparison.run}: {comparison.rtl} cycles,")
        print(f"  the machine {comparison.machine}{products}")
    print(f"{len(compared)} runs of {asked.sequences} sequences: {len(wrong)} not explained")
    if asked.write or asked.sequences >= SEQUENCES:
        write(compared)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
