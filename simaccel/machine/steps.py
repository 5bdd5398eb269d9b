"""Steps of engines: in loops, with waits and releases around uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, auto

from simaccel.program.program import BUFFER, Command, Tile


class EngineKind(Enum):
    """A kind of engine."""

    DMA_IN = auto()
    NOC_IN = auto()
    ARRAY = auto()
    SFU = auto()
    LINK = auto()
    NOC_OUT = auto()
    DMA_OUT = auto()


class Action(IntEnum):
    """An action of a step."""

    LOOP = auto()
    END = auto()
    CLAIM = auto()
    RELEASE = auto()
    WAIT = auto()
    POST = auto()
    GATE = auto()
    MEET = auto()
    COMMAND = auto()


@dataclass(frozen=True, slots=True)
class TokenStream:
    """A stream of tokens of one tile from one engine to another."""

    operator: str
    """None ("") for the slots of a FIFO, which operators share."""
    tile: str
    kind: str
    source: str
    target: str
    place: str = BUFFER
    """The memory of the tile."""
    stepped: bool = False
    """Whether PEs that go through a block in steps use the tile: its data pass the NoC on the way
    from one engine to the other, and not within the command as those of folds do."""
    tensor_kind: str = ""
    """Class of the tile's tensor, which says in which memory it lives."""


@dataclass(frozen=True, slots=True)
class EngineStep:
    """One step of a walk."""

    act: Action
    site: int = 0
    """Place in the program: the same loop has the same site in every walk."""
    trips: int = 0
    tokens: TokenStream | None = None
    tile: str = ""
    n_bytes: int = 0
    place: str = BUFFER
    command: Command | None = None
    touches: tuple[str, ...] = ()
    """Names of the tiles of the command."""
    operator: str = ""
    works: bool = False
    links: bool = False
    """Whether the operator that ends there is an exchange over links."""
    within: tuple[int, ...] = ()
    """Sites of loops around it in whose first iteration alone (a wait), or last one, it is done."""
    before: frozenset[str] = frozenset()
    """Tiles of which it uses those of the iteration before, beside which the next have begun."""
    alike: tuple[bool, ...] = ()
    """By loop over cores around a load that is read once whether it is the same on all of them."""
    renews: bool = False
    """Whether it is the first of an iteration to use such a tile: the one there is from before."""

    @property
    def names(self) -> frozenset[str]:
        """The tiles that it has to do with; the slots of a FIFO have a name of their own."""
        tokens = {self.tokens.tile} if self.tokens is not None else set()
        return frozenset(self.touches) | ({self.tile} if self.tile else tokens)


@dataclass(frozen=True, slots=True)
class StepLoop:
    """A loop with the steps of all engines."""

    site: int
    trips: int
    items: tuple[Item, ...]
    behind: bool = False


@dataclass(frozen=True, slots=True)
class PlacedStep:
    """A step of an engine."""

    engine: str
    step: EngineStep
    behind: bool = False
    """Whether it stands in the part of a pipelined body that runs an iteration later."""


Item = StepLoop | PlacedStep


def project(items: Sequence[Item], engines: Iterable[str]) -> dict[str, list[EngineStep]]:
    """Return the walk of each engine."""
    walks: dict[str, list[EngineStep]] = {engine: [] for engine in engines}
    _extend(walks, items)
    return walks


def _extend(walks: Mapping[str, list[EngineStep]], items: Sequence[Item]) -> None:
    """Append the steps of items to the walks of their engines; a loop where it has any."""
    for item in items:
        if isinstance(item, PlacedStep):
            walks[item.engine].append(item.step)
        elif item.trips == 1:
            _extend(walks, item.items)
        elif item.trips:
            begin = EngineStep(Action.LOOP, item.site, item.trips)
            end = EngineStep(Action.END, item.site, item.trips)
            for steps in walks.values():
                steps.append(begin)
            _extend(walks, item.items)
            for steps in walks.values():
                if steps[-1] is begin:
                    steps.pop()
                else:
                    steps.append(end)


def working(items: Sequence[Item]) -> set[str]:
    """Return the engines that have steps in items."""
    found: set[str] = set()
    for item in items:
        if isinstance(item, PlacedStep):
            found.add(item.engine)
        elif item.trips:
            found |= working(item.items)
    return found


def engines_touching(item: Item, name: str) -> list[str]:
    """Engines that touch a tile, in program order, neighbours merged."""
    if isinstance(item, PlacedStep):
        return [item.engine] if name in item.step.touches else []
    found: list[str] = []
    for inner in item.items:
        for engine in engines_touching(inner, name):
            if not found or found[-1] != engine:
                found.append(engine)
    return found


