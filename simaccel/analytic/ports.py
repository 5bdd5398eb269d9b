"""Ports of the buffer that a block of a unit shares with transfers, turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simaccel.analytic.blocks import Block
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.pointwise import anywhere, larger, pick, smaller, up
from simaccel.analytic.schedule import TRUE
from simaccel.analytic.times import READ, WRITE, ZERO, Begin, State

Late = Callable[[Floats, Floats], None]
_RECENT = 8


@dataclass(eq=False)
class Use:
    """A transfer that keeps a port busy for ``left`` cycles from ``begin`` on, if it is alone."""

    begin: Floats
    left: Floats
    late: Late | None = None
    """Is told when the port had served it, and when it has now."""


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

    def use_port(
        self,
        port: str,
        begin: Floats,
        cycles: Floats,
        where: Bools,
        late: Late | None = None,
    ) -> None:
        """Note a transfer."""
        where = where if self.present is TRUE else where & self.present
        uses = self.uses[port]
        uses.append(Use(begin, pick(where, cycles, 0), late))
        if len(uses) > _RECENT:
            del uses[0]

    def beside(self, begin: Floats, block: Block) -> Floats:
        """Return what a block that begins at a time takes longer, as others use ports as well."""
        found = ZERO
        for port, mine in ((READ, block.read), (WRITE, block.write)):
            if self.uses[port] and anywhere(2 * mine > block.cycles):
                found = larger(found, self._turns(self.uses[port], begin, block, mine))
        return found

    def _turns(self, uses: list[Use], begin: Floats, block: Block, mine: Floats) -> Floats:
        more = ZERO
        cycles = larger(block.cycles, 1)
        turns = larger(cycles, 2 * mine)
        for use in uses:
            start = larger(use.begin, begin + more)
            left = larger(use.begin + use.left - start, 0)
            rest = larger(begin + more + cycles - start, 0) / cycles
            shared = smaller(rest, left / (turns - mine))
            here = (shared > 0) & self.present
            if not anywhere(here):
                continue
            was = use.begin + up(use.left)
            more = more + pick(here, up(shared * (turns - cycles)), 0)
            use.begin = pick(here, start + up(shared * turns), use.begin)
            use.left = pick(here, left - shared * (turns - mine), use.left)
            if use.late is not None:
                use.late(was, use.begin + up(use.left))
        return more
