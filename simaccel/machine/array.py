"""The PE array, of either kind, and the engines of the NoC between it and the buffer.

The array computes while the pipes of the NoC and the ports of the buffer carry what a fold, or a
pass over memories in the PEs, reads and writes on its way. What such memories keep is brought, and
what was made in them is taken away, by engines that use a pipe and a port at the same time, as the
DMA engines do between DRAM and buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simaccel.machine.accounts import Cause
from simaccel.machine.channel import Channel
from simaccel.machine.engines import PORT_CAUSES, READ, WRITE, Engine, Waiting, Wires
from simaccel.machine.plan import Op, Plan
from simaccel.machine.walks import EngineKind


@dataclass(frozen=True, slots=True)
class _Use:
    """What a command asks of a channel, and what waiting for it is booked to."""

    channel: Channel
    cycles: int
    direction: int
    cause: Cause
    alone: bool
    """Whether nobody else can ask the channel before the next meeting of the engines."""


class OnChip(Engine):
    """An engine that uses pipes and ports."""

    WIRING: ClassVar[tuple[str, ...]] = (*Engine.WIRING, "uses")
    CAUSES: ClassVar[Mapping[str, Cause]] = PORT_CAUSES
    """What waiting for a pipe or port is booked to."""

    def __init__(self, name: str, plan: Plan, wires: Wires) -> None:
        super().__init__(name, plan, wires)
        self.uses = [self._uses(op) for op in plan.ops]

    def _uses(self, op: Op) -> tuple[_Use, ...]:
        """Return what a step asks: of the pipes, the slower one first, then of the ports."""
        shared = self.wires.shared
        asked = [
            ("noc_distribution", op.distribution_cycles, READ),
            ("noc_collection", op.collection_cycles, WRITE),
        ]
        alone = {name for name, _, _ in asked if (name, op.operator) not in shared}
        asked.sort(key=lambda pipe: -pipe[1])
        asked += [("buffer_read", op.read_cycles, READ), ("buffer_write", op.write_cycles, WRITE)]
        return tuple(
            _Use(self.ports[name], cycles, direction, self.CAUSES[name], name in alone)
            for name, cycles, direction in asked
            if cycles
        )

    def work(self, op: Op) -> Waiting:
        """Run one command: compute, if it does, and meanwhile move what it moves."""
        account, clock = self.account, self.clock
        asked = [
            (use, use.channel.request(use.cycles, use.direction, self.name))
            for use in self.uses[self.at]
        ]
        account.enter(clock.cycle, op.site)
        if op.cycles:
            if account.cause is not Cause.BUSY:
                account.switch(clock.cycle, Cause.BUSY)
            self.stage = 1
            yield clock.timeout(op.cycles)
        if op.latency_cycles:
            account.switch(clock.cycle, Cause.NOC)
            self.stage = 2
            yield clock.timeout(op.latency_cycles)
        self.stage = 3
        for use, entry in asked:
            if not use.channel.done(entry):
                account.switch(clock.cycle, use.cause)
                yield use.channel.rest(entry) if use.alone else use.channel.wait(entry)
            self.stage += 1
        self.stage = 0


class Array(OnChip):
    """The PEs: lead, fold after fold and tail, or one pass after the other."""

    kind = EngineKind.ARRAY
    busy_root = Cause.ARRAY


class NocMove(OnChip):
    """Moves tiles from the buffer to the PEs, or back: it works while pipe and port do."""

    busy_root = Cause.NOC
    CAUSES: ClassVar[Mapping[str, Cause]] = {
        **PORT_CAUSES,
        "noc_distribution": Cause.BUSY,
        "noc_collection": Cause.BUSY,
    }


class NocIn(NocMove):
    """Brings tiles to the PEs."""

    kind = EngineKind.NOC_IN


class NocOut(NocMove):
    """Takes tiles back to the buffer."""

    kind = EngineKind.NOC_OUT
