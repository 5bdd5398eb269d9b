"""The PE array, of either kind, and the engines of the NoC between it and the buffer.

The array computes while the pipes of the NoC and the ports of the buffer carry the data of a fold,
or of a pass over memories in the PEs. Tiles in such memories are loaded and stored by engines that
use a pipe and a port at the same time, as DMA engines do between DRAM and buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import simpy

from simaccel.machine.arbiters import READ, WRITE, ServiceRequest
from simaccel.machine.channel import Channel
from simaccel.machine.engines import PORT_CAUSES, Engine, Waiting
from simaccel.machine.folds import FoldEdge, name_before
from simaccel.machine.instructions import Action, Instruction
from simaccel.machine.plan import Plan
from simaccel.machine.shared_resources import SharedResources
from simaccel.machine.stateful import SkippedPeriods, State
from simaccel.machine.tokens import Tokens
from simaccel.units import Cause


class _ChannelDemand(NamedTuple):
    """The demand of a command for a channel, and the cause that waiting for it is booked to."""

    channel: Channel
    cycles: int
    direction: int
    cause: Cause
    alone: bool
    """Whether no other engine can use the channel before the next barrier."""


class OnChipEngine(Engine):
    """An engine that uses pipes and ports."""

    uses: Sequence[tuple[_ChannelDemand, ...]]
    """The demand for pipes and ports, by step."""
    CAUSES: ClassVar[Mapping[str, Cause]] = PORT_CAUSES
    """Causes of waits for pipes and ports."""

    def __init__(self, name: str, plan: Plan, resources: SharedResources) -> None:
        super().__init__(name, plan, resources)
        self.uses = [self._uses(op) if op.act is Action.COMMAND else () for op in plan.ops]

    def _uses(self, op: Instruction) -> tuple[_ChannelDemand, ...]:
        """Return the uses of a step: of the pipes, the slower one first, then of the ports."""
        shared = self.resources.shared
        requests = [
            ("noc_distribution", op.distribution_cycles, READ),
            ("noc_collection", op.collection_cycles, WRITE),
        ]
        alone = {name for name, _, _ in requests if (name, op.operator) not in shared}
        requests.sort(key=lambda pipe: -pipe[1])
        requests += [
            ("buffer_read", op.read_cycles, READ),
            ("buffer_write", op.write_cycles, WRITE),
        ]
        return tuple(
            _ChannelDemand(self.ports[name], cycles, direction, self.CAUSES[name], name in alone)
            for name, cycles, direction in requests
            if cycles
        )

    def _ask(self) -> list[tuple[Channel, Cause, ServiceRequest | None]]:
        """Request all uses of a step; those that no other engine can delay are not queued."""
        requests: list[tuple[Channel, Cause, ServiceRequest | None]] = []
        for channel, cycles, direction, cause, alone in self.uses[self.at]:
            if alone:
                channel.serve_alone(cycles)
                requests.append((channel, cause, None))
            else:
                requests.append((channel, cause, channel.request(cycles, direction, self.name)))
        return requests

    def work(self, op: Instruction) -> Iterable[simpy.Event]:
        """Run one command: compute (if it computes) and transfer at the same time."""
        account, clock = self.account, self.clock
        requests = self._ask()
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
        for channel, cause, entry in requests:
            if entry is None:
                left = channel.idle_since - clock.cycle
                if left > 0:
                    account.switch(clock.cycle, cause)
                    yield clock.timeout(left)
            elif not channel.is_done(entry):
                account.switch(clock.cycle, cause)
                yield channel.wait(entry)
            self.stage += 1
        self.stage = 0


class Array(OnChipEngine):
    """The PEs, which execute one fold, or one pass, after the other.

    If its operands have arrived, the stationary operand of a block shifts in during the last fold
    of the block before, its stream follows directly, and the results of the last fold leave during
    the next one. If they have not, the array runs empty, and fill and drain take cycles.
    """

    busy_root = Cause.ARRAY
    loops: Mapping[int, Instruction]
    """By step that has no other one in its loop: the end of that loop."""
    memory: int
    """The age in cycles from which the arrival of a tile no longer matters."""
    tiles: frozenset[str]
    """The tiles that blocks use; also those that the array itself makes."""
    came: State[dict[str, int]]
    """The arrival of tiles since the engine last waited for the end of an operator."""
    since: State[int]
    """The cycle of that end, at which all other tiles were in place."""
    free_at: State[int]
    """The cycle from which the next stationary operand may shift in."""
    left_at: State[int]
    """The cycle from which the last output-stationary sums no longer delay those of others."""
    drained_at: State[int]

    def __init__(self, name: str, plan: Plan, resources: SharedResources) -> None:
        super().__init__(name, plan, resources)
        loops = zip(plan.ops, plan.ops[2:], strict=False)
        self.loops = {
            at: end
            for at, (loop, end) in enumerate(loops, start=1)
            if loop.act is Action.LOOP and end.act is Action.END
        }
        begins = [op.begins for op in plan.ops if op.begins is not None]
        edges = [*begins, *(op.ends for op in plan.ops if op.ends is not None)]
        tiles = (tile for edge in edges for tile in (*edge.held, *edge.streamed, edge.made) if tile)
        self.tiles, self.came, self.since = frozenset(tiles), {}, 0
        ages = (1 + edge.cycles + edge.latency_cycles for edge in begins)
        self.memory = max(ages, default=0)
        self.free_at = self.left_at = self.drained_at = 0

    def state(self) -> tuple[object, ...]:
        """Return the position, and the ages of the times that still matter."""
        now, least = self.clock.cycle, -self.memory
        since = max(self.since - now, least)
        came = tuple((tile, max(cycle - now, least)) for tile, cycle in self.came.items())
        free = max(self.free_at - now, least)
        left = max(self.left_at - now, 0), max(self.drained_at - now, 0)
        return (*super().state(), since, came, free, *left)

    def skip(self, skip: SkippedPeriods) -> None:
        """Keep the ages of all times."""
        super().skip(skip)
        self.came = {tile: cycle + skip.cycles for tile, cycle in self.came.items()}
        self.since += skip.cycles
        self.free_at += skip.cycles
        self.left_at += skip.cycles
        self.drained_at += skip.cycles

    def work(self, op: Instruction) -> Iterable[simpy.Event]:
        """Begin or end a block, or run a fold or a pass."""
        if op.begins is not None:
            return self._begin(op, op.begins)
        if op.ends is not None:  # of the drain; meanwhile the next block may begin
            now = self.clock.cycle
            self.free_at = now - op.ends.hidden
            self.left_at = max(self.left_at, now + op.ends.leaving)
            self.drained_at = max(self.drained_at, now + op.ends.cycles + op.ends.latency_cycles)
            self.came[op.ends.made] = self.drained_at
            return ()
        if op.cycles and not op.latency_cycles and self._passes(op):
            return ()
        return super().work(op)

    def _passes(self, op: Instruction) -> bool:
        """Run a command at once if nothing else happens before it ends; in a loop several times.

        Its transfers have the ports for themselves, and last no longer than it computes.
        """
        now, loop = self.clock.cycle, self.loops.get(self.at)
        for channel, cycles, _, _, alone in self.uses[self.at]:
            is_free = alone or not (channel.lone_request or channel.arbiter.ring)
            if not is_free or cycles > op.cycles or channel.log is not None:
                return False
        left = 1 if loop is None else loop.trips - self.iterations[loop.depth]
        times = self.clock.pass_time(op.cycles, left)
        if not times:
            return False
        if self.account.kept:
            self.account.enter(now, op.site)
            if self.account.cause is not Cause.BUSY:
                self.account.switch(now, Cause.BUSY)
        for channel, cycles, direction, _, _ in self.uses[self.at]:
            channel.served_cycles += cycles * times
            channel.idle_since = self.clock.cycle - op.cycles + cycles
            channel.arbiter.direction = direction
        if loop is not None:
            self.counts[self.at] += times - 1
            self.iterations[loop.depth] += times - 1
        return True

    def _begin(self, op: Instruction, edge: FoldEdge) -> Waiting:
        """Wait until the stationary operand is in place and the stream is at the edge.

        Output-stationary sums may leave only after those of the block before have left.
        """
        account, clock, latency = self.account, self.clock, edge.latency_cycles
        account.enter(clock.cycle, op.site)
        at = [self.came.get(tile, self.since) + latency for tile in edge.streamed]
        held = [self.came.get(tile, self.since) + latency for tile in edge.held]
        at += [max(self.free_at, come) + edge.cycles for come in held]
        if not held:
            at.append(self.left_at - edge.hidden)
        left = max(at, default=0) - clock.cycle
        on_way = min(latency, left)
        if left > on_way:
            account.switch(clock.cycle, Cause.ARRAY)
            self.stage = 1
            yield clock.timeout(left - on_way)
        if on_way > 0:
            account.switch(clock.cycle, Cause.NOC)
            self.stage = 2
            yield clock.timeout(on_way)
        self.stage = 0

    def lag(self, op: Instruction, tokens: Tokens) -> int:
        """Return the cycles until results have left the array after their last fold."""
        return max(self.came.get(_tile(op, tokens), 0) - self.clock.cycle, 0)

    def note(self, op: Instruction, tokens: Tokens) -> None:
        """Record the arrival of a tile."""
        if op.renews:
            self._keep(tokens.handover.tile)
        self.came[_tile(op, tokens)] = tokens.came

    def _claim(self, op: Instruction) -> None:
        """Take a free slot, and clear the arrival of the slot's last tile."""
        super()._claim(op)
        if op.renews:
            self._keep(op.tile)
        if op.tile in self.tiles or op.tile in self.came:
            self.came[op.tile] = self.clock.cycle

    def _keep(self, tile: str) -> None:
        """Save the arrival of a tile that is still used while the next one arrives."""
        if tile in self.tiles or tile in self.came:
            self.came[name_before(tile)] = self.came.get(tile, self.since)

    def _meet(self, op: Instruction) -> Waiting:
        """Arrive at the end of an operator; forget arrivals too long ago to matter."""
        yield from super()._meet(op)
        least = self.clock.cycle - self.memory
        if self.since <= least:
            self.came = {tile: cycle for tile, cycle in self.came.items() if cycle > least}

    def last_lag(self) -> int:
        """Return the cycles until the last results have left the array."""
        return max(self.drained_at - self.clock.cycle, 0)

    def _wait_for_end(self) -> Waiting:
        """Wait for the end of the previous operator, after which its results are in place."""
        event = self.barrier.gate(self.name)
        if event is None:
            return
        account = self.account
        before = account.cause if account.cause in (Cause.IDLE, Cause.LINK) else Cause.DRAIN
        left = self.drained_at - self.clock.cycle
        on_way = min(left, self.resources.accelerator.tail_latency_cycles)
        for cycles, cause in ((left - on_way, Cause.ARRAY), (on_way, Cause.NOC)):
            if cycles > 0:
                account.switch(self.clock.cycle, cause)
                yield self.clock.timeout(cycles)
        account.switch(self.clock.cycle, before)
        yield event
        self.came, self.since = {}, self.clock.cycle


def _tile(op: Instruction, tokens: Tokens) -> str:
    """Return the name of the tile that a step waits for or hands over."""
    return name_before(tokens.handover.tile) if op.before else tokens.handover.tile


class NocEngine(OnChipEngine):
    """An engine that moves tiles to PEs or from them; it is busy while pipe and port are."""

    busy_root = Cause.NOC
    CAUSES: ClassVar[Mapping[str, Cause]] = {
        **PORT_CAUSES,
        "noc_distribution": Cause.BUSY,
        "noc_collection": Cause.BUSY,
    }
