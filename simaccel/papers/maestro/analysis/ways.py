"""The ways to the leaves of a tree, and the blocks of an operator that arrive there."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Do, Fork, Loop, Node, Part, Tree
from simaccel.papers.maestro.analysis.dimensions import cut


@dataclass(frozen=True)
class PartShare:
    """Positions that a branch of a ``Part`` gets of its rank: from ``start``; None: the rest."""

    rank: str
    start: int
    size: int | None

    def branch_pieces(self, pieces: Mapping[int, int]) -> dict[int, int]:
        """Return the branch's part of pieces (count by size)."""
        found: Counter[int] = Counter()
        for size, count in pieces.items():
            left = max(0, size - self.start)
            found[left if self.size is None else min(left, self.size)] += count
        del found[0]
        return dict(found)


Way = tuple[Node | PartShare, ...]
"""What stands outside of a leaf, from the outside in."""


def ways_of(tree: Tree, outside: Way = ()) -> Iterator[tuple[Way, Do]]:
    """Yield each leaf with what stands outside of it, shares of parts too."""
    for at, node in enumerate(tree):
        way = (*outside, *tree[:at])
        if isinstance(node, Do):
            yield way, node
        elif isinstance(node, Fork):
            for branch in node.branches:
                yield from ways_of(branch, way)
        elif isinstance(node, Part):
            starts = [0, *itertools.accumulate(node.sizes)]
            for start, size, branch in zip(starts, (*node.sizes, None), node.branches, strict=True):
                yield from ways_of(branch, (*way, PartShare(node.rank, start, size)))


def pieces_of(
    space: IterationSpace, ranks: Sequence[str], way: Way
) -> dict[str, Mapping[int, int]]:
    """Return the pieces (count by size) that loops and parts make of ranks of the group."""
    pieces: dict[str, Mapping[int, int]] = {rank: {space.sizes[rank]: 1} for rank in ranks}
    for node in way:
        if isinstance(node, Loop) and node.rank in pieces:
            pieces[node.rank] = cut(pieces[node.rank], node.tile)
        elif isinstance(node, PartShare) and node.rank in pieces:
            pieces[node.rank] = node.branch_pieces(pieces[node.rank])
    return pieces


def plain_ranks(space: IterationSpace, ranks: Sequence[str]) -> tuple[str, ...]:
    """Return the ranks that loops can cut after some of which follow from others."""
    found = (one for rank in ranks for one, _ in space.derived.get(rank, ((rank, 1),)))
    return tuple(dict.fromkeys(found))


def sizes_of_blocks(
    space: IterationSpace, op: BoundOperator, way: Way
) -> Iterator[tuple[dict[str, int], int]]:
    """Yield the blocks of an operator, the sizes of the group's ranks there, and how many of each.

    A rank that follows from others has its halo in every block.
    """
    plain = plain_ranks(space, op.ranks)
    pieces = pieces_of(space, plain, way)
    for some in itertools.product(*(pieces[rank].items() for rank in plain)):
        sizes = {rank: size for rank, (size, _) in zip(plain, some, strict=True)}
        yield space.widen({**space.sizes, **sizes}), math.prod(count for _, count in some)


def repeats_of(space: IterationSpace, op: BoundOperator, way: Way) -> int:
    """Return how often an operator runs for the loops that it shares and has no rank of."""
    plain = plain_ranks(space, op.ranks)
    others = pieces_of(space, [rank for rank in space.sizes if rank not in plain], way)
    return math.prod(sum(pieces.values()) for pieces in others.values())
