"""Positions of each operator's output that a tree makes, and how often each.

Blocks of a rank that loops cut partition it, so that what is to be shown is about two things. A
rank that is a sum of others has blocks that may overlap or leave gaps between them. And a loop over
a rank that an operator hasn't got runs it again: what leaves its group is made once, what stays in
it may be made again where it is needed again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Loop, Node, Part, Spread
from simaccel.mapping.tree import Mapping as Mapped
from simaccel.mapping.walk import Site, Terms, TreeStep, TreeWalk, walk
from simaccel.workload import Workload

Ints = npt.NDArray[np.int64]


def work_of(workload: Workload, mapping: Mapped) -> dict[str, int]:
    """Return the points of each operator's ranks that a mapping goes over, in one repetition.

    MACs of an einsum, elements of a vector operator; more than the workload has where ranks are
    padded, and where something that stays on chip is made again.
    """
    counter: Counter[str] = Counter()
    for group, around in mapping.groups_with_keeps():
        walked = walk(space_of(workload, group), group, around)
        for site in walked.sites:
            name = site.do.operator
            counter[name] += _points(walked, site)
    return dict(counter)


def _points(walk: TreeWalk, site: Site) -> int:
    """Return the points that a leaf goes over in all iterations of the loops outside."""
    seen, own = walk.bound_leaf(site), walk.ranks_of(site)
    again = {rank for _, rank in site.cutting() if rank not in own}
    points = math.prod(_count(site, rank) for rank in again)
    derived = walk.space.derived
    summed = {rank: derived[rank] for rank in seen.ranks if rank in derived}
    together = {term for terms in summed.values() for term, _ in terms}
    for rank in seen.ranks:
        if rank in together:
            summed[rank] = ((rank, 1),)
        elif rank not in summed:
            points *= site.box[rank][1]
    return points * _joint(site, summed)


def _joint(site: Site, summed: Mapping[str, Terms]) -> int:
    """Return the sum over all blocks of the product of what ranks span that are sums of others."""
    axes = sorted({one for terms in summed.values() for one, _ in terms})
    found: Ints = np.ones((1,) * len(axes), dtype=np.int64)
    for terms in summed.values():
        spans: Ints = np.ones((1,) * len(axes), dtype=np.int64)
        for one, c in terms:
            shape = [-1 if axis == one else 1 for axis in axes]
            spans = spans + c * (_sizes(site, one) - 1).reshape(shape)
        found = found * spans
    return int(found.sum())


def overlapping(site: Site, terms: Terms, start: int) -> bool:
    """Return whether blocks of a sum of ranks share positions in one tile.

    ``start``: the step that keeps it; loops from there on cut its block, the largest that there is.
    """
    inside = site.steps[start:]
    if any(isinstance(step.node, Part) and step.cuts in dict(terms) for step in inside):
        return True
    starts, spans = _blocks(terms, inside, inside[0].sizes)
    ends = starts + spans
    return bool((starts[1:] < np.maximum.accumulate(ends)[:-1]).any())


def leaves_gaps(maker: Site, reader: Site, terms: Terms) -> bool:
    """Return whether a leaf reads positions of a sum of ranks that its maker's blocks leave out.

    Both have the same block of each term where their ways part, and each cuts it on its own. A
    block of a rank with a stride makes its positions and those between them, not those up to the
    next block.
    """
    shared = maker.shared_steps(reader)
    if any(isinstance(step.node, Part) for step in (*maker.steps[shared:], *reader.steps[shared:])):
        return False
    made, read = (_covered_positions(site, terms, shared) for site in (maker, reader))
    return bool((read & ~made).any())


def _covered_positions(site: Site, terms: Terms, start: int) -> npt.NDArray[np.bool_]:
    """Return which positions of a sum of ranks a leaf's blocks cover, cut from a step on."""
    inside = site.steps[start:]
    sizes = inside[0].sizes if inside else site.sizes
    starts, spans = _blocks(terms, inside, sizes)
    ends = np.zeros(2 + sum(c * (sizes[rank] - 1) for rank, c in terms), dtype=np.int64)
    np.add.at(ends, starts, 1)
    np.add.at(ends, starts + spans, -1)
    return np.cumsum(ends) > 0


def _blocks(terms: Terms, steps: Sequence[TreeStep], sizes: Mapping[str, int]) -> tuple[Ints, Ints]:
    """Return the starts of all blocks of a sum of ranks that steps cut, in order, and their sizes.

    ``sizes``: of the block of each rank before the first step.
    """
    starts: Ints = np.zeros(1, dtype=np.int64)
    spans: Ints = np.ones(1, dtype=np.int64)
    for rank, c in terms:
        own = _cut_sizes(sizes[rank], (step.node for step in steps), rank)
        starts = (starts[:, None] + c * (np.cumsum(own) - own)).reshape(-1)
        spans = (spans[:, None] + c * (own - 1)).reshape(-1)
    order = np.argsort(starts, kind="stable")
    return starts[order], spans[order]


def block_spans(site: Site, terms: Terms) -> tuple[int, int, int]:
    """Return the positions of a sum of ranks in all blocks, those of their union, and all of them.

    All are those within the parts outside, up to where the next part begins.
    """
    sizes = {rank: site.box[rank][1] for rank, _ in terms}
    starts, spans = _blocks(terms, site.steps, sizes)
    ends = starts + spans
    reach = sum(c * (site.box[rank][1] - 1) for rank, c in terms)
    behind = [c * site.box[rank][1] for rank, c in terms if _is_parted(site, rank)]
    before = np.maximum.accumulate(np.concatenate(([0], ends[:-1])))
    union = int(np.maximum(ends - np.maximum(starts, before), 0).sum())
    return int(spans.sum()), union, max(1 + reach, *behind, 0)


def _is_parted(site: Site, rank: str) -> bool:
    return any(isinstance(step.node, Part) and step.cuts == rank for step in site.steps)


def is_cut(site: Site, rank: str) -> bool:
    """Return whether loops or parts outside of a leaf cut a rank into several pieces."""
    return _is_parted(site, rank) or _count(site, rank) > 1


def _tiles(site: Site, rank: str) -> tuple[int, ...]:
    """Return the sizes of pieces that loops and spreads outside of a leaf cut a rank into."""
    nodes = (step.node for step in site.steps)
    return tuple(one.tile for one in nodes if isinstance(one, Loop | Spread) and one.rank == rank)


def _count(site: Site, rank: str) -> int:
    """Return the number of pieces of a rank."""
    return _pieces(site.box[rank][1], _tiles(site, rank))


def _pieces(size: int, tiles: tuple[int, ...]) -> int:
    if not size or not tiles:
        return min(size, 1)
    full, rest = divmod(size, tiles[0])
    return full * _pieces(tiles[0], tiles[1:]) + _pieces(rest, tiles[1:])


def _sizes(site: Site, rank: str) -> Ints:
    """Return the sizes of the pieces of a rank, in order."""
    return _cut_sizes(site.box[rank][1], (step.node for step in site.steps), rank)


def _cut_sizes(size: int, some: Iterable[Node], rank: str) -> Ints:
    """Return the sizes of the pieces that nodes cut a block of a rank into, in order."""
    found = [size]
    for node in some:
        if isinstance(node, Loop | Spread) and node.rank == rank:
            found = [min(node.tile, n - at) for n in found for at in range(0, n, node.tile)]
    return np.array(found, dtype=np.int64)
