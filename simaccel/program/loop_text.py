"""The text form of loops and operators, with their cores."""

from __future__ import annotations

import re
from typing import Final

from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.program import Node, Operator, ProgramLoop, Tile

_LOOP: Final = re.compile(
    r"loop (\S+) (\d+) from (\d+) step (\d+)(?: ahead (\d+))?(?: on core (\d+) step (\d+))?"
    r"(?: hands on (\S+))?(?: awaits (.+))?"
)
_AWAITED: Final = re.compile(r"(\S+) ([1-9]\d*) for ([1-9]\d*)(?: ahead (\d+))?")
_OPERATOR: Final = re.compile(r"operator (.+?)(?: on cores (\d+)-(\d+))?")


def operator_line(operator: Operator) -> str:
    """Return the line above an operator's body.

    >>> operator_line(Operator(name="L", body=(), cores=range(2, 4)))
    'operator L on cores 2-3'
    """
    cores = operator.cores
    return f"operator {operator.name}" + (f" on cores {cores[0]}-{cores[-1]}" if cores else "")


def loop_line(loop: ProgramLoop) -> str:
    """Return the line above a loop's body.

    >>> loop_line(ProgramLoop(rank="m", trips=4, step=8, core=0, cores_apart=2))
    'loop m 4 from 0 step 8 on core 0 step 2'
    >>> tiles = AwaitedTiles("Q", made=5, read=4, ahead=1)
    >>> loop_line(ProgramLoop(rank="m", trips=4, step=8, hands_on=("S", "T"), awaits=(tiles,)))
    'loop m 4 from 0 step 8 hands on S,T awaits Q 5 for 4 ahead 1'
    """
    ahead = f" ahead {loop.ahead}" if loop.ahead else ""
    cores = "" if loop.core is None else f" on core {loop.core} step {loop.cores_apart}"
    tiles = f" hands on {','.join(loop.hands_on)}" if loop.hands_on else ""
    tiles += f" awaits {', '.join(map(_awaited_text, loop.awaits))}" if loop.awaits else ""
    where = f"from {loop.start} step {loop.step}"
    return f"loop {loop.rank} {loop.trips} {where}{ahead}{cores}{tiles}"


def _awaited_text(tiles: AwaitedTiles) -> str:
    ahead = f" ahead {tiles.ahead}" if tiles.ahead else ""
    return f"{tiles.tensor} {tiles.made} for {tiles.read}{ahead}"


def _parse_awaited(text: str) -> AwaitedTiles:
    match = _AWAITED.fullmatch(text)
    if match is None:
        raise ValueError(f"expected {_AWAITED.pattern}")
    return AwaitedTiles(match[1], int(match[2]), int(match[3]), int(match[4] or 0))


def parse_block(
    line: str, tiles: tuple[Tile, ...], body: tuple[Node, ...]
) -> ProgramLoop | Operator:
    """Parse the line above a body.

    Raises:
        ValueError: it is neither a loop nor an operator.

    """
    if match := _OPERATOR.fullmatch(line):
        name, *ends = match.groups()
        cores = range(int(ends[0]), int(ends[1]) + 1) if ends[1] else None
        return Operator(name=name, body=body, tiles=tiles, cores=cores)
    if match := _LOOP.fullmatch(line):
        rank, trips, start, step, ahead, core, apart, hands_on, awaits = match.groups()
        return ProgramLoop(
            rank=rank,
            trips=int(trips),
            start=int(start),
            step=int(step),
            ahead=int(ahead or 0),
            core=None if core is None else int(core),
            cores_apart=int(apart or 1),
            hands_on=tuple(hands_on.split(",")) if hands_on else (),
            awaits=tuple(map(_parse_awaited, awaits.split(", "))) if awaits else (),
            tiles=tiles,
            body=body,
        )
    raise ValueError(f"expected {_LOOP.pattern}")
