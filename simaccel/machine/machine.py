"""The machine: builds the units of an accelerator, runs a program, and returns its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from operator import mul

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import on_chip, on_core
from simaccel.machine.accounts import EngineCycles, Listener, NoAccount, StallAccount
from simaccel.machine.assembly import assemble, connect, count_tiles, make_barrier, share_loads
from simaccel.machine.channel import Channel, DramChannels
from simaccel.machine.clock import Clock
from simaccel.machine.dma_engines import DmaEngine, DmaOutEngine
from simaccel.machine.engines import Engine
from simaccel.machine.fast_forward import FastForward, RepeatRecorder, Scope, watch_loops
from simaccel.machine.folds import require_sums_fit
from simaccel.machine.instructions import Action
from simaccel.machine.probes import ChannelProbe, Probe, TileProbe
from simaccel.machine.shared_resources import enclosing_bytes
from simaccel.machine.stateful import StatefulPart
from simaccel.machine.totals import OperatorTotals, by_name, sum_work
from simaccel.machine.walks import InstructionStreams, make_walks
from simaccel.program.fit import require_fit, require_staged
from simaccel.program.overlap import overlapping_operators
from simaccel.program.program import Program
from simaccel.units import STALLS, Cause

_CHUNK = 20_000
"""Events between two reports of the progress."""
_GLANCE = 64
"""Events between two checks whether a run can still be below its limit; of longer programs more."""
_CHECKPOINT = 16
"""Reports of the progress between two checkpoints of a trace."""


class DeadlockError(SimaccelError):
    """Every engine waits; the message names each engine and its wait."""

    exit_code = 3


@dataclass(frozen=True)
class OperatorRun:
    """Counters of one operator (all its repetitions)."""

    name: str
    cycles: int
    macs: int
    native_macs: int
    moved: dict[tuple[str, str], int]
    elements: int
    engines: dict[str, EngineCycles]


@dataclass(frozen=True)
class Run:
    """Counters of a program's run; ``moved``: bytes by (level and direction, tensor).

    ``native_macs``: MACs in units of the multipliers' native width.
    """

    cycles: int
    macs: int
    native_macs: int
    elements: int
    moved: dict[tuple[str, str], int]
    engines: dict[str, EngineCycles]
    served_cycles: dict[str, int]
    peak_buffer_bytes: int
    operators: tuple[OperatorRun, ...]
    events: int


class Machine:
    """One accelerator that executes one program once.

    ``fast_forward`` skips periods that repeat; every figure of the run but ``events`` is the same.
    ``walks`` are the instruction streams of the program, if they are already known (made for an
    accelerator with the same queues, capacities and overlap of operators). Without ``accounts``
    the cycles of engines are not booked, and there is no listener; all else is the same. ``clock``
    is shared by machines that run together, without fast-forward; its owner runs it between
    ``start`` and ``finish``.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        program: Program,
        listener: Listener | None = None,
        fast_forward: bool = True,  # noqa: FBT001, FBT002 - one switch, named by every caller
        walks: InstructionStreams | None = None,
        *,
        accounts: bool = True,
        clock: Clock | None = None,
    ) -> None:
        require_fit(program, accelerator.capacities)
        if staging := accelerator.staging:
            require_staged(program, staging)
        require_sums_fit(program, accelerator)
        self.accelerator = accelerator
        self.clock = clock or Clock()
        walks = walks or make_walks(program, accelerator)
        near = overlapping_operators(walks.overlaps)
        books = StallAccount if accounts else NoAccount
        self.cores, self.engines = assemble(
            self.clock, accelerator, walks, enclosing_bytes(program), books
        )
        """What the engines of each core share, and all engines."""
        self.listener = listener
        self.by_core = [[e for e in self.engines if e.resources is shared] for shared in self.cores]
        booked = [[engine.account for engine in engines] for engines in self.by_core]
        self.totals = OperatorTotals(walks.operators, booked, walks.places)
        joined = any(other.joined for other in walks.overlaps.values())
        overlap = bool(accelerator.compiler.overlap) or joined
        self.barrier = make_barrier(walks, self.by_core, self._close, self._end, overlap=overlap)
        for engine in self.engines:
            engine.account.listener, engine.others = listener, self.totals.site_offsets
        self.tokens = connect(walks, self.cores, self.engines)
        several = len(self.cores) > 1
        self.multicasts = share_loads(walks, self.cores, self.engines) if several else []
        self.tile_counts = count_tiles(self.engines)
        self.lanes = self._make_lanes(listener) if listener is not None else []
        self.recorder = RepeatRecorder(listener) if listener is not None else None
        if fast_forward:
            self.clock.skips = True
            forward = FastForward(self.clock, self.engines, self._scopes(near), listener)
            watch_loops(forward, self.recorder)

    def channels(self) -> dict[str, Channel]:
        """Return the channels by name."""
        found = {
            f"{name}{i}": channel
            for name, memory in self.memories.items()
            for i, channel in enumerate(memory.by_number)
        }
        found |= {**self.noc, **self.cores[0].chip_links}
        for shared in self.cores:
            found |= {on_core(shared.core, name): port for name, port in shared.ports.items()}
        return found

    @property
    def memories(self) -> Mapping[str, DramChannels]:
        """The DRAM and the memories beside it, which all cores of a chip share, by name."""
        return {
            on_chip(shared.core, name): memory
            for shared in self.cores
            for name, memory in shared.memories.items()
        }

    @property
    def noc(self) -> dict[str, Channel]:
        """The links between memories and cores, by name."""
        return {name: link for shared in self.cores for name, link in shared.noc.items()}

    def _make_lanes(self, listener: Listener) -> list[Probe]:
        """Return the probes of channels and tiles that report to the listener."""
        clock = self.clock
        names: dict[Channel, list[str]] = {}
        for name, channel in self.channels().items():
            names.setdefault(channel, []).append(name)
        served = [
            ChannelProbe(clock, listener, known, channel_name)
            for channel_name, known in names.items()
        ]
        for shared in self.cores:
            plans = (engine.plan for engine in self.engines if engine.resources is shared)
            claimed = [op.tile for plan in plans for op in plan.ops if op.tile]
            around = [tile for tiles in shared.occupancy.enclosing.values() for tile in tiles]
            for tile in dict.fromkeys([*claimed, *around]):
                name = f"tile {on_core(shared.core, tile)}"
                shared.occupancy.lanes[tile] = TileProbe(clock, listener, name)
        tiles = [lane for shared in self.cores for lane in shared.occupancy.lanes.values()]
        lanes = dict.fromkeys((engine.name for engine in self.engines), "engine")
        lanes |= dict.fromkeys(self.channels(), "channel")
        listener.announce(lanes | dict.fromkeys((lane.name for lane in tiles), "tile"))
        return [*served, *tiles]

    def _scopes(self, near: Mapping[str, Collection[str]]) -> dict[str, Scope]:
        """Return the mutable parts by operator; the key "" has all parts."""
        of, parts = self._operators_of(near), self.parts()
        everywhere = [at for at, part in enumerate(parts) if part not in of]
        numbers = {operator: [*everywhere] for operator in self.totals.by_operator}
        for at, part in enumerate(parts):
            for operator in of.get(part, ()):
                numbers[operator].append(at)
        scopes = {"": Scope(parts, self.lanes)}
        for operator, places in numbers.items():
            within = [parts[at] for at in sorted(places)]
            scopes[operator] = Scope(within, [part for part in within if isinstance(part, Probe)])
        return scopes

    def _operators_of(self, near: Mapping[str, Collection[str]]) -> dict[StatefulPart, set[str]]:
        """Return, for tokens and tiles, the operators in which they change; others may in all."""
        rows = self.totals.by_operator
        operators: dict[StatefulPart, set[str]] = {rows[name]: {*near[name]} for name in near}
        for tokens in self.tokens:
            if tokens.handover.operator:
                operators[tokens] = {*near[tokens.handover.operator]}
        for engine in self.engines:
            lanes = engine.resources.occupancy.lanes
            for op in engine.plan.ops:
                if op.tile and op.tile in lanes:
                    lane = lanes[op.tile]
                    operators.setdefault(lane, set()).update(near[op.operator])
        return operators

    def parts(self) -> list[StatefulPart]:
        """Return all parts that change while the machine runs, the clock first."""
        return [
            self.clock,
            *self.engines,
            *(engine.account for engine in self.engines if engine.account.kept),
            *self.tokens,
            *self.multicasts,
            *self.tile_counts,
            self.barrier,
            *(port for shared in self.cores for port in shared.ports.values()),
            *(channel for memory in self.memories.values() for channel in memory.channels),
            *self.noc.values(),
            *self.cores[0].chip_links.values(),
            *(shared.occupancy for shared in self.cores),
            self.totals,
            *self.totals.by_operator.values(),
            *self.lanes,
        ]

    def _close(self, operator: str, after: Mapping[int, str]) -> None:
        """Book the cycles of an operator; ``after``: by core, the operator of the next cycles."""
        now = self.clock.cycle
        self.totals.close(now, operator)
        for core in self.totals.places[operator]:
            late = self.totals.site_offsets[after[core]] if after else 0
            for engine in self.by_core[core]:
                engine.account.pass_on(now, late, goes_on=self.barrier.waits(engine.name))

    def _end(self, operator: str) -> None:
        """Record the peak of the buffer when all engines have met at the end of an operator."""
        for core in self.totals.places[operator]:
            self.cores[core].occupancy.close(operator)

    def run(self, progress: Callable[[int, float], None] | None = None) -> Run:
        """Execute the program to its end.

        ``progress`` is called from time to time with the cycle and the completed fraction of array
        and SFU work.

        Raises:
            DeadlockError: no engine can go on.
        """
        self.start()
        work = sum(_work(engine, engine.plan.trips) for engine in self.engines)
        chunks = count(1)
        while self.clock.run_some(_CHUNK):
            for lane in self.lanes:
                lane.tell()
            if self.listener is not None and next(chunks) % _CHECKPOINT == 0:
                self._flush(self.clock.cycle)
                if self.recorder is not None:
                    self.recorder.forget()
                self.listener.checkpoint(self.clock.cycle)
            if progress is not None:
                done = sum(_work(e, e.counts) for e in self.engines)
                progress(self.clock.cycle, done / work if work else 0.0)
        return self.finish()

    def finish(self) -> Run:
        """Return the counters of the run when no event is left.

        Raises:
            DeadlockError: an engine waits.
        """
        self._require_done()
        total = max(engine.done_at or 0 for engine in self.engines)
        for engine in self.engines:
            engine.account.switch(total, Cause.IDLE)
        self._flush(total)
        by_operator = sum_work(self.engines, self.totals.by_operator)
        works = by_operator.values()
        return Run(
            cycles=total,
            macs=sum(work.macs for work in works),
            native_macs=sum(work.native_macs for work in works),
            elements=sum(work.elements for work in works),
            moved=by_name(sum((work.moved for work in works), start=Counter())),
            engines={e.name: _cycles(e.account.cycles) for e in self.engines},
            served_cycles={n: c.served_cycles for n, c in self.channels().items()},
            peak_buffer_bytes=max(shared.occupancy.peak_bytes for shared in self.cores),
            operators=tuple(
                OperatorRun(
                    name,
                    self.totals.cycles(name),
                    work.macs,
                    work.native_macs,
                    by_name(work.moved),
                    work.elements,
                    {e: _cycles(n) for e, n in self.totals.by_cause(name).items()},
                )
                for name, work in by_operator.items()
            ),
            events=self.clock.events,
        )

    def cycles_below(self, limit: float) -> int | None:
        """Execute the program and return its cycles; None if they are not below ``limit``.

        The run ends early as soon as its clock plus the remaining work of an engine reach it, or
        that of an array and the store of its last results.

        Raises:
            DeadlockError: no engine can go on.
        """
        self.start()
        trips = [engine.plan.trips for engine in self.engines]
        every = zip(self.engines, trips, strict=True)
        works = {e: cycles for e, counts in every if (cycles := _work(e, counts))}
        drains = {engine: self._drain(engine) for engine in works}
        served = self._service(trips)
        glance = max(_GLANCE, sum(len(engine.plan.ops) for engine in works) // _GLANCE)
        while self.clock.run_some(glance):
            every_left = ((e, cycles - _work(e, e.counts)) for e, cycles in works.items())
            left = (cycles + drains[e] for e, cycles in every_left if cycles)
            waiting = (n - channel.served_cycles for channel, n in served.items())
            if self.clock.cycle + max([*left, *waiting, 0]) >= limit:
                return None
        self._require_done()
        ends = max(engine.done_at or 0 for engine in self.engines)
        return ends if ends < limit else None

    def take_apart(self) -> None:
        """Drop all parts, which refer to one another: Python finds them late, and slowly."""
        for part in (*self.parts(), *self.processes, *self.cores, self):
            vars(part).clear()

    def _drain(self, array: Engine) -> int:
        """Return the least cycles from the end of an array's folds until the last is stored."""
        last = next((op.ends for op in reversed(array.plan.ops) if op.ends is not None), None)
        if last is None:
            return 0
        own = self.by_core[array.resources.core]
        stores = (engine for engine in own if isinstance(engine, DmaOutEngine))
        stored = max((engine.last_store(last.made) for engine in stores), default=0)
        return last.cycles + last.latency_cycles + stored

    def _service(self, trips: Sequence[Sequence[int]]) -> dict[Channel, int]:
        """Return the cycles of all requests to each DRAM channel."""
        found: dict[Channel, int] = {}
        for engine, counts in zip(self.engines, trips, strict=True):
            parts = engine.parts if isinstance(engine, DmaEngine) else ()
            for at, (times, pieces) in enumerate(zip(counts, parts, strict=False)):
                if not (pieces and isinstance(engine, DmaEngine) and engine.is_requester(at)):
                    continue
                for channel, cycles in pieces:
                    found[channel] = found.get(channel, 0) + times * cycles
        return found

    def start(self) -> None:
        """Start all engines."""
        self.processes = [self.clock.process(engine.run()) for engine in self.engines]

    def _require_done(self) -> None:
        waiting = [engine for engine in self.engines if engine.done_at is None]
        if not waiting:
            return
        lines = [f"  {engine.name} waits for {self._wait_of(engine)}" for engine in waiting]
        raise DeadlockError(
            f"deadlock at cycle {self.clock.cycle}: no engine can go on\n" + "\n".join(lines)
        )

    @staticmethod
    def _wait_of(engine: Engine) -> str:
        op, wait = engine.plan.ops[engine.at], engine.account.wait
        if wait.kind == "end":
            return f"the end of {wait.tile}, on {wait.engine}"
        if op.act in (Action.MEET, Action.GATE):
            return f"the other engines at the end of {op.operator}"
        if wait.kind == "free":
            return f"a free slot of tile {wait.tile}, held by {wait.engine}"
        return f"tile {wait.tile} from {wait.engine}"

    def _flush(self, now: int) -> None:
        """Report everything up to ``now`` to the listener."""
        for engine in self.engines:
            engine.account.flush(now)
        for lane in self.lanes:
            lane.flush(now)


def _work(engine: Engine, counts: Sequence[int]) -> int:
    return sum(map(mul, counts, engine.plan.cycles))


def _cycles(cycles: list[int]) -> EngineCycles:
    stalls = {c.name.lower(): cycles[c] for c in STALLS if cycles[c]}
    return EngineCycles(cycles[Cause.BUSY], cycles[Cause.IDLE], stalls)
