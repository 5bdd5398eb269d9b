"""One block of a search: mappings by number, drawn, or like the best so far; and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from simaccel.analytic.nest import Costs, evaluate
from simaccel.mapping.nest import Nests
from simaccel.schedulers.mapspace import Genes, Space
from simaccel.workload import Einsum, Tensor

Objective = Literal["cycles", "energy", "edp"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("cycles", "energy", "edp")
Floats = npt.NDArray[np.float64]
Score = tuple[float, float]
"""The objective and what decides between equals: the smaller the better."""
ELITE: Final = 64
"""Mappings that a block gives back, at most."""
_BLOCK: Final = 2048
"""Mappings in a drawn block."""
_NEW: Final = 0.125
"""The part of a block that is drawn from everywhere once there are parents."""
_CROSSED, _REORDERED, _KEPT_ANEW = 0.25, 0.25, 0.1
"""How often a child has chains of a second parent, an order of its own, and roles of its own."""


@dataclass(frozen=True)
class Problem:
    """What is searched: mapspaces of one einsum, and the bytes per element of its tensors.

    ``known``: mappings to start from, those of the mapspaces that are nearest to them.
    """

    einsum: Einsum
    tensors: Mapping[str, Tensor]
    spaces: tuple[Space, ...]
    known: Nests | None = None


@dataclass(frozen=True)
class Task:
    """One block: mappings ``start`` to ``stop`` of a complete search, or a drawn one."""

    problem: Problem
    objective: Objective
    island: tuple[int, int]
    """Which mapspace, and which of the populations that evolve apart."""
    start: int = 0
    stop: int = 0
    seed: tuple[int, ...] | None = None
    perfect: bool = False
    """Draw more perfect chains than there are."""
    parents: Genes | None = None


@dataclass(frozen=True)
class Outcome:
    """What a block found: how many mappings, its improvements, and its best."""

    island: tuple[int, int]
    gone: int
    """Mappings gone through, invalid ones included."""
    valid: int = 0
    steps: tuple[tuple[int, float], ...] = ()
    """(number of valid mappings until then, objective) of each improvement in the block."""
    scores: tuple[Score, ...] = ()
    """Of the best, in order."""
    genes: Genes | None = None


def score(objective: Objective, costs: Costs) -> tuple[Floats, Floats]:
    """Give the objective of each candidate, and what decides between equals."""
    cycles = costs.cycles.astype(np.float64)
    if objective == "cycles":
        return cycles, costs.energy_pj
    if objective == "energy":
        return costs.energy_pj, cycles
    return costs.edp, cycles


def run_block(task: Task) -> Outcome:
    """Evaluate one block."""
    space = task.problem.spaces[task.island[0]]
    if task.seed is None:
        gone, genes, factors = space.block(task.start, task.stop)
    else:
        drawn = _drawn(space, task, np.random.default_rng(np.random.SeedSequence(task.seed)))
        genes, factors = space.fitting(drawn)
        gone = len(drawn)
    return judge(task, gone, genes, factors)


def judge(task: Task, gone: int, genes: Genes, factors: npt.NDArray[np.int64]) -> Outcome:
    """Evaluate mappings, and give the best of them."""
    space = task.problem.spaces[task.island[0]]
    nests = space.nests(genes, factors)
    costs = evaluate(task.problem.einsum, task.problem.tensors, space.hierarchy, nests)
    valid = np.flatnonzero(costs.valid)
    if not len(valid):
        return Outcome(task.island, gone)
    value, tie = (column[valid] for column in score(task.objective, costs))
    falls = np.flatnonzero(value < np.concatenate([[np.inf], np.minimum.accumulate(value)[:-1]]))
    order = np.lexsort((tie, value))[:ELITE]
    return Outcome(
        task.island,
        gone,
        len(valid),
        tuple((int(at) + 1, float(value[at])) for at in falls),
        tuple((float(value[at]), float(tie[at])) for at in order),
        genes.take(valid[order]),
    )


def _drawn(space: Space, task: Task, rng: np.random.Generator) -> Genes:
    if task.parents is None:
        return space.random(rng, _BLOCK, perfect=task.perfect)
    new = int(_BLOCK * _NEW)
    drawn = space.random(rng, new, perfect=task.perfect)
    return Genes.concatenate([drawn, _children(space, task.parents, _BLOCK - new, rng)])


def _children(space: Space, parents: Genes, n: int, rng: np.random.Generator) -> Genes:
    """Change a little of good mappings: the best of them are changed most often."""
    found = parents.take(np.floor(np.square(rng.random(n)) * len(parents)).astype(np.int64))
    other = parents.take(rng.integers(0, len(parents), n))
    chains = found.chains.copy()
    n_ranks = chains.shape[1]
    crossed = (rng.random(n) < _CROSSED)[:, np.newaxis] & (rng.random((n, n_ranks)) < 0.5)
    np.copyto(chains, other.chains, where=crossed)
    free = np.flatnonzero(np.array(space.chain_counts()) > 1)
    changed = rng.random((n, len(free))) < rng.integers(0, 4, (n, 1)) / max(len(free), 1)
    if len(free):
        changed[np.arange(n), rng.integers(0, len(free), n)] = True
    for at, rank in enumerate(free.tolist()):
        rows = np.flatnonzero(changed[:, at])
        chains[rows, rank] = space.moved(rng, rank, chains[rows, rank])
    anew = space.random(rng, n)
    reordered = rng.random(found.orders.shape) < _REORDERED
    orders = np.where(reordered, anew.orders, found.orders)
    keeps = np.where(rng.random(n) < _KEPT_ANEW, anew.keeps, found.keeps)
    return Genes(chains, orders, keeps)
