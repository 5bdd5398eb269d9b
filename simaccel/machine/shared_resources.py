"""Resources that engines share: clock, memories, bytes of the buffer, channels, delays of data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from simaccel.hardware import Accelerator
from simaccel.hardware.cores import CHIP, on_chip
from simaccel.machine.accounts import StallAccount
from simaccel.machine.arbiters import READ, WRITE, RoundRobinArbiter
from simaccel.machine.channel import Channel, DramChannels, DramTransfer
from simaccel.machine.clock import Clock
from simaccel.machine.engine_kinds import EngineKind
from simaccel.machine.instructions import TokenStream
from simaccel.machine.plan import Plan
from simaccel.machine.probes import TileProbe
from simaccel.machine.stateful import Record, State, StatefulPart
from simaccel.machine.tokens import Delay
from simaccel.program.fit import operators_with_tiles, rings
from simaccel.program.program import BUFFER, Program
from simaccel.units import Cause


@dataclass(eq=False)
class Occupancy(StatefulPart):
    """Bytes of the buffer in use, and their peak; tiles in PEs are only reported to probes.

    ``enclosing``: bytes of the tiles that live around each operator. They count from the end of the
    previous operator, or from the first claim; an operator's peak is recorded at its end.
    """

    enclosing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lanes: dict[str, TileProbe] = field(default_factory=dict)
    """Probes by tile; empty without a listener."""
    n_bytes: State[int] = 0
    operator: State[str] = ""
    ended: State[bool] = True
    """Whether the operator has ended and no operator has claimed space since."""
    following: State[str] = ""
    """The operator that has claimed space for early loads."""
    operator_peak_bytes: Record[int] = 0
    peak_bytes: Record[int] = 0

    def state(self) -> tuple[object, ...]:
        """Return the bytes in use, without peaks: a period that repeats does not raise them."""
        return self.n_bytes, self.operator, self.ended, self.following

    def claim(self, operator: str, tile: str, n_bytes: int, place: str) -> None:
        """Claim space for a tile."""
        if place == BUFFER:
            self.n_bytes += n_bytes
        self.operator_peak_bytes = max(self.operator_peak_bytes, self.n_bytes)
        if self.ended:
            self._enter(operator)
        elif operator != self.operator:
            self.following = operator
        if self.lanes:
            self.lanes[tile].hold(n_bytes)

    def _enter(self, operator: str) -> None:
        """Switch to the tiles around another operator."""
        before = self.enclosing.get(self.operator, {})
        after = self.enclosing.get(operator, {})
        self.operator, self.ended, self.following = operator, False, ""
        for tile, lane in self.lanes.items():
            lane.hold(after.get(tile, 0) - before.get(tile, 0))

    def release(self, tile: str, n_bytes: int, place: str) -> None:
        """Release the space of a tile."""
        if place == BUFFER:
            self.n_bytes -= n_bytes
        if self.lanes:
            self.lanes[tile].hold(-n_bytes)

    def close(self, operator: str) -> None:
        """Record the peak of an operator, with the tiles around it."""
        around = sum(self.enclosing.get(operator, {}).values())
        self.peak_bytes = max(self.peak_bytes, self.operator_peak_bytes + around)
        self.operator_peak_bytes = self.n_bytes
        self.ended = True
        if self.following:
            self._enter(self.following)


def enclosing_bytes(program: Program) -> dict[str, dict[str, int]]:
    """Return the bytes of all slots of the tiles that live around each operator, by tile."""
    found: dict[str, dict[str, int]] = {}
    for operator, tiles in operators_with_tiles(program.body):
        own = rings(operator.body, operator.tiles)
        found[operator.name] = {t.name: t.n_bytes * t.slots for t in tiles if t.name not in own}
    return found


PORTS = ("buffer_read", "buffer_write", "noc_distribution", "noc_collection")
"""The channels on the chip."""


@dataclass(eq=False)
class SharedResources:
    """The resources that engines of a core share; cores of a chip have the memories in common."""

    clock: Clock
    accelerator: Accelerator
    memories: Mapping[str, DramChannels]
    """The DRAM and the memories beside it, by name."""
    core: int
    noc: Mapping[str, Channel]
    """All links of the NoC between memories and cores, by name."""
    chip_links: Mapping[str, Channel]
    """The links to other chips, by name."""
    ports: dict[str, Channel]
    """All channels of the core by name."""
    occupancy: Occupancy
    """Occupancy of the core's buffer."""
    requests: Iterator[int]
    """Counter that numbers requests to the DRAM."""
    shared: frozenset[tuple[str, str]]
    """(NoC pipe, operator) of pipes that not only the array uses."""
    account: type[StallAccount] = StallAccount
    """The type of the engines' accounts."""

    def __post_init__(self) -> None:
        """Find the core's links."""
        cores, core = self.accelerator.cores, self.core
        names = [cores.links(core, write=write) for write in (False, True)]
        self.routes = tuple(
            tuple(self.noc[on_chip(core, name)] for name in route) for route in names
        )
        """The links of loads, and those of stores."""
        self.links = frozenset(self.noc.values())


