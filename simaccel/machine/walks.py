"""Instruction streams: a program's tree, threaded with tokens, as one walk per engine.

Tiles become tokens. When a tile passes from one engine to another, the first posts a *ready*
token and the second waits for it; after its last use in the body, the last engine posts a *free*
token (there are as many of these as slots) that the first waits for. Engines meet the tokens of a
tile in program order, so counting them is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from simaccel.hardware import Accelerator
from simaccel.machine.engine_kinds import EngineKind, engine_kinds, engine_of, engines_of_core
from simaccel.machine.instructions import (
    Action,
    Instruction,
    InstructionLoop,
    Item,
    PlacedInstruction,
    TokenStream,
    add_gates,
    await_steps,
    engines_touching,
    hand_on_steps,
    mark_earlier_uses,
    mark_renewals,
    project,
    put_beside,
    put_gate,
    working,
)
from simaccel.program.cores import (
    all_cores,
    core_in_iteration,
    core_in_operator,
    core_indices,
    core_iterations,
    equal_load_loops,
    is_spread,
    moving_ranks,
    part_of,
)
from simaccel.program.dependences import CoreDependence, dependences
from simaccel.program.fit import Fifo, fifos, operators_with_tiles, rings
from simaccel.program.overlap import Overlap, overlaps
from simaccel.program.program import (
    Compute,
    Node,
    Operator,
    Program,
    ProgramError,
    ProgramLoop,
    Steps,
    Tile,
    commands,
    tiles_of,
)
from simaccel.program.unit_commands import Link
from simaccel.units import ARRAY


@dataclass
class CoreWalks:
    """The walks of a core by engine, and its token streams with their initial counts."""

    steps: dict[str, list[Instruction]] = field(default_factory=dict)
    tokens: dict[TokenStream, int] = field(default_factory=dict)


@dataclass
class InstructionStreams:
    """The walks of each core, and the kinds of its engines; equal cores share one."""

    kinds: dict[str, EngineKind] = field(default_factory=dict)
    cores: list[CoreWalks] = field(default_factory=list)
    numbers: Sequence[int] = (0,)
    """The number of each core in the program."""
    digits: list[Mapping[str, tuple[int, ...]]] = field(default_factory=list)
    """By core and operator, its iterations of loops over cores."""
    operators: list[str] = field(default_factory=list)
    overlaps: Mapping[str, Overlap] = field(default_factory=dict)
    places: dict[str, range] = field(default_factory=dict)
    """The cores of each operator, as indices among all."""
    dependences: Mapping[str, Sequence[CoreDependence]] = field(default_factory=dict)
    """By operator, the operators on other cores whose ends it waits for."""

    @property
    def distinct(self) -> list[CoreWalks]:
        """The distinct walks of the cores, that of core 0 first."""
        return list({id(core): core for core in self.cores}.values())


def _uses(items: Sequence[Item], tile: Tile) -> bool:
    """Return whether the array uses a tile, as only the array needs the arrival of tiles."""
    return any(ARRAY in engines_touching(item, tile.name) for item in items)


def make_walks(program: Program, accelerator: Accelerator) -> InstructionStreams:
    """Add token hand-overs to a program, and return the walk of each engine.

    Raises:
        ProgramError: a tile is never used, or passes between engines in a way that one token
            stream can't describe; the message names the tile.
    """
    engines = engine_kinds(accelerator, program)
    beside, shared = overlaps(program, accelerator), fifos(program, accelerator)
    operators = [operator for operator, _ in operators_with_tiles(program.body)]
    numbers = all_cores(program, accelerator.cores.count)
    places = {node.name: core_indices(numbers, node.cores) for node in operators}
    walks = InstructionStreams(
        engines,
        numbers=numbers,
        overlaps=beside,
        places=places,
        dependences={
            name: tuple(other for other in others if not other.by_tiles)
            for name, others in dependences(program).items()
        },
    )
    known: dict[object, CoreWalks] = {}
    for at, core in enumerate(numbers):
        part = part_of(program, core)
        if part not in known:
            kinds = engines_of_core(core, program, accelerator, engines)
            builder = _ItemBuilder(accelerator, kinds, beside, shared, core)
            items = builder.body(program.body, (), "", 0)
            known[part] = CoreWalks(project(items, kinds), builder.tokens)
            walks.operators = builder.operators
        walks.cores.append(known[part])
        walks.digits.append(
            {node.name: core_iterations(node, at - places[node.name].start) for node in operators}
        )
    return walks


def _pass(engine: str, act: Action, tokens: TokenStream) -> PlacedInstruction:
    return PlacedInstruction(engine, Instruction(act, tokens=tokens))


class _ItemBuilder:
    """A builder of the item tree, bottom-up, one body after the other."""

    def __init__(
        self,
        accelerator: Accelerator,
        engines: Mapping[str, EngineKind],
        overlapping: Mapping[str, Overlap],
        shared: Mapping[str, Mapping[str, Fifo]],
        core: int,
    ) -> None:
        self.core = core
        """As counted from the first of the operator, or of the iteration of a loop, around."""
        self.accelerator = accelerator
        self.engines = engines
        self.overlaps = overlapping
        self.fifos = shared
        self.tokens: dict[TokenStream, int] = {}
        self.operators: list[str] = []
        self.sites = count(1)
        self.slots: dict[str, tuple[int, int]] = {}
        self.ends: dict[tuple[str, str], tuple[str, str]] = {}
        self.around: tuple[ProgramLoop, ...] = ()
        """Loops over cores around."""
        self.moving: Mapping[str, set[str]] = {}
        """The ranks that move what the present operator loads, by tensor."""
        self.stepped: set[str] = set()
        """Tiles of the present operator that PEs use which go through a block in steps."""

    def body(
        self, nodes: Sequence[Node], tiles: Sequence[Tile], operator: str, ahead: int
    ) -> list[Item]:
        """Return the items of one body's nodes, threaded with the tiles that it declares."""
        items: list[Item] = []
        for index, node in enumerate(nodes):
            behind = bool(ahead) and index >= ahead
            items += [
                item if item.behind is behind else replace(item, behind=behind)
                for item in self._node(node, operator)
            ]
        # what is threaded last goes first: of slots that are free at once those of the tile
        # with the fewest, as nothing of it is there
        for tile in sorted(tiles, key=lambda kept: -kept.slots) if operator else ():
            items = self._thread(items, tile, operator, pipelined=bool(ahead))
        return items

    def _node(self, node: Node, operator: str) -> list[Item]:
        if isinstance(node, Operator):
            return self._operator(node)
        if isinstance(node, ProgramLoop):
            return self._loop(node, operator)
        engine = engine_of(node, self.accelerator)
        names = tuple(tile.name for tile in tiles_of(node))
        casts = self.accelerator.cores.noc.multicast
        alike = equal_load_loops(node, self.around, self.moving) if casts else ()
        what = Action.COMMAND, next(self.sites)
        step = Instruction(*what, command=node, touches=names, operator=operator, alike=alike)
        return [PlacedInstruction(engine, step)]

    def _operator(self, node: Operator) -> list[Item]:
        self.operators.append(node.name)
        self.slots, self.moving = rings(node.body, node.tiles), moving_ranks(node)
        self.stepped = {
            tile.name
            for command in commands(node.body)
            if isinstance(command, Compute) and isinstance(command.on, Steps)
            for tile in tiles_of(command)
        }
        outside, core = self.core, core_in_operator(node, self.core)
        if core is None or (core and not is_spread(node)):
            items = self._skip_others(node, node.name)
        else:
            self.core = core
            items = self.body(node.body, node.tiles, node.name, 0)
            self.core = outside
        site = next(self.sites)
        return items if core is None else self._with_end(node, items, site)

    def _with_end(self, node: Operator, items: list[Item], site: int) -> list[Item]:
        """Return the items of an operator with gates, and with its end after them.

        Where no loader works, all wait for a kernel's start, so that what the kernel's next
        operators load does not come before it.
        """
        overlap = self.overlaps[node.name]
        gate = Instruction(Action.GATE, site, operator=node.name, joined=overlap.joined)
        works = working(items)
        links = any(isinstance(command, Link) for command in commands(node.body))
        loaders = {name for name, kind in self.engines.items() if kind is EngineKind.DMA_IN}
        starts = self.accelerator.compiler.kernel_start_cycles and not overlap.joined
        is_followed = any(other.joined for other in self.overlaps.values())
        if starts and is_followed and works.isdisjoint(loaders):
            items += [PlacedInstruction(name, replace(gate)) for name in sorted(loaders)]
        for engine in self.engines:
            if engine in loaders and not overlap.free:
                put_gate(items, engine, overlap.early, gate)
                if overlap.early:
                    items = add_gates(items, engine, overlap.ahead, gate)
            elif not overlap.whole:
                put_gate(items, engine, (), gate)
        for engine in self.engines:
            worked = engine in works
            meet = Instruction(Action.MEET, site, operator=node.name, works=worked, links=links)
            items.append(PlacedInstruction(engine, meet))
        return items

    def _build_core_loop(self, node: ProgramLoop, operator: str) -> list[Item]:
        """Return the items of the core's iteration of a loop over cores; none if it has none."""
        left = core_in_iteration(node, self.core)
        if left is None:
            return self._skip_others(node, operator)
        outside, self.core, self.around = (self.core, self.around), left, (*self.around, node)
        self.slots = rings(node.body, node.tiles)
        items = self.body(node.body, node.tiles, operator, 0)
        self.core, self.around = outside
        return items

    def _skip_others(self, node: ProgramLoop | Operator, operator: str) -> list[Item]:
        """Skip the nodes of other cores; sites are numbered in the same way for all cores."""
        kept = self.tokens, self.ends, self.core, self.slots
        self.tokens, self.ends, self.core = {}, {}, 0
        self.slots = rings(node.body, node.tiles)
        self.body(node.body, node.tiles, operator, 0)
        self.tokens, self.ends, self.core, self.slots = kept
        return []

    def _loop(self, node: ProgramLoop, operator: str) -> list[Item]:
        if node.core is not None:
            return self._build_core_loop(node, operator)
        items = self.body(node.body, node.tiles, operator, node.ahead)
        marks = node, operator, self.accelerator, self.sites
        items = [*await_steps(*marks), *items, *hand_on_steps(*marks)]
        if not node.ahead:
            return [InstructionLoop.of_items(next(self.sites), node.trips, items)]
        first = [i for i in items if not i.behind]
        later = [i for i in items if i.behind]
        both = {tile.name for tile in node.tiles if _uses(first, tile) and _uses(later, tile)}
        steady = InstructionLoop.of_items(
            next(self.sites),
            node.trips - 1,
            [*mark_renewals(first, ARRAY, both), *mark_earlier_uses(later, ARRAY, both)],
        )
        return [*first, *([steady] if steady.trips else []), *later]

    def _thread(
        self, items: list[Item], tile: Tile, operator: str, *, pipelined: bool
    ) -> list[Item]:
        touching = [e for item in items for e in engines_touching(item, tile.name)]
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
            free = self._join(operator, tile, "free", last, first)
            fifo = self.fifos[operator].get(tile.name)
            if fifo is not None:  # its slots belong to no operator
                free = free._replace(operator="", tile=fifo.name)
            self.tokens.setdefault(free, self.slots[tile.name][1])
        if self.ends.setdefault((operator, tile.name), (first, last)) != (first, last):
            raise ProgramError(
                f"{operator}: tile {tile.name} is claimed or released by different engines in "
                f"different bodies, which can't share its slots; give one of them another name"
            )
        made = self._pass_on(items, tile, operator)
        touching_at = [at for at, item in enumerate(made) if engines_touching(item, tile.name)]
        site = next(self.sites)
        claim, release = (
            Instruction(
                act,
                site,
                operator=operator,
                tokens=free,
                tile=tile.name,
                n_bytes=tile.n_bytes,
                place=tile.place,
            )
            for act in (Action.CLAIM, Action.RELEASE)
        )
        put_beside(made, touching_at[-1], PlacedInstruction(last, release), tile, after=True)
        put_beside(made, touching_at[0], PlacedInstruction(first, claim), tile, after=False)
        return made

    @staticmethod
    def _crosses(items: Sequence[Item], tile: Tile) -> bool:
        behind = {item.behind for item in items if engines_touching(item, tile.name)}
        return len(behind) == 2  # noqa: PLR2004 - touched in both parts of the body

    def _ready(self, operator: str, tile: Tile, source: str, target: str) -> TokenStream:
        tokens = self._join(operator, tile, "ready", source, target)
        self.tokens.setdefault(tokens, 0)
        return tokens

    def _join(self, operator: str, tile: Tile, kind: str, source: str, target: str) -> TokenStream:
        stepped = tile.name in self.stepped
        live = tile.view.kind
        return TokenStream(operator, tile.name, kind, source, target, tile.place, stepped, live)

    def _pass_on(self, items: Sequence[Item], tile: Tile, operator: str) -> list[Item]:
        """Post and wait wherever the tile passes from one engine to another in this body."""
        out: list[Item] = []
        holder, promised, spot = "", "", 0
        for item in items:
            engines = engines_touching(item, tile.name)
            if not engines:
                out.append(item)
                continue
            first, last = engines[0], engines[-1]
            cyclic = isinstance(item, InstructionLoop) and len(set(engines)) > 1 and first != last
            # a loop that goes round has promised the tile to its first engine
            astray = promised not in ("", first) or promised == first == holder
            if astray or (cyclic and holder != last):
                raise self._tangled_error(tile, operator)
            came = holder not in ("", first)
            tokens = self._ready(operator, tile, holder, first) if came else None
            if tokens and not promised:
                put_beside(out, spot, _pass(holder, Action.POST, tokens), tile, after=True)
            out.append(self._thread_body(item, tile, operator, first, last, cyclic=cyclic))
            if tokens and not cyclic:
                put_beside(out, len(out) - 1, _pass(first, Action.WAIT, tokens), tile, after=False)
            holder, spot = last, len(out) - 1
            promised = first if cyclic else ""
        if promised:
            raise self._tangled_error(tile, operator)
        return out

    def _thread_body(
        self, item: Item, tile: Tile, operator: str, first: str, last: str, *, cyclic: bool
    ) -> Item:
        """Return the body of a loop threaded with an outer tile that several engines use."""
        if isinstance(item, PlacedInstruction) or len(set(engines_touching(item, tile.name))) == 1:
            return item
        body = self._pass_on(item.items, tile, operator)
        if cyclic:
            tokens = self._ready(operator, tile, last, first)
            uses = [i for i, inner in enumerate(body) if engines_touching(inner, tile.name)]
            body.insert(uses[-1] + 1, _pass(last, Action.POST, tokens))
            body.insert(uses[0], _pass(first, Action.WAIT, tokens))
        return item.with_items(body)

    @staticmethod
    def _tangled_error(tile: Tile, operator: str) -> ProgramError:
        return ProgramError(
            f"{operator}: tile {tile.name} passes between engines in a loop and leaves it by "
            f"another engine than it goes round to; peel the first or the last iteration"
        )
