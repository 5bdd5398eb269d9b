"""Attention (L, softmax and A): its ranks, families of FLAT-tiles, and one operator after another.

A FLAT-tile (FLAT, section 5.1) is the rows of the intermediate that go from L to A at once. If K
and V of a head don't fit beside a row block, they are tiled and streamed again for each row block;
with a loop over keys that all three operators share, softmax is online (FlashAttention, Dao et al.
2022).

Inside a FLAT-tile, L and A may have tiles and loop orders of their own. Then the buffer holds one
tile each of Q, K, V and Z instead of all of the FLAT-tile, so that whole heads and samples fit.

Where L, softmax and A run one after the other, the intermediate of the whole batch is alive between
them. As much of it stays on chip as fits, in units of a granularity (FLAT, sections 5.1 and 5.3):
all samples and heads (M), whole samples (B), whole heads (H), or any number of rows (R). The rest
goes to DRAM and back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from simaccel.analytic.family import Branch, Family, FamilyLoops, Ints, ints
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import (
    BoundOperator,
    IterationSpace,
    joined_name,
    mergeable,
    natural_ranks,
    space_of,
)
from simaccel.mapping.tree import BUFFER, Do, Fork, Group, Keep, Part, ResidentScope, Span, Tree
from simaccel.numbers import in_bytes
from simaccel.schedulers.einsums import widths_of
from simaccel.search.candidate_set import capacity
from simaccel.search.judge import Body
from simaccel.search.neighbours import nested_loops
from simaccel.search.problems import Attention, heads_per_sample
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector, Workload

_SLOTS = ((2, 2), (1, 1), (1, 3))
"""Slots of Q and Z, which are loaded once a row block, and of K and V, which are streamed."""
FlatTile = tuple[int, int, int]
"""Heads, rows and keys of a FLAT-tile."""


@dataclass(frozen=True)
class AttentionProblem:
    """An attention of a workload as one group, with its ranks by role.

    ``part``: names of L, softmax and A. ``merged``: as of the group. ``space``: of the group.
    """

    workload: Workload
    part: Attention
    merged: dict[str, tuple[str, ...]]
    space: IterationSpace

    @cached_property
    def operators(self) -> tuple[BoundOperator, BoundOperator, BoundOperator]:
        """L, softmax and A."""
        logit, softmax, attend = map(self.space.bound_operator, self.part)
        return logit, softmax, attend

    @cached_property
    def tensors(self) -> tuple[str, str, str, str, str]:
        """Names of Q, K, S, V and Z."""
        logit, _, attend = self.operators
        q, k = logit.names
        return q, k, logit.output.name, attend.names[1], attend.output.name

    @cached_property
    def key_rank(self) -> str:
        """Rank of the keys."""
        return self.space.axes[self.part[1]]

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Ranks of samples and heads, which all five tensors have."""
        logit, _, attend = self.operators
        views = (*logit.inputs, logit.output, *attend.inputs, attend.output)
        return tuple(rank for rank in self.space.sizes if all(rank in view.names for view in views))

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Ranks of Q, S and Z that K and V lack; the last is the first to be tiled."""
        logit = self.operators[0]
        return tuple(
            rank
            for rank in logit.ranks
            if rank in logit.output.names and rank not in self.heads and rank != self.key_rank
        )

    @property
    def intermediates(self) -> tuple[str, str]:
        """Input and output of the softmax: S and P."""
        softmax = self.operators[1]
        return softmax.names[0], softmax.output.name

    def merged_ranks(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return which ranks of an operator form each rank of the group."""
        group = Group(operators=self.part, tree=(), merged=self.merged)
        op = self.space.bound_operator(name)
        every = (natural_ranks(self.space, group, op, at) for at in range(len(op.uses)))
        return {joined_name(own): own for ranks in every for own in ranks if len(own) > 1}

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the intermediate."""
        op = self.operators[1]
        return in_bytes(self.size((self.key_rank,)), max(op.inputs[0].bits, op.output.bits))

    @cached_property
    def per_sample(self) -> int:
        """Heads of one sample."""
        if not self.heads:
            return 1
        merged = self.merged.get(self.heads[-1], (self.heads[-1],))
        return heads_per_sample(self.workload, merged, self.part[0])

    def widths(self, accelerator: Accelerator) -> list[int]:
        """Return the candidate widths of softmax's column tiles; 0: whole rows."""
        op = self.operators[1]
        assert isinstance(op.operator, Vector)  # noqa: S101 - narrows the type
        return [0, *widths_of(self.space, op, op.operator, accelerator)[1:2]]

    def size(self, ranks: Sequence[str]) -> int:
        """Return the product of the sizes of ``ranks``."""
        return math.prod(self.space.sizes[rank] for rank in ranks)


