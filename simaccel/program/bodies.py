"""The outline of a group: nested loop bodies with their tiles and operators."""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from simaccel.mapping.space import BoundOperator
from simaccel.mapping.tree import BUFFER, Do
from simaccel.mapping.view import TensorView
from simaccel.program.division import Division


@dataclass(eq=False)
class TilePlacement:
    """A tile of a tensor: its memory, slots, and transfers.

    ``use``: the tensor's name in the tree. ``block``: rank sizes at its ``keep``. ``maker``: the
    operator of the group that writes it. ``stores``: the tensors stored from it to the next memory
    outside. ``buffered``: its other side is a tile in the buffer, not DRAM.
    """

    use: str
    view: TensorView
    place: str
    slots: int
    block: Map[str, int]
    queue: int
    maker: BoundOperator | None = None
    loads: bool = True
    stores: tuple[TensorView, ...] = ()
    spills: bool = False
    buffered: bool = False
    slides: str = ""
    """Rank along which its innermost loop slides it; empty if it does not slide."""
    step: int = 0
    tile: str = ""
    """Name of the tile."""
    division: Division | None = None
    """Its division over PEs, if they keep it or it streams to them."""
    user: str = ""
    """The operator whose PEs keep it or receive its stream."""
    returns: bool = False
    """Whether partial sums in PEs go to this tile in the buffer and come back."""


@dataclass(eq=False)
class OperatorLeaf:
    """An operator at the leaf of a tree; ``division``: over PEs, if these have memories."""

    do: Do
    op: BoundOperator
    division: Division | None
    folds: tuple[int | None, int | None]
    outer: Map[str, int]
    """Operands that a keep around the group holds, with the number of the keep."""

    @cached_property
    def leaves(self) -> tuple[OperatorLeaf, ...]:
        """The leaf itself."""
        return (self,)


@dataclass(eq=False)
class RankParts:
    """A rank cut into parts: (start, size, body) of each."""

    rank: str
    parts: list[tuple[int, int, Body]]

    @cached_property
    def leaves(self) -> tuple[OperatorLeaf, ...]:
        """All leaves below."""
        return tuple(leaf for _, _, body in self.parts for leaf in body.leaves)


@dataclass(eq=False)
class Body:
    """The body of a loop, of the whole group, or of a part of a rank."""

    rank: str = ""
    tile: int = 0
    part: str = ""
    """The rank of which this is a part; empty if it is none."""
    least: int = 1
    """The fewest trips of the loop in any of its executions."""
    holds: list[TilePlacement] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    ahead: int = 0
    """Items that run one iteration early."""
    doubled: bool = False
    """Whether a vector operator whose axis this loop cuts runs it twice (statistics, normalise)."""
    online: tuple[OperatorLeaf, ...] = ()
    """Online vector operators: this is the outermost shared loop that cuts their axis."""

    @cached_property
    def leaves(self) -> tuple[OperatorLeaf, ...]:
        """All leaves below."""
        return tuple(leaf for item in self.items for leaf in item.leaves)

    @cached_property
    def adders(self) -> frozenset[str]:
        """Operators below that accumulate sums or statistics over this loop's rank."""
        return frozenset(leaf.op.name for leaf in self.leaves if self.rank in leaf.op.reduced)

    @property
    def slides(self) -> bool:
        """Whether a tile of this body slides."""
        return any(held.slides for held in self.holds)


Item = Body | RankParts | OperatorLeaf


@dataclass(frozen=True)
class Outline:
    """The bodies of a group; ``aliases``: tensors made in place, in the tile of another."""

    top: Body
    aliases: Map[str, str]


def settle(item: Item, axes: Map[str, str | None], around: Sequence[Body] = ()) -> None:
    """Mark the loops that cut the axis of a vector operator (``axes``), and sort their tiles."""
    if isinstance(item, OperatorLeaf):
        axis = axes.get(item.op.name)
        cutting = [body for body in around if axis and body.rank == axis]
        if cutting and cutting[0].leaves == (item,):
            cutting[0].doubled = True
        elif cutting:
            cutting[0].online = (*cutting[0].online, item)
    elif isinstance(item, RankParts):
        for _, _, body in item.parts:
            settle(body, axes, around)
    else:
        item.holds.sort(key=lambda held: (held.place != BUFFER, held.queue))
        for inner in item.items:
            settle(inner, axes, (*around, item))
