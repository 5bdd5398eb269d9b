"""Trees of fused operators: shared loops, what is kept over the fork, and a branch each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

from simaccel.analytic.bounds.sizes import divisors, even_pieces
from simaccel.mapping.checks import faults
from simaccel.mapping.space import Seen, Space, mergeable, space_of
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
from simaccel.mapping.view import View
from simaccel.workload import Vector, Workload

MOST_SHARED = 3
"""Shared loops, those of the batch left out."""


@dataclass(frozen=True)
class Way:
    """How one branch keeps the tensors from outside: ``inside`` those in the branch.

    The last of them is an element, one before it a vector.
    """

    inside: tuple[str, ...]


@dataclass(frozen=True)
class Template:
    """Which trees: whether ranks reduced inside are shared, and what may be in branches."""

    name: str
    tiled: bool = True
    rows: bool = True
    inputs: bool = True
    outputs: bool = True


TEMPLATES = {
    one.name: one
    for one in (
        Template("untiled", tiled=False, rows=False),
        Template("full", tiled=False, inputs=False, outputs=False),
        Template("tiled-k", tiled=False, outputs=False),
        Template("tiled-n", tiled=False, inputs=False),
        Template("tiled-kn"),
        Template("flat", tiled=False),
        Template("flash"),
        Template("best"),
    )
}
"""Fusion-friendly mapping templates (Huang et al., section V), by name.

