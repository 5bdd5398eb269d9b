"""Instructions of engines: commands in loops, with waits and releases around the uses of tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, auto
from typing import NamedTuple

from simaccel.hardware import Accelerator
from simaccel.hardware.dram.tile import TileRows
from simaccel.machine.engine_kinds import STORES, engine_of
from simaccel.machine.folds import FoldEdge
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.program import (
    BUFFER,
    Command,
    Load,
    ProgramLoop,
    Tile,
    between_tiles,
    commands,
    transfer_of,
)
from simaccel.program.unit_commands import Link
from simaccel.units import LINK, Cause

Amounts = tuple[tuple[tuple[str, str], int], ...]
"""The bytes of one execution of an instruction: ((level and direction, tensor), bytes), ..."""


class Action(IntEnum):
    """An action of an instruction."""

    LOOP = auto()
    END = auto()
    CLAIM = auto()
    RELEASE = auto()
    WAIT = auto()
    POST = auto()
    GATE = auto()
    MEET = auto()
    COMMAND = auto()
    AWAIT = auto()
    HAND_ON = auto()


class TokenStream(NamedTuple):
    """A stream of tokens of one tile from one engine to another."""

    operator: str
    """Empty for the slots of a FIFO, which operators share."""
    tile: str
    kind: str
    source: str
    target: str
    place: str = BUFFER
    """The memory of the tile."""
    stepped: bool = False
    """Whether the tile is used by PEs that process a block in steps: its data then pass the NoC
    between the two engines, and not within the command as those of folds do."""
    tensor_kind: str = ""
    """Class of the tile's tensor, which determines the memory that it is in."""


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction of an engine; cycles are those of service, without any waiting.

    `make_walks` sets its action and waits, `make_plan` its costs.
    """

    act: Action
    site: int = 0
    """Place in the program: the same loop has the same site in every walk."""
    trips: int = 0
    operator: str = ""
    works: bool = False
    joined: bool = False
    """Of a gate: whether the operator behind it has no start of its own."""
    links: bool = False
    """Whether the operator that ends there is an exchange over links."""
    tokens: TokenStream | None = None
    tile: str = ""
    n_bytes: int = 0
    place: str = BUFFER
    command: Command | None = None
    tensor: str = ""
    """The tensor whose tile it awaits from, or hands on to, other cores."""
    awaited: AwaitedTiles | None = None
    touches: tuple[str, ...] = ()
    """Names of the tiles of the command."""
    within: tuple[int, ...] = ()
    """Sites of loops in whose first iteration only (a wait), or last one only, it is executed."""
    before: frozenset[str] = frozenset()
    """Tiles that it uses from the previous iteration, while this one's are being made."""
    alike: tuple[bool, ...] = ()
    """For a multicast load: by loop over cores around it, whether it is the same on all cores."""
    renews: bool = False
    """Whether it is the first in an iteration to use a tile of the previous iteration."""
    depth: int = 0
    depths: tuple[int, ...] = ()
    """Depths of the loops ``within``."""
    target: int = 0
    cycles: int = 0
    latency_cycles: int = 0
    """Latency after ``cycles``: of the NoC for the first or last word; of the links for a tile that
    is handed on to another chip, or for the result of a collective."""
    channels: tuple[tuple[str, int], ...] = ()
    """Links of the chip that it uses: (name, cycles)."""
    distribution_cycles: int = 0
    collection_cycles: int = 0
    read_cycles: int = 0
    write_cycles: int = 0
    memory: str = "dram"
    """The memory of a transfer of ``dram_bytes``."""
    dram_bytes: int = 0
    dram_rows: TileRows | None = None
    """The DRAM rows of a transfer, for a model with banks."""
    root: Cause | None = None
    """Root cause of waits for the transfer; None: the engine's own."""
    port: str = ""
    """The channel on the chip that a DMA transfer uses, for ``port_cycles``."""
    port_cycles: int = 0
    macs: int = 0
    native_macs: int = 0
    elements: int = 0
    amounts: Amounts = ()
    begins: FoldEdge | None = None
    ends: FoldEdge | None = None
    empty: bool = False
    """Whether it only reserves a slot, or hands over a reserved one: no data are in flight."""

    @property
    def names(self) -> frozenset[str]:
        """The tiles that it uses; the slots of a FIFO have a common name."""
        tokens = {self.tokens.tile} if self.tokens is not None else set()
        return frozenset(self.touches) | ({self.tile} if self.tile else tokens)


