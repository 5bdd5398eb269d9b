"""Mappings that are counted and bounded per second, and whole searches, on one core.

``before`` are the rates of the forms that the trees replaced, for the same candidates: those of
``before.json``, measured on the same machine beside ``results.json``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Final

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
from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import Family, FamilyLoops, Ints, ints
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import BUFFER, Do, Group, Keep
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.attention import flat_families, problem_of
from simaccel.schedulers.spatial import choices
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.effort import Effort
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge
from simaccel.search.mapspace.nests import map_einsum
from simaccel.workload import build, gemm, network
from simaccel.workload.language.build import transformer

AIM: Final = 1_000_000
TIMELOOP_PER_SECOND: Final = 1850
"""Two-level GEMM mappings per CPU second, measured apart from this."""
BEFORE: Final = Path(__file__).with_name("before.json")
LLAMA: Final = "llama2-7b"
SHAPE: Final = {"m": 512, "k": 768, "n": 3072}
ORDERS: Final = tuple(permutations("mkn"))
NESTS: Final = (
    ("eyeriss_like", "resnet50", "res3b_branch2b"),
    ("simba_like", "alexnet", "conv2"),
    ("edge", "alexnet", "conv2"),
)


@dataclass(frozen=True)
class Work:
    """What is timed: so many candidates at a time."""

    count: int
    do: Callable[[], object]


def points() -> list[Point]:
    """Counting of two groups, of nests, and whole searches."""
    kinds = ("gemm counted", "gemm counted, broadcasting", "flat counted", "flash counted")
    found: list[Point] = [{"kind": kind, "sizes_per_rank": 48, "repeats": 3} for kind in kinds]
    found += [{"kind": "grid", "repeats": 3}]
    for kind in ("nests", "search"):
        found += [{"kind": kind, "case": case, "drawn": 1 << 17, "repeats": 3} for case in NESTS]
    flows = ("naive", "flex", "flat", "flash", "best")
    found += [{"kind": "scheduler", "dataflow": one, "seq_len": 512, "repeats": 3} for one in flows]
    found += [{"kind": "scheduler", "dataflow": "best", "model": LLAMA, "repeats": 3}]
    return found


def tile_sizes(extent: int, count: int) -> Ints:
    """Return ``count`` different tile sizes from 1 to the whole rank, evenly apart."""
    return np.unique(np.linspace(1, extent, min(count, extent)).astype(np.int64))


# -- families


def gemm_family(sizes: list[Ints], order: int = 0) -> Family:
    """Return a GEMM's candidates in one order of loops."""
    workload = gemm(m=SHAPE["m"], k=SHAPE["k"], n=SHAPE["n"])
    space = space_of(workload, Group(operators=("gemm",), tree=()))
    seen = space.operators[0]
    places = tuple(ints(ORDERS[order].index(rank)) for rank in "mkn")
    keeps = tuple(Keep(name, BUFFER, ints(2)) for name in (*seen.names, seen.output.name))
    loops = FamilyLoops(("m", "k", "n"), tuple(sizes), places)
    return Family(space, (loops, *keeps, Do("gemm", "array", "ws")), {})


def fused_family(heads: Ints, rows: Ints, keys: Ints, *, online: bool) -> Family:
    """Return fused attention's candidates, given one by one."""
    problem = problem_of(build("bert", batch=64, seq_len=512, scope="la"), ("L", "softmax", "A"))
    tiles = list(zip(heads.tolist(), rows.tolist(), keys.tolist(), strict=True))
    return next(flat_families(problem, tiles, online=online, pipelined=True))


def _grid(kind: str, point: Point) -> list[Ints]:
    """Return sizes that numpy is to combine."""
    extents = list(SHAPE.values()) if kind == "gemm" else [64 * 12, 512, 512]
    return [tile_sizes(extent, point["sizes_per_rank"]) for extent in extents]


def _flat(sizes: list[Ints]) -> list[Ints]:
    return [np.ascontiguousarray(one.ravel()) for one in np.meshgrid(*sizes, indexing="ij")]


def figures(family: Family, accelerator: Accelerator) -> list[Ints]:
    """Count what a search looks at: bound, DRAM bytes, bytes of buffer."""
    totals = evaluate(family, accelerator)
    dram = totals.counts.total("dram_read") + totals.counts.total("dram_write")
    shape = family.shape
    found = (totals.bound(), dram, totals.buffer_bytes())
    return [np.broadcast_to(one, shape).ravel() for one in found]


# -- work


def group_work(point: Point) -> Work:
    """Return the counting of a group's grid."""
    kind, _, what = point["kind"].partition(" ")
    accelerator, sizes = load_accelerator("edge"), _grid(kind, point)
    if kind == "gemm":
        ix = [ints(one) for one in np.ix_(*sizes)]
        family = gemm_family(ix if what.endswith("broadcasting") else _flat(sizes))
    else:
        family = fused_family(*_flat(sizes), online=kind == "flash")
    count = int(np.prod(family.shape))
    return Work(count, lambda: figures(family, accelerator))


