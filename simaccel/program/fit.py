"""Tiles that live while an operator runs, and slots that a program reserves in each memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from simaccel.hardware import Accelerator
from simaccel.program.program import (
    BUFFER,
    Compute,
    DoesNotFitError,
    Folds,
    Load,
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


ReservedSlots = dict[str, dict[str, tuple[int, int]]]
"""(bytes of a slot, slots) by operator and tile name."""


def reserved_slots(
    program: Program, places: Sequence[str] = (BUFFER,), kind: str | None = None
) -> ReservedSlots:
    """Return the slots in a memory, which has tiles of these ``places``.

    Tiles of enclosing bodies (resident intermediates) count from the first operator that uses them
    to the last. With ``kind`` only of tensors of that class.
    """
    slots_of: ReservedSlots = {}
    for operator, tiles in operators_with_tiles(program.body):
        own = slots_of.setdefault(operator.name, {})
        for place in places:
            placed = (t for t in tiles if t.place == place and kind in (None, t.view.kind))
            own |= {t.name: (t.n_bytes, t.slots) for t in placed}
            own |= rings(operator.body, operator.tiles, place, kind)
    return slots_of


def require_fit(program: Program, capacities: Mapping[tuple[str, ...], int | None]) -> None:
    """Refuse a program whose tiles exceed a memory.

    ``capacities``: bytes of each memory, by the places of tiles in it; None is unlimited.

    Raises:
        DoesNotFitError: the message names the operator and lists its tiles with their bytes.
    """
    for places, capacity in capacities.items():
        if capacity is not None:
            in_pe = tuple(places) != (BUFFER,)
            memory = f"memory of a PE ({', '.join(places)})" if in_pe else BUFFER
            _require(reserved_slots(program, places), capacity, f"the {memory} has")


def require_staged(program: Program, staging: Mapping[str, int | None]) -> None:
    """Refuse a program whose tiles from a memory exceed their staging bytes of the buffer.

    ``staging``: bytes by the class of the memory's tensors; None is unlimited.

    Raises:
        DoesNotFitError: the message names the operator and lists these tiles with their bytes.
    """
    for kind, capacity in staging.items():
        if capacity is not None:
            limit = f"memories.{kind}.staging_bytes is"
            _require(reserved_slots(program, kind=kind), capacity, limit)


def _require(slots_of: ReservedSlots, capacity: int, limit: str) -> None:
    for operator, held in slots_of.items():
        total = sum(n_bytes * slots for n_bytes, slots in held.values())
        if total > capacity:
            tiles = ", ".join(f"{name} {s} x {b} B" for name, (b, s) in held.items())
            raise DoesNotFitError(
                f"{operator}: tiles need {total} B, {limit} {capacity} B, "
                f"{total - capacity} B too many: {tiles}"
            )


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


@dataclass(frozen=True)
class Fifo:
    """A FIFO of ``slots`` slots of ``n_bytes`` for tiles of a class, loaded by one queue."""

    kind: str
    n_bytes: int
    slots: int
    queue: int

    @property
    def name(self) -> str:
        """The name of the FIFO in waits for a free slot."""
        return f"{self.kind} FIFO ({self.slots} x {self.n_bytes} B)"


def fifos(program: Program, accelerator: Accelerator) -> dict[str, dict[str, Fifo]]:
    """Return the FIFOs by operator and tile name: slots of a memory that operators share.

    A memory beside the DRAM may have a ``fifo``. An operator takes its slots from the FIFO if it
    has one tile (by name) from that memory, which is only loaded, and only read by a systolic
    array. Operators with the same number, size and queue of slots share one FIFO; others have their
    own slots.
    """
    kinds = [kind for kind, memory in accelerator.memories.by_class().items() if memory.fifo]
    by_operator: dict[str, dict[str, Fifo]] = {}
    for operator, _ in operators_with_tiles(program.body):
        own = by_operator.setdefault(operator.name, {})
        for kind in kinds if accelerator.compiler.overlap else ():
            slots = rings(operator.body, operator.tiles, BUFFER, kind)
            fifo = _fifo(operator, kind, slots) if len(slots) == 1 else None
            if fifo is not None:
                own[next(iter(slots))] = fifo
    return by_operator


def _fifo(operator: Operator, kind: str, slots: dict[str, tuple[int, int]]) -> Fifo | None:
    ((name, (n_bytes, n_slots)),) = slots.items()
    every = commands(operator.body)
    touching = [command for command in every if name in {t.name for t in tiles_of(command)}]
    loads = [use for use in touching if isinstance(use, Load) and use.source is None]
    others = [use for use in touching if use not in loads]
    is_read = bool(others) and all(  # as an input of a systolic array
        isinstance(use, Compute) and isinstance(use.on, Folds) and use.out.name != name
        for use in others
    )
    queues = {load.queue for load in loads}
    fits = is_read and len(queues) == 1
    return Fifo(kind, n_bytes, n_slots, queues.pop()) if fits else None
