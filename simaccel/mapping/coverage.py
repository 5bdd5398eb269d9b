"""Coverage: which positions of each operator's output a tree makes, and how often each.

Loops partition a rank, so only two cases need a check. A derived rank (a sum of others) has blocks
that may overlap or leave gaps. And a loop over a rank that an operator lacks repeats the operator:
a tensor that leaves its group must be made once, one that stays inside may be made again.
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
from simaccel.mapping.walk import Site, TreeStep, TreeWalk, walk
from simaccel.workload import Workload
from simaccel.workload.einsum import Terms

Ints = npt.NDArray[np.int64]


def work_of(workload: Workload, mapping: Mapped) -> dict[str, int]:
    """Return the iterations of each operator in a mapping, for one repetition of the workload.

    MACs of an einsum, elements of a vector operator; more than the workload has where ranks are
    padded, and where a tensor that stays on chip is recomputed.
    """
    counter: Counter[str] = Counter()
    for group, around in mapping.groups_with_keeps():
        walked = walk(space_of(workload, group), group, around)
        for site in walked.sites:
            name = site.do.operator
            counter[name] += _points(walked, site)
    return dict(counter)


def _points(walk: TreeWalk, site: Site) -> int:
    """Return the points of a leaf's ranks, over all iterations of the enclosing loops."""
    op, own = walk.bound_leaf(site), walk.ranks_of(site)
    repeating = {rank for _, rank in site.cutting() if rank not in own}
    points = math.prod(_count(site, rank) for rank in repeating)
    derived = walk.space.derived
    summed = {rank: derived[rank] for rank in op.ranks if rank in derived}
    together = {term for terms in summed.values() for term, _ in terms}
    for rank in op.ranks:
        if rank in together:
            summed[rank] = ((rank, 1),)
        elif rank not in summed:
            points *= site.box[rank][1]
    return points * _joint(site, summed)


def _joint(site: Site, summed: Mapping[str, Terms]) -> int:
    """Return the sum over all blocks of the product of the spans of derived ranks."""
    axes = sorted({one for terms in summed.values() for one, _ in terms})
    found: Ints = np.ones((1,) * len(axes), dtype=np.int64)
    for terms in summed.values():
        spans: Ints = np.ones((1,) * len(axes), dtype=np.int64)
        for one, c in terms:
            shape = [-1 if axis == one else 1 for axis in axes]
            sizes = _cut_sizes(site.box[one][1], (step.node for step in site.steps), one)
            spans = spans + c * (sizes - 1).reshape(shape)
        found = found * spans
    return int(found.sum())


def overlapping(site: Site, terms: Terms, start: int) -> bool:
    """Return whether blocks of a sum of ranks overlap within one tile.

    ``start``: index of the step that keeps the tile; loops from there on cut its largest block.
    """
    inside = site.steps[start:]
    if any(isinstance(step.node, Part) and step.cuts in dict(terms) for step in inside):
        return True
    starts, spans = _blocks(terms, inside, inside[0].sizes)
    ends = starts + spans
    return bool((starts[1:] < np.maximum.accumulate(ends)[:-1]).any())


def leaves_gaps(maker: Site, reader: Site, terms: Terms) -> bool:
    """Return whether a leaf reads positions of a sum of ranks that its maker doesn't make.

    Both have the same block of each term below their shared steps, and each cuts it by its own
    loops. A block of a strided rank covers all positions from its first to its last, not those
    between that and the next block.
    """
    shared = maker.shared_steps(reader)
    if any(isinstance(step.node, Part) for step in (*maker.steps[shared:], *reader.steps[shared:])):
        return False
    made, read = (_covered_positions(site, terms, shared) for site in (maker, reader))
    return bool((read & ~made).any())


def _covered_positions(site: Site, terms: Terms, start: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions of a sum of ranks that a leaf's blocks cover.

    ``start``: index of the first step that cuts them.
    """
    inside = site.steps[start:]
    sizes = inside[0].sizes if inside else site.sizes
    starts, spans = _blocks(terms, inside, sizes)
    ends = np.zeros(2 + sum(c * (sizes[rank] - 1) for rank, c in terms), dtype=np.int64)
    np.add.at(ends, starts, 1)
    np.add.at(ends, starts + spans, -1)
    return np.cumsum(ends) > 0


def _blocks(terms: Terms, steps: Sequence[TreeStep], sizes: Mapping[str, int]) -> tuple[Ints, Ints]:
    """Return the starts and the spans of all blocks of a sum of ranks, in order of their starts.

    ``sizes``: the block of each rank before the first step cuts it.
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
    """Return the positions of a sum of ranks: the total of all blocks, their union, and all.

    All: those in the branch of the enclosing parts, up to where the next branch begins.
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
    """Return whether the loops or parts that enclose a leaf cut a rank into several pieces."""
    return _is_parted(site, rank) or _count(site, rank) > 1


def _count(site: Site, rank: str) -> int:
    """Return the number of pieces that loops and spreads outside of a leaf cut a rank into."""
    nodes = (step.node for step in site.steps)
    tiles = (one.tile for one in nodes if isinstance(one, Loop | Spread) and one.rank == rank)
    return _pieces(site.box[rank][1], tuple(tiles))


def _pieces(size: int, tiles: tuple[int, ...]) -> int:
    if not size or not tiles:
        return min(size, 1)
    full, rest = divmod(size, tiles[0])
    return full * _pieces(tiles[0], tiles[1:]) + _pieces(rest, tiles[1:])


def _cut_sizes(size: int, some: Iterable[Node], rank: str) -> Ints:
    """Return the sizes of the pieces that nodes cut a block of a rank into, in order."""
    found = [size]
    for node in some:
        if isinstance(node, Loop | Spread) and node.rank == rank:
            found = [min(node.tile, n - at) for n in found for at in range(0, n, node.tile)]
    return np.array(found, dtype=np.int64)
