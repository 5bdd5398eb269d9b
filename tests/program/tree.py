"""Brute-force readings of a program: what a walk over every single iteration finds."""

from collections import Counter
from collections.abc import Iterator, Sequence

from simaccel.program.program import (
    Command,
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Sfu,
    Store,
    Tile,
)


def executed(body: Sequence[Node]) -> Iterator[Command]:
    """Every command as often as it is executed, loops unrolled."""
    for node in body:
        if isinstance(node, ProgramLoop):
            for _ in range(node.trips):
                yield from executed(node.body)
        elif isinstance(node, Operator):
            yield from executed(node.body)
        else:
            yield node


def softmax_of(tile: Tile, shape: tuple[int, ...], scale: float = 1.0) -> Sfu:
    """Softmax in place, along the last rank of a block of a tile."""
    ranks = tuple("+".join(tile.view.ranks).split("+"))
    return Sfu(
        operator="softmax",
        work="softmax",
        step="whole",
        out=tile,
        inputs=(tile,),
        ranks=ranks,
        shape=shape,
        axis=ranks[-1],
        scale=scale,
    )


def dram_bytes(program: Program) -> Counter[tuple[str, str]]:
    """Bytes between DRAM and buffer: (level and direction, tensor) -> bytes."""
    moved: Counter[tuple[str, str]] = Counter()
    for command in executed(program.body):
        if isinstance(command, Load | Store):
            view = command.view or command.tile.view
            direction = "dram_read" if isinstance(command, Load) else "dram_write"
            elements = 1
            for extent in command.tile.shape:
                elements *= extent
            moved[(direction, view.name)] += elements * view.bytes_per_element
    return moved
