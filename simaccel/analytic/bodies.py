"""What a family does, in one order of loops: bodies with their tiles, and the work in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from simaccel.analytic.family import Bools, Cut, Ints, Path, ints
from simaccel.analytic.pieces import Terms
from simaccel.analytic.pointwise import anywhere, everywhere, highest, larger, pick, plain, smaller
from simaccel.mapping.space import Seen
from simaccel.mapping.tree import BUFFER, STREAM, Do
from simaccel.mapping.view import View

FALSE: Bools = plain(np.zeros((), dtype=np.bool_))
TRUE: Bools = plain(np.ones((), dtype=np.bool_))
"""For all candidates: told apart by identity."""
RING: Final = 6
"""Slots that are told apart; more never wait."""


@dataclass(eq=False)
class Tiled:
    """A tile of a body; ``own``: candidates whose tile comes and goes in this body."""

    tensor: str
    view: View
    level: str
    slots: Ints
    queue: int
    maker: Seen | None
    stores: tuple[View, ...]
    own: Bools
    spills: Bools
    key: int
    """The same for all bodies in which the tile may live."""
    at: int
    """Its entry on the path."""
    dims: tuple[Terms, ...]
    """The dimensions of its view in ranks that loops cut."""
    path: Path
    outside: int | None = None
    """The key of the tile in the buffer that it comes from or goes to; None for DRAM."""
    slide: tuple[str, int] | None = None
    """Rank and coefficient along which the body's loop slides it."""
    returns: Bools = FALSE
    """Where sums in it go to PEs again: their loader takes its slots as well."""

    def __post_init__(self) -> None:
        """Work out what doesn't change."""
        self.own = TRUE if everywhere(self.own) else plain(self.own)
        self.spills = plain(self.spills)
        self.may_spill = anywhere(self.spills)
        self.most = min(highest(self.slots), RING)
        self.far = self.most
        """How many tiles ahead, at most, one is asked for."""
        numbers = sorted(set(np.minimum(np.ravel(self.slots), RING).tolist()) - {0})
        self.by_slots: list[tuple[int, Bools | None]] = [
            (n, None if len(numbers) == 1 else plain(smaller(self.slots, RING) == n))
            for n in numbers
        ]
        self.read = self.maker is None and self.outside is None
        """Whether it comes from a memory."""
        self.comes = self.read or (self.outside is None and self.may_spill)
        """Whether it comes from a memory, or sums in it come back."""
        self._more: dict[int, Bools] = {}
        self.ranks = tuple(dict.fromkeys(rank for dim in self.dims for rank, _ in dim))

    def more_than(self, n: int) -> Bools:
        """Return which candidates have more slots."""
        if n not in self._more:
            self._more[n] = (
                TRUE if len(self.by_slots) == 1 and n < self.most else plain(self.slots > n)
            )
        return self._more[n]

    def having(self, where: Bools) -> Iterator[tuple[int, Bools]]:
        """Yield numbers of slots with the candidates of some that have so many."""
        for n, here in self.by_slots:
            yield n, where if here is None else where & here


@dataclass(eq=False)
class Work:
    """A leaf: an operator on the block that the loops leave."""

    seen: Seen
    do: Do
    path: Path
    keys: tuple[int | None, ...]
    """The tiles that it touches, the one that it makes last; None is kept around the group."""
    step: str = "whole"
    corrects: tuple[Work, ...] = ()
    """Einsums that sum up behind an online vector operator."""