@dataclass(frozen=True, slots=True)
class InstructionLoop:
    """A loop with the instructions of all engines."""

    site: int
    trips: int
    items: tuple[Item, ...]
    touching: Mapping[str, Sequence[str]]
    """The engines that use each tile in program order, without adjacent duplicates."""
    behind: bool = False

    @classmethod
    def of_items(cls, site: int, trips: int, items: Sequence[Item]) -> InstructionLoop:
        """Return a loop; hand-overs of tiles are inserted later and use no tiles themselves."""
        touching: dict[str, list[str]] = {}
        for item in items:
            inside = item.touching if isinstance(item, InstructionLoop) else item.op.touches
            for name in inside:
                engines = touching.setdefault(name, [])
                for engine in engines_touching(item, name):
                    if not engines or engines[-1] != engine:
                        engines.append(engine)
        return cls(site, trips, tuple(items), touching)

    def with_items(self, items: Sequence[Item]) -> InstructionLoop:
        """Return the loop with other items that use the same tiles."""
        return InstructionLoop(self.site, self.trips, tuple(items), self.touching, self.behind)


@dataclass(frozen=True, slots=True)
class PlacedInstruction:
    """An instruction and its engine."""

    engine: str
    op: Instruction
    behind: bool = False
    """Whether it is in the part of a pipelined body that runs an iteration later."""


Item = InstructionLoop | PlacedInstruction


def project(items: Sequence[Item], engines: Iterable[str]) -> dict[str, list[Instruction]]:
    """Return the walk of each engine."""
    walks: dict[str, list[Instruction]] = {engine: [] for engine in engines}
    _extend(walks, items)
    return walks


def _extend(walks: Mapping[str, list[Instruction]], items: Sequence[Item]) -> None:
    """Append the instructions of items to the walks of their engines, with the loops they need."""
    for item in items:
        if isinstance(item, PlacedInstruction):
            walks[item.engine].append(item.op)
        elif item.trips == 1:
            _extend(walks, item.items)
        elif item.trips:
            begun = {engine: len(ops) for engine, ops in walks.items()}
            _extend(walks, item.items)
            for engine, ops in walks.items():
                if len(ops) > begun[engine]:
                    ops.insert(begun[engine], Instruction(Action.LOOP, item.site, item.trips))
                    ops.append(Instruction(Action.END, item.site, item.trips))


def working(items: Sequence[Item]) -> set[str]:
    """Return the engines that have instructions in items."""
    engines: set[str] = set()
    for item in items:
        if isinstance(item, PlacedInstruction):
            engines.add(item.engine)
        elif item.trips:
            engines |= working(item.items)
    return engines


def engines_touching(item: Item, name: str) -> Sequence[str]:
    """Return the engines that use a tile in program order, without adjacent duplicates."""
    if isinstance(item, PlacedInstruction):
        return (item.engine,) if name in item.op.touches else ()
    return item.touching.get(name, ())


def is_cyclic(item: InstructionLoop, name: str) -> bool:
    """Return whether a tile is handed from engine to engine across the iterations of a loop."""
    engines = engines_touching(item, name)
    return len(set(engines)) > 1 and engines[0] != engines[-1]


def put_beside(
    items: list[Item], at: int, do: PlacedInstruction, tile: Tile, *, after: bool
) -> None:
    """Insert a wait or claim right before the first use of a tile in an item.

    With ``after`` a post or release right after the last one. In a loop it is executed in the first
    (last) iteration only, outside of waits for (posts of) the loop's own tiles. What hands a tile
    around the loop is outside of the loop.
    """
    item = items[at]
    if isinstance(item, InstructionLoop) and not is_cyclic(item, tile.name):
        inner = list(item.items)
        uses = [n for n, use in enumerate(inner) if engines_touching(use, tile.name)]
        do.op.within += (item.site,)
        put_beside(inner, uses[-1 if after else 0], do, tile, after=after)
        items[at] = item.with_items(inner)
        return
    acts = (Action.RELEASE, Action.POST) if after else (Action.CLAIM, Action.WAIT)
    step, rest = (1, len(items) - 1 - at) if after else (-1, at)
    while do.op.within and rest and _is(items[at + step], do.engine, *acts):
        at, rest = at + step, rest - 1
    items.insert(at + after, PlacedInstruction(do.engine, do.op, item.behind))


