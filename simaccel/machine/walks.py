"""What each engine does: a program's tree, threaded with tokens, as one walk per engine.

Tiles become tokens. When a tile passes from one engine to another, the first posts a *ready*
token and the second waits for it; after its last use in the body, the last engine posts a *free*
token (there are as many of these as slots) that the first waits for. Engines meet the tokens of a
tile in program order, so counting them is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, auto
from itertools import count

from simaccel.hardware import Accelerator
from simaccel.program.program import (
    BUFFER,
    Command,
    Compute,
    Load,
    Loop,
    Node,
    Operator,
    Program,
    ProgramError,
    Reserve,
    Sfu,
    Steps,
    Store,
    Tile,
    between_tiles,
    commands,
    rings,
    tiles_of,
)

LEAST_QUEUES = 3
"""DMA-in queues of an accelerator with a queue per tensor, one per operand of a command, and queues
of the NoC into PEs with memories: so many, or as many as the program names."""


class EngineKind(Enum):
    """What an engine is."""

    DMA_IN = auto()
    NOC_IN = auto()
    ARRAY = auto()
    SFU = auto()
    NOC_OUT = auto()
    DMA_OUT = auto()


class Act(IntEnum):
    """What one step of a walk does."""

    LOOP = auto()
    END = auto()
    CLAIM = auto()
    RELEASE = auto()
    WAIT = auto()
    POST = auto()
    MEET = auto()
    COMMAND = auto()


@dataclass(frozen=True)
class Handover:
    """A stream of tokens of one tile from one engine to another."""

    operator: str
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


@dataclass(frozen=True)
class Step:
    """One step of a walk."""

    act: Act
    site: int = 0
    """Place in the program: the same loop has the same site in every walk."""
    trips: int = 0
    tokens: Handover | None = None
    tile: str = ""
    n_bytes: int = 0
    place: str = BUFFER
    command: Command | None = None
    operator: str = ""
    works: bool = False


@dataclass(frozen=True)
class _Repeat:
    site: int
    trips: int
    items: tuple[_Item, ...]
    behind: bool = False


@dataclass(frozen=True)
class _Do:
    engine: str
    step: Step
    behind: bool = False
    """Whether it stands in the part of a pipelined body that runs an iteration later."""


_Item = _Repeat | _Do


@dataclass
class Walks:
    """The walks by engine, and the tokens: each stream with the count that it starts with."""

    kinds: dict[str, EngineKind] = field(default_factory=dict)
    steps: dict[str, list[Step]] = field(default_factory=dict)
    tokens: dict[Handover, int] = field(default_factory=dict)
    operators: list[str] = field(default_factory=list)


def engine_kinds(accelerator: Accelerator, program: Program) -> dict[str, EngineKind]:
    """Return the engines that a program runs on by name, in the order that breaks ties.

    Those of the NoC are there where tiles are brought to PEs.
    """
    queues = {False: LEAST_QUEUES, True: LEAST_QUEUES}
    has_noc = False
    for command in commands(program.body):
        noc = between_tiles(command)
        has_noc |= noc
        if isinstance(command, Load | Reserve):
            queues[noc] = max(queues[noc], command.queue + 1)
    single = accelerator.dma.in_queues == "single"
    names = ["dma_in"] if single else [f"dma_in{i}" for i in range(queues[False])]
    found = dict.fromkeys(names, EngineKind.DMA_IN)
    if has_noc:
        found |= dict.fromkeys([f"noc_in{i}" for i in range(queues[True])], EngineKind.NOC_IN)
    found |= {"array": EngineKind.ARRAY, "sfu": EngineKind.SFU}
    if has_noc:
        found["noc_out"] = EngineKind.NOC_OUT
    return found | {"dma_out": EngineKind.DMA_OUT}


def engine_of(command: Command, accelerator: Accelerator) -> str:
    """Name the engine that runs a command."""
    if isinstance(command, Load | Reserve):
        if between_tiles(command):
            return f"noc_in{command.queue}"
        single = accelerator.dma.in_queues == "single"
        return "dma_in" if single else f"dma_in{command.queue}"
    if isinstance(command, Store):
        return "noc_out" if between_tiles(command) else "dma_out"
    return "sfu" if isinstance(command, Sfu) else "array"


def make_walks(program: Program, accelerator: Accelerator) -> Walks:
    """Thread a program with tokens and give each engine its walk.

    Raises:
        ProgramError: a tile is never touched, or passes between engines in a way that one
            token stream can't describe; the message names the tile.

    """
    engines = engine_kinds(accelerator, program)
    builder = _Builder(accelerator, list(engines))
    items = builder.body(program.body, (), "", 0)
    walks = Walks(engines, tokens=builder.tokens, operators=builder.operators)
    for engine in engines:
        walks.steps[engine] = _project(items, engine)
    return walks


def _project(items: Sequence[_Item], engine: str) -> list[Step]:
    steps: list[Step] = []
    for item in items:
        if isinstance(item, _Do):
            if item.engine == engine:
                steps.append(item.step)
            continue
        inner = _project(item.items, engine)
        if not inner or item.trips == 0:
            continue
        if item.trips == 1:
            steps += inner
        else:
            steps.append(Step(Act.LOOP, item.site, item.trips))
            steps += [*inner, Step(Act.END, item.site, item.trips)]
    return steps


def _engines_touching(item: _Item, name: str) -> list[str]:
    """Engines that touch a tile, in program order, neighbours merged."""
    if isinstance(item, _Do):
        command = item.step.command
        touched = command is not None and any(t.name == name for t in tiles_of(command))
        return [item.engine] if touched else []
    found: list[str] = []
    for inner in item.items:
        for engine in _engines_touching(inner, name):
            if not found or found[-1] != engine:
                found.append(engine)
    return found


class _Builder:
    """Builds the item tree bottom-up, one body after the other."""

    def __init__(self, accelerator: Accelerator, engines: Sequence[str]) -> None:
        self.accelerator = accelerator
        self.engines = engines
        self.tokens: dict[Handover, int] = {}
        self.operators: list[str] = []
        self.sites = count(1)
        self.slots: dict[str, tuple[int, int]] = {}
        self.ends: dict[tuple[str, str], tuple[str, str]] = {}
        self.stepped: set[str] = set()
        """Tiles of the present operator that PEs use which go through a block in steps."""

    def body(
        self, nodes: Sequence[Node], tiles: Sequence[Tile], operator: str, ahead: int
    ) -> list[_Item]:
        """Turn the nodes of one body into items and thread the tiles that it declares."""
        items: list[_Item] = []
        for index, node in enumerate(nodes):
            behind = bool(ahead) and index >= ahead
            items += [replace(i, behind=behind) for i in self._node(node, operator)]
        # what is threaded last goes first: of slots that are free at once those of the tile
        # with the fewest, as nothing of it is there
        for tile in sorted(tiles, key=lambda one: -one.slots) if operator else ():
            items = self._thread(items, tile, operator, pipelined=bool(ahead))
        return items

    def _node(self, node: Node, operator: str) -> list[_Item]:
        if isinstance(node, Operator):
            return self._operator(node)
        if isinstance(node, Loop):
            return self._loop(node, operator)
        engine = engine_of(node, self.accelerator)
        return [_Do(engine, Step(Act.COMMAND, next(self.sites), command=node, operator=operator))]

    def _operator(self, node: Operator) -> list[_Item]:
        self.operators.append(node.name)
        self.slots = rings(node.body, node.tiles)
        self.stepped = {
            tile.name
            for command in commands(node.body)
            if isinstance(command, Compute) and isinstance(command.on, Steps)
            for tile in tiles_of(command)
        }
        items = self.body(node.body, node.tiles, node.name, 0)
        site = next(self.sites)
        for engine in self.engines:
            works = bool(_project(items, engine))
            items.append(_Do(engine, Step(Act.MEET, site, operator=node.name, works=works)))
        return items

    def _loop(self, node: Loop, operator: str) -> list[_Item]:
        items = self.body(node.body, node.tiles, operator, node.ahead)
        if not node.ahead:
            return [_Repeat(next(self.sites), node.trips, tuple(items))]
        first = [i for i in items if not i.behind]
        later = [i for i in items if i.behind]
        steady = _Repeat(next(self.sites), node.trips - 1, (*first, *later))
        return [*first, steady, *later]

    def _thread(
        self, items: list[_Item], tile: Tile, operator: str, *, pipelined: bool
    ) -> list[_Item]:
        touching = [e for item in items for e in _engines_touching(item, tile.name)]
        if not touching:
            raise ProgramError(f"{operator}: tile {tile.name} is never used")
        first, last = touching[0], touching[-1]
        if pipelined and self.slots[tile.name][1] == 1 and self._crosses(items, tile):
            raise ProgramError(
                f"{operator}: tile {tile.name} is handed to the next iteration of a software-"
                f"pipelined loop and has 1 slot; allowed: 2 or more"
            )
        free = None
        if first != last:
            free = self._handover(operator, tile, "free", last, first)
            self.tokens.setdefault(free, self.slots[tile.name][1])
        if self.ends.setdefault((operator, tile.name), (first, last)) != (first, last):
            raise ProgramError(
                f"{operator}: tile {tile.name} is claimed or released by different engines in "
                f"different bodies, which can't share its slots; give one of them another name"
            )
        threaded = self._pass_on(items, tile, operator)
        touches = [item for item in threaded if _engines_touching(item, tile.name)]
        start, end = threaded.index(touches[0]), threaded.index(touches[-1]) + 1
        site = next(self.sites)
        claim = Step(
            Act.CLAIM,
            site,
            tokens=free,
            tile=tile.name,
            n_bytes=tile.n_bytes,
            place=tile.place,
            operator=operator,
        )
        release = replace(claim, act=Act.RELEASE)
        return [
            *threaded[:start],
            _Do(first, claim, behind=threaded[start].behind),
            *threaded[start:end],
            _Do(last, release, behind=touches[-1].behind),
            *threaded[end:],
        ]

    @staticmethod
    def _crosses(items: Sequence[_Item], tile: Tile) -> bool:
        behind = {item.behind for item in items if _engines_touching(item, tile.name)}
        return len(behind) == 2  # noqa: PLR2004 - touched in both parts of the body

    def _ready(self, operator: str, tile: Tile, source: str, target: str) -> Handover:
        tokens = self._handover(operator, tile, "ready", source, target)
        self.tokens.setdefault(tokens, 0)
        return tokens

    def _handover(self, operator: str, tile: Tile, kind: str, source: str, target: str) -> Handover:
        stepped = tile.name in self.stepped
        live = tile.view.kind
        return Handover(operator, tile.name, kind, source, target, tile.place, stepped, live)

    def _pass_on(self, items: Sequence[_Item], tile: Tile, operator: str) -> list[_Item]:
        """Post and wait wherever the tile passes from one engine to another in this body."""
        out: list[_Item] = []
        holder, promised, late, spot = "", "", False, 0
        for item in items:
            engines = _engines_touching(item, tile.name)
            if not engines:
                out.append(item)
                continue
            first, last = engines[0], engines[-1]
            cyclic = isinstance(item, _Repeat) and len(set(engines)) > 1 and first != last
            # a loop that goes round has promised the tile to its first engine
            astray = promised not in ("", first) or promised == first == holder
            if astray or (cyclic and holder != last):
                raise self._tangled(tile, operator)
            if holder not in ("", first):
                tokens = self._ready(operator, tile, holder, first)
                if not promised:
                    out.insert(spot, _Do(holder, Step(Act.POST, tokens=tokens), behind=late))
                if not cyclic:
                    out.append(_Do(first, Step(Act.WAIT, tokens=tokens), behind=item.behind))
            out.append(self._inside(item, tile, operator, first, last, cyclic=cyclic))
            holder, late, spot = last, item.behind, len(out)
            promised = first if cyclic else ""
        if promised:
            raise self._tangled(tile, operator)
        return out

    def _inside(
        self, item: _Item, tile: Tile, operator: str, first: str, last: str, *, cyclic: bool
    ) -> _Item:
        """Thread the body of a loop in which several engines touch an outer tile."""
        if isinstance(item, _Do) or len(set(_engines_touching(item, tile.name))) == 1:
            return item
        body = self._pass_on(item.items, tile, operator)
        if cyclic:
            tokens = self._ready(operator, tile, last, first)
            uses = [i for i, inner in enumerate(body) if _engines_touching(inner, tile.name)]
            body.insert(uses[-1] + 1, _Do(last, Step(Act.POST, tokens=tokens)))
            body.insert(uses[0], _Do(first, Step(Act.WAIT, tokens=tokens)))
        return replace(item, items=tuple(body))

    @staticmethod
    def _tangled(tile: Tile, operator: str) -> ProgramError:
        return ProgramError(
            f"{operator}: tile {tile.name} passes between engines in a loop and leaves it by "
            f"another engine than it goes round to; peel the first or the last iteration"
        )
