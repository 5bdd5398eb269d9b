"""Ports of the buffer that a block of a unit shares with transfers, turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simaccel.analytic.blocks import Block
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.pointwise import anywhere, larger, pick, smaller, up
from simaccel.analytic.schedule import TRUE
from simaccel.analytic.times import ARRAY, FREE, READ, WRITE, ZERO, Begin, State

Late = Callable[[Floats, Floats], None]
_RECENT = 8
_PAST = 4


@dataclass(eq=False)
class Use:
    """A transfer that keeps a port busy for ``left`` cycles from ``begin`` on, if it is alone."""

    begin: Floats
    left: Floats
    late: Late | None = None
    """Is told when the port had served it, and when it has now."""


@dataclass(eq=False)
class Past:
    """A block of an engine that was gone through."""

    engine: str
    begin: Floats
    block: Block
    where: Bools


class Ports(State):
    """The ports' uses by transfers, and what a block beside them takes longer.

    A port serves whoever asks in turns, so that of two each gets half. A fold that reads for more
    than half of its cycles takes longer while a transfer reads too.
    """

    def __init__(self, begin: Begin | None) -> None:
        super().__init__(begin)
        self.present: Bools = TRUE
        """Candidates that have the present iteration."""
        self.uses: dict[str, list[Use]] = {READ: [], WRITE: []}
        self.blocks: list[Past] = []

    def use_port(
        self,
        port: str,
        engine: str,
        begin: Floats,
        cycles: Floats,
        where: Bools,
        late: Late | None = None,
    ) -> None:
        """Note a transfer."""
        where = where if self.present is TRUE else where & self.present
        uses = self.uses[port]
        use = Use(begin, pick(where, cycles, 0), late)
        for past in self.blocks:
            mine = past.block.read if port == READ else past.block.write
            if past.engine != engine and anywhere(2 * mine > past.block.cycles):
                delay = self._turns([use], past.begin, past.block, mine, past.where)
                for key in (past.engine, FREE) if past.engine == ARRAY else (past.engine,):
                    self.x[key] = self.get(key) + delay
        uses.append(use)
        if len(uses) > _RECENT:
            del uses[0]

    def beside(self, begin: Floats, block: Block) -> Floats:
        """Return what a block that begins at a time takes longer, as others use ports as well."""
        found = ZERO
        for port, mine in ((READ, block.read), (WRITE, block.write)):
            if self.uses[port] and anywhere(2 * mine > block.cycles):
                where = self.present
                found = larger(found, self._turns(self.uses[port], begin, block, mine, where))
        return found

    def done(self, engine: str, begin: Floats, block: Block) -> None:
        """Note a block, for what is gone through behind it."""
        if anywhere((2 * block.read > block.cycles) | (2 * block.write > block.cycles)):
            self.blocks = [*self.blocks[1 - _PAST :], Past(engine, begin, block, self.present)]

    def _turns(
        self, uses: list[Use], begin: Floats, block: Block, mine: Floats, where: Bools
    ) -> Floats:
        more = ZERO
        cycles = larger(block.cycles, 1)
        turns = larger(cycles, 2 * mine)
        for use in uses:
            start = larger(use.begin, begin + more)
            left = larger(use.begin + use.left - start, 0)
            rest = larger(begin + more + cycles - start, 0) / cycles
            shared = smaller(rest, left / (turns - mine))
            here = (shared > 0) & where
            if not anywhere(here):
                continue
            was = use.begin + up(use.left)
            more = more + pick(here, up(shared * (turns - cycles)), 0)
            use.begin = pick(here, start + up(shared * turns), use.begin)
            use.left = pick(here, left - shared * (turns - mine), use.left)
            if use.late is not None:
                use.late(was, use.begin + up(use.left))
        return more