``full`` keeps rows of inputs and outputs; ``tiled-k`` brings inputs in pieces, ``tiled-n`` takes
outputs away in pieces; ``flat`` does both with whole rows of what is between (FLAT), ``tiled-kn``
and ``flash`` also cut that. ``best`` is all of them.
"""


@dataclass(frozen=True)
class Fusion:
    """Operators of a workload as one group."""

    workload: Workload
    operators: tuple[str, ...]
    imperfect: bool

    @cached_property
    def merged(self) -> dict[str, tuple[str, ...]]:
        """Ranks that all tensors have together, as one."""
        return mergeable(self.workload, self.operators)

    @cached_property
    def space(self) -> Space:
        """The group's ranks."""
        group = Group(operators=self.operators, tree=(), merged=self.merged)
        return space_of(self.workload, group)

    @cached_property
    def between(self) -> frozenset[str]:
        """Tensors that one operator makes and another reads."""
        return frozenset(name for name in self.space.made if name in self.space.read)

    @cached_property
    def batch(self) -> tuple[str, ...]:
        """Ranks that all tensors have: one position at a time, outermost."""
        views = [view for seen in self.space.operators for _, view in seen.uses]
        return tuple(
            rank
            for rank, size in self.space.sizes.items()
            if size > 1 and all(rank in view.names for view in views)
        )

    @cached_property
    def common(self) -> tuple[str, ...]:
        """Other ranks that all operators have."""
        return tuple(
            rank
            for rank, size in self.space.sizes.items()
            if size > 1
            and rank not in self.batch
            and all(rank in seen.ranks for seen in self.space.operators)
        )

    @cached_property
    def aliases(self) -> frozenset[str]:
        """Tensors that vector operators make in place."""
        return frozenset(
            seen.output.name
            for seen in self.space.operators
            if isinstance(seen.operator, Vector) and seen.inputs[0].ranks == seen.output.ranks
        )

    def outside(self, seen: Seen) -> list[tuple[str, View]]:
        """Return the tensors of an operator that come from, or only go, outside of the group."""
        return [
            (use, view)
            for use, view in dict(seen.uses).items()
            if view.name not in self.between and use not in self.aliases
        ]

    def options(self, rank: str) -> list[int]:
        """Return the tiles of a shared rank that cut it."""
        size = self.space.sizes[rank]
        sizes = even_pieces(size) if self.imperfect else divisors(size)
        return [tile for tile in sizes if tile < size]

    def fits(self) -> bool:
        """Say whether this can be one group: plain ranks, and tensors that operators have both."""
        sums = any(
            len(dim) > 1 or dim[0][1] > 1
            for seen in self.space.operators
            for _, view in seen.uses
            for dim in view.terms
        )
        linked, known = True, set[str]()
        for seen in self.space.operators:
            names = {view.name for _, view in seen.uses}
            linked = linked and bool(not known or known & names)
            known |= names
        return linked and not sums and not self.space.derived

    # -- trees

    def tree(self, shared: Sequence[tuple[str, int]], ways: Sequence[Way]) -> Group:
        """Return a tree of this group."""
        sizes = dict(self.space.sizes)
        loops: list[Loop] = []
        for rank, tile in (*((rank, 1) for rank in self.batch), *shared):
            if tile < sizes[rank]:
                loops.append(Loop(rank, tile))
                sizes[rank] = tile
        over = dict.fromkeys(
            name for name in self.space.made if name in self.between - self.aliases
        )
        branches: list[Tree] = []
        for seen, way in zip(self.space.operators, ways, strict=True):
            over |= dict.fromkeys(use for use, _ in self.outside(seen) if use not in way.inside)
            branches.append(self._branch(seen, way, sizes))
        keeps = tuple(Keep(name, BUFFER) for name in over)
        return Group(
            operators=self.operators,
            tree=(*loops, *keeps, Fork(tuple(branches))),
            merged=self.merged,
        )

    def _branch(self, seen: Seen, way: Way, sizes: dict[str, int]) -> Tree:
        views, left = dict(seen.uses), dict(sizes)
        found: list[Loop | Keep] = []
        for at, use in enumerate(way.inside):
            ranks = [rank for rank in seen.ranks if rank in views[use].names]
            if at + 1 < len(way.inside):
                other = views[way.inside[-1]].names
                ranks = [rank for rank in ranks if rank in other]
            for rank in ranks:
                if left[rank] > 1 and not isinstance(seen.operator, Vector):
                    found.append(Loop(rank, 1))
                    left[rank] = 1
            found.append(Keep(use, BUFFER))
        vector = isinstance(seen.operator, Vector)
        leaf = Do(seen.name, "sfu") if vector else Do(seen.name, "array", "ws")
        return (*found, leaf)

    def ways(self, seen: Seen, template: Template) -> list[Way]:
        """Return how a branch may keep its tensors from outside."""
        free = [use for use, view in self.outside(seen) if self._may_be_inside(view, template)]
        if isinstance(seen.operator, Vector):
            return [Way(()), *([Way(tuple(free))] if free else [])]
        found = [Way(()), *(Way((use,)) for use in free)]
        found += [Way(pair) for pair in permutations(free, 2)]
        return found

    def _may_be_inside(self, view: View, template: Template) -> bool:
        if view.name in self.space.made:
            return template.outputs
        weight = self.workload.tensors[view.name].kind == "weight" or not self._rows(view)
        return weight or template.inputs

    def _rows(self, view: View) -> bool:
        """Return whether a tensor goes with the rows of what is made: it has their ranks."""
        last = self.space.operators[-1].output.names
        return bool(view.names & last & set(self.common))

    def sequences(self, template: Template) -> Iterator[tuple[str, ...]]:
        """Yield shared loops in every order."""
        reduced = frozenset().union(*(seen.reduced for seen in self.space.operators))
        ranks = [rank for rank in self.common if template.tiled or rank not in reduced]
        for count in range(min(len(ranks), MOST_SHARED if template.rows else 0) + 1):
            yield from permutations(ranks, count)

    def legal_ways(self, shared: Sequence[str], template: Template) -> list[list[Way]]:
        """Return the ways of each branch that can be executed inside of shared loops."""
        over = [Way(())] * len(self.operators)
        found = []
        for at, seen in enumerate(self.space.operators):
            ways = self.ways(seen, template)
            some = [way for way in ways if self._legal(shared, [*over[:at], way, *over[at + 1 :]])]
            found.append(some)
        return found

    def _legal(self, shared: Sequence[str], ways: Sequence[Way]) -> bool:
        group = self.tree([(rank, 1) for rank in shared], ways)
        reference = WorkloadReference(self.workload.name, self.workload.fingerprint)
        one = Mapping(workload=reference, dataflow="bound", body=(group,))
        place = "groups[0]."
        return not any(fault.field.startswith(place) for fault in faults(self.workload, one))
