"""Commands that an operator may begin while the one before drains; known before the run.

A load waits for the stores that make its tensor and, if there is room, for nothing else (see
``docs/decisions/program.md``):

- Where all tiles of an operator fit beside those of the one before, its engines begin as soon as
  these tiles are there.
- Where only the tiles of its first command fit, these are loaded early; the rest waits for the end.
- Of a layer that is repeated only weights come early, as it reads under one name what its last run
  wrote under another.
- Tiles in a FIFO that the operator before has, too, come as soon as a slot of it is free.
- Where operators don't overlap (`CompilerSpec.overlap`), those of one kernel do (`Group.joined`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from simaccel.hardware import Accelerator
from simaccel.hardware.compiler import WEIGHTS, CompilerSpec
from simaccel.hardware.cores import CHIP, PIPELINE
from simaccel.program.cores import all_cores, core_in_operator
from simaccel.program.dependences import WEIGHT, dependences
from simaccel.program.fit import (
    Fifo,
    fifos,
    operators_with_tiles,
    reserved_slots,
    rings,
)
from simaccel.program.program import (
    BUFFER,
    Compute,
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Reserve,
    Sfu,
    Store,
    Tile,
    between_tiles,
    commands,
    tiles_of,
    transfer_of,
)
from simaccel.program.unit_commands import Link


@dataclass(frozen=True)
class Overlap:
    """The commands that may begin before the operator before has ended.

    ``free``: all of them. ``whole``: engines wait for tiles only, but until the end of the operator
    before each loader brings one tile, of ``early`` only. Else each loader brings one tile of
    ``early``; of tiles in a continuing FIFO (``ahead``, a part of ``early``) as many as fit.
    ``more_bytes``: reserved bytes of the buffer in addition to those of the operator before.
    """

    free: bool = False
    whole: bool = False
    early: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()
    more_bytes: int = 0
    beside: frozenset[str] = frozenset()
    """Operators that can come directly before, if any command may begin early."""
    at_once: frozenset[str] = frozenset()
    """Operators that other cores may run meanwhile."""
    joined: bool = False
    """Whether it is in one kernel with the operator before, without a start of its own."""


_FIRST = Overlap(free=True, whole=True)
"""The overlap of an operator with none before it: it waits for nothing."""


@dataclass
class _OpPlace:
    """An operator and those that can come directly before it; True if in the layer before.

    ``elsewhere``: likewise, operators of other cores that it waits for.
    """

    operator: Operator
    before: dict[str, bool] = field(default_factory=dict)
    elsewhere: dict[str, bool] = field(default_factory=dict)
    fifos: Mapping[str, Fifo] = field(default_factory=dict)

    @property
    def others(self) -> list[str]:
        """Predecessors other than itself, as its own last run shares its slots."""
        return [name for name in self.before if name != self.operator.name]

    @property
    def awaited(self) -> dict[str, bool]:
        """Predecessors on its cores and elsewhere."""
        return self.before | self.elsewhere


def overlaps(program: Program, accelerator: Accelerator) -> dict[str, Overlap]:
    """Return the overlap of each operator by name."""
    places = {other.name: _OpPlace(other) for other, _ in operators_with_tiles(program.body)}
    for core in _different_cores(program, all_cores(program, accelerator.cores.count)):
        _walk(program.body, {}, places, core)
    for name, others in dependences(program).items():
        for other in others:
            is_earlier = places[name].elsewhere.get(other.operator, False)
            places[name].elsewhere[other.operator] = is_earlier or not other.now
    for name, shared in fifos(program, accelerator).items():
        places[name].fifos = shared
    rooms, compiler = _Rooms(program, accelerator), accelerator.compiler
    known = {name: _overlap_by(compiler, place, places, rooms) for name, place in places.items()}
    if all(place.operator.cores is None for place in places.values()):
        return known
    cores = {name: place.operator.cores for name, place in places.items()}
    apart = {
        own: frozenset(name for name, others in cores.items() if others != own)
        for own in set(cores.values())
    }
    return {name: replace(overlap, at_once=apart[cores[name]]) for name, overlap in known.items()}


def _overlap_by(
    compiler: CompilerSpec,
    place: _OpPlace,
    places: Mapping[str, _OpPlace],
    rooms: _Rooms,
) -> Overlap:
    """Return the overlap of an operator where a compiler's kernels overlap, or each waits."""
    before = (command for name in place.before for command in places[name].operator.commands)
    if place.operator.joined and not any(isinstance(command, Link) for command in before):
        return replace(_overlap(place, places, rooms), joined=True)
    cores = place.operator.cores
    if cores is not None and cores[0] % CHIP == PIPELINE:
        return _FIRST
    if compiler.overlap:
        return _overlap(place, places, rooms, weights_alone=compiler.overlap == WEIGHTS)
    return Overlap() if place.awaited or compiler.kernel_start_cycles else _FIRST


