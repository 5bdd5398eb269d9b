"""FIFOs: slots between a memory and the array that successive operators share.

A memory beside the DRAM may have a ``fifo``. An operator takes its slots from the FIFO if it has
one tile (by name) from that memory, which is only loaded, and only read by a systolic array.
Operators with the same number, size and queue of slots share one FIFO; others have their own slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.program.fit import operators_with_tiles, rings
from simaccel.program.program import (
    BUFFER,
    Command,
    Compute,
    Folds,
    Load,
    Operator,
    Program,
    commands,
    tiles_of,
)


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
    """Return the FIFOs by operator and tile name."""
    kinds = [kind for kind, memory in accelerator.memories.by_class().items() if memory.fifo]
    found: dict[str, dict[str, Fifo]] = {}
    for operator, _ in operators_with_tiles(program.body):
        mine = found.setdefault(operator.name, {})
        for kind in kinds if accelerator.compiler.overlap else ():
            slots = rings(operator.body, operator.tiles, BUFFER, kind)
            fifo = _fifo(operator, kind, slots) if len(slots) == 1 else None
            if fifo is not None:
                mine[next(iter(slots))] = fifo
    return found


def _fifo(operator: Operator, kind: str, slots: dict[str, tuple[int, int]]) -> Fifo | None:
    ((name, (n_bytes, n_slots)),) = slots.items()
    touching = [
        command
        for command in commands(operator.body)
        if name in [tile.name for tile in tiles_of(command)]
    ]
    loads = [one for one in touching if isinstance(one, Load) and one.source is None]
    queues = {load.queue for load in loads}
    if len(queues) != 1 or not _only_read(name, [one for one in touching if one not in loads]):
        return None
    return Fifo(kind, n_bytes, n_slots, queues.pop())


def _only_read(name: str, touching: Sequence[Command]) -> bool:
    """Return whether a tile is only read, as an input of a systolic array."""
    return bool(touching) and all(
        isinstance(one, Compute) and isinstance(one.on, Folds) and one.out.name != name
        for one in touching
    )
