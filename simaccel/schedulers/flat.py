"""FLAT: L, softmax and A fused under shared outer loops, and flash, with key tiles.

Granularities (FLAT, section 5.1): rows of all heads of all samples (M), of whole samples (B), of
whole heads (H), or row blocks of one head (R).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from simaccel.analytic.family import Family
from simaccel.analytic.orojenesis.sizes import even_pieces
from simaccel.hardware import Accelerator
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group, Mapping
from simaccel.schedulers.attention import (
    AttentionProblem,
    FlatTile,
    flat_families,
    problem_of,
    tiled_families,
)
from simaccel.schedulers.flex import AttentionChoice, granularity_choices, schedule
from simaccel.schedulers.resident_attention import GRANULARITIES
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import SearchAccount, merge_accounts
from simaccel.search.candidate_set import CandidateSet, ScoredTree, capacity
from simaccel.search.core_cuts import grids_on_cores
from simaccel.search.grid_search import Goal, search, with_floor
from simaccel.search.near_ties import choose_near_tie
from simaccel.search.problems import Attention, NothingFitsError, Options, Scheduler
from simaccel.search.sizes import FEW, tile_sizes
from simaccel.workload import Workload

_SIDES = 16
"""Rows of up to so many whole array sides are tried, beside even blocks."""
_KEY_SIDES = 8
"""Key tiles of so many array sides are all tried."""
_ROWS = 256
"""Row counts that are all tried; of more, so many, and what is between them, neighbours find."""
_HEADS = (2, 3, 4, 6, 8)
"""Whole heads that flash has on chip at once."""
_INNER = 4
"""Rows, and keys, of tiles inside a FLAT-tile."""
_GAIN = 0.001
"""What tiles inside have to promise, by their bound, to be searched."""


def flat_tiles(
    problem: AttentionProblem, granularity: str, accelerator: Accelerator, keys: Sequence[int] = ()
) -> list[FlatTile]:
    """Return candidate FLAT-tiles of one granularity; heads and rows need not divide.

    ``keys``: sizes of their key tiles (candidates of their own if there are none).
    """
    keys = keys or _key_tiles(problem, accelerator)
    blocks = _blocks(problem, granularity, accelerator)
    return [(heads, rows, k) for heads, rows in blocks for k in keys]


def _key_tiles(problem: AttentionProblem, accelerator: Accelerator) -> list[int]:
    """Return sizes of key tiles; whole array sides, as what rows leave of a buffer is little."""
    every, side = problem.size((problem.c,)), accelerator.array.cols
    sides = {side * n for n in range(1, _KEY_SIDES + 1) if side * n < every}
    return sorted({*tile_sizes(every, side), *sides})


def _blocks(
    problem: AttentionProblem, granularity: str, accelerator: Accelerator
) -> list[tuple[int, int]]:
    """Return the heads and rows that are on chip at once."""
    g, q, sample = problem.size(problem.heads), problem.size(problem.rows), problem.per_sample
    if granularity == "m":
        return [(g, q)]
    if granularity == "b":
        return [(n * sample, q) for n in block_sizes(g // sample)[:-1]] or [(g, q)]
    if granularity == "h":
        return [(n, q) for n in block_sizes(g) if n < sample] or [(1, q)]
    rows = {r for r in tile_sizes(q, accelerator.array.rows) if r < q} or {q}
    rows |= set(range(1, min(q, accelerator.array.rows)))
    return [(1, r) for r in sorted(rows)]


def _may_fit(problem: AttentionProblem, granularity: str, accelerator: Accelerator) -> bool:
    """Return whether the intermediate of a granularity's fewest rows leaves room for others."""
    fewest = min(heads * rows for heads, rows in _blocks(problem, granularity, accelerator))
    return fewest * problem.row_bytes < capacity(accelerator)


def _fitting_granularities(
    problem: AttentionProblem, granularities: str, accelerator: Accelerator
) -> list[str]:
    """Return the granularities of which something may fit, the last one in any case."""
    fit = [letter for letter in granularities if _may_fit(problem, letter, accelerator)]
    return fit or list(granularities[-1:])


