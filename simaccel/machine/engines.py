"""Engines: SimPy processes that walk a program and run their own commands.

Each engine's ``run`` is the sequence of what the hardware does. The position of an engine is kept
in attributes (``at``, ``iterations``, ``stage``), never in local variables only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import simpy

from simaccel.hardware.cores import on_chip, without_core
from simaccel.machine.accounts import StallAccount, Wait
from simaccel.machine.arbiters import READ, WRITE, ServiceRequest
from simaccel.machine.channel import Channel
from simaccel.machine.clock import Clock
from simaccel.machine.instructions import Action, Amounts, Instruction
from simaccel.machine.operator_barrier import OperatorBarrier
from simaccel.machine.plan import Plan
from simaccel.machine.shared_resources import SharedResources
from simaccel.machine.stateful import (
    FOREVER,
    NEVER,
    Counter,
    Gauge,
    GaugeInterval,
    Numbers,
    Record,
    SkippedPeriods,
    State,
    StatefulPart,
    growth,
)
from simaccel.machine.tile_counts import TileCounts
from simaccel.machine.tokens import Tokens
from simaccel.units import LINK, Cause

PORT_CAUSES = {
    "buffer_read": Cause.BUFFER_PORT,
    "buffer_write": Cause.BUFFER_PORT,
    "noc_distribution": Cause.NOC,
    "noc_collection": Cause.NOC,
}
"""Causes of waits for channels on the chip."""
_ENDINGS = (Cause.DRAIN, Cause.IDLE, Cause.LINK)
"""The cause of waits for the end of an operator."""
Waiting = Generator[simpy.Event, Any, None]


class Engine(StatefulPart):
    """An engine that goes through its plan; subclasses define what their commands do.

    If ``at`` and ``stage`` are the same at two times, either the engine has not moved, or it has
    gone through iterations of one of its loops.
    """

    busy_root: Cause = Cause.BUSY
    name: str
    plan: Plan
    resources: SharedResources
    ports: Mapping[str, Channel]
    clock: Clock
    account: StallAccount
    tokens: list[Tokens | None]
    needed: list[Sequence[tuple[Tokens, Instruction]]]
    """By step: the tokens that it waits for, and all further ones of the next command."""
    barrier: OperatorBarrier
    others: Mapping[str, int]
    """By operator, the offset of other operators' sites in its cycles."""
    storers: Mapping[str, StallAccount]
    """By operator, the account of the engine that stores its results, on its first core."""
    streams: Mapping[str, TileCounts]
    """The counts of tiles, by tensor that goes from core to core tile by tile."""
    boundaries: list[Callable[[], None] | None]
    """By step that ends a loop: the call at the boundary of an iteration."""
    at: State[int]
    stage: State[int]
    skipped_exchange: State[bool]
    """Whether its last operator was an exchange in which it ran no command."""
    iterations: Gauge[list[int]]
    counts: Counter[list[int]]
    done_at: Record[int | None]
    """The cycle at which it reached the end of its plan."""

    def __init__(self, name: str, plan: Plan, resources: SharedResources) -> None:
        self.name = name
        self.plan = plan
        self.resources = resources
        self.ports = resources.ports
        self.clock = resources.clock
        self.account = resources.account(name, self.busy_root)
        self.at = 0
        self.stage = 0
        self.skipped_exchange = False
        self.iterations = [0] * plan.depth
        self.counts = [0] * len(plan.ops)
        self.tokens, self.needed = [], []
        self.others, self.storers, self.streams = {}, {}, {}
        self.boundaries = [None] * len(plan.ops)
        self.done_at = None

    def state(self) -> tuple[object, ...]:
        """Return the position in the plan; waits are part of the tokens' and channels' state."""
        return self.at, self.stage, self.skipped_exchange

    def gauges(self) -> Numbers:
        """Return the iterations of the loops around the position."""
        return tuple(self.iterations[: len(self.plan.around[self.at])])

    def counters(self) -> Numbers:
        """Return the executions of each command and loop that can be executed again."""
        return tuple(self.counts[self.plan.repeating[self.at]])

    def limit(self, interval: GaugeInterval) -> int:
        """Return the periods for which the loop that repeats has trips left."""
        if interval.before == interval.after:
            return FOREVER
        moved = [at for at, old in enumerate(interval.before) if interval.after[at] != old]
        if len(moved) > 1:
            return NEVER
        depth, plan = moved[0], self.plan
        left = plan.around[self.at][depth] - 1 - interval.after[depth]
        if plan.uneven[self.at][depth]:
            if not interval.before[depth]:
                return NEVER
            left -= 1
        return left // (interval.after[depth] - interval.before[depth])

    def skip(self, skip: SkippedPeriods) -> None:
        """Add the iterations of the skipped periods."""
        for depth, amount in growth(skip.interval.before, skip.interval.after, skip.times):
            self.iterations[depth] += amount
        first = self.plan.repeating[self.at].start
        for at, amount in skip.growth():
            self.counts[first + at] += amount

    def run(self) -> Waiting:  # noqa: C901, PLR0912 - a branch per act, where most time goes
        """Go through the plan from the first step to the last."""
        ops, tokens, counts, iterations = self.plan.ops, self.tokens, self.counts, self.iterations
        end, command, loop = Action.END, Action.COMMAND, Action.LOOP
        meet, gate, claim, wait = Action.MEET, Action.GATE, Action.CLAIM, Action.WAIT
        while self.at < len(ops):
            at = self.at
            op = ops[at]
            act = op.act
            if act is claim or act is wait:
                if not op.depths or self._is_first(op):
                    stream = tokens[at]
                    if stream is not None:
                        self.account.enter(self.clock.cycle, op.site)
                        event = stream.take(self._needed_tokens)
                        if event is not None:
                            yield event
                        if stream.memory:
                            self.note(op, stream)
                    if act is claim:
                        self._claim(op)
            elif act is end:
                iterations[op.depth] += 1
                if iterations[op.depth] < op.trips:
                    self.at = op.target
                    boundary = self.boundaries[at]
                    if boundary is not None:
                        boundary()
                    continue
                iterations[op.depth] = 0
            elif act is command:
                counts[at] += 1
                yield from self.work(op)
            elif act is loop:
                counts[at] += 1
                iterations[op.depth] = 0
            elif act is meet:
                yield from self._meet(op)
            elif act is gate:
                yield from self._wait_for_end()
                yield from self._wait_for_others(op)
                yield from self._start(op)
            elif op.tensor:
                yield from self._pass_tile(op)
            elif not op.depths or self._is_last(op):
                self._hand_on(op, tokens[at])
            self.at += 1
        yield from self._wait_for_end()
        self.account.enter(self.clock.cycle, 0)
        self.account.switch(self.clock.cycle, Cause.IDLE)
        self.done_at = self.clock.cycle

    def _needed_tokens(self) -> list[Tokens]:
        """Return the missing tokens of this step and of the next command."""
        found = [
            tokens
            for tokens, op in self.needed[self.at]
            if not tokens.count and (not op.depths or self._is_first(op))
        ]
        return list(dict.fromkeys(found)) if len(found) > 1 else found

    def _is_first(self, op: Instruction) -> bool:
        """Return whether it is the first iteration, the only one in which the step waits."""
        iterations = self.iterations
        for depth in op.depths:  # noqa: SIM110 - a generator takes three times as long
            if iterations[depth]:
                return False
        return True

    def _is_last(self, op: Instruction) -> bool:
        """Return whether it is the last iteration, the only one in which the step hands over."""
        iterations, trips = self.iterations, self.plan.around[self.at]
        for depth in op.depths:  # noqa: SIM110 - as above
            if iterations[depth] != trips[depth] - 1:
                return False
        return True

    def _claim(self, op: Instruction) -> None:
        """Take a slot that is free."""
        self.resources.occupancy.claim(op.operator, op.tile, op.n_bytes, op.place)

    def note(self, op: Instruction, tokens: Tokens) -> None:
        """Record the arrival of a tile that the step waited for."""

    def _hand_on(self, op: Instruction, tokens: Tokens | None) -> None:
        """Hand over a tile, or release its slot."""
        if op.act is Action.RELEASE:
            self.resources.occupancy.release(op.tile, op.n_bytes, op.place)
        if tokens is not None:
            if op.empty:
                tokens.pass_empty()
            else:
                tokens.hand_on(self.lag(op, tokens))

    def lag(self, op: Instruction, tokens: Tokens) -> int:  # noqa: ARG002 - for the array
        """Return the cycles until the data of a tile have left the engine."""
        return 0

    def _wait_for_end(self) -> Waiting:
        """Wait until the engine's previous operator has ended."""
        event = self.barrier.gate(self.name)
        if event is not None:
            if self.account.cause not in _ENDINGS:
                cause = Cause.LINK if self.skipped_exchange else Cause.DRAIN
                self.account.switch(self.clock.cycle, cause)
            yield event

    def _wait_for_others(self, op: Instruction) -> Waiting:
        """Wait for operators of other cores that an operator depends on."""
        while awaited := self.barrier.awaited_operator(op.operator):
            account, other, now = self.account, self.storers[awaited], self.clock.cycle
            account.enter(now, op.site)
            account.follow(now, other, Wait(awaited, "end", other.engine))
            yield self.barrier.depend(self.name, op.operator)
            account.unfollow(other)

    def _pass_tile(self, op: Instruction) -> Waiting:
        """Hand a tile on to other cores; or wait for the next tile of theirs, and take it."""
        account, stream, reader = self.account, self.streams[op.tensor], (self.name, op.operator)
        if op.act is Action.HAND_ON:
            stream.hand_on(self.name, self.last_lag() + op.latency_cycles)
            return
        while (missing := stream.take(reader)) is not None:
            maker, other = missing
            account.enter(self.clock.cycle, op.site)
            if stream.is_coming(reader, maker):
                is_sent = without_core(maker) == LINK
                account.switch(self.clock.cycle, Cause.LINK if is_sent else Cause.CORE_NOC)
                yield stream.wait(reader)
                continue
            account.follow(self.clock.cycle, other, Wait(op.tensor, "ready", maker))
            yield stream.wait(reader)
            account.unfollow(other)

    def _start(self, op: Instruction) -> Waiting:
        """Wait for the start cycles of a kernel before its first operator."""
        cycles = self.resources.accelerator.compiler.kernel_start_cycles
        if cycles and not op.joined:
            self.account.enter(self.clock.cycle, op.site)
            self.account.switch(self.clock.cycle, Cause.START)
            self.stage = 1
            yield self.clock.timeout(cycles)
            self.stage = 0

    def _meet(self, op: Instruction) -> Waiting:
        """Arrive at the end of an operator; wait for its end only if the next one needs it."""
        yield from self._wait_for_end()
        barrier, account = self.barrier, self.account
        event = barrier.arrive(self.name, op.operator, self._following(), self.last_lag())
        owner = barrier.owner(self.name, op.operator)
        account.outer = self.others[owner] if owner != op.operator else 0
        account.enter(self.clock.cycle, op.site)
        self.skipped_exchange = op.links and not op.works
        others = Cause.LINK if op.links else Cause.IDLE
        account.switch(self.clock.cycle, Cause.DRAIN if op.works else others)
        if event is not None:
            yield event
        is_open = barrier.waits(self.name) and barrier.owner(self.name, op.operator) == op.operator
        account.outer = self.others[op.operator] if is_open else 0

    def _following(self) -> str:
        """Return the operator of the next steps; empty if there is none."""
        ops, at = self.plan.ops, self.at + 1
        while at < len(ops):
            op = ops[at]
            if op.operator:
                return op.operator
            ends = op.act is Action.END and self.iterations[op.depth] + 1 < op.trips
            at = op.target if ends else at + 1
        return ""

    def last_lag(self) -> int:
        """Return the cycles until the last results have left the engine."""
        return 0

    def amounts(self, at: int) -> Amounts:
        """Return the bytes of a step that are counted for this engine."""
        return self.plan.ops[at].amounts

    def work(self, op: Instruction) -> Iterable[simpy.Event]:
        """Run one command of the engine; ``()`` if it never waits."""
        raise NotImplementedError


