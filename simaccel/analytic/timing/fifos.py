"""FIFOs between a memory and the array, whose slots groups have in turn (decision 0043).

From the mapping alone: a tensor of a memory with a ``fifo`` that is the only one of its class in
the buffer, only loaded, and taken by a systolic array alone, takes its slots from a FIFO of so many
of that size. Groups with the same FIFO share its slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simaccel.analytic.bodies import RING, Bodies, Tiled
from simaccel.analytic.family import Floats
from simaccel.analytic.timing.times import Times
from simaccel.analytic.totals import Counts
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import BUFFER


@dataclass(frozen=True)
class Slots:
    """So many slots of ``n_bytes`` for tiles of a class, which come by one queue."""

    kind: str
    n_bytes: int
    n_slots: int
    queue: int


def slots_of(top: Bodies, counts: Counts, accelerator: Accelerator) -> dict[str, Slots]:
    """Return the FIFOs of a group by the names of the tensors that come through them."""
    kinds = [kind for kind, memory in accelerator.memories.by_class().items() if memory.fifo]
    if not kinds or not accelerator.groups.overlap:
        return {}
    found = {}
    for kind in kinds:
        here = {
            name: (int(n_bytes), int(n_slots))
            for (place, name), (n_bytes, n_slots) in counts.tiles.items()
            if place == BUFFER and counts.kinds[place, name] == kind and int(n_slots)
        }
        for name, (n_bytes, n_slots) in here.items() if len(here) == 1 else ():
            queue = _queue(top, name, counts.moved)
            if queue is not None:
                found[name] = Slots(kind, n_bytes, n_slots, queue)
    return found


def _queue(top: Bodies, name: str, moved: Mapping[tuple[str, str], object]) -> int | None:
    """Return the queue of a tensor that is loaded for the array and nothing else."""
    tiles = [tiled for tiled in _tiles(top) if tiled.tensor == name]
    keys, queues = {tiled.key for tiled in tiles}, {tiled.queue for tiled in tiles}
    users = {work.do.unit for work in top.works if keys & set(work.keys)}
    made = any(tiled.maker is not None or tiled.outside is not None for tiled in tiles)
    if made or len(queues) != 1 or users != {"array"} or ("dram_write", name) in moved:
        return None
    return queues.pop()


def _tiles(body: Bodies) -> Iterator[Tiled]:
    """Yield the tiles of a body and of all inside."""
    yield from body.tiles
    for item in body.items:
        if isinstance(item, Bodies):
            yield from _tiles(item)


def released(times: Times, top: Bodies, name: str) -> list[Floats]:
    """Return when the slots of a tensor were released, the latest first."""
    key = next(tiled.key for tiled in _tiles(top) if tiled.tensor == name)
    return [times[key, n] for n in range(1, RING + 1) if (key, n) in times]


def taken_over(times: Times, top: Bodies, slots: Mapping[str, list[Floats]]) -> None:
    """Let tensors have slots that the group before had, released when they were."""
    for tiled in _tiles(top):
        for n, time in enumerate(slots.get(tiled.tensor, ()), 1):
            times[tiled.key, n] = time
