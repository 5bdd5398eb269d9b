"""Commands to links as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from simaccel.errors import suggest
from simaccel.hardware.chips import COLLECTIVES
from simaccel.program.program import Link, Tile

_LINK: Final = re.compile(r"link (\S+) (\S+) = (\S+) over ([\dx]+) of (\d+)B")


def link_line(command: Link) -> str:
    """Write a command to links."""
    rings = "x".join(map(str, command.rings))
    names = f"{command.out.name} = {command.tile.name}"
    return f"link {command.kind} {names} over {rings} of {command.n_bytes}B"


def parse_link(line: str, scope: Mapping[str, Tile]) -> Link:
    """Read a command to links.

    Raises:
        ValueError: it is none.
        KeyError: there is no tile of a name.

    """
    match = _LINK.fullmatch(line)
    if match is None:
        raise ValueError(f"expected {_LINK.pattern}")
    kind, out, tile, rings, n_bytes = match.groups()
    for known in COLLECTIVES:
        if known == kind:
            sizes = tuple(int(size) for size in rings.split("x"))
            return Link(
                kind=known, out=scope[out], tile=scope[tile], rings=sizes, n_bytes=int(n_bytes)
            )
    raise ValueError(f"{kind}: {suggest(kind, COLLECTIVES)}")
