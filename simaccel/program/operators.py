"""The operators of a program, each with the tiles of enclosing bodies that live while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simaccel.program.program import Node, Operator, ProgramLoop, Tile, commands, tiles_of


def operators_with_tiles(
    body: Sequence[Node], outer: tuple[Tile, ...] = ()
) -> Iterator[tuple[Operator, tuple[Tile, ...]]]:
    """Yield each operator with the tiles of enclosing bodies that live while it runs.

    Such a tile lives from the first node of its body that uses it to the last.
    """
    for node in body:
        if isinstance(node, Operator):
            yield node, outer
        elif isinstance(node, ProgramLoop):
            for inner, living in zip(node.body, _living(node), strict=True):
                yield from operators_with_tiles((inner,), (*outer, *living))


def _living(loop: ProgramLoop) -> list[tuple[Tile, ...]]:
    """Return the tiles of a loop that live while each node of its body runs."""
    if not loop.tiles:
        return [()] * len(loop.body)
    touched = [
        {tile.name for command in commands((node,)) for tile in tiles_of(command)}
        for node in loop.body
    ]
    lives = []
    for tile in loop.tiles:
        at = [number for number, names in enumerate(touched) if tile.name in names]
        lives.append((tile, at[0] if at else 0, at[-1] if at else len(touched)))
    return [
        tuple(tile for tile, first, last in lives if first <= number <= last)
        for number in range(len(loop.body))
    ]
