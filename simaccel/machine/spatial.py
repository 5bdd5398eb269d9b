"""The spatial array: its PEs, and the NoC engines between them and the buffer.

PEs work on one pass after the other from memories of their own. What they need is brought, and
what they made is taken away, by engines that use a pipe of the NoC and a port of the buffer at
the same time, as the DMA engines do between DRAM and buffer.
"""

from __future__ import annotations

from simaccel.machine.accounts import Cause
from simaccel.machine.engines import PORT_CAUSES, READ, WRITE, Engine, Waiting
from simaccel.machine.plan import Op

_DIRECTIONS = {
    "noc_distribution": READ,
    "noc_collection": WRITE,
    "buffer_read": READ,
    "buffer_write": WRITE,
}


class OnChip(Engine):
    """An engine that uses pipes and ports."""

    causes = tuple(PORT_CAUSES[name] for name in _DIRECTIONS)

    def work(self, op: Op) -> Waiting:
        """Run one command: compute, if it does, and meanwhile move what it moves."""
        account, clock = self.account, self.clock
        amounts = (op.distribution_cycles, op.collection_cycles, op.read_cycles, op.write_cycles)
        entries = [
            (self.ports[name], self.ports[name].request(cycles, way, self.name))
            for (name, way), cycles in zip(_DIRECTIONS.items(), amounts, strict=True)
        ]
        account.enter(clock.cycle, op.site)
        account.switch(clock.cycle, Cause.BUSY)
        if op.cycles:
            self.stage = 1
            yield clock.timeout(op.cycles)
        yield from self.served(entries, self.causes)


class SpatialArray(OnChip):
    """The PEs: one pass after the other; what no PE keeps is read from the buffer on the way."""

    busy_root = Cause.ARRAY


class NocMove(OnChip):
    """Moves tiles from the buffer to the PEs, or back: it works while pipe and port do."""

    busy_root = Cause.NOC
    causes = (Cause.BUSY, Cause.BUSY, Cause.BUFFER_PORT, Cause.BUFFER_PORT)
