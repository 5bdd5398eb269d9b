"""The links of a chip: collectives, and messages to other chips."""

from __future__ import annotations

from simaccel.hardware.cores import on_chip
from simaccel.machine.arbiters import READ, WRITE
from simaccel.machine.channel import Channel
from simaccel.machine.engines import UnitEngine, Waiting
from simaccel.machine.instructions import Action, Instruction
from simaccel.machine.plan import Plan
from simaccel.machine.shared_resources import SharedResources
from simaccel.machine.stateful import State
from simaccel.machine.tokens import Tokens
from simaccel.units import Cause


class LinkEngine(UnitEngine):
    """The engine of a chip's links; a command uses those of all its dimensions at once.

    The engine goes on when the last byte has left; the result of a collective arrives a lag later.
    """

    links: list[list[tuple[Channel, int]]]
    """The cycles of each link, by step."""
    lag_cycles: State[int]
    """The lag of the last command."""

    def __init__(self, name: str, plan: Plan, resources: SharedResources) -> None:
        super().__init__(name, plan, resources)
        self.links = [
            [
                (resources.chip_links[on_chip(resources.core, name)], cycles)
                for name, cycles in op.channels
            ]
            for op in plan.ops
        ]
        self.lag_cycles = 0

    def state(self) -> tuple[object, ...]:
        """Return the position, and the lag of the last command."""
        return (*super().state(), self.lag_cycles)

    def work(self, op: Instruction) -> Waiting:
        """Execute a command; at the same time its data are read and written in the buffer."""
        account, clock = self.account, self.clock
        account.enter(clock.cycle, op.site)
        requests = [
            (channel, channel.request(cycles, WRITE, self.name), Cause.BUSY)
            for channel, cycles in self.links[self.at]
        ]
        for name, cycles, way in (
            ("buffer_read", op.read_cycles, READ),
            ("buffer_write", op.write_cycles, WRITE),
        ):
            port = self.ports[name]
            requests.append((port, port.request(cycles, way, self.name), Cause.BUFFER_PORT))
        self.lag_cycles = op.latency_cycles
        if not op.channels:
            account.switch(clock.cycle, Cause.BUSY)
            self.stage = 1
            yield clock.timeout(op.cycles)
        for self.stage, (channel, entry, cause) in enumerate(requests, start=1):
            if not channel.is_done(entry):
                account.switch(clock.cycle, cause)
                yield channel.wait(entry)
        self.stage = 0

    def lag(self, op: Instruction, tokens: Tokens) -> int:
        """Return the cycles until data from the links arrive; a slot is free at once."""
        return self.lag_cycles if op.act is Action.POST and tokens.handover.kind == "ready" else 0