def problem_of(workload: Workload, part: Attention) -> AttentionProblem:
    """Return an attention as a problem of its own, with merged ranks."""
    merged = mergeable(workload, part)
    return AttentionProblem(
        workload, part, merged, space_of(workload, Group(operators=part, tree=(), merged=merged))
    )


def flat_families(
    problem: AttentionProblem,
    tiles: Sequence[FlatTile],
    *,
    online: bool,
    pipelined: bool,
    widths: Sequence[int] = (0,),
) -> Iterator[Family]:
    """Yield the families of FLAT-tiles, with every pair of stationarities.

    ``widths``: widths of softmax's column tiles, a family each (0: whole rows). ``pipelined``
    leaves out tiles that cover all heads and rows, with which nothing could overlap.
    """
    if pipelined and not online:
        whole = problem.size(problem.heads), problem.size(problem.rows)
        tiles = [tile for tile in tiles if tile[:2] != whole]
    if not tiles:
        return
    columns = [ints(list(column)).reshape(-1, 1, 1) for column in zip(*tiles, strict=True)]
    slots = [ints(list(column)).reshape(1, -1, 1) for column in zip(*_SLOTS, strict=True)]
    every = np.indices((len(STATIONARITIES),) * 2).reshape(2, 1, 1, -1)
    held = {problem.part[0]: ints(every[0]), problem.part[2]: ints(every[1])}
    for width in (0,) if online else widths:
        branch = _branch(problem, columns, slots, online=online, ahead=pipelined, width=width)
        yield Family(problem.space, branch, _aliases(problem), held=held)


def tiled_families(
    problem: AttentionProblem,
    tiles: Sequence[FlatTile],
    inner: Sequence[tuple[int, int]],
    widths: Sequence[int] = (0,),
) -> Iterator[Family]:
    """Yield families of FLAT-tiles in which L and A are tiled further, head by head.

    ``inner``: rows and keys of those inner tiles; each in both loop orders and with every pair of
    stationarities. ``widths`` as for `flat_families`.
    """
    heads, rows, _ = (
        ints(list(column)).reshape(-1, 1, 1, 1, 1) for column in zip(*tiles, strict=True)
    )
    rows_in, keys_in = (
        ints(list(column)).reshape(-1, 1, 1, 1) for column in zip(*inner, strict=True)
    )
    first = ints([0, 1]).reshape(-1, 1, 1)
    slots = ints([3, 2, 1]).reshape(-1, 1)
    every = np.indices((len(STATIONARITIES),) * 2).reshape(2, -1)
    held = {problem.part[0]: ints(every[0]), problem.part[2]: ints(every[1])}
    q, k, s, v, z = problem.tensors
    logit, _, attend = problem.part

    def inner_branch(name: str, tensors: tuple[str, str]) -> Branch:
        cuts = nested_loops(problem.space, problem.rows, np.minimum(rows_in, rows))
        n = len(problem.rows)
        ranks = (*problem.rows, problem.key_rank)
        sizes = (*(tile for division in cuts for tile in division.tiles), keys_in)
        places = (*(ints(first * (n + 1) + at) for at in range(n)), ints([n]).reshape(1, 1, 1))
        return (
            *nested_loops(problem.space, problem.heads, ints(1)),
            FamilyLoops(ranks, sizes, places),
            *(Keep(tensor, BUFFER, slots) for tensor in tensors),
            Do(name, ARRAY, STATIONARITIES[0]),
        )

    for width in widths:
        middle = _softmax(problem, width)
        branch: Branch = (
            *nested_loops(problem.space, problem.heads, heads),
            *nested_loops(problem.space, problem.rows, rows),
            Keep(s, BUFFER, ints(1)),
            Fork((inner_branch(logit, (q, k)), middle, inner_branch(attend, (v, z)))),
        )
        yield Family(problem.space, branch, _aliases(problem), held=held)


def _softmax(problem: AttentionProblem, width: int = 0) -> Branch:
    """Return the softmax of the rows on chip, in column tiles of ``width``."""
    cut = FamilyLoops((problem.key_rank,), (ints(width),), (ints(0),))
    return (*([cut] if width else []), Do(problem.part[1], SFU))


def _aliases(problem: AttentionProblem) -> dict[str, str]:
    return {problem.intermediates[1]: problem.tensors[2]}


def _branch(
    problem: AttentionProblem,
    tiles: Sequence[Ints],
    slots: Sequence[Ints],
    *,
    online: bool,
    ahead: bool,
    width: int,
) -> Branch:
    q, k, s, v, z = problem.tensors
    heads, rows, keys = tiles
    few, many = slots
    logit, _, attend = problem.part
    stream = FamilyLoops((problem.key_rank,), (keys,), (ints(0),))
    loops = [
        *nested_loops(problem.space, problem.heads, heads),
        *nested_loops(problem.space, problem.rows, rows),
    ]
    outer: Branch = (*loops, Keep(q, BUFFER, few), Keep(z, BUFFER, few))
    held = Keep(s, BUFFER, ints(2) if ahead else ints(1))
    streamed = (stream, Keep(k, BUFFER, many)), (stream, Keep(v, BUFFER, many))
    do = [Do(name, ARRAY, STATIONARITIES[0]) for name in (logit, attend)]
    if online:
        outer = (*outer, *streamed[0], streamed[1][1])
        branches: tuple[Branch, ...] = ((do[0],), _softmax(problem), (do[1],))
    else:
        branches = ((*streamed[0], do[0]), _softmax(problem, width), (*streamed[1], do[1]))
    return (*outer, held, Fork(branches, int(ahead)))


