"""Families: trees of one shape whose numbers are arrays with an entry per candidate.

A single mapping's tree is a family of one. All arrays broadcast against each other, so orders,
sizes and slots may vary along different axes. Operations on a single number use plain Python, which
is ten times as fast as numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from simaccel.hardware import STATIONARITIES
from simaccel.mapping.cores import CoreCut, cores_of
from simaccel.mapping.space import IterationSpace, aliases_of
from simaccel.mapping.tree import (
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Node,
    Part,
    Spread,
    Tree,
    paths,
    rewrite,
)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
FALSE: Bools = False  # type: ignore[assignment]
"""Plain, as comparisons of single numbers are."""
TRUE: Bools = True  # type: ignore[assignment]
ZERO: Ints = 0  # type: ignore[assignment]
ONE: Ints = 1  # type: ignore[assignment]


def ints(value: object) -> Ints:
    """Return an array as 64-bit integers, a single number as a plain one."""
    found: Any = value
    if type(value) is not int:  # most are
        found = np.asarray(value, dtype=np.int64)
        found = found if found.ndim else int(found)
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class FamilyLoops:
    """Nested loops over different ranks without other nodes between them.

    ``tiles``: size of the pieces of each rank; a tile as large as the rank's size here is no loop.
    ``places``: position of each rank's loop among these, outermost first.
    """

    ranks: tuple[str, ...]
    tiles: tuple[Ints, ...]
    places: tuple[Ints, ...]


@dataclass(frozen=True, eq=False)
class FamilyCut:
    """A part of a rank: ``size`` positions from ``start`` on."""

    rank: str
    start: int
    size: int


Entry = FamilyLoops | Spread[Ints] | Keep[Ints] | FamilyCut
BranchNode = Entry | Do | Fork["Branch"] | Part["Branch"]
Branch = tuple[BranchNode, ...]
"""The nodes of a tree; each branch of a part begins with its cut."""


@dataclass(frozen=True, eq=False)
class TreePath:
    """A leaf with all nodes outside of it, outermost first."""

    entries: tuple[Entry, ...]
    leaf: Do

    @cached_property
    def cutting(self) -> list[tuple[int, FamilyLoops | Spread[Ints] | FamilyCut]]:
        """The entries that cut ranks, each with its number."""
        return [(at, one) for at, one in enumerate(self.entries) if not isinstance(one, Keep)]

    @cached_property
    def kept(self) -> dict[str, list[tuple[int, Keep[Ints]]]]:
        """The keeps by tensor, each with the number of its entry, outermost first."""
        found: dict[str, list[tuple[int, Keep[Ints]]]] = {}
        for at, entry in enumerate(self.entries):
            if isinstance(entry, Keep):
                found.setdefault(entry.tensor, []).append((at, entry))
        return found


@dataclass(frozen=True, eq=False)
class Family:
    """A group's space and the trees of its candidates."""

    space: IterationSpace
    branch: Branch
    aliases: Mapping[str, str]
    """Tensors written in place: output -> tensor whose tile it takes."""
    around: tuple[Keep, ...] = ()
    """The keeps around the group."""
    held: Mapping[str, Ints] = field(default_factory=dict)
    """Stationarity by operator, as an index of ``STATIONARITIES``; by default that of its leaf."""
    around_bits: Mapping[str, int] = field(default_factory=dict)
    """Bits per element of the tiles around; by default the widest of tensors written in place."""
    cut: CoreCut | None = None
    """Spreads over cores around the trees; trees and ``space`` are then those of a full piece."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the candidates' axes."""
        found = [np.shape(array) for array in self.held.values()]

        def note(array: Ints) -> Ints:
            found.append(np.shape(array))
            return array

        _map_branch(self.branch, note)
        return np.broadcast_shapes(*found)

    @property
    def cores(self) -> int:
        """Number of cores with pieces."""
        return cores_of(self.cut.spreads, self.cut.sizes) if self.cut else 1

    @cached_property
    def paths(self) -> tuple[TreePath, ...]:
        """The path of each leaf in order; always the same objects."""
        ways = paths(self.branch)
        return tuple(TreePath(cast("tuple[Entry, ...]", way), leaf) for way, leaf in ways)


