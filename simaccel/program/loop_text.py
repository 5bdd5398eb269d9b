"""The text form of loops, those over pieces of cores included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from simaccel.program.program import Node, ProgramLoop, Tile

LOOP: Final = re.compile(
    r"loop (\S+) (\d+) from (\d+) step (\d+)(?: ahead (\d+))?(?: on core (\d+) step (\d+))?"
)


def loop_line(loop: ProgramLoop) -> str:
    """Write the line above a loop's body.

    >>> loop_line(ProgramLoop(rank="m", trips=4, step=8, core=0, cores_apart=2))
    'loop m 4 from 0 step 8 on core 0 step 2'
    """
    ahead = f" ahead {loop.ahead}" if loop.ahead else ""
    cores = "" if loop.core is None else f" on core {loop.core} step {loop.cores_apart}"
    return f"loop {loop.rank} {loop.trips} from {loop.start} step {loop.step}{ahead}{cores}"


def parse_loop(
    groups: Sequence[str | None], tiles: tuple[Tile, ...], body: tuple[Node, ...]
) -> ProgramLoop:
    """Read the groups of a line that matches ``LOOP``."""
    rank, trips, start, step, ahead, core, apart = groups
    return ProgramLoop(
        rank=rank or "",
        trips=int(trips or 0),
        start=int(start or 0),
        step=int(step or 0),
        ahead=int(ahead or 0),
        core=None if core is None else int(core),
        cores_apart=int(apart or 1),
        tiles=tiles,
        body=body,
    )