def is_cyclic(item: StepLoop, name: str) -> bool:
    """Return whether a tile goes round in a loop, from one engine to another."""
    engines = engines_touching(item, name)
    return len(set(engines)) > 1 and engines[0] != engines[-1]


def put_before(items: list[Item], at: int, do: PlacedStep, tile: Tile) -> None:
    """Put a wait or claim directly before the first use of a tile in an item.

    In a loop it is done in the first iteration, before those of the loop's own tiles. A tile that
    goes round in the loop is waited for outside of it.
    """
    item = items[at]
    if isinstance(item, StepLoop) and not is_cyclic(item, tile.name):
        inner = list(item.items)
        first = next(n for n, use in enumerate(inner) if engines_touching(use, tile.name))
        put_before(inner, first, _within(do, item), tile)
        items[at] = StepLoop(item.site, item.trips, tuple(inner), item.behind)
        return
    while do.step.within and at and _is(items[at - 1], do.engine, Action.CLAIM, Action.WAIT):
        at -= 1
    items.insert(at, PlacedStep(do.engine, do.step, item.behind))


def put_after(items: list[Item], at: int, do: PlacedStep, tile: Tile) -> None:
    """Put a post or release directly after the last use of a tile, as ``put_before``."""
    item = items[at]
    if isinstance(item, StepLoop) and not is_cyclic(item, tile.name):
        inner = list(item.items)
        last = max(n for n, use in enumerate(inner) if engines_touching(use, tile.name))
        put_after(inner, last, _within(do, item), tile)
        items[at] = StepLoop(item.site, item.trips, tuple(inner), item.behind)
        return
    while (
        do.step.within
        and at + 1 < len(items)
        and _is(items[at + 1], do.engine, Action.RELEASE, Action.POST)
    ):
        at += 1
    items.insert(at + 1, PlacedStep(do.engine, do.step, item.behind))


def _within(do: PlacedStep, loop: StepLoop) -> PlacedStep:
    """Return a step that is done in the first, or last, iteration of one more loop alone."""
    step = replace(do.step, within=(*do.step.within, loop.site))
    return PlacedStep(do.engine, step, do.behind)


def put_gate(items: list[Item], engine: str, early: Collection[str], site: int) -> None:
    """Let an engine wait for the operator before where it first touches what is not early.

    ``site``: the operator's, to which its start belongs.
    """
    for at, item in enumerate(items):
        if not _loads_only(item, engine, early):
            items.insert(at, PlacedStep(engine, EngineStep(Action.GATE, site)))
            return


def gated(items: Sequence[Item], engine: str, ahead: Collection[str]) -> list[Item]:
    """Let a loader wait for the operator before when it has brought a tile that isn't ``ahead``."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, StepLoop):
            found.append(replace(item, items=tuple(gated(item.items, engine, ahead))))
            continue
        found.append(item)
        tokens = item.step.tokens if item.step.act is Action.POST else None
        if item.engine == engine and tokens is not None and tokens.tile not in ahead:
            found.append(PlacedStep(engine, EngineStep(Action.GATE), item.behind))
    return found


def renewing(items: Sequence[Item], engine: str, tiles: Collection[str]) -> list[Item]:
    """Let an engine know where an iteration first uses some tiles: it claims or waits for them."""
    renewed: list[Item] = []
    left = set(tiles)
    for item in items:
        if isinstance(item, StepLoop):
            inside = {name for name in left if engine in engines_touching(item, name)}
            renewed.append(replace(item, items=tuple(renewing(item.items, engine, inside))))
            left -= inside
            continue
        own = item.step.names & left if item.engine == engine else frozenset()
        renewed.append(replace(item, step=replace(item.step, renews=True)) if own else item)
        left -= own
    return renewed


def with_those_before(items: Sequence[Item], engine: str, tiles: Collection[str]) -> list[Item]:
    """Let an engine use those of some tiles that are of the iteration before."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, StepLoop):
            inner = with_those_before(item.items, engine, tiles)
            found.append(replace(item, items=tuple(inner)))
        elif item.engine == engine and (mine := item.step.names & set(tiles)):
            found.append(replace(item, step=replace(item.step, before=frozenset(mine))))
        else:
            found.append(item)
    return found


def _loads_only(item: Item, engine: str, tiles: Collection[str]) -> bool:
    """Return whether an engine has to do with no other tiles in an item."""
    if isinstance(item, StepLoop):
        return all(_loads_only(inner, engine, tiles) for inner in item.items)
    return item.engine != engine or item.step.names <= set(tiles)


def _is(item: Item, engine: str, *acts: Action) -> bool:
    """Return whether an item is one of some steps of an engine."""
    return isinstance(item, PlacedStep) and item.engine == engine and item.step.act in acts
