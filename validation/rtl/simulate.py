"""Runs GEMMs on the systolic array in SystemVerilog, with Icarus, one or some at a time."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simaccel.hardware import ArraySpec, Stationarity
from simaccel.hardware.fold_grid import spatial

HERE = Path(__file__).parent
SOURCES = tuple(str(HERE / f"{name}.sv") for name in ("types", "pe", "grid", "engine", "bench"))
KINDS: tuple[Stationarity, ...] = ("ws", "os", "is")
OVERLAPS = ("none", "preload", "stream")
EDGE_FOLDS = ("full", "used")
_SECONDS = 900

Ints = npt.NDArray[np.int64]


class RtlError(Exception):
    """The hardware stopped at one of its own checks; the message is the simulator's."""


@dataclass(frozen=True)
class Gemm:
    """C[g,m,n] = A[g,m,k] B[g,k,n] in one way of running it."""

    g: int
    m: int
    k: int
    n: int
    kind: Stationarity
    overlap: str
    edge_folds: str

    @classmethod
    def of(cls, shape: tuple[int, int, int, int], kind: str, overlap: str, edge_folds: str) -> Gemm:
        """Give one way by its names."""
        return cls(*shape, KINDS[KINDS.index(kind)], overlap, edge_folds)

    @property
    def operands(self) -> tuple[Ints, Ints]:
        """A and B: numbers that depend on the shape alone."""
        numbers = np.random.default_rng((self.g, self.m, self.k, self.n))
        a = numbers.integers(-(2**15), 2**15, (self.g, self.m, self.k))
        return a, numbers.integers(-(2**15), 2**15, (self.g, self.k, self.n))

    @property
    def grid(self) -> tuple[int, int, int]:
        """What lies along rows and along columns, and what streams."""
        return spatial(self.m, self.k, self.n, self.kind)

    def folds(self, rows: int, cols: int) -> int:
        """Count the folds of all batches."""
        high, wide, _ = self.grid
        return self.g * -(-high // rows) * -(-wide // cols)

    def spec(self, rows: int, cols: int) -> ArraySpec:
        """Describe the array as a hwconfig does."""
        return ArraySpec.model_validate(
            {"rows": rows, "cols": cols, "overlap": self.overlap, "edge_folds": self.edge_folds}
        )


@dataclass(frozen=True)
class Outcome:
    """What the hardware took, in cycles, and made."""

    last_mac: int
    """Until the last multiplication."""
    last_out: int
    """Until the last result was at the edge of the array."""
    products: tuple[Ints, ...]
    """Of each GEMM."""


Run = Sequence[Gemm]
"""GEMMs behind one another, all with one overlap and kind of edge folds; output-stationary ones
only among themselves, because the PEs are set for what stays."""


def ways(g: int, m: int, k: int, n: int) -> Iterator[Gemm]:
    """Give all 18 ways of running a GEMM."""
    for kind, overlap, edge_folds in itertools.product(KINDS, OVERLAPS, EDGE_FOLDS):
        yield Gemm(g, m, k, n, kind, overlap, edge_folds)


def installed() -> bool:
    """Say whether the simulator is there."""
    return shutil.which("iverilog") is not None and shutil.which("vvp") is not None


def simulate(rows: int, cols: int, runs: Sequence[Run], *, eager: bool = False) -> list[Outcome]:
    """Run GEMMs on ``rows`` x ``cols`` PEs.

    ``eager``: a fold begins a cycle before it is safe, which the PEs must notice.

    Raises:
        RtlError: a check in the hardware failed.
    """
    every = [step for run in runs for step in run]
    constants = {
        "R": rows,
        "C": cols,
        "STEPS": max(max(step.m, step.k, step.n, rows) for step in every),
        "WORDS": max(max(map(sum, zip(*map(_words, run), strict=True))) for run in runs),
        "GEMMS": max(map(len, runs)),
        "FOLDS": max(sum(step.folds(rows, cols) for step in run) for run in runs),
    }
    with tempfile.TemporaryDirectory() as folder:
        built, cases, out = (Path(folder) / name for name in ("built", "cases", "out"))
        parameters = [f"-Pbench.{name}={value}" for name, value in constants.items()]
        _run("iverilog", "-g2012", "-s", "bench", "-o", str(built), *parameters, *SOURCES)
        cases.write_text("\n".join(_lines(runs, eager=eager)) + "\n", encoding="ascii")
        _run("vvp", "-n", str(built), f"+cases={cases}", f"+out={out}")
        return list(_read(runs, out.read_text(encoding="ascii").split()))


def _words(one: Gemm) -> tuple[int, int, int]:
    return one.g * one.m * one.k, one.g * one.k * one.n, one.g * one.m * one.n


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise RtlError((done.stdout + done.stderr).strip())


def _lines(runs: Iterable[Run], *, eager: bool) -> Iterator[str]:
    for run in runs:
        first, holds = run[0], {one.kind != "os" for one in run}
        if len(holds) > 1 or len({(one.overlap, one.edge_folds) for one in run}) > 1:
            raise ValueError("GEMMs of one run have one overlap, and sums that stay all or none")
        way = *holds, OVERLAPS.index(first.overlap), first.edge_folds == "used", eager
        yield " ".join(str(int(field)) for field in (len(run), *way))
        for one in run:
            yield f"{KINDS.index(one.kind)} {one.g} {one.m} {one.k} {one.n}"
        for number in range(2):
            for one in run:
                yield " ".join(map(str, one.operands[number].ravel().tolist()))


def _read(runs: Iterable[Run], words: list[str]) -> Iterator[Outcome]:
    at = 0
    for run in runs:
        last_mac, last_out = map(int, words[at : at + 2])
        at += 2
        products = []
        for one in run:
            until = at + one.g * one.m * one.n
            product = np.array([int(word) for word in words[at:until]])
            products.append(product.reshape(one.g, one.m, one.n))
            at = until
        yield Outcome(last_mac, last_out, tuple(products))
