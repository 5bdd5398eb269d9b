"""What a mapping makes of positions, by brute force: each block of each operator, point by point.

It knows the meaning of the nodes of a tree and nothing of how trees are checked, lowered, counted
or run. Values play no part: of each element of a tensor it counts what was added up to it.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from simaccel.mapping.classes import RankClasses
from simaccel.mapping.space import BoundOperator, IterationSpace, aliases_of, space_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Part, Spread, Tree, nodes
from simaccel.mapping.tree import Mapping as Mapped
from simaccel.mapping.view import TensorView
from simaccel.workload import Operand, Operator, Vector, Workload

Counts = npt.NDArray[np.int64]
Range = tuple[int, int]
"""Start and size of a block of a rank."""
Loops = tuple[tuple[str, int], ...]
"""Which tile of a tensor it is: the iterations of the loops and parts that move it."""


class WrongPositionsError(Exception):
    """A mapping makes something else than its workload; says which element of what."""


def require_positions(workload: Workload, mapping: Mapped) -> None:
    """Execute a mapping of groups, each for itself, on sets of positions.

    Raises:
        WrongPositionsError: an element is read before it is there, not made, or made twice.
    """
    dram = {
        name: np.zeros(shape, dtype=np.int64) for name, shape in sorted(workload.shapes.items())
    }
    for group in mapping.groups:
        _Executed(workload, group, space_of(workload, group), dram).run()
    for operator in workload.operators:
        _require_made(operator, dram[operator.output.tensor])


def _require_made(operator: Operator, counts: Counts) -> None:
    """Require that each element of an operator's output has all of its sum, and nothing twice."""
    wrong = counts[operator.output.box(operator.ranks)] != _summed(operator)
    if wrong.any():
        at = tuple(int(one[0]) for one in wrong.nonzero())
        raise WrongPositionsError(f"{operator.name}: {operator.output.tensor}{at} is not made once")


def _summed(operator: Operator) -> int:
    """Return the points that are added up to an element of the output."""
    return math.prod(n for rank, n in operator.ranks.items() if rank not in operator.output.ranks)