def grid_work(point: Point) -> Work:
    """Return the choice of the best of the grid that the schedulers search."""
    accelerator, workload = load_accelerator("edge"), gemm(**point.get("shape", SHAPE))
    search = TreeSearch(Goal(Judge(accelerator)))
    count = len(search.operator_candidates(workload, "gemm").candidates)
    return Work(count, lambda: TreeSearch(Goal(Judge(accelerator))).group(workload, "gemm"))


def nests_work(point: Point) -> Work:
    """Return the counting of nests drawn from a mapspace, those that fit."""
    hw, model, layer = point["case"]
    workload = network(model, layer=layer)
    target = choices(workload, load_accelerator(hw), "ruby-s", {})[0][0]
    space = target.spaces()[0]
    genes, factors = space.fitting(space.random(np.random.default_rng(0), point["drawn"]))
    drawn = space.candidates(genes, factors)
    fits = drawn.take(target.fits(space, drawn))
    return Work(len(fits), lambda: target.score(space, fits, "edp"))


def search_work(point: Point) -> Work:
    """Return a whole search of a mapspace."""
    hw, model, layer = point["case"]
    workload = network(model, layer=layer)
    target = choices(workload, load_accelerator(hw), "ruby-s", {})[0][0]
    effort = Effort(exhaustive=0, patience=point.get("patience", 20_000), seed=0)
    return Work(map_einsum(target, effort).found.tried, partial(map_einsum, target, effort))


def scheduler_work(point: Point) -> Work:
    """Return the scheduling of a block."""
    if "model" in point:
        workload = transformer(point["model"], prompt=point.get("prompt", 512))
    else:
        workload = build("bert", batch=64, seq_len=point["seq_len"], scope="block")
    accelerator = load_accelerator("edge")
    return Work(1, lambda: make_mapping(workload, accelerator, point["dataflow"], Options()))


_WORK: Final[dict[str, Callable[[Point], Work]]] = {
    "gemm": group_work,
    "flat": group_work,
    "flash": group_work,
    "grid": grid_work,
    "nests": nests_work,
    "search": search_work,
    "scheduler": scheduler_work,
}


def rates(point: Point) -> Row:
    """Do the work once unmeasured, then so many times in CPU time."""
    work = _WORK[point["kind"].partition(" ")[0]](point)
    work.do()
    seconds: list[float] = []
    for _ in range(point["repeats"]):
        started = time.process_time()
        work.do()
        seconds.append(time.process_time() - started)
    return point | {
        "candidates": work.count,
        "cpu_seconds": median(seconds),
        "shares": shares(work.do),
    }


# -- report


def name_of(row: Row) -> str:
    """Return what a row is called; ``before.json`` has the same names for the same work."""
    case = row.get("case")
    which = case[0] if case else row.get("dataflow", "")
    return " ".join([row["kind"], which, row.get("model", "")]).strip()


def before() -> dict[str, float]:
    """Return CPU seconds per candidate of the forms before the trees."""
    if not BEFORE.exists():
        return {}
    found: dict[str, float] = json.loads(BEFORE.read_text(encoding="utf-8"))["cpu_seconds"]
    return found


def _line(row: Row, old: dict[str, float]) -> list[object]:
    each = row["cpu_seconds"] / row["candidates"]
    was = old.get(name_of(row))
    known = [f"{1 / was:,.0f}", f"**{was / each:.2g}**"] if was else ["", ""]
    seconds = f"{row['cpu_seconds']:.3f}"
    per_second = f"{1 / each:,.0f}" if each < 1 else f"{1 / each:.2f}"
    return [name_of(row), f"{row['candidates']:,}", seconds, per_second, *known]


def report(rows: list[Row]) -> str:
    """Write the rates."""
    done = [row for row in rows if row["candidates"]]
    old = before()
    best = max(row["candidates"] / row["cpu_seconds"] for row in done)
    shape = "x".join(map(str, SHAPE.values()))
    head = ["", "candidates", "CPU s", "per second", "before, per second", "times as fast"]
    text = (
        "## Search\n\n"
        f"Candidates of a GEMM {shape} and of fused attention (BERT 512, batch 64) on edge, "
        "48 tile sizes per rank; *counted*: MACs, bytes by tensor and level, buffer and bound. "
        "`grid`: the choice of a scheduler among its own candidates, on the machine; `nests`: "
        "mappings of a layer drawn from "
        "a mapspace; `search`: "
        "a whole search of it with a patience of 20,000; `scheduler`: a BERT block of 512 tokens "
        f"(or a prefill of 512 by {LLAMA}). "
        f"CPU time of one core, medians of {rows[0]['repeats']}. *Before* is the code before "
        "mapping trees, on the same machine in the same hour, which had one closed form for each "
        "kind of mapping. "
        f"Timeloop's {TIMELOOP_PER_SECOND:,} mappings per CPU second were measured apart. "
        f"Aim of {AIM:,} counted per second: "
        f"{aim(best >= AIM)}.\n\n"
    )
    where = [f"- {name_of(row)}: {share_text(row['shares'])}" for row in done]
    profile = "\n\nWhere the time goes, by module, with the profiler on:\n\n" + "\n".join(where)
    return text + table(head, [_line(row, old) for row in done]) + profile


BENCHMARK = Benchmark(
    name="search",
    points=points,
    measure=lambda point: measure_here("search", point)[0],
    report=report,
)

if __name__ == "__main__":
    print_row(rates)
