"""DMA engines: transfers between memories outside and a core, over the NoC of the cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import simpy

from simaccel.hardware.cores import HOPS_READ, HOPS_WRITE
from simaccel.hardware.memory import READS, WRITES
from simaccel.machine.accounts import StallAccount, Wait
from simaccel.machine.arbiters import READ, WRITE, ServiceRequest
from simaccel.machine.channel import Channel, DramTransfer
from simaccel.machine.engines import PORT_CAUSES, Engine, Waiting
from simaccel.machine.instructions import Action, Amounts, Instruction
from simaccel.machine.plan import Plan
from simaccel.machine.shared_resources import SharedResources
from simaccel.machine.stateful import Record, SkippedPeriods, State, StatefulPart
from simaccel.units import Cause

Pieces = Sequence[tuple[Channel, ServiceRequest]]
"""Requests to the channels of a memory."""


class DmaEngine(Engine):
    """A DMA engine: one transfer after the other between DRAM and buffer, or DRAM and PEs.

    ``stage`` of a transfer: 3 while its multicast waits for other cores, 1 at the DRAM channels
    and links, 2 at the port of the chip's memory, 0 otherwise.
    """

    busy_root = Cause.DRAM_BANDWIDTH
    direction: ClassVar[int]
    memory_levels: ClassVar[tuple[str, ...]]
    """Levels and directions of the bytes that it moves from or to memories."""
    hops_level: ClassVar[str]
    """Level and direction of the bytes that cross links."""
    root: Cause
    """The root cause of waits for its transfers, unless banks hold these up."""
    parts: list[Sequence[tuple[Channel, int]]]
    """The cycles of each channel of a memory, by step."""
    multicasts: dict[int, Multicast]
    """The multicast that requests a step, by step."""

    def __init__(self, name: str, plan: Plan, resources: SharedResources) -> None:
        super().__init__(name, plan, resources)
        self.root = self.busy_root
        self.parts = [self._parts(op) for op in plan.ops]
        self.multicasts = {}

    def _parts(self, op: Instruction) -> Sequence[tuple[Channel, int]]:
        if not op.dram_bytes:
            return ()
        transfer = DramTransfer(op.dram_bytes, self.direction, op.dram_rows)
        parts = self.resources.memories[op.memory].parts[transfer]
        cycles = self.resources.accelerator.cores.noc.rate.cycles(op.dram_bytes)
        return (*parts, *((link, cycles) for link in self.resources.routes[self.direction]))

    def request_transfer(self) -> Pieces:
        """Request the transfer of the current step from its memory."""
        return [
            (channel, channel.request(cycles, self.direction, self.name))
            for channel, cycles in self.parts[self.at]
        ]

    def is_requester(self, at: int) -> bool:
        """Return whether this engine requests the transfer of a step, or another core's does."""
        shared = self.multicasts.get(at)
        return shared is None or shared.members[0] is self

    def amounts(self, at: int) -> Amounts:
        """Return the bytes of a step; those of a multicast are counted for the first core."""
        moved = super().amounts(at)
        if not self.is_requester(at):
            return tuple(((level, name), n) for (level, name), n in moved if level not in READS)
        hops = sum(channel in self.resources.links for channel, _ in self.parts[at])
        levels = self.memory_levels if hops else ()
        crossed = [(name, n * hops) for (level, name), n in moved if level in levels]
        return (*moved, *(((self.hops_level, name), n) for name, n in crossed))

    def work(self, op: Instruction) -> Iterable[simpy.Event]:
        """Move one tile (a slot that is only reserved moves nothing)."""
        return self._transfer(op) if op.dram_bytes else ()

    def _transfer(self, op: Instruction) -> Waiting:
        """Move a tile through the DRAM channels and the port on the chip at the same time."""
        account, clock, direction = self.account, self.clock, self.direction
        account.enter(clock.cycle, op.site)
        pieces = None
        if op.alike and self.at in self.multicasts:
            self.stage = 3
            answer = self.multicasts[self.at].join(self, op.tile)
            pieces = (yield answer) if isinstance(answer, simpy.Event) else answer
        account.request_order = next(self.resources.requests)
        pieces = self.request_transfer() if pieces is None else pieces
        port = self.ports[op.port]
        entry = port.request(op.port_cycles, 1 - direction, self.name)
        account.blame(clock.cycle, self.root if op.root is None else op.root)
        account.switch(clock.cycle, Cause.BUSY)
        self.stage = 1
        for channel, piece in pieces:
            if not channel.is_done(piece):
                if channel in self.resources.links:
                    account.switch(clock.cycle, Cause.CORE_NOC)
                yield channel.wait(piece)
        self.stage = 2
        if not port.is_done(entry):
            account.switch(clock.cycle, PORT_CAUSES[op.port])
            yield port.wait(entry)
        self.stage = 0