@dataclass
class _Here:
    """Where the walk is: the block of each rank, and the loops and keeps outside."""

    place: str
    ranges: Mapping[str, Range]
    loops: tuple[tuple[str, str, int], ...] = ()
    """(place of the loop, its rank, iteration)."""
    keeps: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Of each tensor the place of the innermost keep, and how many loops stand outside of it."""
    full: Mapping[str, int] = field(default_factory=dict)
    """The size of a full block of each rank."""
    shared: frozenset[str] = frozenset()
    """Ranks that loops cut for several operators, or parts."""


@dataclass
class _Executed:
    """A group in execution; ``dram`` counts for each tensor what was added up to each element."""

    workload: Workload
    group: Group
    space: IterationSpace
    dram: dict[str, Counts]
    tiles: dict[str, tuple[Loops, Counts]] = field(default_factory=dict)
    """The tile of each tensor made here: which one it is, and counts over the whole tensor."""
    made: dict[str, Counts] = field(default_factory=dict)
    gone: dict[str, tuple[Loops, Counts]] = field(default_factory=dict)
    """The tile of each tensor from DRAM that was written over: which one it is, and where."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    owns: dict[str, dict[str, str]] = field(default_factory=dict)
    """Ranks of each operator by their names in the group, where none are merged."""

    def run(self) -> None:
        """Execute the tree, and put what it makes into DRAM."""
        self.aliases = aliases_of(self.space, self.group.tree, ())
        classes = RankClasses([seen.operator for seen in self.space.operators])
        for at, seen in enumerate(self.space.operators):
            names = {classes.name((at, rank)): rank for rank in seen.operator.ranks}
            self.owns[seen.name] = names
        self.made = {
            one.output.name: np.zeros_like(self.dram[one.output.name])
            for one in self.space.operators
        }
        sizes = self.space.sizes
        self.tree(self.group.tree, _Here("", {r: (0, n) for r, n in sizes.items()}, full=sizes))
        for seen in self.space.operators:
            self.leave(seen)

    def leave(self, seen: BoundOperator) -> None:
        """Put an output into DRAM: all of it once; of what stays here, each element at least."""
        operator, name = seen.operator, seen.output.name
        counts = self.made[name]
        if name not in self.space.escapes:
            counts = np.minimum(counts, _summed(operator))
        box = operator.output.box(operator.ranks)
        self.dram[name][box] += counts[box]
        outside = counts.copy()
        outside[box] = 0
        if outside.any():
            raise WrongPositionsError(f"{seen.name} writes beside its part of {name}")

    def tree(self, tree: Tree, here: _Here) -> None:
        """Walk over a tree."""
        node, rest = tree[0], tree[1:]
        place = f"{here.place}.{len(rest)}"
        if isinstance(node, Do):
            self.do(self.space.bound_operator(node.operator), here)
        elif isinstance(node, Fork):
            for at, branch in enumerate(node.branches):
                self.tree(branch, replace(here, place=f"{place}[{at}]"))
        elif isinstance(node, Part):
            self.parts(node, replace(here, place=place))
        elif isinstance(node, Keep):
            keeps = {**here.keeps, node.tensor: (place, len(here.loops))}
            self.tree(rest, replace(here, place=place, keeps=keeps))
        else:
            cuts = here.full[node.rank] > node.tile
            full = {**here.full, node.rank: min(here.full[node.rank], node.tile)}
            for at, piece in enumerate(_pieces(node, here)):
                loops = (*here.loops, (place, node.rank, at)) if cuts else here.loops
                ranges = {**here.ranges, node.rank: piece}
                shared = here.shared | ({node.rank} if cuts and _count(rest) > 1 else set())
                self.tree(rest, _Here(place, ranges, loops, here.keeps, full, shared))

    def parts(self, node: Part, here: _Here) -> None:
        """Walk over the branches of a part."""
        for at, (branch, piece) in enumerate(zip(node.branches, _parts(node, here), strict=True)):
            ranges = {**here.ranges, node.rank: piece}
            full = {**here.full, node.rank: piece[1]}
            loops = (*here.loops, (here.place, node.rank, at))
            if piece[1]:
                shared = here.shared | {node.rank}
                place = f"{here.place}[{at}]"
                self.tree(branch, _Here(place, ranges, loops, here.keeps, full, shared))

    # -- one block of one operator

    def do(self, seen: BoundOperator, here: _Here) -> None:
        """Execute a block: take what it reads, and add to what it makes."""
        operator = seen.operator
        points = self.points(seen, here)
        if isinstance(operator, Vector):
            self.require_windows(operator, points)
            self.require_axis(seen, operator, here)
        for use, given in zip(seen.names, operator.inputs, strict=True):
            self.read(seen, use, _elements(given, points), here)
        self.write(seen, _elements(operator.output, points), here)
        if seen.output.name in self.aliases:
            self.write_over(seen, points, here)

    def write_over(self, seen: BoundOperator, points: Mapping[str, Counts], here: _Here) -> None:
        """Take away what was where an output is made in place: each element over its own."""
        given, output, source = seen.operator.inputs[0], seen.operator.output, seen.names[0]
        where, root = _elements(given, points), self.aliases[seen.output.name]
        mine, its = _places(output, points), _places(given, points)
        if len(mine) != len(its) or any((a != b).any() for a, b in zip(mine, its, strict=True)):
            raise WrongPositionsError(f"{seen.name} writes over other elements of {source}")
        if source not in self.made:
            key = self.iterations(root, seen.inputs[0], here)
            known = self.gone.get(source)
            if known is None or known[0] != key:
                known = self.gone[source] = key, np.zeros_like(self.dram[source])
            known[1][where] = 1
        elif source in self.space.escapes:
            raise WrongPositionsError(f"{seen.name} writes over {source} before it leaves")
        else:
            self.tile(root, source, here)[where] = 0

    def points(self, seen: BoundOperator, here: _Here) -> dict[str, Counts]:
        """Return the positions of an operator's own ranks, point by point."""
        own = self.owns[seen.name]
        found: dict[str, Counts] = {}
        blocks = [self.block(rank, here) for rank in seen.ranks]
        places = np.indices([size for _, size in blocks]).reshape(len(blocks), -1)
        grid = [axis + start for axis, (start, _) in zip(places, blocks, strict=True)]
        for rank, values in zip(seen.ranks, grid, strict=True):
            parts = self.group.merged.get(rank)
            if parts is None:
                found[own[rank]] = values
                continue
            sizes = [seen.operator.ranks[own[one]] for one in parts]
            if values.size and values.max() >= math.prod(sizes):
                raise WrongPositionsError(f"{seen.name} has no {rank} {values.max()}")
            for one, place in zip(parts, np.unravel_index(values, sizes), strict=True):
                found[own[one]] = place
        inside = np.ones(grid[0].shape, dtype=np.bool_)
        for rank, values in found.items():
            if self.group.padded:
                inside &= values < seen.operator.ranks[rank]
            elif values.size and values.max() >= seen.operator.ranks[rank]:
                raise WrongPositionsError(f"{seen.name} has no {rank} {values.max()}")
        return {rank: values[inside] for rank, values in found.items()}

    def block(self, rank: str, here: _Here) -> Range:
        """Return the block of a rank."""
        if rank in here.ranges:
            return here.ranges[rank]
        terms = [(self.block(one, here), c) for one, c in self.space.derived[rank]]
        start = sum(c * low for (low, _), c in terms)
        return start, 1 + sum(c * (size - 1) for (_, size), c in terms)

    def require_windows(self, operator: Operator, points: Mapping[str, Counts]) -> None:
        """Require that a vector operator has all of each window at once."""
        for rank, size in operator.ranks.items():
            gone = rank not in operator.output.ranks
            if gone and len(np.unique(points[rank])) < size:
                raise WrongPositionsError(f"{operator.name} has a part of its windows")

    def require_axis(self, seen: BoundOperator, operator: Vector, here: _Here) -> None:
        """Require that an operator has its axis whole, or goes twice through pieces of its own.

        An einsum that sums over the axis alone may take pieces: it rescales its sums.
        """
        axes = [rank for rank, own in self.owns[seen.name].items() if own == operator.axis]
        for axis in axes:
            if self.block(axis, here)[1] == operator.ranks[operator.axis or ""]:
                continue
            readers = [one for one in self.space.operators if seen.output.name in one.names]
            online = seen.output.name not in self.space.escapes and all(
                one.reduced & set(seen.ranks) == {axis} for one in readers
            )
            if axis in self.space.derived or (axis in here.shared and not online):
                raise WrongPositionsError(f"{seen.name} has a part of its axis")

    def read(self, seen: BoundOperator, use: str, where: tuple[Counts, ...], here: _Here) -> None:
        """Require that what is read is there: in the tile if it is made here, else in DRAM."""
        tensor = use.partition("#")[0]
        makers = [one for one in self.workload.operators if one.output.tensor == tensor]
        counts = self.dram[tensor]
        if tensor in self.made:
            counts = self.tile(self.aliases.get(use, use), tensor, here)
        elif tensor in self.gone:
            key, gone = self.gone[tensor]
            view = next(view for name, view in seen.uses if name == use)
            if key == self.iterations(use, view, here) and gone[where].any():
                raise WrongPositionsError(f"{seen.name} reads of {tensor} what was written over")
        for one in makers:
            box = one.output.box(one.ranks)
            held = np.zeros(counts.shape, dtype=np.bool_)
            held[box] = True
            if (counts[where][held[where]] != _summed(one)).any():
                raise WrongPositionsError(f"{seen.name} reads of {tensor} what isn't there")

    def write(self, seen: BoundOperator, where: tuple[Counts, ...], here: _Here) -> None:
        """Add to what is made."""
        name = seen.output.name
        counts = self.tile(self.aliases.get(name, name), name, here)
        np.add.at(counts, where, 1)
        np.add.at(self.made[name], where, 1)
        if (counts > _summed(seen.operator)).any():
            raise WrongPositionsError(f"{seen.name} makes of {name} again what is there")

    def tile(self, root: str, tensor: str, here: _Here) -> Counts:
        """Return the counts of a tensor in the tile that holds it; a new tile is empty."""
        if root not in here.keeps:
            raise WrongPositionsError(f"{root} is kept nowhere")
        _, outside = here.keeps[root]
        moving = self.moving(root)
        key = _iteration(here.loops[:outside], moving)
        known = self.tiles.get(tensor)
        if known is None or known[0] != key:
            fresh = np.zeros_like(self.dram[tensor])
            if tensor in self.space.escapes and tensor not in self.space.read:
                fresh = self.made[tensor].copy()  # sums come back
            known = self.tiles[tensor] = key, fresh
        return known[1]

    def iterations(self, root: str, view: TensorView, here: _Here) -> Loops:
        """Return which tile of a tensor from DRAM it is: the iterations that load it anew."""
        moving = self.space.moves(view)
        _, outside = here.keeps.get(root, ("", 0))
        return _iteration(here.loops[:outside], moving)

    def moving(self, root: str) -> set[str]:
        """Return the ranks whose loops move a tile, as who makes it sees it, or else who reads."""
        tensor = root.partition("#")[0]
        for seen in self.space.operators:
            if seen.output.name == tensor:
                return set(self.space.moves(seen.output))
        for seen in self.space.operators:
            for use, view in zip(seen.names, seen.inputs, strict=True):
                if use == root:
                    return set(self.space.moves(view))
        return set()


