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

from simaccel.analytic.estimate import estimate
from simaccel.errors import SimaccelError
from simaccel.experiment.code import code_digest
from simaccel.experiment.scheduling import MachineJudge
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.space import mergeable
from simaccel.mapping.tree import Around, Do, Fork, Group, Keep, Loop, Node, Part, Span, Tree
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.problems import mapping_of
from simaccel.workload import Dimensions, Workload, attention, gemm

TABLE: Final = Path(__file__).with_name("brute.csv")
FIELDS: Final = ("case", "mappings", "fit", "picked", "optimum", "ratio", "code")
LA: Final = ("L", "softmax", "A")
Body = tuple[Group | Around, ...]


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
        if len(self.shape) == 3:  # noqa: PLR2004 - m, k, n
            m, k, n = self.shape
            return gemm(m=m, k=k, n=n)
        batch, heads, tokens, size = self.shape
        one = Dimensions(hidden=heads * size, heads=heads, head_size=size, ff_size=size)
        return attention(one, batch=batch, seq_len=tokens, scope="la")

    def picked(self) -> int:
        """Return the cycles of what the scheduler picks.

        Raises:
            SimaccelError: nothing fits.

        """
        judge = MachineJudge(self.accelerator)
        options = Options(
            judge=judge,
            stationarity=self.holds,
            constraints=self.constraints,
            pipeline=self.pipeline,
        )
        mapping = make_mapping(self.workload, self.accelerator, self.dataflow, options)
        return judge(self.workload, mapping)

    def bodies(self) -> Iterator[Body]:
        """Yield all mappings of the scheduler's space, those too that don't fit."""
        if len(self.shape) == 3:  # noqa: PLR2004 - m, k, n
            yield from gemm_bodies(self)
        elif self.dataflow.startswith(("flat", "flash")):
            yield from fused_bodies(self)
        else:
            yield from staged_bodies(self)


def simulated(case: Case) -> tuple[int, int, int | None]:
    """Return how many mappings there are, how many fit, and the fewest cycles."""
    on, workload = case.accelerator, case.workload
    room = on.buffer.capacity_bytes or 0
    judge, every, fit, least = MachineJudge(on), 0, 0, None
    for body in case.bodies():
        every += 1
        mapping = mapping_of(workload, "by hand", body)
        if estimate(workload, mapping, on).buffer_bytes > room:
            continue
        fit += 1
        cycles = judge(workload, mapping)
        least = cycles if least is None else min(least, cycles)
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
    for one in granularity or "mbhr":
        if one == "m":
            yield heads, q
        elif one == "b":
            yield from ((per * samples, q) for samples in range(1, max(2, batch)))
        elif one == "h":
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
    every = product(blocks, range(1, q + 1), (1, 2), product(_held(case), repeat=2))
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

    Only rows are cut (constraint `dram=q`), with one to three slots; naive's tiles are fixed.
    """
    batch, per, q, d = case.shape
    _, _, granularity = case.dataflow.partition("-")
    every = batch * per * q
    units = {"m": every, "b": per * q, "h": q, "r": 1}
    counts = {n for one in granularity or "mbhr" for n in range(0, every + 1, units[one])}
    side = case.accelerator.array.rows
    rows = [min(q, 4 * side)] if case.dataflow.startswith("naive") else range(1, q + 1)
    slots = (2,) if case.dataflow.startswith("naive") else (1, 2, 3)
    fixed = side if case.dataflow.startswith("naive") else q * d
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
    side = case.accelerator.array.rows
    return sorted({min(q, side), 1}) if case.dataflow.startswith("naive") else range(1, q + 1)


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
    inner = tuple(node for one, size in cuts for node in _cut(one, size, sizes[one]))
    do = Do(name, "sfu") if name == "softmax" else Do(name, "array", case.holds or "ws")
    tree = (
        *_cut(rank, 1, batch * per),
        *inner,
        *_cut("q", tile[0], q),
        *(Keep(one, slots=tile[1]) for one in names),
        do,
    )
    held = {"L": "S", "softmax": "S", "A": "P"}[name]
    return Group(operators=(name,), tree=(), merged=merged), tree, held


def _resident(case: Case, rows: int, placed: Sequence[tuple[Group, Tree, str]]) -> Body:
    """Return groups in which the first rows of the logits stay on chip."""
    batch, per, q, _ = case.shape
    heads, part = divmod(rows, q)
    every = batch * per
    if not rows:
        return tuple(replace(group, tree=tree) for group, tree, _ in placed)
    axis = (Span(0, q),)
    keeps = []
    if heads:
        where = (Span(0, heads),) if every > 1 else ()
        keeps.append(Keep("S", region=(*where, Span(0, q), *axis)))
    if part:
        where = (Span(heads, heads + 1),) if every > 1 else ()
        keeps.append(Keep("S", region=(*where, Span(0, part), *axis)))
    groups = []
    for group, spilled, held in placed:
        kept = tuple(n for n in spilled if not isinstance(n, Keep) or n.tensor != held)
        branches: list[tuple[int, Tree]] = []
        if heads:
            branches.append((heads, kept))
        if part:
            branches.append((1, (Part("q", (part,), (kept, spilled)),)))
        if heads + bool(part) < every:
            branches.append((every - heads - bool(part), spilled))
        rank = next(iter(group.merged), "h" if per > 1 else "b")
        tree = branches[0][1]
        if len(branches) > 1:
            sizes = tuple(size for size, _ in branches[:-1])
            tree = (Part(rank, sizes, tuple(one for _, one in branches)),)
        groups.append(replace(group, tree=tree))
    return (Around(keeps=tuple(keeps), groups=tuple(groups)),)
