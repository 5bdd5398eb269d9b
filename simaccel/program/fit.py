"""Tiles that live while an operator runs, and slots that a program reserves in each memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from simaccel.program.program import (
    BUFFER,
    DoesNotFitError,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Tile,
    commands,
    tiles_of,
)


def rings(
    body: Sequence[Node],
    tiles: Sequence[Tile] = (),
    place: str | None = None,
    kind: str | None = None,
) -> dict[str, tuple[int, int]]:
    """Return the slots of all bodies below, as (bytes of a slot, slots) by tile name.

    With ``place`` only of tiles in that memory, with ``kind`` only of tensors of that class.
    """
    inner = (node.tiles_inside for node in body if isinstance(node, ProgramLoop | Operator))
    slots_of: dict[str, tuple[int, int]] = {}
    for tile in chain(tiles, *inner):
        if place in (None, tile.place) and kind in (None, tile.view.kind):
            n_bytes, slots = slots_of.get(tile.name, (0, 0))
            slots_of[tile.name] = max(n_bytes, tile.n_bytes), max(slots, tile.slots)
    return slots_of


def reserved_slots(
    program: Program, place: str = BUFFER, kind: str | None = None
) -> dict[str, dict[str, tuple[int, int]]]:
    """Return the slots in a memory, as (bytes of a slot, slots) by operator and tile name.

    Tiles of enclosing bodies (resident intermediates) count from the first operator that uses them
    to the last. With ``kind`` only of tensors of that class.
    """
    slots_of: dict[str, dict[str, tuple[int, int]]] = {}
    for operator, tiles in operators_with_tiles(program.body):
        placed = (t for t in tiles if t.place == place and kind in (None, t.view.kind))
        around = {t.name: (t.n_bytes, t.slots) for t in placed}
        slots_of[operator.name] = around | rings(operator.body, operator.tiles, place, kind)
    return slots_of


def reserved_bytes(program: Program) -> int:
    """Return the peak of the reserved buffer in bytes, which is known before the run."""
    return max(
        (sum(b * s for b, s in use.values()) for use in reserved_slots(program).values()), default=0
    )


def require_fit(program: Program, capacities: Mapping[tuple[str, ...], int | None]) -> None:
    """Refuse a program whose tiles exceed a memory.

    ``capacities``: bytes of each memory, by the places of tiles in it; None is unlimited.

    Raises:
        DoesNotFitError: the message names the operator and lists its tiles with their bytes.

    """
    for places, capacity in capacities.items():
        uses = [reserved_slots(program, place) for place in places] if capacity is not None else []
        for operator in uses[0] if uses else ():
            held = {name: ring for use in uses for name, ring in use[operator].items()}
            total = sum(n_bytes * slots for n_bytes, slots in held.values())
            if capacity is not None and total > capacity:
                tiles = ", ".join(f"{name} {s} x {b} B" for name, (b, s) in held.items())
                raise DoesNotFitError(
                    f"{operator}: tiles need {total} B, the {_memory(places)} has {capacity} B, "
                    f"{total - capacity} B too many: {tiles}"
                )


def require_staged(program: Program, staging: Mapping[str, int | None]) -> None:
    """Refuse a program whose tiles from a memory exceed their staging bytes of the buffer.

    ``staging``: bytes by the class of the memory's tensors; None is unlimited.

    Raises:
        DoesNotFitError: the message names the operator and lists these tiles with their bytes.

    """
    for kind, capacity in staging.items():
        uses = reserved_slots(program, kind=kind) if capacity is not None else {}
        for operator, held in uses.items():
            total = sum(n_bytes * slots for n_bytes, slots in held.values())
            if capacity is not None and total > capacity:
                tiles = ", ".join(f"{name} {s} x {b} B" for name, (b, s) in held.items())
                raise DoesNotFitError(
                    f"{operator}: tiles need {total} B, memories.{kind}.staging_bytes is "
                    f"{capacity} B, {total - capacity} B too many: {tiles}"
                )


def _memory(places: Sequence[str]) -> str:
    if tuple(places) == (BUFFER,):
        return BUFFER
    return f"memory of a PE ({', '.join(places)})"


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
