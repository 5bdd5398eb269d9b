"""Chips on links: pods of one shape, and which of their links a collective or message uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Final, NamedTuple, Self

from simaccel.hardware.collectives import (
    AxisForm,
    CollectiveCost,
    LinkAct,
    LinkAxis,
    collective_cost,
)
from simaccel.hardware.links import LinksSpec, LinkTopology
from simaccel.hardware.quantity import Rate, rate

LINK_CHANNEL: Final = "links"
"""What the name of a chip's links in one dimension begins with, as a channel of the machine."""


class ChipAxis(NamedTuple):
    """Chips that a collective runs over: every ``stride``-th, ``size`` of them."""

    stride: int
    size: int


@dataclass(frozen=True)
class ChipPod:
    """Equal chips arranged in a shape, and the links between them.

    Chip numbers are row-major: the last dimension of ``shape`` varies fastest. Only a torus has
    several dimensions. If ``shape`` has one dimension more than the links, the first one counts
    slices on a network, to which each chip has one link. ``before``: for a part of a torus, the
    number of leading dimensions in which all its chips have one coordinate. ``clock_hz``: of the
    chips.
    """

    links: LinksSpec
    shape: tuple[int, ...] = (1,)
    before: int = 0
    clock_hz: int = 10**9

    @classmethod
    def from_links(
        cls, links: LinksSpec, chips: tuple[int, ...] | int, clock_hz: int = 10**9
    ) -> Self:
        """Return a pod of a number of chips, or of a shape, on some links.

        >>> torus = LinksSpec(topology="torus", dimensions=2, bytes_per_second=1)
        >>> ChipPod.from_links(torus, 8).shape
        (2, 4)
        """
        shape = links.shape((chips,) if isinstance(chips, int) else chips)
        return cls(links, shape, clock_hz=clock_hz)

    @property
    def count(self) -> int:
        """Number of chips."""
        return math.prod(self.shape)

    @property
    def is_sliced(self) -> bool:
        """Whether dimension 0 is that of slices on a network."""
        return self.links.has_network and len(self.shape) + self.before > self.links.dimensions

    @property
    def slices(self) -> int:
        """Number of slices."""
        return self.shape[0] if self.is_sliced and not self.before else 1

    @property
    def slice_shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions of a slice."""
        return self.shape[1:] if self.is_sliced and not self.before else self.shape

    @property
    def topology(self) -> LinkTopology:
        """The kind of links."""
        return self.links.topology

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
        sizes = [*self.shape] if self.topology == "torus" or self.is_sliced else [size]
        while math.prod(sizes) > size:
            sizes.pop(0)
        before = len(self.shape) - len(sizes)
        return ChipPod(self.links, tuple(sizes) or (1,), before, self.clock_hz)

    def route(self, first: int, second: int) -> tuple[LinkAxis, ...]:
        """Return over how many links of each dimension a message goes, by the shortest way.

        Between slices it goes over the network alone, to which each chip has a link.

        >>> pod = ChipPod(LinksSpec(topology="torus", dimensions=2, closes_at=4), (3, 4))
        >>> [(one.number, one.size) for one in pod.route(0, 11)], pod.hops(0, 11)
        ([(0, 2), (1, 1)], 3)
        """
        if self.topology in ("all_to_all", "switch"):
            return (LinkAxis(1, self.topology),) if first != second else ()
        of_slice = self.count // self.slices
        if first // of_slice != second // of_slice:
            return (LinkAxis(1, "switch", 0),)
        ways: list[LinkAxis] = []
        for number, size in reversed(list(enumerate(self.shape, self.before))):
            apart = abs(first % size - second % size)
            hops = min(apart, size - apart) if self.links.closes(size) else apart
            if hops:
                ways.insert(0, LinkAxis(hops, self._form(size, number), number))
            first, second = first // size, second // size
        return tuple(ways)

    def hops(self, first: int, second: int) -> int:
        """Return over how many links a message goes from one chip to another."""
        return sum(axis.size for axis in self.route(first, second))

    def _form(self, size: int, number: int) -> AxisForm:
        if self.topology in ("all_to_all", "switch"):
            return self.topology
        if self._is_network(number):
            return "switch"
        return "ring" if self.links.closes(size) else "line"

    @property
    def link_rate(self) -> Rate:
        """Bytes per cycle from a chip to one neighbour."""
        return self.links.rate(self.clock_hz)

    def _is_network(self, number: int) -> bool:
        """Return whether a dimension is that of slices."""
        return self.is_sliced and number == 0

    def axis_rate(self, axis: LinkAxis) -> Rate:
        """Return the bytes per cycle of a link of a dimension, one way."""
        if self._is_network(axis.number):
            return rate(self.links.network_bytes_per_second, self.clock_hz)
        return self.link_rate

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the links of a chip, by dimension."""
        return tuple(f"{LINK_CHANNEL}{number}" for number, _ in enumerate(self.shape, self.before))

    @property
    def links_of_chip(self) -> float:
        """Links that lead from a chip, on average of all.

        >>> ChipPod(LinksSpec(topology="torus", dimensions=2), (2, 4)).links_of_chip
        3.0
        """
        numbered = enumerate(self.shape, self.before)
        axes = (LinkAxis(size, self._form(size, at)) for at, size in numbered if size > 1)
        return float(sum(axis.links for axis in axes))

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """Orders in which chip numbers may count the dimensions, as written first.

        Those that differ in nothing but dimensions of one size or one chip are one. A network is
        first; of chips that are part of a torus there is one order.

        >>> torus = LinksSpec(topology="torus", dimensions=3)
        >>> ChipPod(torus, (2, 3, 2)).orders, ChipPod(torus, (4, 4, 1)).orders
        (((0, 1, 2), (0, 2, 1), (1, 0, 2)), ((0, 1, 2),))
        """
        numbers = tuple(range(self.before, self.before + len(self.shape)))
        first = 1 if self.is_sliced else 0
        possible = permutations(numbers[first:]) if not self.before else [numbers[first:]]
        orders: dict[tuple[int, ...], tuple[int, ...]] = {}
        for order in possible:
            sizes = (self.shape[number - self.before] for number in order)
            orders.setdefault(tuple(n for n in sizes if n > 1), (*numbers[:first], *order))
        return tuple(orders.values())

    def axes(
        self, axes: Sequence[ChipAxis], order: Sequence[int] | None = None
    ) -> tuple[LinkAxis, ...] | None:
        """Return the dimensions that chips of some axes are in; None if they are in parts of none.

        ``order``: one of `orders`, by default as the shape is written.

        Neighbours in a part of a dimension are a line, of which no other one uses the links; every
        second chip of a dimension shares its links with those between.

        >>> pod = ChipPod(LinksSpec(topology="torus", dimensions=2, closes_at=4), (2, 4))
        >>> [(one.size, one.form, one.number) for one in pod.axes([ChipAxis(1, 8)])]
        [(4, 'ring', 1), (2, 'line', 0)]
        >>> [(one.size, one.form, one.number) for one in pod.axes([ChipAxis(1, 2)])]
        [(2, 'line', 1)]
        >>> [(one.size, one.stride) for one in pod.axes([ChipAxis(2, 2)])]
        [(2, 2)]
        >>> pod.axes([ChipAxis(1, 3)])
        >>> [(one.size, one.number) for one in pod.axes([ChipAxis(1, 2)], order=(1, 0))]
        [(2, 0)]
        """
        if self.topology in ("all_to_all", "switch"):
            return (LinkAxis(math.prod(axis.size for axis in axes), self.topology),)
        dimensions: list[LinkAxis] = []
        order = order or range(self.before, self.before + len(self.shape))
        for axis in axes:
            at, left = axis.stride, axis.size
            while left > 1:
                dimension = self._dimension(at, left, order)
                if dimension is None:
                    return None
                dimensions.append(dimension)
                at, left = at * dimension.size, left // dimension.size
        return tuple(dimensions)

    def _dimension(self, stride: int, count: int, order: Sequence[int]) -> LinkAxis | None:
        """Return the part of a dimension on which ``count`` chips lie first, or None.

        ``stride``: between their numbers; ``order``: of the dimensions in chip numbers.
        """
        within = 1
        for number in reversed(order):
            size = self.shape[number - self.before]
            apart, rest = divmod(stride, within)
            if within <= stride < within * size and rest == 0 and size % apart == 0:
                chips, form = size // apart, self._form(size, number)
                if count % chips == 0:
                    return LinkAxis(chips, form, number, apart)
                if chips % count == 0:
                    form = "switch" if form == "switch" else "line"
                    return LinkAxis(count, form, number, apart)
            within *= size
        return None

    def cost(self, kind: LinkAct, n_bytes: int, axes: Sequence[LinkAxis]) -> CollectiveCost:
        """Return what links do: of a message each link of its way has all of its bytes."""
        if kind == "receive":
            return CollectiveCost((0,) * len(axes), 0, 0, 0)
        if kind in ("send", "point_to_point"):
            links = sum(axis.size for axis in axes)
            return CollectiveCost((n_bytes,) * len(axes), n_bytes * links, links, 0)
        if not any(self._is_network(axis.number) for axis in axes):
            return collective_cost(kind, n_bytes, tuple(axes))
        slow = self.links.network_share
        rates = tuple(slow if self._is_network(axis.number) else Fraction(1) for axis in axes)
        return collective_cost(kind, n_bytes, tuple(axes), rates)

    def link_cycles(
        self, kind: LinkAct, n_bytes: int, axes: Sequence[LinkAxis]
    ) -> tuple[tuple[str, int], ...]:
        """Return how many cycles the links of each dimension are busy, by channel."""
        cost = self.cost(kind, n_bytes, axes)
        return tuple(
            (f"{LINK_CHANNEL}{axis.number}", self.axis_rate(axis).cycles(n))
            for axis, n in zip(axes, cost.link_bytes, strict=True)
        )

    def lag_cycles(self, kind: LinkAct, axes: Sequence[LinkAxis]) -> int:
        """Return the cycles from when the last byte has left until all is there."""
        across = [axis for axis in axes if self._is_network(axis.number)]
        far, links = self.cost(kind, 0, across).hops if across else 0, self.links
        hops = self.cost(kind, 0, axes).hops - far
        start = links.start_cycles * (hops > 0) + links.network_start_cycles * far
        return start + hops * links.hop_cycles

    def cycles(self, kind: LinkAct, n_bytes: int, axes: Sequence[LinkAxis]) -> int:
        """Return the cycles of a collective alone, until all is there.

        >>> links = LinksSpec(bytes_per_second="2 GB/s", start_cycles=7, hop_cycles=5)
        >>> ChipPod(links, (4,)).cycles("all_reduce", 16, (LinkAxis(4),))
        33
        """
        busy = [n for _, n in self.link_cycles(kind, n_bytes, axes)]
        return max(busy, default=0) + self.lag_cycles(kind, axes)
