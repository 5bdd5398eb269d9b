"""Every mapping of a small space on the machine, against what the schedulers pick from it.

``python -m validation.search.brute`` draws tiny workloads on `toy` (primes, remainders, buffers in
which one slot fits), simulates each mapping of each scheduler's space, and writes `brute.csv`. The
trees are written down here by hand, apart from the schedulers. Cases go on where they were stopped.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations, product
from pathlib import Path
from typing import Final

from simaccel.analytic.prediction import predict
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import mergeable
from simaccel.mapping.tree import (
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Mapping,
    Node,
    Part,
    ResidentScope,
    Span,
    Tree,
)
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.search.effort import Objective
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import energy_pj
from simaccel.study.store import code_digest
from simaccel.workload import ModelDimensions, Workload, attention, gemm

TABLE: Final = Path(__file__).with_name("brute.csv")
FIELDS: Final = ("case", "mappings", "fit", "picked", "optimum", "ratio", "code")
DRAWS: Final = 60
FURTHER: Final = 30
CUT_ROWS: Final = ("dram=q,bh",)
STAGED: Final = ("flex", "best")
LA: Final = ("L", "softmax", "A")
Body = tuple[Group | ResidentScope, ...]


@dataclass(frozen=True)
class Case:
    """A GEMM (m, k, n) or an attention (samples, heads, tokens, head size) on `toy`.

    What the array holds is fixed, if ``holds`` says so.
    """

    dataflow: str
    shape: tuple[int, ...]
    buffer: int
    bandwidth: int = 2
    holds: Stationarity | None = None
    constraints: tuple[str, ...] = ()
    pipeline: bool = False
    objective: Objective = "cycles"

    @property
    def accelerator(self) -> Accelerator:
        """`toy` with its buffer and DRAM."""
        return load_accelerator(
            "toy",
            [
                f"buffer.capacity_bytes={self.buffer} B",
                f"dram.bandwidth_bytes_per_second={self.bandwidth} GB/s",
                "dram.interleave_bytes=16 B",
            ],
        )

    @cached_property
    def workload(self) -> Workload:
        """The operators."""
        if len(self.shape) == 3:
            m, k, n = self.shape
            return gemm(m=m, k=k, n=n)
        batch, heads, tokens, size = self.shape
        one = ModelDimensions(hidden=heads * size, heads=heads, head_size=size, ff_size=size)
        return attention(one, batch=batch, seq_len=tokens, scope="la")

    def picked(self) -> float:
        """Return the objective of what the scheduler picks.

        Raises:
            SimaccelError: nothing fits.
        """
        options = Options(
            tolerance=0.0,
            stationarity=self.holds,
            constraints=self.constraints,
            pipeline=self.pipeline,
            objective=self.objective,
        )
        mapping = make_mapping(self.workload, self.accelerator, self.dataflow, options)
        return figure(self.workload, mapping, self.accelerator, self.objective)

    def bodies(self) -> Iterator[Body]:
        """Yield all mappings of the scheduler's space, those too that don't fit."""
        if len(self.shape) == 3:
            yield from gemm_bodies(self)
        if len(self.shape) != 3 and self.dataflow.startswith(("flat", "flash", "best")):
            yield from fused_bodies(self)
        if len(self.shape) != 3 and self.dataflow.startswith(("naive", "flex", "best")):
            yield from staged_bodies(self)


def figure(
    workload: Workload, mapping: Mapping, on: Accelerator, objective: Objective = "cycles"
) -> float:
    """Return an objective of a mapping on the machine (energy in pJ)."""
    run = Machine(on, lower(workload, mapping)).run()
    if objective == "dram-bytes":
        return sum(n for (level, _), n in run.moved.items() if level.startswith("dram"))
    energy = sum(energy_pj(run, on).values())
    return {"energy": energy, "edp": energy * run.cycles}.get(objective, run.cycles)


def simulated(case: Case) -> tuple[int, int, float | None]:
    """Return how many mappings there are, how many fit, and the smallest objective."""
    on, workload = case.accelerator, case.workload
    room = on.buffer.capacity_bytes or 0
    every, fit, least = 0, 0, None
    for body in case.bodies():
        every += 1
        mapping = mapping_of(workload, "by hand", body)
        if predict(workload, mapping, on).buffer_bytes > room:
            continue
        fit += 1
        value = figure(workload, mapping, on, case.objective)
        least = value if least is None else min(least, value)
    return every, fit, least


def _cut(rank: str, tile: int, size: int) -> tuple[Node, ...]:
    return (Loop(rank, tile),) if tile < size else ()


def _held(case: Case) -> Sequence[Stationarity]:
    return STATIONARITIES if case.holds is None else (case.holds,)


# -- one operator ---------------------------------------------------------------------------------


def gemm_bodies(case: Case) -> Iterator[Body]:
    """Yield a GEMM with every tile size, order, stationarity and one to three slots."""
    sizes = dict(zip("mkn", case.shape, strict=True))
    group = Group(operators=("gemm",), tree=(), merged=mergeable(case.workload, ["gemm"]))
    names = [rank for rank in "mkn" if sizes[rank] > 1]
    seen = set()
    for tiles in product(*(range(1, sizes[rank] + 1) for rank in names)):
        for order in permutations(range(len(names))):
            cuts: Tree = tuple(
                node for at in order for node in _cut(names[at], tiles[at], sizes[names[at]])
            )
            for holds, slots in product(_held(case), (1, 2, 3)):
                keeps = tuple(Keep(name, slots=slots) for name in "ABC")
                tree = (*cuts, *keeps, Do("gemm", "array", holds))
                if tree not in seen:
                    seen.add(tree)
                    yield (replace(group, tree=tree),)


# -- fused ----------------------------------------------------------------------------------------


def _blocks(case: Case) -> Iterator[tuple[int, int]]:
    """Yield heads and rows of the FLAT-tiles of a granularity (all of them without one)."""
    batch, per, q, _ = case.shape
    heads = batch * per
    _, _, granularity = case.dataflow.partition("-")
    for unit in granularity or "mbhr":
        if unit == "m":
            yield heads, q
        elif unit == "b":
            yield from ((per * samples, q) for samples in range(1, max(2, batch)))
        elif unit == "h":
            yield from ((n, q) for n in range(1, max(2, per)))
        else:
            yield from ((1, rows) for rows in range(1, max(2, q)))


def fused_bodies(case: Case) -> Iterator[Body]:
    """Yield L, softmax and A under shared loops: FLAT-tiles with key tiles, or flash."""
    batch, per, q, _ = case.shape
    merged = mergeable(case.workload, list(LA))
    heads = batch * per
    rank = next(iter(merged), "h" if per > 1 else "b")
    flash = case.dataflow == "flash"
    blocks = [(1, rows) for rows in range(1, q + 1)] if flash else dict.fromkeys(_blocks(case))
    sizes = [q] if case.constraints else range(1, q + 1)
    every = product(blocks, sizes, (1, 2), product(_held(case), repeat=2))
    for (count, rows), keys, slots, holds in every:
        for ahead in (0, 1) if case.pipeline else (0,):
            outer = (*_cut(rank, count, heads), *_cut("q", rows, q))
            tree = _fused(outer, (keys, q), slots, holds, ahead=ahead, online=flash)
            yield (Group(operators=LA, tree=tree, merged=merged),)


def _fused(
    outer: Tree,
    keys: tuple[int, int],
    slots: int,
    holds: tuple[Stationarity, Stationarity],
    *,
    ahead: int,
    online: bool,
) -> Tree:
    rows = (Keep("Q", slots=slots), Keep("Z", slots=slots))
    held = Keep("S", slots=1 + ahead)
    k, v = Keep("K", slots=slots), Keep("V", slots=slots)
    stream = _cut("c", *keys)
    logit, softmax, attend = (
        Do("L", "array", holds[0]),
        Do("softmax", "sfu"),
        Do("A", "array", holds[1]),
    )
    if online and stream:
        return (*outer, *rows, *stream, k, v, held, Fork(((logit,), (softmax,), (attend,)), ahead))
    fork = Fork(((*stream, k, logit), (softmax,), (*stream, v, attend)), ahead)
    return (*outer, *rows, held, fork)


# -- one after the other --------------------------------------------------------------------------


def staged_bodies(case: Case) -> Iterator[Body]:
    """Yield L, softmax and A with every number of rows that may stay on chip.

    Only rows are cut, or none (`dram=q,bh`, `dram=bh`), with one to three slots; naive's tiles are
    fixed.
    """
    batch, per, q, d = case.shape
    _, _, granularity = case.dataflow.partition("-")
    every = batch * per * q
    units = {"m": every, "b": per * q, "h": q, "r": 1}
    counts = {n for unit in granularity or "mbhr" for n in range(0, every + 1, units[unit])}
    side = case.accelerator.array.rows
    naive = case.dataflow.startswith("naive")
    rows = [min(q, 4 * side)] if naive else _heights(case, q)
    slots = (2,) if naive else (1, 2, 3)
    fixed = side if naive else q * d
    tiles = list(product(rows, slots))
    vectors = list(product(_heights(case, q), (1, 2, 3)))
    for resident, logit, softmax, attend in product(sorted(counts), tiles, vectors, tiles):
        placed = [
            _alone(case, "L", logit, ("Q", "K", "S"), (("c", fixed), ("d", fixed))),
            _alone(case, "softmax", softmax, ("S",), ()),
            _alone(case, "A", attend, ("P", "V", "Z"), (("d", fixed), ("c", fixed))),
        ]
        yield _resident(case, resident, placed)


def _heights(case: Case, q: int) -> Sequence[int]:
    if case.dataflow.startswith("naive"):
        return sorted({min(q, case.accelerator.array.rows), 1})
    return range(1, q + 1) if case.constraints == CUT_ROWS else [q]


def _alone(
    case: Case,
    name: str,
    tile: tuple[int, int],
    names: Sequence[str],
    cuts: Sequence[tuple[str, int]],
) -> tuple[Group, Tree, str]:
    batch, per, q, d = case.shape
    merged = mergeable(case.workload, list(LA))
    rank = next(iter(merged), "h" if per > 1 else "b")
    sizes = {"c": q, "d": d}
    inner = tuple(node for rank, size in cuts for node in _cut(rank, size, sizes[rank]))
    do = Do(name, "sfu") if name == "softmax" else Do(name, "array", case.holds or "ws")
    tree = (
        *_cut(rank, 1, batch * per),
        *inner,
        *_cut("q", tile[0], q),
        *(Keep(name, slots=tile[1]) for name in names),
        do,
    )
    held = {"L": "S", "softmax": "S", "A": "P"}[name]
    return Group(operators=(name,), tree=(), merged=merged), tree, held


def _resident(case: Case, rows: int, placed: Sequence[tuple[Group, Tree, str]]) -> Body:
    """Return groups in which the first rows of the logits stay on chip."""
    batch, per, q, _ = case.shape
    heads, part = divmod(rows, q)
    if not rows:
        return tuple(replace(group, tree=tree) for group, tree, _ in placed)
    boxes = [(0, heads, q)] * (heads > 0) + [(heads, heads + 1, part)] * (part > 0)
    keeps = tuple(
        Keep("S", region=(Span(low, high), Span(0, n), Span(0, q))) for low, high, n in boxes
    )
    groups = []
    for group, spilled, held in placed:
        kept = tuple(n for n in spilled if not isinstance(n, Keep) or n.tensor != held)
        rank = next(iter(group.merged), "h" if per > 1 else "b")
        tree = _divided(rank, (heads, part, batch * per), kept, spilled)
        groups.append(replace(group, tree=tree))
    return (ResidentScope(keeps=keeps, groups=tuple(groups)),)


def _divided(rank: str, counts: tuple[int, int, int], kept: Tree, spilled: Tree) -> Tree:
    """Return the tree of the heads that stay, of one that stays in part, and of the others."""
    heads, part, every = counts
    branches: list[tuple[int, Tree]] = [(heads, kept)] * (heads > 0)
    if part:
        branches.append((1, (Part("q", (part,), (kept, spilled)),)))
    others = every - heads - bool(part)
    branches += [(others, spilled)] * (others > 0)
    if len(branches) == 1:
        return branches[0][1]
    sizes = tuple(size for size, _ in branches[:-1])
    return (Part(rank, sizes, tuple(one for _, one in branches)),)


# -- the table ------------------------------------------------------------------------------------

SMALL: Final = (
    Case("flex", (5, 1, 3), 96),
    Case("flat", (1, 2, 3, 2), 100, holds="os"),
    Case("flat", (2, 1, 3, 2), 300, 8, holds="ws", pipeline=True),
    Case("flash", (1, 1, 5, 2), 120, holds="is"),
    Case("naive", (1, 2, 3, 2), 150),
    Case("flex", (1, 2, 2, 1), 40, holds="ws", constraints=("dram=bh",)),
    Case("naive-b", (1, 1, 5, 3), 576, 1, holds="os"),
)
"""Cases that a test runs."""


KINDS: Final = ("gemm", "flat", "flat", "flash", "naive", "flex")


def drawn(seed: int, kinds: Sequence[str] = KINDS) -> Case:
    """Draw a case whose mappings are few enough to run."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    bandwidth, holds = rng.choice((1, 2, 8, 32)), rng.choice(STATIONARITIES)
    kind = rng.choice(kinds)
    if kind == "gemm":
        shape = rng.choice([(7, 1, 3), (1, 7, 3), (5, 3, 1), (3, 3, 2), (2, 5, 1), (11, 1, 1)])
        return Case("flex", shape, rng.choice((40, 64, 96, 200)), bandwidth)
    tokens, size = rng.choice((2, 3, 5)), rng.randint(1, 5)
    batch, heads = rng.choice(((1, 1), (1, 2), (1, 3), (2, 1), (2, 2)))
    batch, heads = (1, 2) if kind in STAGED else (batch, heads)
    room = rng.randint(4, 40) * 16
    if kind in STAGED:
        small = (batch, heads, 2, size)
        return Case(kind, small, room // 2, bandwidth, holds, CUT_ROWS)
    name = kind if kind == "flash" else rng.choice((kind, *(f"{kind}-{unit}" for unit in "mbhr")))
    fixed = None if kind != "naive" and tokens <= 3 else holds
    pipeline = kind in ("flat", "flash") and rng.random() < 0.3
    return Case(name, (batch, heads, tokens, size), room, bandwidth, fixed, pipeline=pipeline)


def further(seed: int) -> Case:
    """Draw a case of one dataflow after the other, with other objectives, too."""
    kinds = ("gemm", "flat", "flash", "naive", "flex", "best")
    objectives: tuple[Objective, ...] = ("cycles", "dram-bytes", "energy", "edp")
    objective = random.Random(-seed).choice(objectives)  # noqa: S311 - no secret
    return replace(drawn(seed, kinds[seed % len(kinds) :][:1]), objective=objective)


def measure(case: Case) -> dict[str, object]:
    """Schedule a case, simulate all of its mappings, and put both side by side."""
    every, fit, optimum = simulated(case)
    try:
        picked: float | None = case.picked()
    except SimaccelError:
        picked = None
    ratio = f"{picked / optimum:.4f}" if picked and optimum else ""
    return {
        "case": repr(case),
        "mappings": every,
        "fit": fit,
        "picked": picked or "",
        "optimum": optimum or "",
        "ratio": ratio,
        "code": code_digest()[:12],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, write after each case; 1 if a pick is not the optimum."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N")
    parser.add_argument("--further", type=int, default=FURTHER, metavar="N")
    asked = parser.parse_args(arguments)
    rows = _read()
    others = range(asked.draws, asked.draws + asked.further)
    for case in (*SMALL, *map(drawn, range(asked.draws)), *map(further, others)):
        if repr(case) not in rows:
            rows[repr(case)] = measure(case)
            _write(rows)
        row = rows[repr(case)]
        print(f"{row['ratio'] or '-':>6} {row['fit']:>6} {row['case']}", flush=True)
    ratios = [float(str(row["ratio"])) for row in rows.values() if row["ratio"]]
    missed = [row for row in rows.values() if row["optimum"] and not row["picked"]]
    worse = sum(ratio > 1 for ratio in ratios)
    print(f"{len(ratios)} cases, {worse} picks above the optimum, at worst {max(ratios):.4f}")
    return int(worse > 0 or len(missed) > 0)


def _read() -> dict[str, dict[str, object]]:
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        rows: list[dict[str, object]] = [dict(row) for row in csv.DictReader(file)]
    return {str(row["case"]): row for row in rows if row["code"] == code_digest()[:12]}


def _write(rows: dict[str, dict[str, object]]) -> None:
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


if __name__ == "__main__":
    sys.exit(main())