GRANULARITIES: Final = "mbhr"
ALL: Final = 16
"""Up to this many numbers of resident units are all tried, beside none."""
_SHARES: Final = (0.0, 0.25, 0.5, 0.75, 0.875, 0.9375, 0.96875, 1.0)
"""Shares of the most resident rows that a front has."""

Placed = tuple[Group, str, Tree]
"""An operator's group, the intermediate that it reads or writes, and its tree for rows in DRAM."""


def units(problem: AttentionProblem, granularity: str, accelerator: Accelerator) -> tuple[int, int]:
    """Return the rows of one unit of a granularity, and how many units fit an empty buffer."""
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    unit = {"m": g * q, "b": problem.per_sample * q, "h": q, "r": 1}[granularity]
    if len(problem.heads) > 1 or len(problem.rows) != 1:
        return unit, 0  # what is kept would be more boxes than two
    return unit, min(g * q, capacity(accelerator) // problem.row_bytes) // unit


def candidate_counts(
    problem: AttentionProblem, granularity: str, accelerator: Accelerator
) -> list[int]:
    """Return candidate numbers of resident rows: all of them if few, else shares of the most."""
    unit, most = units(problem, granularity, accelerator)
    if most <= ALL:
        return [unit * count for count in range(most + 1)]
    side = accelerator.array.rows if unit == 1 and most >= 2 * accelerator.array.rows else 1
    return sorted({int(most * share) // side * side * unit for share in _SHARES})


def stage_attention(problem: AttentionProblem, rows: int, placed: Sequence[Placed]) -> Body:
    """Return L, softmax and A one after the other, with ``rows`` of the intermediate kept on chip.

    Resident rows have the same tiles as the others, so that both share slots.
    """
    if not rows:
        return tuple(replace(group, tree=spilled) for group, _, spilled in placed)
    q, c = problem.size(problem.rows), problem.size((problem.key_rank,))
    g = problem.size(problem.heads)
    heads, part = divmod(rows, q)
    s = problem.tensors[2]
    keeps = []
    if heads:
        keeps.append(Keep(s, slots=1, region=_region(problem, (0, heads), (0, q), c)))
    if part:
        keeps.append(Keep(s, slots=1, region=_region(problem, (heads, heads + 1), (0, part), c)))
    groups = []
    for group, held, spilled in placed:
        resident = tuple(
            node for node in spilled if not isinstance(node, Keep) or node.tensor != held
        )
        view = next(
            view
            for _, view in space_of(problem.workload, group).operators[0].uses
            if view.name in problem.intermediates
        )
        tree = _part_tree(view.ranks, (heads, part, g), spilled, resident)
        groups.append(replace(group, tree=tree))
    return (ResidentScope(keeps=tuple(keeps), groups=tuple(groups)),)


def _region(
    problem: AttentionProblem, heads: tuple[int, int], rows: tuple[int, int], c: int
) -> tuple[Span, ...]:
    spans = [Span(*heads)] if problem.heads else []
    return (*spans, Span(*rows), Span(0, c))


def _part_tree(
    ranks: Sequence[str], kept: tuple[int, int, int], spilled: Tree, resident: Tree
) -> Tree:
    """Return the tree of whole heads kept, of a part of one, and of the rest.

    ``ranks`` of the intermediate: of heads if there are any, of rows, of keys.
    """
    heads, part, g = kept
    q = ranks[-2]
    branches: list[Tree] = []
    sizes: list[int] = []
    if heads:
        branches.append(resident)
        sizes.append(heads)
    if part:
        branches.append((Part(q, (part,), (resident, spilled)),))
        sizes.append(1)
    if heads + bool(part) < g:
        branches.append(spilled)
        sizes.append(g - heads - bool(part))
    if len(branches) == 1:
        return branches[0]
    return (Part(ranks[0], tuple(sizes[:-1]), tuple(branches)),)


def parts_of(problem: AttentionProblem) -> Iterator[tuple[str, str]]:
    """Yield L, softmax and A, each with the intermediate that it reads or writes."""
    logit, softmax, attend = problem.part
    s, weights = problem.tensors[2], problem.workload.operator(softmax).output.tensor
    yield from ((logit, s), (softmax, s), (attend, weights))