def family_of(
    space: IterationSpace,
    group: Group,
    around: Sequence[Keep] = (),
    around_bits: Mapping[str, int] | None = None,
) -> Family:
    """Return a single mapping of a group as a family of one."""
    aliases = aliases_of(space, group.tree, around)
    branch = _branch(group.tree, dict(space.sizes))
    return Family(space, branch, aliases, tuple(around), around_bits=around_bits or {})


def _branch(tree: Tree, sizes: dict[str, int]) -> Branch:
    nodes: list[BranchNode] = []
    loops: list[Loop] = []

    def close() -> None:
        if loops:
            ranks = tuple(loop.rank for loop in loops)
            tiles = tuple(ints(loop.tile) for loop in loops)
            nodes.append(FamilyLoops(ranks, tiles, tuple(ints(at) for at in range(len(ranks)))))
            loops.clear()

    for node in tree:
        if isinstance(node, Loop):
            if node.rank in {loop.rank for loop in loops}:
                close()
            loops.append(node)
            continue
        close()
        nodes.append(_node(node, sizes))
    return tuple(nodes)


def _node(node: Spread | Keep | Fork | Part | Do, sizes: dict[str, int]) -> BranchNode:
    if isinstance(node, Spread):
        return Spread(node.rank, ints(node.tile), node.level)
    if isinstance(node, Keep):
        return Keep(node.tensor, node.level, ints(node.slots), anew=node.anew)
    if isinstance(node, Fork):
        return Fork(tuple(_branch(branch, sizes) for branch in node.branches), node.ahead)
    return _make_part(node, sizes) if isinstance(node, Part) else node


def _make_part(node: Part, sizes: dict[str, int]) -> Part[Branch]:
    """Return a part without the branches that get nothing."""
    branches, cuts = [], []
    for _, start, size, branch in node.shares(sizes[node.rank]):
        inside = _branch(branch, {**sizes, node.rank: size})
        branches.append((FamilyCut(node.rank, start, size), *inside))
        cuts.append(size)
    return Part(node.rank, tuple(cuts[:-1]), tuple(branches))


def take(family: Family, which: tuple[Ints | np.integer[Any], ...] | Ints) -> Family:
    """Return the candidates at ``which`` (an index array per axis) along a single axis.

    With a number per axis the result is one candidate, a family without axes.
    """
    shape = family.shape
    places = which if isinstance(which, tuple) else (which,)
    first = [np.zeros_like(place) for place in places]

    def take_array(array: Ints) -> Ints:
        if not isinstance(array, np.ndarray):
            return array
        if not array.ndim == len(shape) == len(places):
            return ints(np.broadcast_to(array, shape)[which])
        sides = zip(array.shape, places, first, strict=True)
        return ints(array[tuple(place if size > 1 else zero for size, place, zero in sides)])

    return with_arrays(family, take_array)


def with_arrays(family: Family, each: Callable[[Ints], Ints]) -> Family:
    """Return a family with each array replaced by ``each`` of it."""
    held = {name: each(array) for name, array in family.held.items()}
    return replace(family, branch=_map_branch(family.branch, each), held=held)


def _map_branch(branch: Branch, each: Callable[[Ints], Ints]) -> Branch:
    """Return a branch with its arrays replaced; shared nodes stay one object."""

    def map_node(node: BranchNode) -> BranchNode:
        if isinstance(node, FamilyLoops):
            tiles, places = (tuple(map(each, arrays)) for arrays in (node.tiles, node.places))
            return FamilyLoops(node.ranks, tiles, places)
        if isinstance(node, Spread):
            return replace(node, tile=each(node.tile))
        if isinstance(node, Keep):
            return Keep(node.tensor, node.level, each(node.slots), anew=node.anew)
        return node

    return rewrite(branch, map_node)