def _different_cores(program: Program, numbers: Collection[int]) -> list[int]:
    """Return one core for each set of cores that run the same operators."""
    first = {core for core in numbers if core % CHIP == 0}
    for operator, _ in operators_with_tiles(program.body):
        if operator.cores is not None:
            first |= {operator.cores.start, operator.cores.stop}
    return sorted(first.intersection(numbers))


def overlapping_operators(overlapping: Mapping[str, Overlap]) -> dict[str, set[str]]:
    """Return, by operator, those whose tiles may be in use while it runs, including itself."""
    found = {name: {name} for name in overlapping}
    for name, one in overlapping.items():
        for other in one.beside | one.at_once:
            found[name].add(other)
            found[other].add(name)
    return found


def most_reserved_bytes(program: Program, accelerator: Accelerator) -> int:
    """Return the peak of the buffer's reserved bytes with overlap, known before the run."""
    uses = {
        name: sum(b * s for b, s in use.values()) for name, use in reserved_slots(program).items()
    }
    pairs = [
        uses[other] + one.more_bytes
        for one in overlaps(program, accelerator).values()
        for other in one.beside
    ]
    return max([*uses.values(), *pairs], default=0)


def _walk(
    body: Sequence[Node], before: Mapping[str, bool], places: dict[str, _OpPlace], core: int
) -> dict[str, bool]:
    """Collect the predecessors of each operator of a core; return those of the next node."""
    last = dict(before)
    for node in body:
        if isinstance(node, Operator):
            if core_in_operator(node, core) is None:
                continue
            place = places[node.name]
            for name, is_earlier in last.items():
                place.before[name] = place.before.get(name, False) or is_earlier
            last = {node.name: False}
        elif isinstance(node, ProgramLoop):
            first = last
            last = _walk(node.body, first, places, core)
            if node.trips > 1:
                last = _walk(node.body, first | dict.fromkeys(last, True), places, core)
    return last


TileSlots = Mapping[str, tuple[int, int]]
"""(bytes of a slot, slots) by name of the tile."""


class _Rooms:
    """The capacity of each memory, and the slots that each operator reserves there."""

    def __init__(self, program: Program, accelerator: Accelerator) -> None:
        self.uses = [
            (room, reserved_slots(program, places))
            for places, room in accelerator.capacities.items()
            if room is not None
        ] + [
            (room, reserved_slots(program, kind=kind))
            for kind, room in accelerator.staging.items()
            if room is not None
        ]

    def fit(
        self, operator: Operator, beside: Sequence[str], n_bytes: Callable[[TileSlots], int]
    ) -> bool:
        """Return whether ``n_bytes`` of an operator's slots fit beside the most of one other's."""
        for room, used in self.uses:
            others = (sum(b * s for b, s in used[name].values()) for name in beside)
            if max(others, default=0) + n_bytes(used[operator.name]) > room:
                return False
        return True


