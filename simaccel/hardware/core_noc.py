"""The NoC between memories and cores: topologies, routes, links and their names.

Memories are at router 0, that of core 0. Each hop is a link, including the last one from a router
into its core. Links are one-way, except for a bus, which is one link for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar, Final, Literal, get_args

from simaccel.hardware.quantity import Count, Cycles, Picojoules, Rate
from simaccel.hardware.spec import Spec

CoreTopology = Literal["bus", "crossbar", "ring", "mesh"]
CORE_NOC: Final = "core_noc"
"""Prefix of its links' names, and the cause that waits for them are booked to."""
HOPS: Final = "hops"
"""The level that counts bytes times links crossed."""
HOP_WAYS: Final = (f"{HOPS}_read", f"{HOPS}_write")
HOPS_READ, HOPS_WRITE = HOP_WAYS
_FIGURES = ("shape", "link_bytes_per_cycle", "hop_cycles", "pj_per_bit_hop")


class CoreNocSpec(Spec):
    """The NoC from memories to cores. Without a ``topology`` it takes no time.

    ``multicast``: a load that several cores need alike is read once for all, as soon as each has a
    free slot. A link carries ``link_bytes_per_cycle``, with a latency of ``hop_cycles``.

    - ``bus``: one link that all cores share, both ways.
    - ``crossbar``: two links per core, one each way.
    - ``ring``, ``mesh``: a router per core, two links between neighbours. Routes take the shorter
      way round (of equal ones upwards), or go along the row and then the column. ``shape``: rows
      and columns of a mesh; by default the squarest, with no more rows than columns.
    """

    OMITTED: ClassVar = _FIGURES

    multicast: bool = False
    topology: CoreTopology | None = None
    shape: tuple[Count, Count] | None = None
    link_bytes_per_cycle: Count | None = None
    hop_cycles: Cycles = 0
    pj_per_bit_hop: Picojoules | None = None

    @property
    def absent(self) -> set[str]:
        """The fields that are not set."""
        return super().absent | (set() if self.topology else {"topology", "hop_cycles"})

    def _impossible(self) -> Iterator[tuple[str, str]]:
        """Yield fields that contradict others, each with its allowed values."""
        if self.topology is None and any(getattr(self, name) for name in _FIGURES):
            yield "topology", ", ".join(get_args(CoreTopology))
        if self.topology is not None and self.link_bytes_per_cycle is None:
            yield "link_bytes_per_cycle", "the bytes that a link carries in a cycle"
        if self.topology not in (None, "mesh") and self.shape is not None:
            yield "shape", "nothing: only a mesh has a shape"

    @property
    def rate(self) -> Rate:
        """Bytes per cycle of a link."""
        return Rate(self.link_bytes_per_cycle or 1, 1)

    def links(self, core: int, count: int, *, write: bool) -> tuple[str, ...]:
        """Return the links from memories to one of ``count`` cores, or (``write``) from it to them.

        >>> mesh = CoreNocSpec(topology="mesh", link_bytes_per_cycle=8)
        >>> mesh.links(3, 4, write=False)
        ('core_noc_0_1', 'core_noc_1_3', 'core_noc_to3')
        >>> mesh.links(3, 4, write=True)
        ('core_noc_from3', 'core_noc_3_2', 'core_noc_2_0')
        """
        if self.topology is None:
            return ()
        if self.topology == "bus":
            return (f"{CORE_NOC}_bus",)
        own = f"{CORE_NOC}_{'from' if write else 'to'}{core}"
        if self.topology == "crossbar":
            return (own,)
        route = [*self._route(core, 0, count)] if write else [*self._route(0, core, count)]
        between = [f"{CORE_NOC}_{start}_{end}" for start, end in pairwise(route)]
        return (own, *between) if write else (*between, own)

    def _route(self, start: int, end: int, count: int) -> Iterator[int]:
        """Yield the routers on the route from one to another, both included."""
        yield start
        if self.topology == "ring":
            upwards = (end - start) % count
            step, hops = min((1, upwards), (-1, count - upwards), key=lambda way: way[1])
            yield from ((start + step * at) % count for at in range(1, hops + 1))
            return
        columns = (self.shape or squarest(count))[1]
        (row, column), (last_row, last_column) = divmod(start, columns), divmod(end, columns)
        yield from (row * columns + at for at in _steps(column, last_column))
        yield from (at * columns + last_column for at in _steps(row, last_row))


def squarest(count: int) -> tuple[int, int]:
    """Return the rows and columns of the squarest mesh with ``count`` routers.

    >>> squarest(12), squarest(7)
    ((3, 4), (1, 7))
    """
    rows = next(n for n in range(int(count**0.5), 0, -1) if count % n == 0)
    return rows, count // rows


def _steps(start: int, end: int) -> range:
    """Return the routers on the way from ``start`` (not included) to ``end``."""
    step = 1 if end >= start else -1
    return range(start + step, end + step, step)
