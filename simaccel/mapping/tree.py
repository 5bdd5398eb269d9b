"""The mapping tree: the one language that every mapping is written in.

A mapping is a sequence of groups; each is a tree over one operator or several fused ones. A
tree is a tuple of nodes from the outside in; the last is a leaf (``Do``) or branches (``Fork``,
``Part``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Literal, get_args

from typing_extensions import TypeVar

from simaccel.hardware import Stationarity
from simaccel.hardware.spatial import Fan
from simaccel.units import LeafUnit

BUFFER: Final = "buffer"
DRAM: Final = "dram"
PE: Final = "pe"
STREAM: Final = "stream"
"""Where a tile lives that is kept nowhere: it passes on its way between DRAM and MACs."""
FANS: Final[tuple[Fan, ...]] = get_args(Fan)
Across = Literal["chips", "cores"]
"""What is above the engines: each of its instances has all that is described below it."""
ACROSS: Final[tuple[Across, ...]] = get_args(Across)
N = TypeVar("N", default=int)
"""A number of a node: an integer in a mapping's tree, an array of many candidates in a family's."""
B_co = TypeVar("B_co", covariant=True, default="Tree")
"""A branch: a tree, or that of a family."""


@dataclass(frozen=True)
class Loop:
    """Cut a rank into pieces of ``tile``, one after the other; the last may be smaller."""

    rank: str
    tile: int


@dataclass(frozen=True)
class Spread(Generic[N]):
    """Hand the pieces of a rank to the instances of a fan-out (``level``) at once.

    Over chips or cores it stands at the outside of a group (`simaccel.mapping.chips`, ``cores``).
    ``in_all_trees``: in a family of candidates, trees of those with a single piece have it, too.
    """

    rank: str
    tile: N
    level: Fan | Across
    in_all_trees: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True)
class Span:
    """Positions ``start`` to ``stop`` (without it) of a dimension."""

    start: int
    stop: int


@dataclass(frozen=True)
class Keep(Generic[N]):
    """From here inward a tile of the tensor lives at ``level``, in ``slots`` slots.

    A keep around several groups may hold a part of the tensor: ``region`` has a span for each
    of its dimensions (as its groups see them), or is empty for all of it. ``anew``: each iteration
    of the loops outside loads it again, moved or not, as where a compiler hands over one tile after
    the other and the chip remembers none.
    """

    tensor: str
    level: str = BUFFER
    slots: N = 1  # type: ignore[assignment]  # of a mapping, whose numbers are integers
    region: tuple[Span, ...] = ()
    anew: bool = False


@dataclass(frozen=True)
class Do:
    """Run an operator on the block that remains of it inside all loops above.

    ``unit``: ``array``, a systolic array that folds the block; ``mac``, PEs with memories;
    ``sfu``, the vector unit. ``stationarity``: the operand that a systolic array holds.
    ``diagonal``: independent products, such as the groups of a depthwise convolution, share the
    array along its diagonal, each with its own rows and columns and zeros elsewhere.
    """

    operator: str
    unit: LeafUnit
    stationarity: Stationarity | None = None
    diagonal: bool = False


@dataclass(frozen=True)
class Fork(Generic[B_co]):
    """Branches that run one after the other; the first ``ahead`` one iteration early."""

    branches: tuple[B_co, ...]
    ahead: int = 0


@dataclass(frozen=True)
class Part(Generic[B_co]):
    """Cut a rank at places: ``sizes`` positions, one branch each, and one for the rest."""

    rank: str
    sizes: tuple[int, ...]
    branches: tuple[B_co, ...]

    def shares(self, whole: int) -> Iterator[tuple[int, int, int, B_co]]:
        """Yield (number, start, size, branch) of each branch that gets some of ``whole``."""
        start, rest = 0, whole - sum(self.sizes)
        for at, (size, branch) in enumerate(zip((*self.sizes, rest), self.branches, strict=True)):
            if size:
                yield at, start, size, branch
            start += size


Node = Loop | Spread | Keep | Do | Fork | Part
Tree = tuple[Node, ...]
NodeT = TypeVar("NodeT")


@dataclass(frozen=True, kw_only=True)
class Group:
    """One operator, or several fused ones, and their tree.

    Ranks of the operators that play the same part have one name in the tree (``space``).
    ``merged``: ranks that the tree sees as one, such as ``bn`` = (b, n). ``padded``: sizes of
    ranks that run as though they were longer. ``piece``: sizes of ranks of which it is a piece, as
    one of several cores has it; ``full_piece``: those of a full one, as the first core has.
    ``place``: the cores that have it; all of them if it isn't said. ``chips``: the chips that have
    it, if groups are at once on others. ``joined``: it is in one kernel with the group before, as
    the products of experts with other numbers of tokens: it has no start, and what it reads is
    loaded while that one computes, also where kernels don't overlap.
    """

    operators: tuple[str, ...]
    tree: Tree
    merged: Map[str, tuple[str, ...]] = field(default_factory=dict)
    padded: Map[str, int] = field(default_factory=dict)
    piece: Map[str, int] = field(default_factory=dict)
    full_piece: Map[str, int] = field(default_factory=dict)
    place: range | None = None
    chips: range | None = None
    joined: bool = False

    @property
    def name(self) -> str:
        """Name in tables and traces, such as ``L+softmax+A``."""
        return "+".join(self.operators)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The group itself: groups and scopes are read alike (`ResidentScope.groups`)."""
        return (self,)

    @property
    def keeps(self) -> tuple[Keep, ...]:
        """No tensors: only a `ResidentScope` keeps some around its groups."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ResidentScope:
    """Tensors (or parts of them) that stay on chip from one group to a later one."""

    keeps: tuple[Keep, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class WorkloadReference:
    """The workload that a mapping is for."""

    name: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """A whole workload's mapping, in order of execution."""

    workload: WorkloadReference
    dataflow: str
    body: tuple[Group | ResidentScope, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, those inside of ``ResidentScope`` too."""
        return tuple(group for group, _ in self.groups_with_keeps())

    def groups_with_keeps(self) -> Iterator[tuple[Group, tuple[Keep, ...]]]:
        """Yield each group with what is kept around it."""
        for one in self.body:
            yield from ((group, one.keeps) for group in one.groups)


def nodes(tree: tuple[NodeT, ...]) -> Iterator[NodeT]:
    """Yield all nodes of a tree, a mapping's or a family's, including those of branches."""
    for node in tree:
        yield node
        if isinstance(node, Fork | Part):
            for branch in node.branches:
                yield from nodes(branch)


def rewrite(tree: tuple[NodeT, ...], each: Callable[[NodeT], NodeT]) -> tuple[NodeT, ...]:
    """Return a tree, a mapping's or a family's, with ``each`` of its nodes, also in branches."""
    return tuple(
        replace(node, branches=tuple(rewrite(branch, each) for branch in node.branches))
        if isinstance(node, Fork | Part)
        else each(node)
        for node in tree
    )


def paths(tree: tuple[NodeT, ...]) -> Iterator[tuple[tuple[NodeT, ...], Do]]:
    """Yield each leaf with the nodes outside it; ``Fork`` and ``Part`` are left out."""
    for at, node in enumerate(tree):
        if isinstance(node, Do):
            yield tree[:at], node
        elif isinstance(node, Fork | Part):
            for branch in node.branches:
                for outside, leaf in paths(branch):
                    yield (*tree[:at], *outside), leaf
