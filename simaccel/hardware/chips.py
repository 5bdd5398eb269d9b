"""Chips on links: topologies, and the pure cost of a collective on them.

A collective goes in steps: in each one every chip sends a message and waits until the one that
comes to it is there, ``ceil(bytes / link bytes per cycle) + latency_cycles`` cycles. The pieces of
a tensor are padded to one size, as libraries do it, so that all chips do the same in each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    Field,
)

from simaccel.hardware.quantity import (
    Amount,
    Bytes,
    BytesPerSecond,
    Count,
    Cycles,
    Picojoules,
    Rate,
    rate,
)
from simaccel.hardware.spec import Spec, unset_fields
from simaccel.numbers import BYTE
from simaccel.units import LINK

LinkTopology = Literal["ring", "torus", "all_to_all", "switch"]
Algorithm = Literal["ring", "bidirectional_ring", "halving_doubling", "direct"]
Collective = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "point_to_point"]
COLLECTIVES: Final[tuple[Collective, ...]] = get_args(Collective)
LinkAct = Literal[Collective, "send", "receive"]
"""What links do: a collective, or what one chip of two does of a message from point to point."""
LINK_ACTS: Final[tuple[LinkAct, ...]] = (*COLLECTIVES, "send", "receive")
_ALGORITHMS: Final[dict[str, tuple[Algorithm, ...]]] = {
    "ring": ("bidirectional_ring", "ring"),
    "torus": ("bidirectional_ring", "ring"),
    "all_to_all": ("direct",),
    "switch": ("ring", "halving_doubling"),
}
"""By topology what can run on it; the first is what does where nothing is said."""
_MOST_CHIPS: Final = 4096
_LARGEST_CHUNK: Final = 2**20
_TILES_OF_A_CHUNK: Final = 8
_PAIR: Final = 2
"""Chips of a ring that have one neighbour, on both sides."""
LINK_SENT: Final = "link_write"
"""Level and direction of what a chip sends, in counts of bytes."""
Messages = tuple[int, ...]
"""Bytes that a chip sends over one link, one step after the other."""


def algorithms(topology: object) -> tuple[Algorithm, ...]:
    """Return what collectives can run on a topology, the default first; nothing of an unknown one.

    >>> algorithms("switch")
    ('ring', 'halving_doubling')
    """
    return _ALGORITHMS.get(topology, ()) if isinstance(topology, str) else ()


class ChipAxis(tuple[int, int]):
    """Chips that a collective runs over: every ``stride``-th, ``size`` of them."""

    __slots__ = ()

    def __new__(cls, stride: int, size: int) -> Self:
        """Make one of its stride and size."""
        return super().__new__(cls, (stride, size))

    @property
    def stride(self) -> int:
        """Distance of one chip from the next, in chip numbers."""
        return self[0]

    @property
    def size(self) -> int:
        """Number of chips."""
        return self[1]


class ChipsSpec(Spec):
    """Chips of one kind on links.

    A link carries ``link_bytes_per_second`` one way, and a message arrives ``latency_cycles`` after
    it was sent. ``links_per_direction`` links lead from a chip to each neighbour (of a ring and a
    torus: one before and one after in each dimension; all to all: every other chip; of a switch:
    to the switch). ``shape`` is that of a torus; chip numbers count its last dimension first.
    Collectives on a torus go dimension by dimension. ``chunk_bytes``: what a chip takes of a tensor
    at once; by default 1 MiB, or an eighth of the buffer where that is less.

    ``ring``: pieces go round one way (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms
    for clusters of workstations", 2009). ``bidirectional_ring``: both ways at once, each piece by
    the shorter one (Chan et al., "Collective communication: theory, practice, and experience",
    2007). ``halving_doubling``: Thakur, Rabenseifner and Gropp, "Optimization of collective
    communication operations in MPICH", 2005. ``direct``: each chip sends to each other one at once.
    """

    count: Annotated[Count, Field(le=_MOST_CHIPS)] = 1
    topology: LinkTopology = "ring"
    shape: tuple[Count, ...] | None = None
    link_bytes_per_second: BytesPerSecond = None
    latency_cycles: Cycles = 0
    links_per_direction: Count = 1
    algorithm: Algorithm | None = None
    chunk_bytes: Bytes | None = None
    pj_per_bit: Picojoules | None = None

    @property
    def absent(self) -> set[str]:
        """Fields that are not set."""
        return unset_fields(self, "shape", "algorithm", "chunk_bytes", "pj_per_bit")

    def _impossible(self) -> Iterator[tuple[str, str]]:
        """Yield fields that contradict others, and what is allowed there."""
        if self.algorithm is not None and self.algorithm not in _ALGORITHMS[self.topology]:
            yield "algorithm", f"{' or '.join(_ALGORITHMS[self.topology])}, on a {self.topology}"
        if self.shape is not None and self.topology != "torus":
            yield "shape", "nothing: only a torus has a shape"
        if self.topology == "torus" and math.prod(self.shape or (0,)) != self.count:
            yield "shape", f"sizes whose product is chips.count, {self.count}"
        if self.algorithm == "halving_doubling" and self.count & (self.count - 1):
            yield "count", "a power of two with halving_doubling"
        if self.count > 1 and "link_bytes_per_second" not in self.model_fields_set:
            yield "link_bytes_per_second", "a bandwidth of each link one way, or unlimited"

    @property
    def runs(self) -> Algorithm:
        """The algorithm of its collectives."""
        return self.algorithm or _ALGORITHMS[self.topology][0]

    @property
    def neighbours(self) -> int:
        """Chips (or the switch) that links lead to from a chip."""
        if self.topology == "all_to_all":
            return self.count - 1
        if self.topology == "switch":
            return min(self.count - 1, 1)
        return sum(min(size - 1, 2) for size in self.shape or (self.count,))

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Numbers of chips that equal groups of them can have, the smallest first.

        A group of a torus is a place in its first dimensions, a group of a ring is one chip or all.
        """
        if self.topology in ("all_to_all", "switch"):
            return tuple(n for n in range(1, self.count + 1) if self.count % n == 0)
        sizes: Sequence[int] = self.shape or (self.count,)
        products = (math.prod(sizes[at:]) for at in range(len(sizes) + 1))
        return tuple(sorted(dict.fromkeys(products)))

    def group(self, size: int) -> ChipsSpec:
        """Return the chips of one of equal groups of a size that is one of ``group_sizes``."""
        fields = self.model_dump(exclude_unset=True) | {"count": size}
        if self.topology == "torus":
            sizes = [*(self.shape or ())]
            while math.prod(sizes) > size:
                sizes.pop(0)
            fields |= {"shape": tuple(sizes) or (1,)}
        return ChipsSpec.model_validate(fields)

    def hops(self, first: int, second: int) -> int:
        """Return over how many links a message goes from one chip to another, by the shortest way.

        >>> pod = ChipsSpec(count=8, topology="torus", shape=(2, 4), link_bytes_per_second=1)
        >>> pod.hops(0, 3), pod.hops(0, 6)
        (1, 3)
        """
        if self.topology in ("all_to_all", "switch"):
            return int(first != second)
        hops = 0
        for size in reversed(self.shape or (self.count,)):
            apart = abs(first % size - second % size)
            hops += min(apart, size - apart)
            first, second = first // size, second // size
        return hops

    def link_rate(self, clock_hz: int) -> Rate:
        """Bytes per cycle from a chip to one neighbour."""
        per_second = self.link_bytes_per_second
        total = None if per_second is None else per_second * self.links_per_direction
        return rate(total, clock_hz)

    def chunk(self, capacity_bytes: int | None) -> int:
        """Bytes of a tensor that are taken at once, beside a buffer of so many."""
        if self.chunk_bytes is not None:
            return self.chunk_bytes
        room = _LARGEST_CHUNK if capacity_bytes is None else capacity_bytes // _TILES_OF_A_CHUNK
        return max(1, min(_LARGEST_CHUNK, room))

    def rings(self, axes: Sequence[ChipAxis]) -> tuple[int, ...] | None:
        """Return the sizes of the dimensions that chips of some axes are in; None if of parts.

        >>> pod = ChipsSpec(count=8, topology="torus", shape=(2, 4), link_bytes_per_second=1)
        >>> pod.rings([ChipAxis(1, 8)]), pod.rings([ChipAxis(4, 2)]), pod.rings([ChipAxis(1, 2)])
        ((4, 2), (2,), None)
        """
        if self.topology in ("all_to_all", "switch"):
            return (math.prod(axis.size for axis in axes),)
        whole: dict[int, int] = {}
        stride = 1
        for size in reversed(self.shape or (self.count,)):
            if size > 1:
                whole[stride] = size
            stride *= size
        rings = []
        for axis in axes:
            at, left = axis.stride, axis.size
            while left > 1:
                size = whole.get(at, 0)
                if not size or left % size:
                    return None
                rings.append(size)
                at, left = at * size, left // size
        return tuple(rings)

    def messages(self, kind: Collective, n_bytes: int, rings: Sequence[int]) -> Messages:
        """Return what a chip sends over one link, step by step.

        ``n_bytes``: of the tensor where a chip has most of it: before a reduce-scatter, after an
        all-gather. Of an all-to-all: what each chip has. On rings of several sizes a reduce-scatter
        goes over the first ring first, an all-gather over the last one.

        >>> ring = ChipsSpec(count=4, algorithm="ring", link_bytes_per_second=1)
        >>> ring.messages("all_reduce", 10, (4,)), ring.messages("all_to_all", 8, (4,))
        ((3, 3, 3, 3, 3, 3), (6, 4, 2))
        >>> ChipsSpec(count=4, link_bytes_per_second=1).messages("all_gather", 10, (4,))
        (3, 2)
        """
        if kind == "all_reduce":
            gathered = self.messages("all_gather", n_bytes, rings)
            return (*gathered[::-1], *gathered)
        if kind == "reduce_scatter":
            return self.messages("all_gather", n_bytes, rings)[::-1]
        if kind == "point_to_point":
            return (n_bytes,)
        if kind == "all_to_all":
            return tuple(n for size in rings for n in self._swap(n_bytes, size))
        sizes = [n_bytes]
        for size in rings:
            sizes.append(-(-sizes[-1] // size))
        pairs = list(zip(sizes[1:], rings, strict=True))
        return tuple(n for piece, size in pairs[::-1] for n in self._gather(piece, size))

    def _gather(self, piece: int, size: int) -> Iterator[int]:
        """Yield the messages of an all-gather of pieces on one ring."""
        if size == 1:
            return
        if self.runs == "direct" or size == _PAIR:
            yield piece
        elif self.runs == "ring":
            yield from (piece,) * (size - 1)
        elif self.runs == "halving_doubling":
            yield from (piece << step for step in range((size - 1).bit_length()))
        else:
            yield from (piece,) * ((size - 1) // 2)
            if size % 2 == 0:  # from the other side comes the other half of the last piece
                yield -(-piece // 2)

    def _swap(self, n_bytes: int, size: int) -> Iterator[int]:
        """Yield the messages of an all-to-all on one ring: all that is still on its way."""
        piece = -(-n_bytes // size)
        if size == 1:
            return
        if self.runs == "direct" or size == _PAIR:
            yield piece
        elif self.topology == "switch":
            yield from (piece,) * (size - 1)
        elif self.runs == "ring":
            yield from (piece * left for left in range(size - 1, 0, -1))
        else:
            far, odd = size // 2, size % 2
            half = 0 if odd else -(-piece // 2)  # of what is for the chip opposite
            whole = far if odd else far - 1
            for step in range(far):
                yield piece * (whole - step if whole > step else 0) + half

    def cycles(self, kind: Collective, n_bytes: int, rings: Sequence[int], clock_hz: int) -> int:
        """Cycles of a collective.

        >>> spec = ChipsSpec(
        ...     count=4, algorithm="ring", link_bytes_per_second="2 GB/s", latency_cycles=5)
        >>> spec.cycles("all_reduce", 10, (4,), 10**9)
        42
        """
        link = self.link_rate(clock_hz)
        return sum(
            link.cycles(n) + self.latency_cycles for n in self.messages(kind, n_bytes, rings)
        )

    def sent_bytes(self, kind: Collective, n_bytes: int, rings: Sequence[int]) -> int:
        """Bytes that a chip sends over all its links, those that it hands on for others included.

        >>> ChipsSpec(count=4, link_bytes_per_second=1).sent_bytes("all_gather", 16, (4,))
        12
        """
        if kind == "point_to_point":
            return n_bytes
        if kind == "all_to_all":
            return sum(self._exchange_bytes(n_bytes, size) for size in rings)
        sent, whole = 0, n_bytes
        for size in rings:
            whole = -(-whole // size)
            sent += whole * (size - 1)
        return sent * (2 if kind == "all_reduce" else 1)

    def _exchange_bytes(self, n_bytes: int, size: int) -> int:
        """Return the bytes that a chip sends in an all-to-all on one ring."""
        piece, one_way = -(-n_bytes // size), sum(self._swap(n_bytes, size))
        if self.runs == "direct":
            return piece * (size - 1)
        if self.runs != "bidirectional_ring" or size == _PAIR:
            return one_way
        # the odd last byte of a halved piece goes one way only, over half of the ring
        return 2 * one_way - (0 if size % 2 else (piece % 2) * (size // 2))

    def energy_pj(self, moved: Mapping[tuple[str, str], Amount]) -> dict[str, Any]:
        """Energy of the links of a chip in pJ (``link``); NaN if it is not given.

        Nothing where nothing went over links. ``moved``: (level and direction, tensor) -> bytes.
        """
        sent = [n for (level, _), n in moved.items() if level == LINK_SENT]
        price = math.nan if self.pj_per_bit is None else self.pj_per_bit
        return {LINK: sum(sent) * BYTE * price} if sent else {}
