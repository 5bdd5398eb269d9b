"""Marks on loops whose iterations hand a tile to, or await one from, operators on other cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from simaccel.mapping.tile_streams import TileStream
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.program import Node, Operator, ProgramLoop


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
