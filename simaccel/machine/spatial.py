"""The spatial array: its PEs, and the NoC engines between them and the buffer.

PEs work on one pass after the other from memories of their own. What they need is brought, and
what they made is taken away, by engines that use a pipe of the NoC and a port of the buffer at
the same time, as the DMA engines do between DRAM and buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from simaccel.machine.accounts import Cause
from simaccel.machine.engines import PORT_CAUSES, READ, WRITE, Engine, Waiting, Wires
from simaccel.machine.plan import Op, Plan

_DIRECTIONS = {
    "noc_distribution": READ,
    "noc_collection": WRITE,
    "buffer_read": READ,
    "buffer_write": WRITE,
}


class OnChip(Engine):
    """An engine that uses pipes and ports."""

    WIRING: ClassVar[tuple[str, ...]] = (*Engine.WIRING, "uses")
    CAUSES: ClassVar[Mapping[str, Cause]] = PORT_CAUSES
    """What waiting for a pipe or port is booked to."""

    def __init__(self, name: str, plan: Plan, wires: Wires) -> None:
        super().__init__(name, plan, wires)
        ways = _DIRECTIONS.items()
        self.uses = [(self.ports[one], way, self.CAUSES[one]) for one, way in ways]

    def work(self, op: Op) -> Waiting:
        """Run one command: compute, if it does, and meanwhile move what it moves."""
        account, clock = self.account, self.clock
        amounts = (op.distribution_cycles, op.collection_cycles, op.read_cycles, op.write_cycles)
        asked = [
            (channel, channel.request(cycles, way, self.name), cause)
            for (channel, way, cause), cycles in zip(self.uses, amounts, strict=True)
            if cycles
        ]
        account.enter(clock.cycle, op.site)
        if not (asked or op.cycles):
            return
        account.switch(clock.cycle, Cause.BUSY)
        if op.cycles:
            self.stage = 1
            yield clock.timeout(op.cycles)
        for number, (channel, entry, cause) in enumerate(asked):
            self.stage = 3 + number
            if not channel.done(entry):
                account.switch(clock.cycle, cause)
                yield channel.wait(entry)
        self.stage = 0


class SpatialArray(OnChip):
    """The PEs: one pass after the other; what no PE keeps is read from the buffer on the way."""

    busy_root = Cause.ARRAY


class NocMove(OnChip):
    """Moves tiles from the buffer to the PEs, or back: it works while pipe and port do."""

    busy_root = Cause.NOC
    CAUSES: ClassVar[Mapping[str, Cause]] = {
        **PORT_CAUSES,
        "noc_distribution": Cause.BUSY,
        "noc_collection": Cause.BUSY,
    }
