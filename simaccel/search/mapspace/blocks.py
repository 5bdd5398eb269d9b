"""Blocks of a search: mappings by number, random ones or variations of the best, with scores."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from simaccel.analytic.evaluation import Floats
from simaccel.analytic.family import Ints, ints
from simaccel.search.columns import MOST_CODES
from simaccel.search.effort import Objective
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.ordered_tilings import best_orders
from simaccel.search.mapspace.space import EinsumMapspace, Genes
from simaccel.search.mapspace.tiling_batch import rows

Score = tuple[float, float]
"""The objective, and the figure that decides between equals; smaller is better."""
ELITE: Final = 128
"""Most mappings of a population."""
_BLOCK: Final = 2048
"""Mappings of a random block."""
_NEW: Final = 0.125
"""Share of a block that is drawn from the whole mapspace once there are parents."""
_CROSSED, _KEPT_ANEW = 0.5, 0.1
"""How often a child has chains of a second parent, and roles of its own."""
_OF_OTHER: Final = 0.5
"""Share of the ranks that a crossed child takes from its second parent."""
_MIX: Final = 1_000_003
_KNOWN: Final = 1 << 16
"""Tilings of blocks before that are remembered."""


@dataclass(frozen=True)
class MapspaceProblem:
    """The mapspaces of one einsum that are searched."""

    target: MappingTarget
    spaces: tuple[EinsumMapspace, ...]


@dataclass(frozen=True)
class Population(Genes):
    """Good and distinct mappings, the best first.

    ``values``: objectives. ``ties``: figures that decide between equals. ``niches``: numbers of the
    ways to distribute work over the spatial levels.
    """

    values: Floats
    ties: Floats
    niches: Ints

    @property
    def best(self) -> Score:
        """The score of the best mapping."""
        return float(self.values[0]), float(self.ties[0])

    def join(self, other: Population | None) -> Population:
        """Return the elite of two populations."""
        if other is None:
            return self
        return Population.concatenate([self, other]).elite()

    def elite(self) -> Population:
        """Return the best of every niche, then the second best of every niche, and so on."""
        order = np.lexsort((self.ties, self.values, self.niches))
        columns = [column[order] for column in (self.niches, self.values, self.ties)]
        equals = [np.concatenate([[False], column[1:] == column[:-1]]) for column in columns]
        different = ~(equals[0] & equals[1] & equals[2])
        order, niches = order[different], columns[0][different]
        place = np.arange(len(niches)) - np.searchsorted(niches, niches)
        values, ties = self.values[order], self.ties[order]
        chosen = order[np.lexsort((ties, values, place))[:ELITE]]
        return self.take(chosen[np.lexsort((self.ties[chosen], self.values[chosen]))])


@dataclass(frozen=True)
class JudgedTilings(Population):
    """Tilings with their scores; ``values`` are infinite where one doesn't fit.

    ``copies``: the orders that a tiling was evaluated in.
    """

    copies: Ints


@dataclass(frozen=True)
class BlockTask:
    """A block: tilings ``start`` to ``stop`` of an exhaustive search, or random mappings."""

    problem: MapspaceProblem
    objective: Objective
    space: int
    """Index of the mapspace in the problem."""
    start: int = 0
    stop: int = 0
    seeds: tuple[tuple[int, ...], ...] = ()
    """Seeds of random mappings, each for a fixed number of them."""
    refine: bool = True
    """Evaluate each tiling in its best orders, and draw perfect chains more often than they occur.
    """
    parents: Population | None = None
    known: JudgedTilings | None = None
    """What blocks before have drawn."""


@dataclass(frozen=True)
class BlockOutcome:
    """The result of a block: the number of mappings, the improvements, and the best.

    A tiling is evaluated in all its orders: it counts as one that was drawn, but as many mappings.
    """

    space: int
    drawn: int
    """Tilings drawn, those beyond fan-outs included."""
    tried: int
    """Mappings evaluated, invalid ones included."""
    tilings: int = 0
    valid: int = 0
    steps: tuple[tuple[int, int, float], ...] = ()
    """(valid tilings, valid mappings so far, objective) at each improvement in the block."""
    found: Population | None = None
    known: JudgedTilings | None = None
    """What this block and those before have drawn."""


def run_block(task: BlockTask) -> BlockOutcome:
    """Evaluate one block."""
    space = task.problem.spaces[task.space]
    if not task.seeds:
        return judge(task, *space.block(task.start, task.stop))
    drawn = Genes.concatenate([_draw_genes(space, task, seed) for seed in task.seeds])
    if not task.refine:
        return judge(task, len(drawn), *space.fitting(drawn))
    judged, known = _judge_once(task, drawn)
    return replace(_outcome(task, len(drawn), int(judged.copies.sum()), judged), known=known)


def judge(task: BlockTask, drawn: int, genes: Genes, factors: Ints) -> BlockOutcome:
    """Evaluate mappings, and return the best of them."""
    return _outcome(task, drawn, drawn, _judge_each(task, genes, factors))


def _outcome(task: BlockTask, drawn: int, tried: int, judged: JudgedTilings) -> BlockOutcome:
    """Return the best tilings of a block, and the improvements."""
    judged = judged.take(judged.values < np.inf)
    if not len(judged):
        return BlockOutcome(task.space, drawn, tried)
    value, until = judged.values, np.cumsum(judged.copies)
    falls = np.flatnonzero(value < np.concatenate([[np.inf], np.minimum.accumulate(value)[:-1]]))
    return BlockOutcome(
        task.space,
        drawn,
        tried,
        len(judged),
        int(until[-1]),
        tuple((int(at) + 1, int(until[at]), float(value[at])) for at in falls),
        judged.elite(),
    )


def _judge_each(task: BlockTask, genes: Genes, factors: Ints) -> JudgedTilings:
    """Evaluate mappings within the fan-outs, tilings in their best orders."""
    target, space = task.problem.target, task.problem.spaces[task.space]
    orders = space.book.counts(factors) if task.refine else np.ones_like(genes.orders)
    values, ties = np.full((2, len(genes)), np.inf)
    judged = JudgedTilings(
        genes.chains,
        genes.orders.copy(),
        genes.keeps,
        values,
        ties,
        _niches(space, factors),
        orders.prod(axis=1),
    )
    candidates = space.candidates(genes, factors, ordered=not task.refine)
    fits = np.flatnonzero(target.fits(space, candidates))
    candidates = candidates.take(fits)
    if task.refine:
        best = best_orders(target, space, candidates, task.objective)
        values[fits], ties[fits], judged.orders[fits] = best.values, best.ties, best.orders
    else:
        values[fits], ties[fits] = target.score(space, candidates, task.objective)
    return judged


def _judge_once(task: BlockTask, drawn: Genes) -> tuple[JudgedTilings, JudgedTilings]:
    """Evaluate tilings, none twice; return those within the fan-outs, and what is known then."""
    space = task.problem.spaces[task.space]
    before = [] if task.known is None else [task.known]
    start = sum(map(len, before))
    codes = _codes(space, Genes.concatenate([*before, drawn]))
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    new = np.flatnonzero(first >= start)
    factors = space.book.factors(drawn.chains[first[new] - start])
    inside = space.within_fan_outs(factors)
    new = new[inside]
    judged = _judge_each(task, drawn.take(first[new] - start), rows(factors, inside))
    known = JudgedTilings.concatenate([*before, judged])
    place = np.where(first < start, first, -1)
    place[new] = np.arange(start, len(known))
    places = place[which.ravel()[start:]]
    return known.take(places[places >= 0]), known.take(slice(-_KNOWN, None))


def _codes(space: EinsumMapspace, tilings: Genes) -> Ints:
    """Return a number for each tiling; the same ones have the same."""
    columns, counts = np.column_stack([tilings.keeps, tilings.chains]), space.chain_counts()
    if math.prod(counts) * len(space.limits.keeps) < MOST_CODES:
        return ints(np.ravel_multi_index(tuple(columns.T), (len(space.limits.keeps), *counts)))
    return ints(np.unique(columns, axis=0, return_inverse=True)[1].ravel())


def _niches(space: EinsumMapspace, factors: Ints) -> Ints:
    """Number the ways to spread work over the spatial levels; different ones may share a number.

    On a systolic array, where only tiles and sides are chosen, each mapping is a way of its own.
    """
    hierarchy = space.hierarchy
    ends_at_pes = hierarchy.temporal[-1] > hierarchy.first_fanout
    found = np.zeros(len(factors), dtype=np.int64)
    for level in hierarchy.spatial if ends_at_pes else range(len(hierarchy.levels)):
        for rank in range(factors.shape[2]):
            found = found * _MIX + factors[:, level, rank]
    return found


def _draw_genes(space: EinsumMapspace, task: BlockTask, seed: tuple[int, ...]) -> Genes:
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    if task.parents is None:
        return space.random(rng, _BLOCK, perfect=task.refine)
    new = int(_BLOCK * _NEW)
    drawn = space.random(rng, new, perfect=task.refine)
    return Genes.concatenate([drawn, _children(space, task.parents, _BLOCK - new, rng)])


def _children(space: EinsumMapspace, parents: Genes, n: int, rng: np.random.Generator) -> Genes:
    """Cross good mappings and change a little of them: the best of them most often."""
    children = parents.take(np.floor(np.square(rng.random(n)) * len(parents)).astype(np.int64))
    other = parents.take(rng.integers(0, len(parents), n))
    chains = children.chains.copy()
    n_ranks = chains.shape[1]
    crossed = (rng.random(n) < _CROSSED)[:, np.newaxis] & (rng.random((n, n_ranks)) < _OF_OTHER)
    np.copyto(chains, other.chains, where=crossed)
    free = np.flatnonzero(np.array(space.chain_counts()) > 1)
    changed = rng.random((n, len(free))) < rng.integers(0, 4, (n, 1)) / max(len(free), 1)
    if len(free):
        changed[np.arange(n), rng.integers(0, len(free), n)] = True
    for at, rank in enumerate(free.tolist()):
        rows = np.flatnonzero(changed[:, at])
        chains[rows, rank] = space.move_chains(rng, rank, chains[rows, rank])
    keeps = np.where(rng.random(n) < _KEPT_ANEW, space.random_keeps(rng, n), children.keeps)
    return Genes(chains, children.orders, keeps)