def tree_of(family: Family) -> Tree:
    """Return the tree of a family of one, without loops of a single piece."""
    spreads = family.cut.spreads if family.cut else ()
    return (*spreads, *_tree(family.branch, dict(family.space.sizes), family.held))


def _tree(branch: Branch, sizes: dict[str, int], held: Mapping[str, Ints]) -> Tree:
    nodes: list[Node] = []
    for node in branch:
        if isinstance(node, FamilyLoops | Spread):
            nodes += _cuts_of(node, sizes)
        elif isinstance(node, Keep):
            keep = Keep(node.tensor, node.level, int(node.slots), anew=node.anew)
            nodes += [keep] * (keep.slots > 0)
        elif isinstance(node, Fork):
            branches = tuple(_tree(inner, dict(sizes), held) for inner in node.branches)
            nodes.append(Fork(branches, node.ahead))
        elif isinstance(node, Part):
            cuts = [cut for cut, *_ in node.branches if isinstance(cut, FamilyCut)]
            inner = (
                _tree(branch[1:], {**sizes, cut.rank: cut.size}, held)
                for branch, cut in zip(node.branches, cuts, strict=True)
            )
            nodes.append(Part(node.rank, node.sizes, tuple(inner)))
        elif isinstance(node, Do):
            which = held.get(node.operator)
            holds = node.stationarity if which is None else STATIONARITIES[int(which)]
            nodes.append(replace(node, stationarity=holds))
    return tuple(nodes)


def _cuts_of(node: FamilyLoops | Spread[Ints], sizes: dict[str, int]) -> Iterator[Loop | Spread]:
    """Yield the loops of several pieces, or the spread; ``sizes`` is updated to those inside."""
    if isinstance(node, Spread):
        if node.in_all_trees or int(node.tile) < sizes[node.rank]:
            sizes[node.rank] = min(int(node.tile), sizes[node.rank])
            yield Spread(node.rank, sizes[node.rank], node.level)
        return
    loops = zip(node.places, node.ranks, node.tiles, strict=True)
    for _, rank, tile in sorted((int(p), rank, int(t)) for p, rank, t in loops):
        if tile < sizes[rank]:
            sizes[rank] = tile
            yield Loop(rank, tile)


Numbers = npt.NDArray[Any]
"""An array, or a plain number."""
_BOOL = np.dtype(np.bool_)


def identity(array: Numbers) -> int:
    """Return a key: an array's identity (valid while it lives), or a plain number's value."""
    return id(array) if type(array) is np.ndarray else ~int(array)


def any_true(where: Numbers) -> bool:
    """Return whether any entry is true (not 0); faster than ``np.any``."""
    if type(where) is not np.ndarray:
        return bool(where)
    if where.dtype is _BOOL:
        return 1 in where.tobytes()
    return bool(np.count_nonzero(where))


def all_true(where: Numbers) -> bool:
    """Return whether all entries are true; faster than ``np.all``."""
    if type(where) is not np.ndarray:
        return bool(where)
    return 0 not in where.tobytes() if where.dtype is _BOOL else bool(where.all())


def maximum(one: Numbers | float, other: Numbers | float) -> Numbers:
    """Return the larger of each pair; of two numbers 20 times as fast as ``np.maximum``."""
    if type(one) is np.ndarray or type(other) is np.ndarray:
        return np.maximum(one, other)
    return max(one, other)  # type: ignore[arg-type]


def minimum(one: Numbers | float, other: Numbers | float) -> Numbers:
    """Return the smaller of each pair; of two numbers 20 times as fast as ``np.minimum``."""
    if type(one) is np.ndarray or type(other) is np.ndarray:
        return np.minimum(one, other)
    return min(one, other)  # type: ignore[arg-type]


def choose(where: Numbers, one: Numbers | float, other: Numbers | float) -> Numbers:
    """Return ``one`` where a condition holds, else ``other``; faster than ``np.where`` on numbers.

    Several arrays are broadcast.
    """
    if np.ndarray in (type(where), type(one), type(other)):
        return np.where(where, one, other)
    return one if where else other  # type: ignore[return-value]