def _count(tree: Tree) -> int:
    """Return how many leaves a tree has."""
    return sum(isinstance(node, Do) for node in nodes(tree))


def _iteration(loops: Sequence[tuple[str, str, int]], moving: Container[str]) -> Loops:
    """Return the iteration of the innermost loop that moves a tile: each has a new one.

    That loop runs anew in each iteration of all loops outside, also where it has but one.
    """
    last = max((n for n, (_, rank, _) in enumerate(loops, 1) if rank in moving), default=0)
    return tuple((place, at) for place, _, at in loops[:last])


def _parts(node: Part, here: _Here) -> Iterator[Range]:
    start, whole = here.ranges[node.rank]
    for size in (*node.sizes, whole - sum(node.sizes)):
        yield start, size
        start += size


def _pieces(node: Loop | Spread, here: _Here) -> Iterator[Range]:
    start, whole = here.ranges[node.rank]
    for at in range(0, whole, node.tile):
        yield start + at, min(node.tile, whole - at)


def _elements(given: Operand, points: Mapping[str, Counts]) -> tuple[Counts, ...]:
    """Return the elements of a tensor that an operand has at some points."""
    starts: Sequence[int] = given.start or (0,) * len(given.projection)
    return tuple(start + one for start, one in zip(starts, _places(given, points), strict=True))


def _places(given: Operand, points: Mapping[str, Counts]) -> tuple[Counts, ...]:
    """Return the places of some points in an operand's box."""
    length = len(next(iter(points.values()))) if points else 1
    found = []
    for dim in given.projection:
        place = np.zeros(length, dtype=np.int64)
        for rank, c in dim.terms:
            place = place + c * points[rank]
        found.append(place)
    return tuple(found)