@dataclass(eq=False)
class Bodies:
    """A loop's body (``rank`` is cut into ``tile``), a part's (``cut``), or the group's."""

    rank: str = ""
    tile: Ints = field(default_factory=lambda: ints(1))
    place: int = -1
    part: Cut | None = None
    tiles: list[Tiled] = field(default_factory=list)
    items: list[Bodies | Work] = field(default_factory=list)
    ahead: int = 0
    divides: list[tuple[Work, Work]] = field(default_factory=list)
    """(vector operator, einsum whose sums it divides after the loop)."""

    @cached_property
    def works(self) -> tuple[Work, ...]:
        """All leaves below."""
        found: list[Work] = []
        for item in self.items:
            found += item.works if isinstance(item, Bodies) else [item]
        return tuple(found)

    @cached_property
    def _last(self) -> dict[int, Bodies | Work]:
        """The last item that uses a tile, by its key, of tiles that come and only are read."""
        used: dict[int, Bodies | Work] = {}
        for item in self.items:
            for work in item.works if isinstance(item, Bodies) else (item,):
                used |= {key: item for key in work.keys if key is not None}
        read = {one.key for one in self.tiles if one.maker is None and not one.stores}
        return {key: item for key, item in used.items() if key in read}

    def used_last(self, item: Bodies | Work) -> list[Tiled]:
        """Return the tiles that nothing behind an item uses."""
        return [tiled for tiled in self.tiles if self._last.get(tiled.key) is item]

    def used_ahead(self, item: Bodies | Work) -> list[Tiled]:
        """Return the tiles that only the first items of a pipelined loop use, and none behind."""
        if isinstance(item, Work) or not item.ahead:
            return []
        late = {
            key
            for one in item.items[item.ahead :]
            for work in (one.works if isinstance(one, Bodies) else (one,))
            for key in work.keys
        }
        every = [tiled for tiled in self.tiles if self._last.get(tiled.key) is item]
        return [tiled for tiled in every if tiled.key not in late]

    def let_go_early(self, tiled: Tiled) -> bool:
        """Return whether a tile is not used by the last item any more."""
        return self._last.get(tiled.key, self.items[-1]) is not self.items[-1]

    @cached_property
    def own_slots(self) -> Ints:
        """The most slots of a tile of its own that comes from a memory, 1 if others below do."""
        found = ints(any(isinstance(one, Bodies) and one.comes for one in self.items))
        for tiled in self.tiles:
            if tiled.comes:
                found = larger(found, pick(tiled.own, smaller(tiled.slots, RING), 1))
        return plain(found)

    @cached_property
    def comes(self) -> bool:
        """Whether a tile below comes from a memory."""
        below = (one.comes for one in self.items if isinstance(one, Bodies))
        return any(tiled.comes for tiled in self.tiles) or any(below)

    @cached_property
    def most_slots(self) -> Ints:
        """The most slots of any tile below that comes from a memory, by candidate."""
        found = self.own_slots
        for item in self.items:
            if isinstance(item, Bodies):
                found = larger(found, item.most_slots)
        return found

    @cached_property
    def slots_of_pes(self) -> int:
        """The most slots of a tile of PEs below: they ask for others while a loop ends."""
        mine = [tiled.most for tiled in self.tiles if tiled.level not in (BUFFER, STREAM)]
        return max([0, *mine, *(i.slots_of_pes for i in self.items if isinstance(i, Bodies))])

    @cached_property
    def queues(self) -> frozenset[int]:
        """The queues of all tiles below."""
        below = (item.queues for item in self.items if isinstance(item, Bodies))
        return frozenset(one.queue for one in self.tiles).union(*below)

    @cached_property
    def shares(self) -> bool:
        """Whether several items have tiles of one queue, which come item after item."""
        every = [item.queues for item in self.items if isinstance(item, Bodies)]
        return sum(map(len, every)) > len(frozenset().union(*every))

    def behind(self, item: Bodies | None, queue: int) -> Bodies | None:
        """Return the next item with tiles of a queue, or the first behind none."""
        every = [one for one in self.items if isinstance(one, Bodies) and queue in one.queues]
        at = 0 if item is None else every.index(item) + 1
        return every[at] if at < len(every) else None

    @property
    def slides(self) -> bool:
        """Whether its iterations slide a window."""
        return any(tiled.slide is not None for tiled in self.tiles)

    @cached_property
    def adders(self) -> frozenset[str]:
        """Operators below that sum over the loop's rank."""
        rank = self.part.rank if self.part else self.rank
        return frozenset(work.seen.name for work in self.works if rank in work.seen.reduced)
