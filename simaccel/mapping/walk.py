"""The walk over a group's tree: each node with its path and with the nodes that enclose it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from simaccel.mapping.cores import core_spreads
from simaccel.mapping.space import BoundOperator, IterationSpace, aliases_of
from simaccel.mapping.tree import (
    BUFFER,
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Node,
    Part,
    Spread,
    Tree,
)
from simaccel.mapping.view import TensorView
from simaccel.workload.einsum import Terms


@dataclass(frozen=True)
class TreeStep:
    """A node that encloses a leaf.

    ``place``: its path in the tree, such as ``tree[2].fork[0][1]``. ``sizes``: the size of each
    rank's full block before this node cuts it. ``branch``: the branch of a fork or part that has
    the leaf. ``inside``: whether a spread encloses the node, so that PEs do it.
    """

    node: Node
    place: str
    sizes: Mapping[str, int]
    inside: bool
    branch: int = -1

    @property
    def cuts(self) -> str:
        """The rank that a loop or part cuts into several sequential pieces; empty if none."""
        node = self.node
        if isinstance(node, Part):
            return node.rank
        real = isinstance(node, Loop) and not self.inside and self.sizes[node.rank] > node.tile
        return node.rank if real and isinstance(node, Loop) else ""


Located = tuple[TreeStep, str]
"""(a node that encloses a leaf, what is allowed in its place)."""


@dataclass(frozen=True, eq=False)
class Site:
    """A leaf: its path, the nodes that enclose it, and the sizes of the block it works on.

    ``sizes``: of the full block, by rank. ``box``: (start, size) of each rank in the branch of the
    enclosing parts, before loops cut it.
    """

    do: Do
    place: str
    steps: tuple[TreeStep, ...]
    sizes: Mapping[str, int]
    box: Mapping[str, tuple[int, int]]

    def shared_steps(self, other: Site) -> int:
        """Return how many of the outermost steps two leaves have in common."""
        found = 0
        for one, two in zip(self.steps, other.steps, strict=False):
            if (one.place, one.branch) != (two.place, two.branch):
                break
            found += 1
        return found

    def keeps(self, name: str, level: str = BUFFER) -> Iterator[int]:
        """Yield the indices of the steps that keep a tensor at a level, outermost first."""
        for at, step in enumerate(self.steps):
            node = step.node
            if isinstance(node, Keep) and node.tensor == name and node.level == level:
                yield at

    def cutting(self, upto: int | None = None, start: int = 0) -> Iterator[tuple[int, str]]:
        """Yield (index of the step, rank) of each loop or part that cuts, outermost first."""
        for at, step in enumerate(self.steps[:upto]):
            if at >= start and step.cuts:
                yield at, step.cuts


@dataclass(frozen=True, eq=False)
class TreeWalk:
    """A group's iteration space, and its tree's leaves in order of execution.

    ``aliases``: tensors made in place, each with the tensor in whose tile it is (`aliases_of`).
    """

    space: IterationSpace
    sites: tuple[Site, ...]
    aliases: Mapping[str, str]
    around: tuple[Keep, ...] = ()
    """Tensors that stay on chip around the group."""

    @cached_property
    def makers(self) -> dict[str, tuple[Site, ...]]:
        """The leaves that make each tensor."""
        found: dict[str, tuple[Site, ...]] = {}
        for site in self.sites:
            name = self.bound_leaf(site).output.name
            found[name] = (*found.get(name, ()), site)
        return found

    def bound_leaf(self, site: Site) -> BoundOperator:
        """Return the operator of a leaf, in the group's ranks."""
        return self.space.bound_operator(site.do.operator)

    def root(self, name: str) -> str:
        """Return the tensor whose tile holds another, made in it in place."""
        return self.aliases.get(name, name)

    def home(self, site: Site, name: str, view: TensorView, level: str = BUFFER) -> int | None:
        """Return the index of the innermost step that moves a tensor's tile; -1 if none does.

        The tile is that of the outermost keep at the level, and holds its maker's view, if the
        group makes the tensor. None: no step keeps the tensor there.
        """
        keep = next(site.keeps(name, level), None)
        if keep is None:
            return None
        maker = self.space.made.get(name)
        moves = self.space.moves(self.space.bound_operator(maker).output if maker else view)
        return max((at for at, rank in site.cutting(keep) if rank in moves), default=-1)

    def ranks_of(self, site: Site) -> frozenset[str]:
        """Return the ranks that index a leaf's operator, each derived one as its terms."""
        return frozenset(self.space.plain_ranks(self.bound_leaf(site).ranks))

    def dims(self, view: TensorView) -> tuple[Terms, ...]:
        """Return the dimensions of a view as (rank, coefficient) terms, derived ranks expanded."""
        return tuple(
            tuple((term, dim[0][1] * c) for term, c in self.space.terms(dim[0][0]))
            if len(dim) == 1
            else dim
            for dim in view.terms
        )


def walk(space: IterationSpace, group: Group, around: tuple[Keep, ...]) -> TreeWalk:
    """Walk over a group's tree, whose names and sizes have been checked (`structure_faults`).

    Spreads over cores count as loops: one core does all pieces.
    """
    spreads = core_spreads(group)
    loops = (Loop(spread.rank, spread.tile) for spread in spreads)
    tree = (*loops, *group.tree[len(spreads) :])
    sizes = dict(space.sizes)
    box = {rank: (0, size) for rank, size in sizes.items()}
    sites = tuple(_sites(tree, "tree", (), _WalkScope(sizes, box, inside=False)))
    aliases = aliases_of(space, tree, around)
    return TreeWalk(space, sites, aliases, around)


@dataclass(frozen=True)
class _WalkScope:
    """Sizes and box of a node as in `Site`; ``inside``: whether a spread encloses it."""

    sizes: Mapping[str, int]
    box: Mapping[str, tuple[int, int]]
    inside: bool


def _sites(
    tree: Tree, place: str, outside: tuple[TreeStep, ...], scope: _WalkScope
) -> Iterator[Site]:
    """Yield the leaves of a tree in order of execution."""
    for at, node in enumerate(tree):
        where = f"{place}[{at}]"
        if isinstance(node, Do):
            yield Site(node, where, outside, scope.sizes, scope.box)
        elif isinstance(node, Fork | Part):
            yield from _sites_of_branches(node, where, outside, scope)
        else:
            outside = (*outside, TreeStep(node, where, scope.sizes, scope.inside))
            if isinstance(node, Loop | Spread):
                size = min(scope.sizes[node.rank], node.tile)
                is_inside = scope.inside or isinstance(node, Spread)
                scope = _WalkScope({**scope.sizes, node.rank: size}, scope.box, is_inside)


def _sites_of_branches(
    node: Fork | Part, place: str, outside: tuple[TreeStep, ...], scope: _WalkScope
) -> Iterator[Site]:
    def way(number: int) -> tuple[TreeStep, ...]:
        return (*outside, TreeStep(node, place, scope.sizes, scope.inside, number))

    if isinstance(node, Fork):
        for number, branch in enumerate(node.branches):
            yield from _sites(branch, f"{place}.fork[{number}]", way(number), scope)
        return
    for number, start, size, branch in node.shares(scope.sizes[node.rank]):
        box = {**scope.box, node.rank: (scope.box[node.rank][0] + start, size)}
        inner = _WalkScope({**scope.sizes, node.rank: size}, box, scope.inside)
        yield from _sites(branch, f"{place}.part[{number}]", way(number), inner)
