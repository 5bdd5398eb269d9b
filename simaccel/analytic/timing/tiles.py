"""The tiles of a body come, and go, in the order in which their slots are free."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.analytic.bodies import FALSE, Tiled
from simaccel.analytic.family import Bools
from simaccel.analytic.pointwise import anywhere, everywhere, larger, pick, without
from simaccel.analytic.timing.queues import Queues
from simaccel.analytic.timing.times import DMA_OUT, Begin
from simaccel.analytic.units import Units
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import BUFFER


class Tiles(Queues):
    """Tiles of bodies: ``("ready", key)`` says when one is there, ``("used", key)`` until when."""

    def __init__(self, units: Units, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(units, accelerator, begin)
        self.begun: dict[str, Bools] = {}
        """By operator: whose sums have begun."""

    def open(self, tiles: list[Tiled], *, early: Bools = FALSE) -> None:
        """Let the tiles of a body come."""
        for tiled in tiles:
            ready = ("ready", tiled.key)
            self._open(tiled, ready, early)
            if anywhere(where := self._reserved(tiled)):
                engine = f"at noc_in{tiled.queue}"
                taken = larger(self.x[engine], self.x[ready])
                self.x[ready] = pick(where, taken, self.x[ready])
                self.x[engine] = pick(where, taken, self.x[engine])

    def _reserved(self, tiled: Tiled) -> Bools:
        """Return where the loader of PEs takes a slot for sums, there or in the buffer."""
        if tiled.maker is None or tiled.outside is None:
            return tiled.own & tiled.returns
        begun = self.begun.get(tiled.maker.name, FALSE)
        return tiled.own & tiled.spills & without(begun)

    def _open(self, tiled: Tiled, ready: object, early: Bools) -> None:
        here = tiled.own
        if tiled.maker is not None:
            free = self.free(tiled, early)
            self.x[ready] = pick(here, free, self.x[ready])
            if not tiled.may_spill:
                return
            here = here & tiled.spills & self.begun.get(tiled.maker.name, FALSE)
        if tiled.outside is not None and tiled.key not in {*self.supply, *self.sums}:
            if anywhere(here):
                self.load(tiled, self.round.sizes, self.free(tiled, early), here, ready)
            return
        self.homes[id(tiled)] = self.round
        coming = self.come(tiled, here)
        if anywhere(here):
            self.x[ready] = pick(here, coming, self.x[ready])

    def close(self, tiles: list[Tiled]) -> None:
        """Let the tiles of a body go, and what was made in them to its memory.

        What was only read goes first: its slots are free before others have been stored.
        """
        read = [tiled for tiled in tiles if tiled.read and not tiled.stores]
        made = [tiled for tiled in tiles if tiled not in read]
        first = [tiled for tiled in reversed(made) if self._stored_at_once(tiled)]
        for tiled in first:
            before = [one for one in read if self._goes_before(one, tiled, tiles)]
            self.let_go(before)
            read = [one for one in read if one not in before]
            self._store(tiled)
        self.let_go(read)
        for tiled in reversed(made):
            if tiled not in first:
                self._store(tiled)
        self.let_go(made)

    def _stored_at_once(self, tiled: Tiled) -> bool:
        """Return whether a tile of PEs is asked to be stored when the pass that made it ends."""
        if tiled.maker is None or tiled.level == BUFFER or tiled.outside is not None:
            return False
        return everywhere(self.x[DMA_OUT] < self.x["ready", tiled.key])

    @staticmethod
    def _goes_before(read: Tiled, made: Tiled, tiles: Sequence[Tiled]) -> bool:
        """Return whether a slot is free before another tile is stored, at the end of a pass.

        Those with few slots go first, and of equals the last one.
        """
        if read.most != made.most:
            return read.most < made.most
        return tiles.index(read) > tiles.index(made)

    def _store(self, tiled: Tiled) -> None:
        """Take a tile to its memory, as what others read it as."""
        sizes = self.round.sizes
        if tiled.maker is not None and tiled.level != BUFFER:
            self.store(tiled, sizes, tiled.view.kind)
        else:
            for view in tiled.stores:
                self.store(tiled, sizes, view.kind)
