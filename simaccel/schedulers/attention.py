"""Attention as one group (L, softmax and A): its ranks, and families of FLAT-tiles.

A FLAT-tile (FLAT, section 5.1) is the rows of the intermediate that go from L to A at once. If K
and V of a head don't fit beside a row block, they are tiled and streamed again for each row block;
with a loop over keys that all three operators share, softmax is online (FlashAttention, Dao et al.
2022).

Inside a FLAT-tile, L and A may have tiles and loop orders of their own. Then the buffer holds one
tile each of Q, K, V and Z instead of all of the FLAT-tile, so that whole heads and samples fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simaccel.analytic.family import Branch, Family, FamilyLoops, Ints, ints
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import IterationSpace, joined_name, mergeable, natural_ranks, space_of
from simaccel.mapping.tree import BUFFER, Do, Fork, Group, Keep
from simaccel.numbers import in_bytes
from simaccel.schedulers.einsums import widths_of
from simaccel.search.problems import Attention, heads_per_sample
from simaccel.search.sizes import nested_loops
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector, Workload

_SLOTS = ((2, 2), (1, 1), (1, 3))
"""Slots of Q and Z, which are loaded once a row block, and of K and V, which are streamed."""
FlatTile = tuple[int, int, int]
"""Heads, rows and keys of a FLAT-tile."""


@dataclass(frozen=True)
class AttentionProblem:
    """An attention of a workload, and the names of its ranks.

    ``g``: heads of all samples together ("" if there is one). ``q``: rows. ``c``: keys. ``heads``:
    heads of one sample.
    """

    workload: Workload
    part: Attention
    merged: dict[str, tuple[str, ...]]
    space: IterationSpace

    @cached_property
    def tensors(self) -> tuple[str, str, str, str, str]:
        """Names of Q, K, S, V and Z."""
        logit, attend = (
            self.space.bound_operator(self.part[0]),
            self.space.bound_operator(self.part[2]),
        )
        q, k = logit.names
        return q, k, logit.output.name, attend.names[1], attend.output.name

    @cached_property
    def c(self) -> str:
        """Rank of the keys."""
        return self.space.axes[self.part[1]]

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Ranks that all five tensors have."""
        logit, attend = (
            self.space.bound_operator(self.part[0]),
            self.space.bound_operator(self.part[2]),
        )
        views = (*logit.inputs, logit.output, *attend.inputs, attend.output)
        return tuple(rank for rank in self.space.sizes if all(rank in view.names for view in views))

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Ranks of Q, S and Z that K and V lack; the last is the first to be tiled."""
        logit = self.space.bound_operator(self.part[0])
        return tuple(
            rank
            for rank in logit.ranks
            if rank in logit.output.names and rank not in self.heads and rank != self.c
        )

    @property
    def intermediates(self) -> tuple[str, str]:
        """Input and output of the softmax: S and P."""
        softmax = self.space.bound_operator(self.part[1])
        return softmax.names[0], softmax.output.name

    def merged_ranks(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return which ranks of an operator form each rank of the group."""
        group = Group(operators=self.part, tree=(), merged=self.merged)
        seen = self.space.bound_operator(name)
        found: dict[str, tuple[str, ...]] = {}
        for number in range(len(seen.uses)):
            for own in natural_ranks(self.space, group, seen, number):
                if len(own) > 1:
                    found[joined_name(own)] = own
        return found

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the intermediate."""
        seen = self.space.bound_operator(self.part[1])
        return in_bytes(self.size((self.c,)), max(seen.inputs[0].bits, seen.output.bits))

    @cached_property
    def per_sample(self) -> int:
        """Heads of one sample."""
        if not self.heads:
            return 1
        merged = self.merged.get(self.heads[-1], (self.heads[-1],))
        return heads_per_sample(self.workload, merged, self.part[0])

    def widths(self, accelerator: Accelerator) -> list[int]:
        """Return the candidate widths of softmax's column tiles; 0: whole rows."""
        seen = self.space.bound_operator(self.part[1])
        assert isinstance(seen.operator, Vector)  # noqa: S101 - narrows the type
        return [0, *widths_of(self.space, seen, seen.operator, accelerator)[1:2]]

    def size(self, ranks: Sequence[str]) -> int:
        """Return the product of the sizes of ``ranks``."""
        found = 1
        for rank in ranks:
            found *= self.space.sizes[rank]
        return found


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
        yield Family(problem.space, branch, {_weights(problem): problem.tensors[2]}, held=held)


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
        ranks = (*problem.rows, problem.c)
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
        yield Family(problem.space, branch, {_weights(problem): s}, held=held)


def _softmax(problem: AttentionProblem, width: int = 0) -> Branch:
    """Return the softmax of the rows on chip, in column tiles of ``width``."""
    cut = FamilyLoops((problem.c,), (ints(width),), (ints(0),))
    return (*([cut] if width else []), Do(problem.part[1], SFU))


def _weights(problem: AttentionProblem) -> str:
    return problem.space.bound_operator(problem.part[1]).output.name


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
    stream = FamilyLoops((problem.c,), (keys,), (ints(0),))
    outer: list[object] = [*nested_loops(problem.space, problem.heads, heads)]
    outer += nested_loops(problem.space, problem.rows, rows)
    outer += [Keep(q, BUFFER, few), Keep(z, BUFFER, few)]
    held = Keep(s, BUFFER, ints(2) if ahead else ints(1))
    do_logit = Do(logit, ARRAY, STATIONARITIES[0])
    do_attend = Do(attend, ARRAY, STATIONARITIES[0])
    if online:
        outer += [stream, Keep(k, BUFFER, many), Keep(v, BUFFER, many), held]
        branches: tuple[Branch, ...] = ((do_logit,), _softmax(problem), (do_attend,))
    else:
        again = FamilyLoops((problem.c,), (keys,), (ints(0),))
        outer.append(held)
        branches = (
            (stream, Keep(k, BUFFER, many), do_logit),
            _softmax(problem, width),
            (again, Keep(v, BUFFER, many), do_attend),
        )
    outer.append(Fork(branches, int(ahead)))
    return tuple(outer)  # type: ignore[arg-type]
