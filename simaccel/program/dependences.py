"""Dependences between operators on different cores, by the tensors that they read and write.

Operators of one core run in order. Between operators of different cores only tensors determine the
order. A repeated layer reads under one name what its last run wrote under another, so an operator
that reads a tensor which this run has not written waits for the whole run before. Messages of a
pipeline have tensors of other micro-batches, and wait for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from simaccel.hardware.cores import CHIP, PIPELINE
from simaccel.mapping.tile_streams import TileStream
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.fit import operators_with_tiles
from simaccel.program.program import (
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Store,
    between_tiles,
    commands,
    transfer_of,
)

WEIGHT = "weight"


@dataclass(frozen=True)
class CoreDependence:
    """An operator whose end another operator waits for before its dependent commands.

    ``now``: its end in the same iteration of the loops around both, else in the one before.
    ``trips``, ``own_trips``: runs per such iteration of this operator, and of the waiting one.
    ``common``: there are such loops. ``by_tiles``: all of its tensors for the other are handed on
    tile by tile, so that marks on loops order them instead.
    """

    operator: str
    now: bool
    trips: int = 1
    own_trips: int = 1
    common: bool = False
    by_tiles: bool = False

    def needed_rounds(self, ended: int) -> int:
        """Return the ends of this operator that the next run of the waiting one needs.

        ``ended``: runs of the waiting operator that have ended.

        >>> CoreDependence("A", now=True).needed_rounds(2)
        3
        >>> CoreDependence("A", now=False, own_trips=2).needed_rounds(3)
        1
        """
        return (ended // self.own_trips + self.now) * self.trips


def dependences(program: Program) -> dict[str, tuple[CoreDependence, ...]]:
    """Return, by operator, the operators on other cores that it depends on."""
    operators = [operator for operator, _ in operators_with_tiles(program.body)]
    if all(operator.cores is None for operator in operators):
        return {operator.name: () for operator in operators}
    uses = dict(_uses(program.body, ()))
    awaited: _Awaited = {name: {} for name in uses}
    _walk(program.body, {}, uses, awaited)
    return {
        name: tuple(
            _dependence(uses[other], uses[name], now=now, by_tiles=by_tiles)
            for (other, by_tiles), now in others.items()
        )
        for name, others in awaited.items()
    }


_Awaited = dict[str, dict[tuple[str, bool], bool]]
"""Operator -> (operator that it waits for, whether tile by tile) -> whether in this iteration."""


@dataclass(frozen=True)
class _OpUse:
    """An operator, the tensors in memory that it uses, and the repeating loops around it.

    ``around``: (identity, trips) of each loop.
    """

    operator: Operator
    loads: frozenset[str]
    weights: frozenset[str]
    stores: frozenset[str]
    hands_on: frozenset[str]
    awaits: frozenset[str]
    around: tuple[tuple[int, int], ...]

    def is_behind(self, other: _OpUse) -> bool:
        """Return whether all cores of this operator also run the other one, and so run it first."""
        cores, others = self.operator.cores, other.operator.cores
        if others is None:
            return cores is None or cores[0] % CHIP < PIPELINE
        return cores is not None and cores[0] in others and cores[-1] in others

    def meets(self, other: _OpUse, apart: frozenset[str] = frozenset()) -> bool:
        """Return whether one writes a tensor that the other uses, except reads of ``apart``."""
        read = other.stores & self.loads - apart or other.loads & self.stores
        return bool(read or other.stores & self.stores)


def _uses(
    body: Sequence[Node], around: tuple[tuple[int, int], ...]
) -> Iterator[tuple[str, _OpUse]]:
    for node in body:
        if isinstance(node, ProgramLoop):
            own = ((id(node), node.trips),) if node.trips > 1 else ()
            yield from _uses(node.body, (*around, *own))
        elif isinstance(node, Operator):
            ways: dict[type, set[tuple[str, bool]]] = {Load: set(), Store: set()}
            for command in commands(node.body):
                if isinstance(command, Load | Store) and not between_tiles(command):
                    view, _ = transfer_of(command)
                    ways[type(command)].add((view.name, view.kind == WEIGHT))
            loads, stores = ways[Load], ways[Store]
            use = _OpUse(
                node,
                frozenset(name for name, _ in loads),
                frozenset(name for name, weight in loads if weight),
                frozenset(name for name, _ in stores),
                frozenset(name for loop in _loops(node.body) for name in loop.hands_on),
                frozenset(tiles.tensor for loop in _loops(node.body) for tiles in loop.awaits),
                around,
            )
            yield node.name, use


def _loops(body: Sequence[Node]) -> Iterator[ProgramLoop]:
    for node in body:
        if isinstance(node, ProgramLoop):
            yield node
            yield from _loops(node.body)


def _walk(
    body: Sequence[Node],
    seen: dict[str, bool],
    uses: Mapping[str, _OpUse],
    awaited: _Awaited,
) -> None:
    """Collect what each operator waits for; ``seen``: earlier ones, True if in this iteration."""
    for node in body:
        if isinstance(node, Operator):
            own = uses[node.name]
            if node.cores is not None and node.cores[0] % CHIP == PIPELINE:
                continue
            made = {
                name
                for other, now in seen.items()
                if now and uses[other].around[: len(own.around)] == own.around
                for name in uses[other].stores
            }
            unknown = own.loads - own.weights - made
            for other, now in seen.items():
                before = uses[other]
                hidden = unknown and not (now and before.around == own.around)
                if (hidden or own.meets(before)) and not own.is_behind(before):
                    waits = awaited[node.name]
                    by_tiles = not hidden and not own.meets(before, own.awaits & before.hands_on)
                    waits[other, by_tiles] = waits.get((other, by_tiles), False) or now
            seen[node.name] = True
        elif isinstance(node, ProgramLoop):
            _walk(node.body, seen, uses, awaited)
            if node.trips > 1:
                repeated = [n for n, use in uses.items() if (id(node), node.trips) in use.around]
                seen.update(dict.fromkeys(repeated, False))
                _walk(node.body, seen, uses, awaited)


def _dependence(other: _OpUse, own: _OpUse, *, now: bool, by_tiles: bool) -> CoreDependence:
    pairs = zip(other.around, own.around, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    trips = math.prod(n for _, n in other.around[common:])
    own_trips = math.prod(n for _, n in own.around[common:])
    return CoreDependence(other.operator.name, now, trips, own_trips, common > 0, by_tiles)


def mark_streams(node: Node, streams: Iterable[TileStream]) -> Node:
    """Return an operator with marks on the loops that hand on tiles or await them."""
    if not isinstance(node, Operator):
        return node
    operator = node
    for stream in streams:
        if stream.maker == operator.name:
            operator = _mark(operator, stream.maker_ranks, hands_on=(stream.tensor,))
        if stream.reader == operator.name:
            tiles = AwaitedTiles(stream.tensor, stream.made, stream.read, stream.ahead)
            operator = _mark(operator, stream.reader_ranks, awaits=(tiles,))
    return operator


def _mark(
    operator: Operator,
    ranks: Sequence[str],
    hands_on: tuple[str, ...] = (),
    awaits: tuple[AwaitedTiles, ...] = (),
) -> Operator:
    """Return an operator with marks on the innermost of the nested loops over ``ranks``.

    Equal bodies stay one object.
    """
    known: dict[tuple[int, int], ProgramLoop] = {}

    def mark_inside(body: Sequence[Node], depth: int) -> tuple[Node, ...]:
        return tuple(
            mark_loop(node, depth) if isinstance(node, ProgramLoop) else node for node in body
        )

    def mark_loop(loop: ProgramLoop, depth: int) -> ProgramLoop:
        key = id(loop), depth
        if key not in known:
            inner = depth + (loop.core is None)
            if inner < len(ranks):
                known[key] = replace(loop, body=mark_inside(loop.body, inner))
            else:
                made = dict.fromkeys((*loop.hands_on, *hands_on))
                read = dict.fromkeys((*loop.awaits, *awaits))
                known[key] = replace(loop, hands_on=tuple(made), awaits=tuple(read))
        return known[key]

    return replace(operator, body=mark_inside(operator.body, 0))
