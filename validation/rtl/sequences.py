"""Two or three GEMMs behind one another: the machine against the array in SystemVerilog.

``python -m validation.rtl.sequences [--sequences N] [--seed S]`` draws sequences of shapes and array
sizes, runs each in 24 ways (weight-, output-, input-stationary, or weight- and input-stationary
in turn; overlap; edge folds) on both and prints by how many cycles they differ. On the machine a
sequence is one operator: all tiles are there before cycle 0 (memories and NoC are unlimited), and
its blocks follow one another. A run of at least the default size, or with ``--write``, writes the
cycles of both to ``sequences.csv`` and the table between the markers of ``README.md``.
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
from validation.rtl.simulate import EDGE_FOLDS, OVERLAPS, Gemm, Run, installed, simulate

HERE = Path(__file__).parent
SEQUENCES = 240
SIZES = ((1, 1), (1, 4), (5, 1), (2, 2), (2, 5), (3, 3), (4, 2), (3, 6), (4, 4), (6, 4), (5, 7), (8, 3))
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


def machine_cycles(rows: int, cols: int, run: Run) -> int:
    """Run a sequence on the machine with all tiles there before cycle 0."""
    on = accelerator(array=run[0].spec(rows, cols).model_dump(exclude={"source"}))
    return Machine(on, parse_program("\n".join(_program(run)) + "\n")).run().cycles


def _program(run: Run) -> Iterator[str]:
    yield "program gemms"
    yield "  operator gemms"
    for at, one in enumerate(run):
        for name, ranks in (("A", "gmk"), ("B", "gkn"), ("C", "gmn")):
            sizes = [getattr(one, rank) for rank in ranks]
            tensor = ",".join(f"{rank}={size}" for rank, size in zip(ranks, sizes, strict=True))
            yield f"    tile {name}{at} {'x'.join(map(str, sizes))} x1 of {name}{at}[{tensor}] 2B"
    for at, _ in enumerate(run):
        yield f"    load A{at} queue 0"
        yield f"    load B{at} queue 1"
    for at, one in enumerate(run):
        sizes = f"g={one.g} m={one.m} k={one.k} n={one.n}"
        yield f"    compute C{at} = A{at} B{at} over {sizes} folds {one.kind}"
    for at, _ in enumerate(run):
        yield f"    store C{at}"


def ways(shapes: Shapes) -> Iterator[tuple[str, Run]]:
    """Give all ways of running a sequence."""
    for (way, kinds), overlap, edge_folds in itertools.product(WAYS.items(), OVERLAPS, EDGE_FOLDS):
        turns = itertools.cycle(kinds)
        yield way, [Gemm(*shape, next(turns), overlap, edge_folds) for shape in shapes]


def compare(rows: int, cols: int, sequences: Sequence[Shapes]) -> Iterator[Compared]:
    """Run sequences on both; with ``none`` the clock stops with the last MAC, as SCALE-Sim's."""
    drawn = [(shapes, *one) for shapes in sequences for one in ways(shapes)]
    found = simulate(rows, cols, [run for _, _, run in drawn])
    for (shapes, way, run), outcome in zip(drawn, found, strict=True):
        expected = [one.operands[0] @ one.operands[1] for one in run]
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
    found: dict[tuple[int, int], list[Shapes]] = {size: [] for size in SIZES}
    for index in range(count):
        rows, cols = SIZES[index % len(SIZES)]
        while True:
            shapes = tuple(
                (
                    numbers.choice((1, 1, 1, 2)),
                    *(numbers.randint(1, numbers.choice((3, max(rows, cols), 20))) for _ in "mkn"),
                )
                for _ in range(numbers.choice((2, 3)))
            )
            blocks = [Gemm(*shape, "ws", "none", "full") for shape in shapes]
            cycles = sum(
                one.g * one.spec(rows, cols).gemm_cycles(m=one.m, k=one.k, n=one.n, stationarity="ws")
                for one in blocks
            )
            if cycles * (rows * cols + 20) <= _MOST_STEPS:
                break
        found[rows, cols].append(shapes)
    return found
