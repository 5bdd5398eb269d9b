"""A tree on PEs with memories as cluster levels: the time of directives that say its loops.

A loop is a map in time and a spread one in space, in ranks of the operator, so that all dimensions
are independent (``Y'`` and ``R``, not ``Y``). From the outside in:

- Loops outside of the spreads are a level. A rank that is cut again begins another one, as MAESTRO
  maps a dimension once a level: the level above then runs it again and again.
- Each spread is a level of its own, which a cluster has. Loops in PEs outside of what these keep
  are one more; loops of a rank that no spread has stand as well outside of them.
- A PE has the tile that it keeps, and takes a cycle for each MAC of it, or of the part of it that a
  lane has.

Data enter the array through the NoC, at the last level outside of the spreads (and again at loops
in PEs); within clusters they pass on as they come. Windows with dilation, windows of more than two
ranks, and a third input have no name in the notation.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import PE, Do, Fork, Keep, Loop, Node, Part, Spread, Tree
from simaccel.papers.maestro.analysis.dimensions import cut
from simaccel.papers.maestro.analysis.hardware import UNLIMITED
from simaccel.papers.maestro.analysis.invocations import CaseCosts, Invocations
from simaccel.papers.maestro.analysis.paper import PAPER, Axes, Axis, paper_costs
from simaccel.papers.maestro.analysis.times import InvocationTimes, Points
from simaccel.papers.maestro.dataflows.dataflow import ROLES, DimMap, OutputLevel, Role

Sizes = Mapping[str, int]
_WINDOW: Final = 2
"""Ranks of a window: an output's and a filter's."""


@dataclass(frozen=True)
class Level:
    """A cluster level, and whether its data come through the NoC."""

    output: OutputLevel
    noc: bool = False

    @property
    def maps(self) -> list[str]:
        """Its maps that cut a dimension, as directives."""
        sizes, units = self.output.sizes, self.output.units
        return [
            str(replace(one, spatial=one.spatial and units > 1))
            for one in self.output.maps
            if one.size < sizes[one.dim]
        ]


def silent(op: BoundOperator) -> str:
    """Return which part of an einsum the notation can't express; empty if it can express all."""
    if len(op.uses) != len(ROLES):
        return f"{len(op.inputs)} inputs: the notation has one input and one filter"
    for view in op.inputs:
        for dim in view.terms:
            text = "+".join(rank for rank, _ in dim)
            if len(dim) > _WINDOW:
                return f"{view.name} slides over {text}: the notation slides one rank over another"
            if len(dim) == _WINDOW and any(c > 1 and rank in op.reduced for rank, c in dim):
                return f"{view.name} slides over {text} with dilation, which the notation lacks"
    return ""


def is_uneven(way: Sequence[object]) -> bool:
    """Return whether tensors enter PEs at several depths; the levels then use the outermost."""
    kept = [at for at, one in enumerate(way) if isinstance(one, Keep) and one.level == PE]
    between = way[kept[0] : kept[-1]] if kept else ()
    return any(isinstance(one, Loop) for one in between)


def levels_of(
    space: IterationSpace, op: BoundOperator, sizes: Sizes, way: Sequence[Node]
) -> list[Level]:
    """Return the levels of an einsum that ``way`` leads to; ``sizes`` of the group's ranks.

    Loops that cut none of its ranks are no maps of it: they run it again.
    """
    kept = [at for at, node in enumerate(way) if isinstance(node, Keep) and node.level == PE]
    border = kept[0] if kept else len(way)
    outside, spreads, inside = _split_way(way[:border])
    nest = _ClusterBuilder(space, op, sizes)
    nest.loops(outside)
    for between, spread in spreads:
        nest.loops(between, is_needed=False)
        nest.spread(spread)
    nest.loops(inside, is_needed=False)
    laned = {node.rank for node in way[border:] if isinstance(node, Spread)}
    for node in way[border:]:
        if isinstance(node, Spread):
            nest.spread(node)
        elif isinstance(node, Loop) and node.rank in laned:
            nest.loops([node], noc=False, is_needed=False)
    return nest.levels


def time_of(op: BoundOperator, levels: Sequence[Level], points: Points) -> NDArray[np.int64]:
    """Return the cycles of a block at each hardware point."""
    axes, outputs = _axes(op), [level.output for level in levels]

    def costs_of(depth: int, _: OutputLevel, sizes: Sizes) -> CaseCosts:
        return paper_costs(axes, outputs[depth], sizes, PAPER)

    top = Invocations(outputs, costs_of, {}).top()
    return InvocationTimes(points).runtime(top)


def points_of(levels: Sequence[Level], bandwidth: int, latency: int, cycles_per_mac: int) -> Points:
    """Return two points: a NoC of ``bandwidth`` elements per cycle, and one that takes no time."""
    each = np.ones(2, dtype=np.int64)
    noc = [(bandwidth, latency) if level.noc else (UNLIMITED, 0) for level in levels]
    return Points(
        pes=1,
        noc_bandwidth=np.array([[one for one, _ in noc], [UNLIMITED for _ in noc]]),
        noc_latency=np.array([[one for _, one in noc], [0 for _ in noc]]),
        offchip_bandwidth=UNLIMITED * each,
        simd_lanes=each,
        cycles_per_mac=cycles_per_mac * each,
    )


