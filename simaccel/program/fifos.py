"""FIFOs: slots between a memory and the array that operators use one after the other.

Where a memory beside the DRAM has a ``fifo``, an operator whose tiles of it are one by name, only
loaded, and taken by a systolic array alone, takes their slots from a FIFO of so many of that size.
All operators with the same FIFO share its slots; others have slots of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.program.fit import rings
from simaccel.program.operators import operators_with_tiles
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
    """So many ``slots`` of ``n_bytes`` for tiles of a class, which come by one queue."""

    kind: str
    n_bytes: int
    slots: int
    queue: int

    @property
    def name(self) -> str:
        """The name under which an engine waits for a free slot."""
        return f"{self.kind} FIFO ({self.slots} x {self.n_bytes} B)"


def fifos(program: Program, accelerator: Accelerator) -> dict[str, dict[str, Fifo]]:
    """Return the FIFOs of each operator: operator -> name of the tiles -> FIFO."""
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
    """Return whether a systolic array alone takes tiles, as inputs."""
    return bool(touching) and all(
        isinstance(one, Compute) and isinstance(one.on, Folds) and one.out.name != name
        for one in touching
    )
