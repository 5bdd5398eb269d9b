"""Mappings that the vectorised closed form evaluates per second, on one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product
from statistics import median
from typing import TypeVar

import numpy as np

from benchmarks.measure import (
    Benchmark,
    Point,
    Row,
    aim,
    measure_here,
    print_row,
    share_text,
    shares,
    table,
)
from simaccel.analytic.array import Widths
from simaccel.analytic.gemm import GemmProblem, GemmTiles, Shared, gemm_work
from simaccel.analytic.work import Ints
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.choices import ORDERS
from simaccel.schedulers.search import candidates, dram_bytes

AIM = 1_000_000
TIMELOOP_PER_SECOND = 1850
"""Two-level GEMM mappings per CPU second, measured apart from this."""
SHAPE = {"m": 512, "k": 768, "n": 3072}
_SLAB = 8
"""Tile sizes of m that are evaluated together with all of k and n."""

Found = TypeVar("Found")
Figures = tuple[Ints, Ints, Ints]
"""Cycles, bytes of DRAM traffic, bytes of buffer."""


def points() -> list[Point]:
    """One GEMM of BERT with 48 tile sizes per rank."""
    return [{"hw": "edge", **SHAPE, "sizes_per_rank": 48, "repeats": 3}]


def problem_of(point: Point) -> GemmProblem:
    """Give the GEMM."""
    return GemmProblem(
        g=1,
        m=point["m"],
        k=point["k"],
        n=point["n"],
        names=("A", "B", "C"),
        widths=Widths(a=2, b=2, out=2),
    )


def tile_sizes(extent: int, count: int) -> Ints:
    """Give ``count`` different tile sizes from 1 to the whole rank, evenly apart."""
    return np.unique(np.linspace(1, extent, min(count, extent)).astype(np.int64))


class Evaluation:
    """The same candidates, evaluated in different ways; each gives figures by kind and grid."""

    def __init__(self, point: Point) -> None:
        self.accelerator: Accelerator = load_accelerator(point["hw"])
        self.problem = problem_of(point)
        count = point["sizes_per_rank"]
        self.sizes = [tile_sizes(point[rank], count) for rank in "mkn"]
        self.kinds = list(product(ORDERS, STATIONARITIES))

    @property
    def mappings(self) -> int:
        """Number of candidates."""
        return len(self.kinds) * len(self.sizes[0]) * len(self.sizes[1]) * len(self.sizes[2])

    def figures(self, m: Ints, k: Ints, n: Ints) -> Iterator[Figures]:
        """Evaluate tile sizes under every order and stationarity."""
        whole = np.broadcast_shapes(m.shape, k.shape, n.shape)
        shared = Shared()
        for order, stationarity in self.kinds:
            tiles = GemmTiles(m=m, k=k, n=n, order=order, stationarity=stationarity)
            work = gemm_work(self.problem, tiles, self.accelerator, shared)
            cycles, moved, space = (
                np.broadcast_to(figure, whole)
                for figure in (work.cycles(), dram_bytes(work), work.buffer_bytes)
            )
            yield cycles, moved, space

    def one_by_one(self) -> list[Figures]:
        """Give every candidate its entry in three flat arrays."""
        grid = np.stack(np.meshgrid(*self.sizes, indexing="ij"))
        m, k, n = (np.ascontiguousarray(sizes.ravel()) for sizes in grid)
        return list(self.figures(m, k, n))

    def by_broadcasting(self) -> list[Figures]:
        """Let numpy combine the tile sizes of the three ranks, slab by slab of m."""
        m, k, n = self.sizes
        slabs = [self.figures(*np.ix_(m[at : at + _SLAB], k, n)) for at in range(0, len(m), _SLAB)]
        joined: list[Figures] = []
        for parts in zip(*slabs, strict=True):
            cycles, moved, space = (
                np.concatenate([figure.ravel() for figure in figures])
                for figures in zip(*parts, strict=True)
            )
            joined.append((cycles, moved, space))
        return joined

    def as_schedulers_do(self) -> int:
        """Evaluate the grid that the schedulers search; give its size."""
        return int(candidates(self.problem, self.accelerator).cycles.size)


def rates(point: Point) -> Row:
    """Measure each way; the figures of both must be equal."""
    evaluation = Evaluation(point)
    repeats = point["repeats"]
    flat, flat_seconds = _timed(evaluation.one_by_one, repeats)
    mesh, mesh_seconds = _timed(evaluation.by_broadcasting, repeats)
    searched, search_seconds = _timed(evaluation.as_schedulers_do, repeats)
    equal = all(
        np.array_equal(ours, theirs)
        for one, other in zip(flat, mesh, strict=True)
        for ours, theirs in zip(one, other, strict=True)
    )
    return point | {
        "equal": equal,
        "ways": {
            "one entry per candidate": [evaluation.mappings, evaluation.mappings / flat_seconds],
            "broadcasting, in slabs": [evaluation.mappings, evaluation.mappings / mesh_seconds],
            "the schedulers' own grid": [searched, searched / search_seconds],
        },
        "shares": shares(evaluation.by_broadcasting),
        "shares_of_schedulers": shares(evaluation.as_schedulers_do),
    }


def _timed(work: Callable[[], Found], repeats: int) -> tuple[Found, float]:
    seconds: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        found = work()
        seconds.append(time.process_time() - started)
    return found, median(seconds)


def report(rows: list[Row]) -> str:
    """Write the rates."""
    (row,) = rows
    shape = "x".join(str(row[rank]) for rank in "mkn")
    same = "the same" if row["equal"] else "**different**"
    best = max(rate for _, rate in row["ways"].values())
    lines = [
        [way, f"{count:,}", f"**{rate:,.0f}**", f"{rate / TIMELOOP_PER_SECOND:,.0f}"]
        for way, (count, rate) in row["ways"].items()
    ]
    wheres = [("broadcasting", "shares"), ("the schedulers' grid", "shares_of_schedulers")]
    return (
        "## Search\n\n"
        f"The closed form of a GEMM {shape} on {row['hw']} under all {len(ORDERS)} loop orders and "
        f"{len(STATIONARITIES)} stationarities, {row['sizes_per_rank']} tile sizes per rank: "
        "cycles, DRAM bytes and buffer bytes of each. CPU time of one core, medians of "
        f"{row['repeats']}. Both ways to give the grid find {same} figures. "
        f"Timeloop's {TIMELOOP_PER_SECOND:,} per CPU second were measured apart from this. "
        f"Aim of {AIM:,} per second: {aim(best >= AIM)}.\n\n"
        + table(["candidates are given", "mappings", "per second", "times Timeloop"], lines)
        + "\n\nWhere the time goes, by module, with the profiler on:\n\n"
        + "\n".join(f"- {name}: {share_text(row[key])}" for name, key in wheres)
    )


BENCHMARK = Benchmark(
    name="search",
    points=points,
    measure=lambda point: measure_here("search", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(rates)
