"""The smallest program that still fails: loops with fewer trips, nodes left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from simaccel.program.program import Node, Operator, Program, ProgramLoop, commands, tiles_of

Body = tuple[Node, ...]


def smallest(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Take any step that makes the program smaller and still fails, until there is none."""
    while True:
        found = next((one for one in smaller(program) if fails(one)), None)
        if found is None:
            return program
        program = found


def smaller(program: Program) -> Iterator[Program]:
    """Give each program that is one step smaller; not all of them are valid."""
    for body in _bodies(program.body):
        yield replace(program, body=body)


def _bodies(body: Sequence[Node]) -> Iterator[Body]:
    for at, node in enumerate(body):
        before, after = tuple(body[:at]), tuple(body[at + 1 :])
        if len(body) > 1:
            yield before + after
        for other in _nodes(node):
            yield (*before, other, *after)


def _nodes(node: Node) -> Iterator[Node]:
    if isinstance(node, ProgramLoop):
        for trips in (1, node.trips // 2, node.trips - 1):
            if 0 < trips < node.trips:
                yield replace(node, trips=trips)
    if isinstance(node, ProgramLoop | Operator):
        for body in _bodies(node.body):
            used = {tile.name for command in commands(body) for tile in tiles_of(command)}
            yield replace(
                node, body=body, tiles=tuple(tile for tile in node.tiles if tile.name in used)
            )