class UnitEngine(Engine):
    """A unit from buffer to buffer, such as the SFU or the links: one command at a time.

    A command of the links uses those of all its dimensions at once. The engine goes on when the
    last byte has left; the result of a collective arrives a lag later.
    """

    links: list[Sequence[tuple[Channel, int]]]
    """The cycles of each link, by step."""
    lag_cycles: State[int]
    """The lag of the last command."""

    def __init__(self, name: str, plan: Plan, resources: SharedResources) -> None:
        self.busy_root = Cause[without_core(name).upper()]
        super().__init__(name, plan, resources)
        chip_links, core = resources.chip_links, resources.core
        self.links = [
            [(chip_links[on_chip(core, link)], cycles) for link, cycles in op.channels]
            if op.channels
            else ()
            for op in plan.ops
        ]
        self.lag_cycles = 0

    def state(self) -> tuple[object, ...]:
        """Return the position, and the lag of the last command."""
        return self.at, self.stage, self.skipped_exchange, self.lag_cycles

    def work(self, op: Instruction) -> Waiting:
        """Execute a command; at the same time its passes read and write through the ports."""
        account, clock = self.account, self.clock
        account.enter(clock.cycle, op.site)
        requests: list[tuple[Channel, ServiceRequest, Cause]] = []
        for link, cycles in self.links[self.at]:
            requests.append((link, link.request(cycles, WRITE, self.name), Cause.BUSY))
        reads, writes = self.ports["buffer_read"], self.ports["buffer_write"]
        requests += [
            (reads, reads.request(op.read_cycles, READ, self.name), Cause.BUFFER_PORT),
            (writes, writes.request(op.write_cycles, WRITE, self.name), Cause.BUFFER_PORT),
        ]
        self.lag_cycles = op.latency_cycles
        if not op.channels:
            account.switch(clock.cycle, Cause.BUSY)
            self.stage = 1
            yield clock.timeout(op.cycles)
        for self.stage, (channel, entry, cause) in enumerate(requests, start=2):
            if not channel.is_done(entry):
                account.switch(clock.cycle, cause)
                yield channel.wait(entry)
        self.stage = 0

    def lag(self, op: Instruction, tokens: Tokens) -> int:
        """Return the cycles until data from the links arrive; a slot is free at once."""
        return self.lag_cycles if op.act is Action.POST and tokens.handover.kind == "ready" else 0
