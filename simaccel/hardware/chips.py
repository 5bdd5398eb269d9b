"""Chips on links: pods of one shape, and which of their links a collective or message uses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from operator import le
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
Numbering = tuple[tuple[int, int], ...]
"""Digits of chips' numbers: (dimension, chips along it), the most significant first."""
_MOST_BLOCKS: Final = 3
"""Forms of a block that are tried, those with the shortest sides first."""
_FEW_CHIPS, _SOME_CHIPS = 16, 64
"""Most chips that work beside idle ones: in any number, and by sides; linked as so many alone."""


class ChipAxis(NamedTuple):
    """Chips that a collective runs over: every ``stride``-th, ``size`` of them."""

    stride: int
    size: int


def runs(digits: Iterable[ChipAxis]) -> tuple[ChipAxis, ...]:
    """Return digits with adjacent ones joined, the least significant first.

    >>> runs([ChipAxis(8, 8), ChipAxis(1, 8)])
    (ChipAxis(stride=1, size=64),)
    >>> runs([ChipAxis(8, 2), ChipAxis(1, 4)])
    (ChipAxis(stride=1, size=4), ChipAxis(stride=8, size=2))
    """
    joined: list[ChipAxis] = []
    for digit in sorted(digits):
        last = joined[-1] if joined else None
        if last is not None and last.stride * last.size == digit.stride:
            joined[-1] = ChipAxis(last.stride, last.size * digit.size)
        else:
            joined.append(digit)
    return tuple(joined)


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

    def take_chips(self, count: int) -> ChipPod | None:
        """Return so many of the chips, linked as so many are; None if the shape isn't that rule's.

        >>> torus = LinksSpec(topology="torus", dimensions=2)
        >>> ChipPod.from_links(torus, 8).take_chips(6).shape, ChipPod(torus, (8, 1)).take_chips(6)
        ((2, 3), None)
        """
        is_plain = not self.before and self.shape == self.links.shape((self.count,))
        return ChipPod.from_links(self.links, count, self.clock_hz) if is_plain else None

    @property
    def split_counts(self) -> list[int]:
        """Numbers of pieces of work, the largest first: divisors, and if others may be idle."""
        return [n for n in range(self.count, 1, -1) if self.count % n == 0 or self._holds(n)]

    def _holds(self, count: int) -> bool:
        """Return whether so many chips may work: few, or with sides that are in those."""
        part = self.take_chips(count) if count <= _SOME_CHIPS else None
        if part is None or count <= _FEW_CHIPS:
            return part is not None
        return all(map(le, sorted(part.shape), sorted(self.shape)))

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

        Between slices it goes over the network alone, to which each chip has a link. All to all,
        links to chips of other groups are apart from those of collectives, as a dimension 1.

        >>> pod = ChipPod(LinksSpec(topology="torus", dimensions=2, closes_at=4), (3, 4))
        >>> [(one.number, one.size) for one in pod.route(0, 11)]
        [(0, 2), (1, 1)]
        """
        if self.topology in ("all_to_all", "switch"):
            number = 1 if self.topology == "all_to_all" else 0
            return (LinkAxis(1, self.topology, number),) if first != second else ()
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
    def links_of_chip(self) -> dict[str, tuple[Rate, Fraction]]:
        """Bytes per cycle of a link, and links that lead from a chip on average, by channel.

        >>> ChipPod(LinksSpec(topology="torus", dimensions=2), (2, 4)).links_of_chip["links1"][1]
        Fraction(2, 1)
        """
        numbered = enumerate(self.shape, self.before)
        axes = (LinkAxis(size, self._form(size, at), at) for at, size in numbered if size > 1)
        return {f"{LINK_CHANNEL}{axis.number}": (self.axis_rate(axis), axis.links) for axis in axes}

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

    def numberings(self, counts: Iterable[int] = ()) -> tuple[Numbering, ...]:
        """Return how chip numbers may count the dimensions: whole, in `orders`, then in blocks.

        ``counts``: chips of a block, which has a part of each of several sides of a torus; those of
        a block follow one another, and blocks do. Of each count the squarest forms are tried.

        >>> ChipPod(LinksSpec(topology="torus", dimensions=2), (8, 4)).numberings([4])[2]
        ((0, 4), (1, 2), (0, 2), (1, 2))
        """
        sizes = dict(enumerate(self.shape, self.before))
        possible = dict.fromkeys(
            tuple((at, sizes[at]) for at in order if sizes[at] > 1) for order in self.orders
        )
        sides, first = self.slice_shape, len(self.shape) - len(self.slice_shape)
        for count in () if self.before else counts:
            for digits in _blocks(sides, count):
                moved = ((number + first, size) for number, size in digits)
                possible[(*enumerate(self.shape[:first]), *moved)] = None
        return tuple(possible)

    def axes(
        self, axes: Sequence[ChipAxis], numbering: Numbering | None = None
    ) -> tuple[LinkAxis, ...] | None:
        """Return the dimensions that chips of some axes are in; None if they are in parts of none.

        ``numbering``: one of `numberings`, by default as the shape is written.

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
        >>> [(one.size, one.number) for one in pod.axes([ChipAxis(1, 2)], ((1, 4), (0, 2)))]
        [(2, 0)]
        """
        if self.topology in ("all_to_all", "switch"):
            return (LinkAxis(math.prod(axis.size for axis in axes), self.topology),)
        parts: dict[int, list[ChipAxis]] = {}
        numbering = numbering or tuple(enumerate(self.shape, self.before))
        for axis in axes:
            at, left = axis.stride, axis.size
            while left > 1:
                part = _part(at, left, numbering)
                if part is None:
                    return None
                number, along = part
                parts.setdefault(number, []).append(along)
                at, left = at * along.size, left // along.size
        return tuple(
            LinkAxis(along.size, self._form_of(along, number), number, along.stride)
            for number, own in parts.items()
            for along in runs(own)
        )

    def _form_of(self, along: ChipAxis, number: int) -> AxisForm:
        """Return the form of a part of a dimension: a line, unless it reaches from end to end."""
        size = self.shape[number - self.before]
        form = self._form(size, number)
        return "line" if form == "ring" and along.stride * along.size < size else form

    def cost(self, kind: LinkAct, n_bytes: int, axes: Sequence[LinkAxis]) -> CollectiveCost:
        """Return what links do: of a message each link of its way has all of its bytes.

        What a stage of a pipeline receives (``send_receive``) is there as soon as it sends.
        """
        if kind == "receive":
            return CollectiveCost((0,) * len(axes), 0, 0)
        if kind in ("send", "point_to_point", "send_receive"):
            links = sum(axis.size for axis in axes)
            hops = 0 if kind == "send_receive" else links
            return CollectiveCost((n_bytes,) * len(axes), n_bytes * links, hops)
        if not any(self._is_network(axis.number) for axis in axes):
            return collective_cost(kind, n_bytes, tuple(axes))
        slow = self.links.network_share
        rates = tuple(slow if self._is_network(axis.number) else Fraction(1) for axis in axes)
        return collective_cost(kind, n_bytes, tuple(axes), rates)

    def link_cycles(
        self, kind: LinkAct, n_bytes: int, axes: Sequence[LinkAxis]
    ) -> tuple[tuple[str, int], ...]:
        """Return how many cycles the links of each dimension are busy, by channel."""
        cycles = Counter[str]()
        for axis, n in zip(axes, self.cost(kind, n_bytes, axes).link_bytes, strict=True):
            cycles[f"{LINK_CHANNEL}{axis.number}"] += self.axis_rate(axis).cycles(n)
        return tuple(cycles.items())

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


def _part(stride: int, count: int, numbering: Numbering) -> tuple[int, ChipAxis] | None:
    """Return the dimension on which ``count`` chips lie first, and which of its chips; or None.

    ``stride``: between their numbers.
    """
    within, inside = 1, Counter[int]()
    for number, size in reversed(numbering):
        apart, rest = divmod(stride, within)
        if within <= stride < within * size and rest == 0 and size % apart == 0:
            chips = min(count, size // apart)
            if count % chips or size // apart % chips:
                return None
            return number, ChipAxis((inside[number] or 1) * apart, chips)
        within *= size
        inside[number] = (inside[number] or 1) * size
    return None


@lru_cache(1 << 10)
def _blocks(shape: tuple[int, ...], count: int) -> tuple[Numbering, ...]:
    """Return numberings of a torus in which each ``count`` chips are a block.

    Of equal sides the last one of a block is the longest. Sides of which it is a part are the most
    significant in it: whole sides and a part of one more are a part of what is counted whole.
    """
    forms = {
        (sum(sides), *sorted(zip(shape, sides, strict=True))): sides
        for sides in _sides(count, shape)
    }
    possible = dict[Numbering, None]()
    for form in sorted(forms)[:_MOST_BLOCKS]:
        sides = forms[form]
        digits = [(at, size // sides[at]) for at, size in enumerate(shape) if size > sides[at]]
        for at in sorted(range(len(sides)), key=lambda at: sides[at] == shape[at]):
            if digits and digits[-1][0] == at:
                digits[-1] = at, digits[-1][1] * sides[at]
            elif sides[at] > 1:
                digits.append((at, sides[at]))
        possible[tuple(digits)] = None
    return tuple(possible)


def _sides(count: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the sides of blocks of ``count`` chips, each of which divides one of the sizes."""
    if not sizes:
        if count == 1:
            yield ()
        return
    for side in range(min(count, sizes[0]), 0, -1):
        if count % side == 0 and sizes[0] % side == 0:
            for others in _sides(count // side, sizes[1:]):
                yield (side, *others)
