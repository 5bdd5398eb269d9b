"""Seconds of whole fronts, beside those of Orojenesis and AccelForge.

Their CPU seconds were measured apart from this, on a machine of the same kind: Orojenesis of
2025-03-31 for the single einsums (validation/orojenesis/data), AccelForge for fused chains.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

from benchmarks.measure import Benchmark, Point, Row, measure_here, print_row, table
from simaccel.analytic.floor.problem import problem_of
from simaccel.papers.orojenesis.fused import fused_segment
from simaccel.papers.orojenesis.fusion import TEMPLATES
from simaccel.papers.orojenesis.single import Mapspace, bound
from simaccel.workload import Workload, bmm, build, conv2d, gemm

_LA: Final = ("L", "softmax", "A")
_SIX: Final = ("Q", "L", "softmax", "A", "O", "FF1", "FF2")
_CUBE: Final = {"m": 4096, "k": 4096, "n": 4096}
_CONV: Final = {"m": 64, "c": 64, "p": 16, "q": 16, "r": 3, "s": 3}
_HEADS: Final = {"h": 32, "m": 4096, "k": 128, "n": 4096}


def points() -> list[Point]:
    """Return what is bounded, with the seconds of the other tool where they are known."""
    single: list[dict[str, Any]] = [
        {"what": "GEMM 4096^3", "kind": "gemm", "sizes": _CUBE, "theirs": "6.06"},
        {"what": "the same, bypass", "kind": "gemm", "sizes": _CUBE, "theirs": "49.89"},
        {"what": "BMM 32 x 4096 x 128 x 4096", "kind": "bmm", "sizes": _HEADS, "theirs": "139.75"},
        {"what": "3x3 convolution", "kind": "conv", "sizes": _CONV, "theirs": "1,531"},
        {
            "what": "GEMM 8192^3, every size",
            "kind": "gemm",
            "sizes": dict.fromkeys("mkn", 8192),
            "imperfect": True,
        },
    ]
    chains: list[dict[str, Any]] = [
        {"what": "attention", "chain": _LA, "theirs": "5 to 22"},
        {"what": "attention, every size", "chain": _LA, "imperfect": True, "theirs": "5 to 22"},
        {"what": "six einsums of a block", "chain": _SIX, "theirs": "37 to 45"},
        {
            "what": "six einsums, every size",
            "chain": _SIX,
            "imperfect": True,
            "theirs": "37 to 45",
        },
    ]
    return [
        {"repeats": 3, "imperfect": False, "theirs": "", "seq_len": 512, **point}
        for point in (*single, *chains)
    ]


def measure(point: Point) -> Row:
    """Time one front."""
    work = _chain(point) if "chain" in point else _single(point)
    seconds, count, mappings = [], 0, 0
    for _ in range(point["repeats"]):
        start = time.process_time()
        count, mappings = work()
        seconds.append(time.process_time() - start)
    return {**point, "points": count, "mappings": mappings, "cpu_seconds": median(seconds)}


def _single(point: Point) -> Callable[[], tuple[int, int]]:
    makers: dict[str, Callable[..., Workload]] = {"gemm": gemm, "bmm": bmm, "conv": conv2d}
    workload = makers[point["kind"]](**point["sizes"])
    space = Mapspace(imperfect=point["imperfect"], bypass="bypass" in point["what"])

    def work() -> tuple[int, int]:
        found = bound(problem_of(workload, workload.operators[0].name), space)
        return len(found.front), found.mappings

    return work


def _chain(point: Point) -> Callable[[], tuple[int, int]]:
    scope = "la" if tuple(point["chain"]) == _LA else "block"
    workload = build("bert", seq_len=point["seq_len"], batch=16, scope=scope)

    def work() -> tuple[int, int]:
        template, imperfect = TEMPLATES["best"], point["imperfect"]
        found = fused_segment(workload, point["chain"], template, imperfect=imperfect)
        return (len(found.front), found.mappings) if found is not None else (0, 0)

    return work


def report(rows: list[Row]) -> str:
    """Write what was measured."""
    lines = []
    for row in rows:
        theirs = row["theirs"].replace(",", "")
        least = float(theirs.split(" to ")[0]) if theirs else None
        ratio = "" if least is None else f"{least / max(row['cpu_seconds'], 1e-6):,.0f} x"
        lines.append(
            [
                row["what"],
                row["points"],
                f"{row['mappings']:,}",
                f"{row['cpu_seconds']:.3g}",
                row["theirs"],
                ratio,
            ]
        )
    return (
        "## Bounds\n\n"
        "Whole fronts, median of 3, CPU seconds; *theirs*: Orojenesis for single einsums, "
        "AccelForge for chains (BERT, 16 sequences of 512; whole fronts of as many operators), "
        "measured apart. The ratio is against their least.\n\n"
        + table(["front", "points", "mappings", "CPU s", "theirs", "ratio"], lines)
    )


BENCHMARK = Benchmark(
    name="bounds",
    points=points,
    measure=lambda point: measure_here("bounds", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(measure)
