"""Families: trees of one shape whose numbers are arrays, an entry for each candidate.

A family of one is a mapping's tree. Arrays of all numbers broadcast against each other, so that
orders, sizes and slots may vary along axes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.mapping.space import Space, aliases_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Part, Spread, Tree

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating[Any]]


def ints(value: object) -> Ints:
    """Return a number (or an array of them) as 64-bit integers."""
    return np.asarray(value, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Loops:
    """Loops over different ranks with nothing between them.

    ``tiles``: size of the pieces by rank; one that isn't smaller than what arrives is no loop.
    ``places``: by rank, where its loop stands among these, from the outermost.
    """

    ranks: tuple[str, ...]
    tiles: tuple[Ints, ...]
    places: tuple[Ints, ...]


@dataclass(frozen=True, eq=False)
class Fan:
    """Pieces of ``tile`` go to the instances of a fan-out at once."""

    rank: str
    tile: Ints
    level: str


@dataclass(frozen=True, eq=False)
class Kept:
    """A tile of a tensor at a level in ``slots`` slots; 0 where it isn't kept."""

    tensor: str
    level: str
    slots: Ints


@dataclass(frozen=True, eq=False)
class Cut:
    """A part of a rank: ``size`` positions from ``start`` of what arrives."""

    rank: str
    start: int
    size: int


@dataclass(frozen=True, eq=False)
class Forked:
    """Branches one after the other, the first ``ahead`` one iteration early."""

    branches: tuple[Branch, ...]
    ahead: int = 0


@dataclass(frozen=True, eq=False)
class Parted:
    """Parts one after the other; each branch begins with its ``Cut``."""

    branches: tuple[Branch, ...]


Entry = Loops | Fan | Kept | Cut
Branch = tuple[Entry | Forked | Parted | Do, ...]


@dataclass(frozen=True, eq=False)
class Path:
    """A leaf with all that stands outside it."""

    entries: tuple[Entry, ...]
    leaf: Do


@dataclass(frozen=True, eq=False)
class Family:
    """A group's space and the trees of its candidates."""

    space: Space
    branch: Branch
    aliases: Mapping[str, str]
    """Tensors made in place: output -> tensor whose tile it takes."""
    around: tuple[Keep, ...] = ()
    """What is kept around the group."""

    def paths(self) -> Iterator[Path]:
        """Yield the path of each leaf, in order."""
        yield from _paths(self.branch, ())


def _paths(branch: Branch, outside: tuple[Entry, ...]) -> Iterator[Path]:
    for node in branch:
        if isinstance(node, Do):
            yield Path(outside, node)
        elif isinstance(node, Forked | Parted):
            for inner in node.branches:
                yield from _paths(inner, outside)
        else:
            outside = (*outside, node)


def family_of(space: Space, group: Group, around: Sequence[Keep] = ()) -> Family:
    """Return one mapping of a group as a family of one."""
    aliases = aliases_of(space, group.tree, around)
    return Family(space, _branch(group.tree, dict(space.sizes)), aliases, tuple(around))


def _branch(tree: Tree, sizes: dict[str, int]) -> Branch:
    found: list[Entry | Forked | Parted | Do] = []
    loops: list[Loop] = []

    def close() -> None:
        if loops:
            ranks = tuple(loop.rank for loop in loops)
            tiles = tuple(ints(loop.tile) for loop in loops)
            found.append(Loops(ranks, tiles, tuple(ints(at) for at in range(len(ranks)))))
            loops.clear()

    for node in tree:
        if isinstance(node, Loop):
            if node.rank in {loop.rank for loop in loops}:
                close()
            loops.append(node)
            continue
        close()
        if isinstance(node, Spread):
            found.append(Fan(node.rank, ints(node.tile), node.level))
        elif isinstance(node, Keep):
            found.append(Kept(node.tensor, node.level, ints(node.slots)))
        elif isinstance(node, Fork):
            branches = tuple(_branch(branch, sizes) for branch in node.branches)
            found.append(Forked(branches, node.ahead))
        elif isinstance(node, Part):
            found.append(_parted(node, sizes))
        else:
            found.append(node)
    return tuple(found)


def _parted(node: Part, sizes: dict[str, int]) -> Parted:
    start, branches = 0, []
    rest = sizes[node.rank] - sum(node.sizes)
    for size, branch in zip((*node.sizes, rest), node.branches, strict=True):
        if size:
            inside = _branch(branch, {**sizes, node.rank: size})
            branches.append((Cut(node.rank, start, size), *inside))
        start += size
    return Parted(tuple(branches))
