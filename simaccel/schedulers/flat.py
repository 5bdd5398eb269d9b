"""FLAT: L, softmax and A fused under shared outer loops, and flash, with key tiles.

Granularities (FLAT, section 5.1): rows of all heads of all samples (M), of whole samples (B), of
whole heads (H), or row blocks of one head (R).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from simaccel.analytic.family import Family
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group, Mapping
from simaccel.schedulers.attention import FlatTile, Problem, flat_families, problem_of
from simaccel.schedulers.choosing import Candidates, NothingFitsError, tile_sizes
from simaccel.schedulers.einsums import Search
from simaccel.schedulers.flex import GRANULARITIES, schedule
from simaccel.schedulers.problems import Attention, Options, Scheduler
from simaccel.schedulers.search import Goal, fastest, ranked
from simaccel.workload import Workload

_SIDES = 8
"""Key tiles of so many array sides are all tried: what rows leave of a buffer is little."""


def flat_tiles(problem: Problem, granularity: str, accelerator: Accelerator) -> list[FlatTile]:
    """Return candidate FLAT-tiles of one granularity."""
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    every, side = problem.size((problem.c,)), accelerator.array.cols
    sides = {side * n for n in range(1, _SIDES + 1) if side * n < every}
    keys = sorted({*tile_sizes(every, side), *sides})
    if granularity == "m":
        return [(g, q, k) for k in keys]
    if granularity == "b":
        counts = [h for h in _multiples(problem.per_sample, g) if h < g] or [g]
        return [(h, q, k) for h in counts for k in keys]
    if granularity == "h":
        most = problem.per_sample
        counts = [h for h in _multiples(1, most) if h < most] or [1]
        return [(h, q, k) for h in counts for k in keys]
    rows = {r for r in tile_sizes(q, accelerator.array.rows) if r < q} or {q}
    rows |= set(range(1, min(q, accelerator.array.rows)))
    return [(1, r, k) for r in sorted(rows) for k in keys]


def _multiples(unit: int, most: int) -> Iterator[int]:
    count = unit
    while count <= most:
        yield count
        count *= 2


def flash_tiles(problem: Problem, accelerator: Accelerator) -> list[FlatTile]:
    """Return candidate row and key blocks of flash; keys in one block are `_whole_keys`."""
    q, c = problem.size(problem.rows), problem.size((problem.c,))
    rows = tile_sizes(q, accelerator.array.rows)
    keys = [k for k in tile_sizes(c, accelerator.array.cols) if k < c]
    return [(1, r, k) for r in rows for k in keys]


def _whole_keys(problem: Problem, accelerator: Accelerator) -> list[FlatTile]:
    """Return the row blocks of flash whose keys are in one block: softmax is plain."""
    every = problem.size((problem.c,))
    rows = tile_sizes(problem.size(problem.rows), accelerator.array.rows)
    return [(1, r, every) for r in rows]


Grids = Sequence[tuple[str, Candidates]]
"""The candidates of each kind, with what it is called."""


def grids(problem: Problem, goal: Goal, options: Options, granularities: str) -> Grids:
    """Return the candidates of each kind; without granularities those of flash."""
    return [
        (name, goal.grid(families))
        for name, families in _kinds(problem, goal.accelerator, options, granularities)
    ]


def attention(problem: Problem, goal: Goal, kinds: Grids, name: str) -> tuple[list[Group], float]:
    """Return an attention as one group, and its objective.

    The best of each kind is run on the machine, so that all together are never worse than one.

    Raises:
        NothingFitsError: says what the smallest FLAT-tile needs.

    """
    searched = [ranked(grid, goal, name=kind) for kind, grid in kinds]
    found = [one for each in searched for one in each.chosen]
    if not found:
        raise NothingFitsError(
            f"{'+'.join(problem.part)}: the smallest FLAT-tile needs "
            f"{min(grid.smallest for _, grid in kinds)} B, the buffer has {goal.room} B"
        )
    empty = Group(operators=problem.part, tree=(), merged=problem.merged)
    bodies = [([replace(empty, tree=one.tree)], one) for one in found]
    accounts = [one.account for one in searched]
    at, value = fastest(goal, problem.workload, bodies, accounts, name)
    return bodies[at][0], value


def _kinds(
    problem: Problem, accelerator: Accelerator, options: Options, granularities: str
) -> Iterator[tuple[str, list[Family]]]:
    """Yield the families of each kind."""
    whole = [(f"flat-{one}", flat_tiles(problem, one, accelerator)) for one in granularities]
    whole = whole or [("whole keys", _whole_keys(problem, accelerator))]
    online = [] if granularities else [("flash", flash_tiles(problem, accelerator))]
    for is_online, kinds in ((False, whole), (True, online)):
        for name, tiles in kinds:
            for pipelined in (False, True) if options.pipeline else (False,):
                if tiles:
                    families = flat_families(problem, tiles, online=is_online, pipelined=pipelined)
                    yield f"{name}{' pipelined' if pipelined else ''}", list(families)


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, granularities: str, name: str
) -> Mapping:
    goal = Goal.of(accelerator, options)

    def choice(workload: Workload, part: Attention) -> list[Group]:
        problem = problem_of(workload, part)
        return attention(problem, goal, grids(problem, goal, options, granularities), name)[0]

    return schedule(workload, name, Search(goal), choice)


SCHEDULERS: dict[str, Scheduler] = {
    f"flat-{one}": partial(_schedule, granularities=one, name=f"flat-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["flat"] = partial(_schedule, granularities=GRANULARITIES, name="flat")
SCHEDULERS["flash"] = partial(_schedule, granularities="", name="flash")