def make_resources(
    clock: Clock,
    accelerator: Accelerator,
    numbers: Sequence[int],
    plans: Collection[tuple[str, Plan]],
    kinds: Mapping[str, EngineKind],
    near: Mapping[str, Collection[str]],
    enclosing: Mapping[str, Mapping[str, int]],
) -> list[SharedResources]:
    """Return the shared resources of the engines of some plans, core by core.

    ``numbers``: of the cores. ``near``: by operator, those that engines may be in meanwhile.
    ``enclosing``: bytes of the tiles that live around each operator, which core 0 has.
    """
    ops = (op for _, plan in plans for op in plan.ops)
    used_links = dict.fromkeys(name for op in ops for name, _ in op.channels)
    turn, transfers = accelerator.buffer.turn_cycles, _transfers(plans, kinds)
    memories, links = dict[int, dict[str, DramChannels]](), dict[int, dict[str, Channel]]()
    for chip in dict.fromkeys(number - number % CHIP for number in numbers):
        memories[chip] = {
            name: DramChannels(clock, backing, transfers[name])
            for name, backing in accelerator.every_backing.items()
        }
        links[chip] = {
            on_chip(chip, name): Channel(clock, RoundRobinArbiter(turn))
            for name in accelerator.cores.every_link
        }
    chip_links = {
        on_chip(chip, name): Channel(clock, RoundRobinArbiter(turn))
        for chip in memories
        for name in used_links
    }
    requests, shared = count(1), _shared_pipes(plans, kinds, near)
    return [
        SharedResources(
            clock=clock,
            accelerator=accelerator,
            memories=memories[number - number % CHIP],
            core=number,
            noc=links[number - number % CHIP],
            chip_links=chip_links,
            ports={name: Channel(clock, RoundRobinArbiter(turn)) for name in PORTS},
            occupancy=Occupancy({} if number else enclosing),
            requests=requests,
            shared=shared,
        )
        for number in numbers
    ]


def _transfers(
    plans: Collection[tuple[str, Plan]], kinds: Mapping[str, EngineKind]
) -> Mapping[str, Collection[DramTransfer]]:
    """Return all transfers of the run, by memory."""
    found: defaultdict[str, dict[DramTransfer, None]] = defaultdict(dict)
    for name, plan in plans:
        direction = WRITE if kinds[name] is EngineKind.DMA_OUT else READ
        for op in plan.ops:
            if op.dram_bytes:
                found[op.memory][DramTransfer(op.dram_bytes, direction, op.dram_rows)] = None
    return found


def _shared_pipes(
    plans: Collection[tuple[str, Plan]],
    kinds: Mapping[str, EngineKind],
    near: Mapping[str, Collection[str]],
) -> frozenset[tuple[str, str]]:
    """Return the NoC pipes that other engines may use while the array is in an operator."""
    pairs: set[tuple[str, str]] = set()
    for name, plan in plans:
        if kinds[name] is EngineKind.ARRAY:
            continue
        for op in plan.ops:
            if op.distribution_cycles:
                pairs.update(("noc_distribution", operator) for operator in near[op.operator])
            if op.collection_cycles:
                pairs.update(("noc_collection", operator) for operator in near[op.operator])
    return frozenset(pairs)


def delay_of(
    handover: TokenStream,
    kinds: Mapping[str, EngineKind],
    accelerator: Accelerator,
    core: int = 0,
) -> Delay:
    """Return the delay of data that an engine of a core has moved.

    A slot is free as soon as its data have left; a slot of partial sums once they have arrived,
    because they may be loaded again. The cause is that of the longest latency on the way. The
    latency of data that folds use is part of the command.
    """
    source = kinds[handover.source]
    ready = handover.kind == "ready"
    # what no PE keeps is read during the pass
    reads = handover.stepped and kinds[handover.target] is EngineKind.ARRAY
    into = accelerator.lead_latency_cycles * (handover.place != BUFFER or reads)
    if source is EngineKind.DMA_IN:
        dram = accelerator.backing(handover.tensor_kind).dram.latency_cycles
        hops = accelerator.cores.latency_cycles(core)
        causes = {Cause.DRAM_LATENCY: dram, Cause.CORE_NOC: hops, Cause.NOC: into}
        return Delay(dram + hops + into, max(causes, key=lambda cause: causes[cause]))
    if source is EngineKind.LINK:
        return Delay(0, Cause.LINK)
    if source is EngineKind.NOC_IN:
        return Delay(into * ready, Cause.NOC)
    if source is EngineKind.ARRAY:
        is_read = handover.stepped and ready and handover.place == BUFFER
        return Delay(accelerator.tail_latency_cycles * is_read, Cause.ARRAY)
    return Delay(accelerator.tail_latency_cycles * (source is EngineKind.NOC_OUT), Cause.NOC)