@dataclass(eq=False)
class Multicast(StatefulPart):
    """One load for engines of several cores; the last engine that arrives requests it for all.

    Waits are booked to the first core that has not arrived. The bytes are counted for the engine
    of the first core.
    """

    members: Sequence[DmaEngine]
    waiting: State[dict[DmaEngine, simpy.Event]] = field(default_factory=dict)
    blamed: Record[StallAccount | None] = None
    """The account that waits are booked to; it depends on which engines wait."""

    def state(self) -> tuple[object, ...]:
        """Return the waiting engines in the order of their arrival."""
        return tuple(self.members.index(engine) for engine in self.waiting)

    def join(self, engine: DmaEngine, tile: str) -> Pieces | simpy.Event:
        """Arrive with a free slot; return the requests, or an event that has them as its value."""
        now = engine.clock.cycle
        for other in self.waiting:
            if self.blamed is not None:
                other.account.unfollow(self.blamed)
        coming = (*self.waiting, engine)
        missing = [member for member in self.members if member not in coming]
        if not missing:
            pieces, waiting = engine.request_transfer(), self.waiting
            self.waiting, self.blamed = {}, None
            for event in waiting.values():
                event.succeed(pieces)
            return pieces
        event = engine.clock.event()
        self.waiting[engine] = event
        self.blamed = missing[0].account
        wait = Wait(tile, "free", missing[0].name)
        for other in self.waiting:
            other.account.follow(now, self.blamed, wait)
        return event


class DmaInEngine(DmaEngine):
    """The engine of loads. Data arrive a latency after the read; the engine goes on at once."""

    direction = READ
    memory_levels = READS
    hops_level = HOPS_READ


class DmaOutEngine(DmaEngine):
    """The engine of stores. A write is posted: it ends when links and DRAM channels have taken it.

    Its data are in the memory when the last byte has passed the links (``written_at``).
    """

    latency_cycles: int
    written_at: State[int]
    direction = WRITE
    memory_levels = WRITES
    hops_level = HOPS_WRITE

    def __init__(self, name: str, plan: Plan, resources: SharedResources) -> None:
        super().__init__(name, plan, resources)
        self.latency_cycles = resources.accelerator.cores.latency_cycles(resources.core, write=True)
        self.written_at = 0

    def last_store(self, tile: str) -> int:
        """Return the cycles of a memory for the last store, if it is of ``tile``; else 0."""
        stores, awaited = 0, ""
        for op, pieces in zip(self.plan.ops, self.parts, strict=True):
            if op.act is Action.WAIT and op.tokens is not None:
                awaited = op.tokens.tile
            elif op.act is Action.COMMAND:
                stores = max((n for _, n in pieces), default=0) * (awaited == tile)
        return stores

    def state(self) -> tuple[object, ...]:
        """Return the position, and the cycles until the last bytes are in the memory."""
        return (*super().state(), self.last_lag())

    def skip(self, skip: SkippedPeriods) -> None:
        """Move the arrival of the last bytes by the skipped cycles."""
        super().skip(skip)
        self.written_at += skip.cycles

    def work(self, op: Instruction) -> Iterable[simpy.Event]:
        """Store one tile."""
        return self._store(op) if self.latency_cycles else super().work(op)

    def _store(self, op: Instruction) -> Waiting:
        yield from super().work(op)
        self.written_at = self.clock.cycle + self.latency_cycles

    def last_lag(self) -> int:
        """Return the cycles until the last bytes are in the memory."""
        return max(self.written_at - self.clock.cycle, 0)
