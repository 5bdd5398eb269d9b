"""Candidate mappings of an einsum as arrays, and as a family of mapping trees.

A candidate has a factor per level and rank: the pieces that the level makes of a tile. Tile sizes
follow from the inside out and are never larger than the rank. Trees have loops at DRAM, buffer and
PEs, keeps at memories, and spreads at fan-outs. A systolic array gets a buffer's tile as one
command and folds it, so the tree has no loops for folds; its spreads are the sides of a full fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Bools, Branch, Entry, Family, FamilyLoops, Ints, ints, tree_of
from simaccel.hardware.levels import ROLES, Hierarchy, SpatialLevel
from simaccel.hardware.spatial import Fan
from simaccel.mapping.space import BoundOperator
from simaccel.mapping.space import IterationSpace as Ranks
from simaccel.mapping.tree import Do, Keep, Spread, Tree
from simaccel.mapping.view import TensorView
from simaccel.units import ARRAY

Value = TypeVar("Value", np.int64, np.bool_)
INPUTS: Final = len(ROLES) - 1


@dataclass(frozen=True, kw_only=True)
class TilingBatch:
    """Candidate mappings of one einsum on one hierarchy.

    Ranks are in the order of ``einsum.ranks``, levels outermost first as in ``hierarchy.levels``,
    temporal levels as in ``hierarchy.memories``, roles as in ``ROLES``.

    - ``factors`` (candidate, level, rank): pieces P >= 1 that a level makes of a tile. The entry of
      level 0 is ignored: it takes what is left.
    - ``orders`` (candidate, temporal level, rank): rank indices, from the outermost loop in.
    - ``keeps`` (candidate, temporal level, role): whether the level keeps the role.
    """

    factors: Ints
    orders: Ints
    keeps: Bools

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.factors)

    def take(self, which: Ints | Bools | slice) -> TilingBatch:
        """Return some of the candidates, by index, mask or slice."""
        return TilingBatch(
            factors=rows(self.factors, which),
            orders=rows(self.orders, which),
            keeps=rows(self.keeps, which),
        )

    def tiles(self, sizes: Sequence[int]) -> Ints:
        """Return the sizes of full tiles (level, rank, candidate) that enter each level.

        The last entry is what a MAC gets.
        """
        _, n_levels, n_ranks = self.factors.shape
        entering = np.empty((n_levels + 1, n_ranks, len(self)), dtype=np.int64)
        entering[n_levels], entering[0] = 1, np.array(sizes)[:, np.newaxis]
        for level in range(n_levels - 1, 0, -1):
            for rank, size in enumerate(sizes):
                inside = entering[level + 1, rank] * self.factors[:, level, rank]
                np.minimum(inside, size, out=entering[level, rank])
        return entering


def rows(array: npt.NDArray[Value], which: Ints | Bools | slice) -> npt.NDArray[Value]:
    """Return rows of an array (candidate, ...), candidates adjacent in memory for vector speed."""
    last = np.moveaxis(array, 0, -1)
    if isinstance(which, slice):
        return np.moveaxis(last[..., which], -1, 0)
    at = np.flatnonzero(which) if which.dtype == np.bool_ else which
    return np.moveaxis(last.take(at, axis=-1), -1, 0)


def roles_of(op: BoundOperator) -> Iterator[tuple[int, tuple[str, TensorView]]]:
    """Yield (index of the role in ``ROLES``, (name in the tree, view)) of each operand."""
    for position, use in enumerate(op.uses):
        yield (position if position < len(op.inputs) else INPUTS), use


def family_of_candidates(
    space: Ranks,
    leaf: Do,
    hierarchy: Hierarchy,
    candidates: TilingBatch,
    slots: Ints | None = None,
    places: Sequence[Ints] | None = None,
) -> Family:
    """Return candidates as a family of trees.

    ``slots`` (temporal level, role, candidate): one each by default. ``places``: positions of loops
    at each temporal level, by (rank, candidate, order); by default those of ``candidates``.
    """
    tiles = candidates.tiles(list(space.sizes.values()))
    op = space.operators[0]
    names = list(space.sizes)
    branch: list[Entry | Do] = []
    for at, level in enumerate(hierarchy.levels):
        if isinstance(level, SpatialLevel):
            fan = cast("Fan", level.name)
            branch += _fans(names, fan, leaf, candidates.factors[:, at], tiles, at)
            continue
        index = hierarchy.temporal.index(at)
        if index:
            kept = candidates.keeps[:, index].T
            branch += _family_keeps(op, level.name, kept if slots is None else kept * slots[index])
        if index == 0 or leaf.unit != ARRAY:
            at_level = _places(candidates.orders[:, index]) if places is None else places[index]
            branch += _loops(names, tiles[at], tiles[at + 1], at_level)
    whole: Branch = (*branch, leaf)
    return Family(space, whole, {})


def _fans(
    names: Sequence[str], level: Fan, leaf: Do, factors: Ints, tiles: Ints, at: int
) -> list[Spread[Ints]]:
    """Return the spreads of a fan-out; a single one of one piece if no rank is cut there."""
    fans = []
    for rank, name in enumerate(names):
        if np.any(factors[:, rank] > 1):
            tile = tiles[at + 1, rank]
            if leaf.unit == ARRAY:
                # the loops of the buffer are the folds of one command
                tile = -(-tiles[1, rank] // factors[:, rank])
            fans.append(Spread(name, tile, level))
    return fans or [Spread(names[0], tiles[at if leaf.unit != ARRAY else 1, 0], level)]


def _family_keeps(
    op: BoundOperator, level: str, slots: npt.NDArray[np.int64 | np.bool_]
) -> Iterator[Keep[Ints]]:
    kept: dict[str, Ints] = {}
    for role, (name, _) in roles_of(op):
        kept[name] = np.maximum(kept.get(name, ints(0)), slots[role].astype(np.int64))
    for name, counts in kept.items():
        if np.any(counts):
            yield Keep(name, level, ints(counts[0]) if np.all(counts == counts[0]) else counts)


def _places(orders: Ints) -> Ints:
    """Return the place of each rank's loop, by (rank, candidate)."""
    found = np.empty(orders.shape[::-1], dtype=np.int64)
    every = np.arange(len(orders))
    for place in range(orders.shape[1]):
        found[orders[:, place], every] = place
    return found


def _loops(names: Sequence[str], outer: Ints, inner: Ints, places: Ints) -> Iterator[FamilyLoops]:
    busy = [rank for rank in range(len(names)) if np.any(outer[rank] > inner[rank])]
    if busy:
        yield FamilyLoops(
            tuple(names[rank] for rank in busy),
            tuple(inner[rank] for rank in busy),
            tuple(places[rank] for rank in busy),
        )


def tree_of_one(family: Family) -> Tree:
    """Return the tree of a family with one candidate, without loops of a single trip.

    Spreads of a single piece remain where they state the sides of a fold, and at PEs, where the
    program ends.
    """
    tree = tree_of(family)
    silent = {"rows", "cols"} - {node.level for node in tree if isinstance(node, Spread)}
    if isinstance(tree[-1], Do) and tree[-1].unit != ARRAY:
        silent = {"rows"} if len(silent) > 1 else set()
    branch = list(family.branch)
    for at, node in enumerate(branch):
        if isinstance(node, Spread) and node.level in silent:
            silent -= {node.level}
            branch[at] = replace(node, in_all_trees=True)
    return tree_of(replace(family, branch=tuple(branch)))
