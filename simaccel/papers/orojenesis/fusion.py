"""Trees of fused operators: shared loops, tensors kept over the fork, and a branch each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

from simaccel.analytic.sizes import divisors, even_pieces
from simaccel.mapping.checks import faults
from simaccel.mapping.space import BoundOperator, IterationSpace, mergeable, space_of
from simaccel.mapping.tree import (
    BUFFER,
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Mapping,
    Tree,
    WorkloadReference,
)
from simaccel.mapping.view import TensorView
from simaccel.units import ARRAY, SFU
from simaccel.workload import Vector, Workload

MOST_SHARED = 3
"""Shared loops, those of the batch left out."""
MOST_WINDOWED = 3
"""Convolutions of one group; each more costs several times as much."""


@dataclass(frozen=True)
class BranchKeeps:
    """The tensors from outside that a branch keeps ``inside``; others are kept over the fork.

    The last of them is an element, one before it a vector; ``whole``: those of them whose windows
    are not cut.
    """

    inside: tuple[str, ...]
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TreeKind:
    """A kind of trees: whether reduced ranks are shared, and which tensors branches may keep."""

    name: str
    tiled: bool = True
    rows: bool = True
    inputs: bool = True
    outputs: bool = True


TEMPLATES = {
    one.name: one
    for one in (
        TreeKind("untiled", tiled=False, rows=False),
        TreeKind("full", tiled=False, inputs=False, outputs=False),
        TreeKind("tiled-k", tiled=False, outputs=False),
        TreeKind("tiled-n", tiled=False, inputs=False),
        TreeKind("tiled-kn"),
        TreeKind("flat", tiled=False),
        TreeKind("flash"),
        TreeKind("best"),
    )
}
"""Fusion-friendly mapping templates (Huang et al., section V), by name.