def other_rows(problem: AttentionProblem, accelerator: Accelerator) -> list[FlatTile]:
    """Return FLAT-tiles of all row counts that fit and that `flat_tiles` leaves out.

    Where they are many, of those that make as many blocks the smallest, and whole array sides: the
    last block of a larger one is smaller, and nothing else differs.
    """
    q, side = problem.size(problem.rows), accelerator.array.rows
    most = min(q - 1, capacity(accelerator) // problem.row_bytes)
    known = {rows for _, rows in _blocks(problem, "r", accelerator)}
    rows = {r for r in block_sizes(q) if r <= most} | {*range(side, most + 1, side)}
    counts = sorted((rows if most > _ROWS else {*range(1, most + 1)}) - known)
    keys = _sample_sizes(tile_sizes(problem.size((problem.c,)), accelerator.array.cols))
    return [(1, r, k) for r in counts[:: -(-len(counts) // _ROWS) or 1] for k in keys]


def block_sizes(extent: int) -> list[int]:
    """Return the smallest block of each number of blocks that a rank can be cut into.

    A larger block that makes as many needs more room and moves as much; only its last one is
    smaller. Ranks of a few positions have all sizes, as in `tile_sizes`.

    >>> block_sizes(18), block_sizes(7)
    ([1, 2, 3, 4, 5, 6, 9, 18], [1, 2, 3, 4, 5, 6, 7])
    """
    if extent <= FEW:
        return list(range(1, extent + 1))
    return list(even_pieces(extent).tolist())


def flash_tiles(problem: AttentionProblem, accelerator: Accelerator) -> list[FlatTile]:
    """Return candidate row and key blocks of flash; keys in one block are `_whole_keys`."""
    c = problem.size((problem.c,))
    keys = [k for k in tile_sizes(c, accelerator.array.cols) if k < c]
    return [(heads, r, k) for heads, r in _flash_rows(problem, accelerator) for k in keys]


def _whole_keys(problem: AttentionProblem, accelerator: Accelerator) -> list[FlatTile]:
    """Return the row blocks of flash whose keys are in one block: softmax is plain."""
    every = problem.size((problem.c,))
    return [(heads, r, every) for heads, r in _flash_rows(problem, accelerator)]


def _flash_rows(problem: AttentionProblem, accelerator: Accelerator) -> list[tuple[int, int]]:
    """Return heads and rows that are on chip at once: rows of a head, or some whole heads."""
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    rows = [(1, r) for r in tile_sizes(q, accelerator.array.rows)]
    return rows + [(n, q) for n in _HEADS if n < g]


@dataclass(frozen=True)
class GridKind:
    """The candidates of a kind: a first grid, and others that are searched if they promise."""

    name: str
    grids: tuple[CandidateSet, ...]

    def bound(self, room: int) -> float:
        """Return what no objective is below."""
        return min(grid.bound(room) for grid in self.grids)


def grids(
    problem: AttentionProblem, search: TreeSearch, options: Options, granularities: str
) -> list[GridKind]:
    """Return the candidates of each kind; without granularities those of flash."""
    if len(granularities) > 1 and not search.goal.is_shared:
        letters = _fitting_granularities(problem, granularities, search.accelerator)
        return [kind for letter in letters for kind in grids(problem, search, options, letter)]
    key = "grids", problem.part, granularities, options.pipeline
    return search.recall(key, lambda: _make_grids(problem, search.goal, options, granularities))


def _make_grids(
    problem: AttentionProblem, goal: Goal, options: Options, granularities: str
) -> list[GridKind]:

    def of_piece(space: IterationSpace) -> dict[tuple[str, int], list[Family]]:
        piece = replace(problem, space=space)
        return {
            (name, at): families
            for name, kind in _kinds(piece, goal.accelerator, options, granularities)
            for at, families in enumerate(kind)
        }

    by_kind: dict[str, list[CandidateSet]] = {}
    empty = Group(operators=problem.part, tree=(), merged=problem.merged)
    for (name, _), grid in grids_on_cores(empty, problem.space, goal, of_piece).items():
        by_kind.setdefault(name, []).append(grid)
    return [GridKind(name, tuple(grids)) for name, grids in by_kind.items()]


def attention(
    problem: AttentionProblem,
    goal: Goal,
    kinds: Sequence[GridKind],
    name: str,
    limit: float = float("inf"),
) -> tuple[list[Group], float]:
    """Return an attention as one group, and its objective: the best of all kinds.

    Nothing where none is below the limit.

    Raises:
        NothingFitsError: says what the smallest FLAT-tile needs.

    """
    accounts: list[SearchAccount] = []
    best: ScoredTree | None = None
    sets: list[CandidateSet] = []
    left = float("inf")
    for kind in sorted(kinds, key=lambda kind: kind.bound(goal.room)):
        for at, grid in enumerate(kind.grids):
            below = limit if best is None else best.value
            enough = below if best is None else below * (1 - _GAIN * bool(at)) - goal.slack
            if grid.bound(goal.room) >= enough or (accounts and goal.is_over):
                left = min(left, grid.bound(goal.room))
                sets.append(grid)
                continue
            result = search(grid, goal, below, kind.name)
            accounts.append(result.account)
            sets += result.sets
            best = result.best or best
    if best is None and accounts and limit < float("inf"):
        return [], float("inf")
    if best is None:
        smallest = min(grid.smallest for kind in kinds for grid in kind.grids)
        raise NothingFitsError(
            f"{'+'.join(problem.part)}: the smallest FLAT-tile needs {smallest} B, the buffer has "
            f"{goal.room} B"
        )
    account = merge_accounts(name, accounts)
    account = replace(account, left=min(account.left, left))
    goal.note(with_floor(account, kinds[0].grids[0], goal))
    best = choose_near_tie(best, sets, goal.room, limit, account.left)
    group = replace(kinds[0].grids[0].group, tree=best.tree)
    goal.trades.note((group,), best)
    return [group], best.value


def families(
    problem: AttentionProblem, accelerator: Accelerator, options: Options, granularities: str
) -> list[Family]:
    """Return all families of FLAT-tiles; without granularities those of flash."""
    kinds = _kinds(problem, accelerator, options, granularities)
    return [family for _, kind in kinds for some in kind for family in some]


def _kinds(
    problem: AttentionProblem, accelerator: Accelerator, options: Options, granularities: str
) -> Iterator[tuple[str, list[list[Family]]]]:
    """Yield each kind's name, and families: of a grid, and of others."""
    fit = _fitting_granularities(problem, granularities, accelerator)
    whole = [(f"flat-{letter}", flat_tiles(problem, letter, accelerator), letter) for letter in fit]
    whole = whole or [("whole keys", _whole_keys(problem, accelerator), "")]
    online = [] if granularities else [("flash", flash_tiles(problem, accelerator), "")]
    widths = problem.widths(accelerator)
    for is_online, kinds in ((False, whole), (True, online)):
        for name, tiles, granularity in kinds:
            rows = other_rows(problem, accelerator) if granularity == "r" else []
            inner = _inner(problem, granularity, accelerator) if granularity else []
            for pipelined in (False, True) if options.pipeline else (False,):
                cut = partial(
                    flat_families, problem, online=is_online, pipelined=pipelined, widths=widths
                )
                cuts = [list(cut(sizes)) for sizes in (tiles, rows) if sizes]
                if cuts := [grid for grid in cuts if grid]:
                    all_of = cuts if pipelined or not inner else [*cuts, inner]
                    called = f"{name}{' pipelined' if pipelined else ''}"
                    yield called, all_of


def _inner(problem: AttentionProblem, granularity: str, accelerator: Accelerator) -> list[Family]:
    """Return the family of one granularity in which L and A have tiles of their own."""
    array = accelerator.array
    rows = tile_sizes(problem.size(problem.rows), array.rows)
    keys = tile_sizes(problem.size((problem.c,)), array.cols)
    inner = [(r, k) for r in _sample_sizes(rows) for k in _sample_sizes(keys)]
    tiles = flat_tiles(problem, granularity, accelerator, keys[-1:])
    few = tiles[:: -(-len(tiles) // _SIDES)]
    return list(tiled_families(problem, few, inner, problem.widths(accelerator)))


def _sample_sizes(sizes: Sequence[int]) -> list[int]:
    return sorted({*sizes[:: -(-len(sizes) // _INNER)], sizes[-1]})


def choices(
    workload: Workload, search: TreeSearch, options: Options, granularities: str, name: str
) -> list[AttentionChoice]:
    """Return how attentions are mapped: by all granularities, and by each that may be better.

    Without granularities by flash.
    """

    def choice(which: str, workload: Workload, part: Attention) -> list[Group]:
        problem = problem_of(workload, part)
        by = search if which == granularities else search.quiet()
        return attention(problem, by.goal, grids(problem, by, options, which), name)[0]

    names = granularity_choices(granularities, workload, search.goal)
    return [partial(choice, which) for which in names]


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, granularities: str, name: str
) -> Mapping:
    search = TreeSearch(Goal.from_options(accelerator, options, workload))
    some = choices(workload, search, options, granularities, name)
    return schedule(workload, name, search, some)


SCHEDULERS: dict[str, Scheduler] = {
    f"flat-{one}": partial(_schedule, granularities=one, name=f"flat-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["flat"] = partial(_schedule, granularities=GRANULARITIES, name="flat")
SCHEDULERS["flash"] = partial(_schedule, granularities="", name="flash")