def put_gate(items: list[Item], engine: str, early: Collection[str], gate: Instruction) -> None:
    """Insert a wait for earlier operators before the first use of a tile that is not ``early``."""
    for at, item in enumerate(items):
        if not _loads_only(item, engine, early):
            items.insert(at, PlacedInstruction(engine, replace(gate)))
            return


def _rewrite(
    items: Sequence[Item], change: Callable[[PlacedInstruction], Sequence[Item]]
) -> list[Item]:
    """Return items with what ``change`` makes of each instruction, in loops too."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, InstructionLoop):
            found.append(item.with_items(_rewrite(item.items, change)))
        else:
            found += change(item)
    return found


def add_gates(
    items: Sequence[Item], engine: str, ahead: Collection[str], gate: Instruction
) -> list[Item]:
    """Insert a loader's waits for earlier operators; tiles ``ahead`` are loaded without waiting."""

    def with_gate(item: PlacedInstruction) -> Sequence[Item]:
        tokens = item.op.tokens if item.op.act is Action.POST else None
        if item.engine != engine or tokens is None or tokens.tile in ahead:
            return (item,)
        return item, PlacedInstruction(engine, replace(gate), item.behind)

    return _rewrite(items, with_gate)


def mark_renewals(items: Sequence[Item], engine: str, tiles: Collection[str]) -> list[Item]:
    """Mark the first use of some tiles in an iteration: the engine claims or waits for them."""
    left = set(tiles)

    def mark(item: PlacedInstruction) -> Sequence[Item]:
        own = item.op.names & left if item.engine == engine else frozenset()
        left.difference_update(own)
        return (replace(item, op=replace(item.op, renews=True)) if own else item,)

    return _rewrite(items, mark)


def mark_earlier_uses(items: Sequence[Item], engine: str, tiles: Collection[str]) -> list[Item]:
    """Mark the tiles of the previous iteration that an engine uses."""

    def mark(item: PlacedInstruction) -> Sequence[Item]:
        own = item.op.names & set(tiles) if item.engine == engine else frozenset()
        return (replace(item, op=replace(item.op, before=own)) if own else item,)

    return _rewrite(items, mark)


def _loads_only(item: Item, engine: str, tiles: Collection[str]) -> bool:
    """Return whether an engine uses no other tiles in an item."""
    if isinstance(item, InstructionLoop):
        return all(_loads_only(inner, engine, tiles) for inner in item.items)
    return item.engine != engine or item.op.names <= set(tiles)


def _is(item: Item, engine: str, *acts: Action) -> bool:
    """Return whether an item is one of an engine's instructions with one of ``acts``."""
    return isinstance(item, PlacedInstruction) and item.engine == engine and item.op.act in acts


def await_steps(
    loop: ProgramLoop, operator: str, accelerator: Accelerator, sites: Iterator[int]
) -> Iterator[Item]:
    """Yield the waits for tiles of other cores at the beginning of an iteration."""
    for tiles in loop.awaits:
        what = Action.AWAIT, next(sites)
        step = Instruction(*what, operator=operator, tensor=tiles.tensor, awaited=tiles)
        takers = (one for one in commands(loop.body) if _takes(one, tiles.tensor))
        for engine in dict.fromkeys(engine_of(taker, accelerator) for taker in takers):
            yield PlacedInstruction(engine, step)


def _takes(command: Command, tensor: str) -> bool:
    """Return whether a command loads tiles of a tensor, or receives them from another chip."""
    if isinstance(command, Link):
        return command.kind == "receive"
    if not isinstance(command, Load) or between_tiles(command):
        return False
    return transfer_of(command)[0].name == tensor


def hand_on_steps(
    loop: ProgramLoop, operator: str, accelerator: Accelerator, sites: Iterator[int]
) -> Iterator[Item]:
    """Yield the hand-overs to other cores, at the end of an iteration, of tiles made or sent."""
    links = (one for one in commands(loop.body) if isinstance(one, Link))
    lags = [link.lag_cycles(accelerator) for link in links if link.kind == "send"]
    engine, lag = (LINK, max(lags)) if lags else (STORES, 0)
    for tensor in loop.hands_on:
        what = Action.HAND_ON, next(sites)
        step = Instruction(*what, operator=operator, tensor=tensor, latency_cycles=lag)
        yield PlacedInstruction(engine, step, behind=bool(loop.ahead))
