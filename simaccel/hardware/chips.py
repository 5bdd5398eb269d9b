"""Chips on links: topologies, and the pure cost of a collective on them.

A collective goes in steps: in each one every chip sends a message and waits until the one that
comes to it is there, ``ceil(bytes / link bytes per cycle) + latency_cycles`` cycles. The pieces of
a tensor are padded to one size, as libraries do it, so that all chips do the same in each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

from simaccel.hardware.links import LinksSpec, LinkTopology
from simaccel.hardware.quantity import Rate

Collective = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "point_to_point"]
COLLECTIVES: Final[tuple[Collective, ...]] = get_args(Collective)
LinkAct = Literal[Collective, "send", "receive"]
"""What links do: a collective, or what one chip of two does of a message from point to point."""
LINK_ACTS: Final[tuple[LinkAct, ...]] = (*COLLECTIVES, "send", "receive")
_LARGEST_CHUNK: Final = 2**20
_TILES_OF_A_CHUNK: Final = 8
_PAIR: Final = 2
"""Chips of a ring that have one neighbour, on both sides."""
Messages = tuple[int, ...]
"""Bytes that a chip sends over one link, one step after the other."""


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


@dataclass(frozen=True)
class ChipPod:
    """Chips of one kind in a shape, and the links of each.

    Chip numbers count the last dimension of ``shape`` first; what is no torus has one.
    Collectives on a torus go dimension by dimension.
    """

    links: LinksSpec
    shape: tuple[int, ...] = (1,)

    @classmethod
    def from_links(cls, links: LinksSpec, chips: tuple[int, ...] | int) -> Self:
        """Return so many chips, or chips of such a shape, on some links.

        >>> torus = LinksSpec(topology="torus", dimensions=2, bytes_per_second=1)
        >>> ChipPod.from_links(torus, 8).shape
        (2, 4)
        """
        return cls(links, links.shape((chips,) if isinstance(chips, int) else chips))

    @property
    def count(self) -> int:
        """Number of chips."""
        return math.prod(self.shape)

    @property
    def topology(self) -> LinkTopology:
        """The kind of links."""
        return self.links.topology

    @property
    def neighbours(self) -> int:
        """Chips (or the switch) that links lead to from a chip."""
        if self.topology == "all_to_all":
            return self.count - 1
        if self.topology == "switch":
            return min(self.count - 1, 1)
        return sum(min(size - 1, 2) for size in self.shape)

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Numbers of chips that equal groups of them can have, the smallest first.

        A group of a torus is a place in its first dimensions, a group of a ring is one chip or all.
        """
        if self.topology in ("all_to_all", "switch"):
            return tuple(n for n in range(1, self.count + 1) if self.count % n == 0)
        products = (math.prod(self.shape[at:]) for at in range(len(self.shape) + 1))
        return tuple(sorted(dict.fromkeys(products)))

    def group(self, size: int) -> ChipPod:
        """Return the chips of one of equal groups of a size that is one of ``group_sizes``."""
        sizes = [*self.shape] if self.topology == "torus" else [size]
        while math.prod(sizes) > size:
            sizes.pop(0)
        return ChipPod(self.links, tuple(sizes) or (1,))

    def hops(self, first: int, second: int) -> int:
        """Return over how many links a message goes from one chip to another, by the shortest way.

        >>> pod = ChipPod(LinksSpec(topology="torus", dimensions=2), (2, 4))
        >>> pod.hops(0, 3), pod.hops(0, 6)
        (1, 3)
        """
        if self.topology in ("all_to_all", "switch"):
            return int(first != second)
        hops = 0
        for size in reversed(self.shape):
            apart = abs(first % size - second % size)
            hops += min(apart, size - apart)
            first, second = first // size, second // size
        return hops

    def link_rate(self, clock_hz: int) -> Rate:
        """Bytes per cycle from a chip to one neighbour."""
        return self.links.rate(clock_hz)

    def chunk(self, capacity_bytes: int | None) -> int:
        """Bytes of a tensor that are taken at once, beside a buffer of so many."""
        if self.links.chunk_bytes is not None:
            return self.links.chunk_bytes
        room = _LARGEST_CHUNK if capacity_bytes is None else capacity_bytes // _TILES_OF_A_CHUNK
        return max(1, min(_LARGEST_CHUNK, room))

    def rings(self, axes: Sequence[ChipAxis]) -> tuple[int, ...] | None:
        """Return the sizes of the dimensions that chips of some axes are in; None if of parts.

        >>> pod = ChipPod(LinksSpec(topology="torus", dimensions=2), (2, 4))
        >>> pod.rings([ChipAxis(1, 8)]), pod.rings([ChipAxis(4, 2)]), pod.rings([ChipAxis(1, 2)])
        ((4, 2), (2,), None)
        """
        if self.topology in ("all_to_all", "switch"):
            return (math.prod(axis.size for axis in axes),)
        whole: dict[int, int] = {}
        stride = 1
        for size in reversed(self.shape):
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

        >>> ring = ChipPod(LinksSpec(algorithm="ring"), (4,))
        >>> ring.messages("all_reduce", 10, (4,)), ring.messages("all_to_all", 8, (4,))
        ((3, 3, 3, 3, 3, 3), (6, 4, 2))
        >>> ChipPod(LinksSpec(), (4,)).messages("all_gather", 10, (4,))
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
        if self.links.runs == "direct" or size == _PAIR:
            yield piece
        elif self.links.runs == "ring":
            yield from (piece,) * (size - 1)
        elif self.links.runs == "halving_doubling":
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
        if self.links.runs == "direct" or size == _PAIR:
            yield piece
        elif self.topology == "switch":
            yield from (piece,) * (size - 1)
        elif self.links.runs == "ring":
            yield from (piece * left for left in range(size - 1, 0, -1))
        else:
            far, odd = size // 2, size % 2
            half = 0 if odd else -(-piece // 2)  # of what is for the chip opposite
            whole = far if odd else far - 1
            for step in range(far):
                yield piece * (whole - step if whole > step else 0) + half

    def cycles(self, kind: Collective, n_bytes: int, rings: Sequence[int], clock_hz: int) -> int:
        """Cycles of a collective.

        >>> links = LinksSpec(algorithm="ring", bytes_per_second="2 GB/s", hop_cycles=5)
        >>> ChipPod(links, (4,)).cycles("all_reduce", 10, (4,), 10**9)
        42
        """
        link = self.link_rate(clock_hz)
        return sum(
            link.cycles(n) + self.links.hop_cycles for n in self.messages(kind, n_bytes, rings)
        )

    def sent_bytes(self, kind: Collective, n_bytes: int, rings: Sequence[int]) -> int:
        """Bytes that a chip sends over all its links, those that it hands on for others included.

        >>> ChipPod(LinksSpec(), (4,)).sent_bytes("all_gather", 16, (4,))
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
        if self.links.runs == "direct":
            return piece * (size - 1)
        if self.links.runs != "bidirectional_ring" or size == _PAIR:
            return one_way
        # the odd last byte of a halved piece goes one way only, over half of the ring
        return 2 * one_way - (0 if size % 2 else (piece % 2) * (size // 2))