def _overlap(
    place: _OpPlace,
    places: Mapping[str, _OpPlace],
    rooms: _Rooms,
    *,
    weights_alone: bool = False,
) -> Overlap:
    if not place.awaited:
        return _FIRST
    operator, others = place.operator, place.others
    known = {tile.name: tile for tile in _known_tiles(place, places, weights_alone=weights_alone)}
    slots = rings(operator.body, operator.tiles, BUFFER)
    shared = frozenset(name for name in _going_on(place, places) if name in known)

    def all_slots(slots: TileSlots) -> int:
        return sum(b * s for name, (b, s) in slots.items() if name not in shared)

    if _stands_alone(place, places) and rooms.fit(operator, others, all_slots):
        own = (n_bytes * n for name, (n_bytes, n) in slots.items() if name not in shared)
        more = sum(own) if others else 0
        loads = (command for command in commands(operator.body) if isinstance(command, Load))
        free = known.keys() >= {load.tile.name for load in loads if not between_tiles(load)}
        return Overlap(
            free=free,
            whole=True,
            early=frozenset(known),
            ahead=shared,
            more_bytes=more,
            beside=frozenset(place.before),
        )
    chosen: list[str] = []
    for name in _first_tiles(operator):
        if name not in slots or name not in known or name in shared:
            continue
        if rooms.fit(operator, others, partial(_slot_bytes, (*chosen, name))):
            chosen.append(name)
    if not chosen and not shared:
        return Overlap()
    more = sum(slots[name][0] for name in chosen) if others else 0
    early, beside = shared.union(chosen), frozenset(place.before)
    return Overlap(early=early, ahead=shared, more_bytes=more, beside=beside)


def _slot_bytes(tiles: Collection[str], slots: TileSlots) -> int:
    return sum(n_bytes for name, (n_bytes, _) in slots.items() if name in tiles)


def _going_on(place: _OpPlace, places: Mapping[str, _OpPlace]) -> Iterator[str]:
    """Yield the tiles whose FIFO every possible predecessor has, too."""
    for name, fifo in place.fifos.items() if place.before else ():
        if all(fifo in places[one].fifos.values() for one in place.before):
            yield name


def _stands_alone(place: _OpPlace, places: Mapping[str, _OpPlace]) -> bool:
    """Return whether an operator uses no tiles around it and overwrites nothing that is read.

    Operators that store one tensor store different boxes of it.
    """
    operator = place.operator
    own = rings(operator.body, operator.tiles)
    touched = {tile.name for command in commands(operator.body) for tile in tiles_of(command)}
    written = set(_tensors_outside(operator, Store))
    read = {
        name
        for earlier in place.awaited
        for name in _tensors_outside(places[earlier].operator, Load)
        if earlier != operator.name
    }
    return touched <= own.keys() and not written & read


def _known_tiles(
    place: _OpPlace, places: Mapping[str, _OpPlace], *, weights_alone: bool
) -> Iterator[Tile]:
    """Yield the tiles that may be loaded before the operator before ends."""
    stored = {
        tensor
        for name in place.awaited
        for tensor in _tensors_outside(places[name].operator, Store)
    }
    waits = weights_alone or any(place.awaited.values())
    loads: dict[str, list[Load | Reserve]] = {}
    for command in commands(place.operator.body):
        if isinstance(command, Load | Reserve) and not between_tiles(command):
            loads.setdefault(command.tile.name, []).append(command)
    for ways in loads.values():
        views = [transfer_of(load)[0] for load in ways if isinstance(load, Load)]
        if all(view.name not in stored and (view.kind == WEIGHT or not waits) for view in views):
            yield ways[0].tile


def _first_tiles(operator: Operator) -> list[str]:
    """Return the buffer tiles of the first command's inputs, also of tiles that go on to PEs."""
    inside = [one for one in commands(operator.body) if isinstance(one, Load)]
    sources = {one.tile.name: one.source.name for one in inside if one.source is not None}
    for command in commands(operator.body):
        if isinstance(command, Compute | Sfu):
            return [sources.get(tile.name, tile.name) for tile in command.inputs]
    return []


def _tensors_outside(operator: Operator, way: type[Load | Store]) -> Iterator[str]:
    """Yield the tensors in memory that an operator loads, or stores."""
    for command in commands(operator.body):
        if isinstance(command, way) and not between_tiles(command):
            yield transfer_of(command)[0].name