``full`` keeps rows of inputs and outputs; ``tiled-k`` brings inputs in pieces, ``tiled-n`` takes
outputs away in pieces; ``flat`` does both with whole rows of what is between (FLAT), ``tiled-kn``
and ``flash`` also cut that. ``best`` is all of them.
"""


@dataclass(frozen=True)
class FusedGroup:
    """Operators of a workload as one group."""

    workload: Workload
    operators: tuple[str, ...]
    imperfect: bool

    @cached_property
    def merged(self) -> dict[str, tuple[str, ...]]:
        """Ranks that can be merged: all tensors have them together."""
        return mergeable(self.workload, self.operators)

    @cached_property
    def space(self) -> IterationSpace:
        """The group's iteration space."""
        group = Group(operators=self.operators, tree=(), merged=self.merged)
        return space_of(self.workload, group)

    @cached_property
    def between(self) -> frozenset[str]:
        """Tensors that one operator makes and another reads."""
        return frozenset(name for name in self.space.made if name in self.space.read)

    @cached_property
    def batch(self) -> tuple[str, ...]:
        """Ranks that all tensors have: one position at a time, outermost."""
        views = [view for op in self.space.operators for _, view in op.uses]
        return tuple(
            rank
            for rank, size in self.space.sizes.items()
            if size > 1 and all(rank in view.names for view in views)
        )

    @cached_property
    def common(self) -> tuple[str, ...]:
        """Other ranks that all operators have.

        Those after a window are ranks of the operator that reads it: its rows, not its taps.
        """
        taps = {rank for op in self.space.operators for rank in op.reduced}
        return tuple(
            rank
            for rank, size in self.space.sizes.items()
            if size > 1
            and rank not in self.batch
            and all(
                rank in op.ranks or (rank not in taps and rank in self._source_ranks(op))
                for op in self.space.operators
            )
        )

    def _source_ranks(self, op: BoundOperator) -> set[str]:
        derived = self.space.derived
        found: set[str] = set()
        waiting = [rank for rank in op.ranks if rank in derived]
        while waiting:
            for rank, _ in derived[waiting.pop()]:
                waiting += [rank] * (rank in derived)
                found.add(rank)
        return found

    @cached_property
    def windows(self) -> dict[str, frozenset[str]]:
        """Ranks of each operator that are in sums of ranks, or have a stride."""
        return {
            op.name: frozenset(
                rank
                for _, view in op.uses
                for dim in view.terms
                if len(dim) > 1 or dim[0][1] > 1
                for rank, _ in dim
            )
            for op in self.space.operators
        }

    @cached_property
    def aliases(self) -> frozenset[str]:
        """Tensors that vector operators make in place."""
        return frozenset(
            op.output.name
            for op in self.space.operators
            if isinstance(op.operator, Vector) and op.inputs[0].ranks == op.output.ranks
        )

    def outside_tensors(self, op: BoundOperator) -> list[tuple[str, TensorView]]:
        """Return the tensors of an operator that come from, or only go, outside of the group."""
        return [
            (use, view)
            for use, view in dict(op.uses).items()
            if view.name not in self.between and use not in self.aliases
        ]

    def options(self, rank: str) -> list[int]:
        """Return the tile sizes that cut a shared rank."""
        size = self.space.sizes[rank]
        sizes = (even_pieces(size) if self.imperfect else divisors(size)).tolist()
        return [tile for tile in sizes if tile < size]

    def fits(self) -> bool:
        """Return whether operators can be one group: each reads from one before it; few windows."""
        linked, known = True, set[str]()
        for op in self.space.operators:
            names = {view.name for _, view in op.uses}
            linked = linked and bool(not known or known & names)
            known |= names
        einsums = sum(not isinstance(op.operator, Vector) for op in self.space.operators)
        windowed = any(self.windows.values())
        return linked and not (windowed and einsums > MOST_WINDOWED)

    # -- trees

    def tree(self, shared: Sequence[tuple[str, int]], ways: Sequence[BranchKeeps]) -> Group:
        """Return a tree of this group."""
        sizes = dict(self.space.sizes)
        loops: list[Loop] = []
        for rank, tile in (*((rank, 1) for rank in self.batch), *shared):
            if tile < sizes[rank]:
                loops.append(Loop(rank, tile))
                sizes[rank] = tile
        passed = self.between - self.aliases
        over = dict.fromkeys(name for name in self.space.made if name in passed)
        branches: list[Tree] = []
        for op, way in zip(self.space.operators, ways, strict=True):
            over |= dict.fromkeys(
                use for use, _ in self.outside_tensors(op) if use not in way.inside
            )
            branches.append(self._branch(op, way, sizes))
        tree: Tree = (*loops, *(Keep(name, BUFFER) for name in over), Fork(tuple(branches)))
        return Group(operators=self.operators, tree=tree, merged=self.merged)

    def _branch(self, op: BoundOperator, way: BranchKeeps, sizes: dict[str, int]) -> Tree:
        views, left = dict(op.uses), dict(sizes)
        nodes: list[Loop | Keep] = []
        for at, use in enumerate(way.inside):
            ranks = [rank for rank in op.ranks if rank in views[use].names]
            if at + 1 < len(way.inside):
                other = views[way.inside[-1]].names
                ranks = [rank for rank in ranks if rank in other]
            if use in way.whole:
                ranks = [rank for rank in ranks if rank not in self.windows[op.name]]
            for rank in ranks:
                if left.get(rank, 1) > 1 and not isinstance(op.operator, Vector):
                    nodes.append(Loop(rank, 1))
                    left[rank] = 1
            nodes.append(Keep(use, BUFFER))
        vector = isinstance(op.operator, Vector)
        leaf = Do(op.name, SFU) if vector else Do(op.name, ARRAY, "ws")
        return (*nodes, leaf)

    def ways(self, op: BoundOperator, template: TreeKind) -> list[BranchKeeps]:
        """Return the choices of a branch's tensors from outside that it keeps inside."""
        free = [
            use for use, view in self.outside_tensors(op) if self._may_be_inside(view, template)
        ]
        if isinstance(op.operator, Vector):
            return [BranchKeeps(()), *([BranchKeeps(tuple(free))] if free else [])]
        found = [BranchKeeps(()), *(BranchKeeps((use,)) for use in free)]
        found += [BranchKeeps(pair) for pair in permutations(free, 2)]
        return self._whole_or_not(op, found) if self.windows[op.name] else found

    def _whole_or_not(self, op: BoundOperator, ways: Sequence[BranchKeeps]) -> list[BranchKeeps]:
        """Return the choices with windows cut or whole, without those that make equal trees."""
        found: dict[Tree, BranchKeeps] = {}
        for way in ways:
            for count in range(len(way.inside) + 1):
                for whole in combinations(way.inside, count):
                    one = BranchKeeps(way.inside, frozenset(whole))
                    found.setdefault(self._branch(op, one, dict(self.space.sizes)), one)
        return list(found.values())

    def _may_be_inside(self, view: TensorView, template: TreeKind) -> bool:
        if view.name in self.space.made:
            return template.outputs
        rows = self.space.operators[-1].output.names.intersection(self.common)
        is_weight = self.workload.tensors[view.name].kind == "weight"
        return is_weight or not view.names & rows or template.inputs

    def sequences(self, template: TreeKind) -> Iterator[tuple[str, ...]]:
        """Yield shared loops in every order."""
        reduced = frozenset().union(*(op.reduced for op in self.space.operators))
        ranks = [rank for rank in self.common if template.tiled or rank not in reduced]
        for count in range(min(len(ranks), MOST_SHARED if template.rows else 0) + 1):
            yield from permutations(ranks, count)

    def legal_ways(self, shared: Sequence[str], template: TreeKind) -> list[list[BranchKeeps]]:
        """Return the choices of each branch that can be executed inside shared loops.

        Their order matters only where one of them is reduced.
        """
        summed = any(rank in op.reduced for rank in shared for op in self.space.operators)
        key = (template.name, tuple(shared) if summed else frozenset(shared))
        if key not in self._known_ways:
            over = [BranchKeeps(())] * len(self.operators)
            self._known_ways[key] = [
                [
                    way
                    for way in self.ways(op, template)
                    if self._legal(shared, [*over[:at], way, *over[at + 1 :]])
                ]
                for at, op in enumerate(self.space.operators)
            ]
        return self._known_ways[key]

    @cached_property
    def _known_ways(self) -> dict[object, list[list[BranchKeeps]]]:
        return {}

    def _legal(self, shared: Sequence[str], ways: Sequence[BranchKeeps]) -> bool:
        """Return whether trees can be executed, by checking one of them.

        Without windows tiles are 1; with them as large as they can be, so that all loops inside of
        branches are there.
        """
        large = any(self.windows.values())
        tiles = [(rank, max(self.options(rank), default=1) if large else 1) for rank in shared]
        group = self.tree(tiles, ways)
        reference = WorkloadReference(self.workload.name, self.workload.fingerprint)
        mapping = Mapping(workload=reference, dataflow="bound", body=(group,))
        place = "groups[0]."
        return not any(fault.field.startswith(place) for fault in faults(self.workload, mapping))