def directives_text(levels: Sequence[Level]) -> str:
    """Return levels as directives, over outputs."""
    found: list[str] = []
    for at, one in enumerate(levels):
        found += [f"Cluster({one.output.units},P)"] if at else []
        found += one.maps
    return "; ".join(found)


def _axes(op: BoundOperator) -> Axes:
    """Return the dimensions of an einsum's tensors: of a window what strides over what."""
    found: dict[Role, tuple[Axis, ...]] = {}
    for role, (_, view) in zip(ROLES, op.uses, strict=True):
        axes: list[Axis] = []
        for dim in view.terms:
            (rank, stride), *others = sorted(dim, key=lambda one: one[0] in op.reduced)
            axes.append((rank, others[0][0], stride) if others else (rank, "", 1))
        found[role] = tuple(axes)
    return found


def _split_way(
    way: Sequence[Node],
) -> tuple[list[Loop], list[tuple[list[Loop], Spread]], list[Loop]]:
    """Return loops outside of spreads, spreads with loops right outside, and loops inside of all.

    Only loops of a rank that a spread has can't stand outside, nor what comes after them inside.
    """
    spreads: list[tuple[list[Loop], Spread]] = []
    shared = {node.rank for node in way if isinstance(node, Spread)}
    outside: list[Loop] = []
    inside: list[Loop] = []
    for node in way:
        if isinstance(node, Loop):
            is_inside = inside or (spreads and node.rank in shared)
            (inside if is_inside else outside).append(node)
        elif isinstance(node, Spread):
            between = inside if node.rank in {loop.rank for loop in inside} else []
            spreads.append((between, node))
            inside = [] if between else inside
    return outside, spreads, inside


class _ClusterBuilder:
    """A builder of the cluster levels of an einsum from the nodes of a tree."""

    def __init__(self, space: IterationSpace, op: BoundOperator, sizes: Sizes) -> None:
        """Take the sizes of the group's ranks."""
        self.space, self.op = space, op
        self.left = dict(sizes)
        self.entering = {rank: sizes[rank] for rank in op.ranks}
        self.sizes = dict(self.entering)
        self.levels: list[Level] = []

    def loops(self, loops: Sequence[Loop], *, noc: bool = True, is_needed: bool = True) -> None:
        """Add levels of loops, a new one where a rank is cut again; the last may have the NoC."""
        maps: dict[str, DimMap] = {}
        for loop in loops:
            new = {one.dim: one for one in self._cut(loop)}
            if new.keys() & maps.keys():
                self._level(maps, noc=False)
                maps = {}
            maps |= new
            self.sizes |= {rank: one.size for rank, one in new.items()}
        if maps or is_needed:
            self._level(maps, noc=noc)

    def spread(self, spread: Spread) -> None:
        """Add a level with the pieces of a spread in space."""
        for one in self._cut(spread):
            units = -(-(self.sizes[one.dim] - one.size) // one.offset) + 1
            self.sizes[one.dim] = one.size
            self._level({one.dim: replace(one, spatial=True)}, units)

    def _cut(self, node: Loop | Spread) -> list[DimMap]:
        """Return the maps of the operator's ranks that a node cuts."""
        whole = self.left[node.rank]
        self.left[node.rank] = min(node.tile, whole)
        found = []
        for rank in self.op.ranks if node.tile < whole else ():
            step = dict(self.space.terms(rank)).get(node.rank)
            if step is not None:
                size = self.sizes[rank] - (whole - node.tile) * step
                found.append(DimMap(rank, size, node.tile * step))
        return found

    def _level(self, maps: Mapping[str, DimMap], units: int = 1, *, noc: bool = False) -> None:
        """Add a level with one spatial map; dimensions without a map are whole."""
        others = [DimMap(one, n, n) for one, n in self.entering.items() if one not in maps]
        whole = [*maps.values(), *others]
        if not any(one.spatial for one in whole):
            whole[-1] = replace(whole[-1], spatial=True)
        self.levels.append(Level(OutputLevel(tuple(whole), self.entering, units), noc))
        self.entering = dict(self.sizes)


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


def sizes_of_blocks(
    space: IterationSpace, op: BoundOperator, way: Way
) -> Iterator[tuple[dict[str, int], int]]:
    """Yield the blocks of an operator, the sizes of the group's ranks there, and how many of each.

    A rank that follows from others has its halo in every block.
    """
    plain = space.plain_ranks(op.ranks)
    pieces = pieces_of(space, plain, way)
    for some in itertools.product(*(pieces[rank].items() for rank in plain)):
        sizes = {rank: size for rank, (size, _) in zip(plain, some, strict=True)}
        yield space.widen({**space.sizes, **sizes}), math.prod(count for _, count in some)


def repeats_of(space: IterationSpace, op: BoundOperator, way: Way) -> int:
    """Return how often an operator runs for the loops that it shares and has no rank of."""
    plain = space.plain_ranks(op.ranks)
    others = pieces_of(space, [rank for rank in space.sizes if rank not in plain], way)
    return math.prod(sum(pieces.values()) for pieces in others.values())
