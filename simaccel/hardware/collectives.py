"""Collectives on links: bytes over each dimension's links, and hops; all dimensions at once.

The tensor is cut into parts, *colours*. Each goes round its rings through the dimensions in an
order of its own, both ways, all at the same time: an all-gather of V bytes over a torus takes V /
(both ways of a link x dimensions) (Austin et al., How to Scale Your Model, 2025, ch. 3). Parts are
as large as it takes for all links to end together, pieces of them so small that links don't wait
for one another: what is counted is what goes over the busiest link of a dimension, one way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Final, Literal, NamedTuple, get_args

Collective = Literal[
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "halo",
    "shift",
    "swap",
    "point_to_point",
]
"""``halo``: half to the chip before, half to the one behind; ``shift``: all to one of them.

``swap``: of two chips, each all to the other.
"""
COLLECTIVES: Final[tuple[Collective, ...]] = get_args(Collective)
LinkAct = Literal[Collective, "send", "receive"]
"""What links do: a collective, or what one chip of two does of a message from point to point."""
LINK_ACTS: Final[tuple[LinkAct, ...]] = (*COLLECTIVES, "send", "receive")
AxisForm = Literal["ring", "line", "switch", "all_to_all"]
AXIS_FORMS: Final[tuple[AxisForm, ...]] = get_args(AxisForm)
_PAIR: Final = 2
"""Chips of a ring that have one neighbour, on both sides."""


class LinkAxis(NamedTuple):
    """Chips of one dimension that a collective goes through: so many, and how they are linked.

    A ``line`` is a ring that isn't closed. ``number``: of the dimension, whose links it uses.
    ``apart``: it takes every so many-th chip of the dimension, and those between do the same
    meanwhile, so that each link has the bytes of all of them.
    """

    size: int
    form: AxisForm = "ring"
    number: int = 0
    apart: int = 1

    @property
    def is_ring(self) -> bool:
        """Whether pieces come from both sides; of two chips each is the other's one neighbour."""
        return self.form == "ring" and self.size > _PAIR

    @property
    def links(self) -> Fraction:
        """Links that lead from a chip, on average: those at the ends of a line have one."""
        if self.is_ring:
            return Fraction(2)
        if self.form in ("ring", "line"):
            return Fraction(2 * (self.size - 1), self.size)
        return Fraction(self.size - 1 if self.form == "all_to_all" else 1)

    @property
    def hops(self) -> int:
        """Chips to which a piece goes on, until it is with the last one.

        >>> LinkAxis(16).hops, LinkAxis(4, "line").hops, LinkAxis(8, "switch").hops
        (8, 3, 1)
        """
        if self.form in ("switch", "all_to_all"):
            return 1
        return self.apart * (self.size // 2 if self.is_ring else self.size - 1)

    @property
    def gathered(self) -> Fraction:
        """Pieces that a chip has got of an all-gather when the busiest link has sent one."""
        return {"all_to_all": Fraction(self.size - 1)}.get(
            self.form, Fraction(2 if self.is_ring else 1)
        )

    @property
    def reduced(self) -> Fraction:
        """The same of an all-reduce: a link of a line has what its other half has not.

        The k-th of n chips in a line sends k pieces on that are gathered, n - k that are summed.
        """
        if self.form in ("ring", "line") and not self.is_ring:
            return Fraction(self.size - 1, self.size)
        return self.gathered / 2

    @property
    def swapped(self) -> Fraction:
        """Pieces over the busiest link of an all-to-all in which each chip has one for each.

        >>> LinkAxis(4).swapped, LinkAxis(5).swapped, LinkAxis(4, "line").swapped
        (Fraction(2, 1), Fraction(3, 1), Fraction(4, 1))
        """
        if self.form in ("switch", "all_to_all"):
            return (self.size - 1) / self.gathered
        near = self.size // 2
        return Fraction(near * (self.size - near), 2 if self.is_ring else 1)

    @property
    def swapped_hops(self) -> Fraction:
        """Links over which these pieces go, on average of all chips.

        >>> LinkAxis(4).swapped_hops, LinkAxis(4, "line").swapped_hops
        (Fraction(4, 1), Fraction(5, 1))
        """
        if self.form in ("switch", "all_to_all"):
            return Fraction(self.size - 1)
        return 2 * self.swapped if self.is_ring else Fraction(self.size**2 - 1, 3)


class CollectiveCost(NamedTuple):
    """The cost of a collective for a chip.

    ``link_bytes``: over the busiest link of each axis, one way; ``sent_bytes``: over all links of
    a chip, those that it hands on for others included; ``hops``: chips to which the last piece
    goes on; ``all_links_bytes``: over each link if every one of the pod had as many.
    """

    link_bytes: tuple[int, ...]
    sent_bytes: int
    hops: int
    all_links_bytes: int


@lru_cache(1 << 12)
def collective_cost(
    kind: Collective,
    n_bytes: int,
    axes: tuple[LinkAxis, ...],
    rates: tuple[Fraction, ...] = (),
) -> CollectiveCost:
    """Return what a collective over some axes costs.

    ``rates``: of the links of each axis, as shares of those that others are measured by; all are
    equal where none are given. ``n_bytes``: of the tensor where a chip has most of it: before a
    reduce-scatter, after an all-gather. Of an all-to-all: what each chip has. Pieces are padded to
    one size.

    >>> torus = LinkAxis(4), LinkAxis(4)
    >>> collective_cost("all_gather", 1600, torus)
    CollectiveCost(link_bytes=(375, 375), sent_bytes=1500, hops=4, all_links_bytes=375)
    >>> collective_cost("all_reduce", 1600, (LinkAxis(4, "line"),))
    CollectiveCost(link_bytes=(1600,), sent_bytes=2400, hops=6, all_links_bytes=1600)
    >>> slices = LinkAxis(2, "switch"), LinkAxis(16)  # on a network as fast as 1% of a link
    >>> collective_cost("all_reduce", 1600, slices, (Fraction(1, 100), Fraction(1))).link_bytes
    (100, 1500)
    """
    if kind in ("halo", "shift", "swap"):
        return _neighbour_cost(kind, n_bytes, axes)
    rates = tuple(rate for rate, axis in zip(rates, axes, strict=False) if axis.size > 1)
    axes = tuple(axis for axis in axes if axis.size > 1)
    rates = rates or (Fraction(1),) * len(axes)
    chips, hops = math.prod(axis.size for axis in axes), sum(axis.hops for axis in axes)
    piece, times = -(-n_bytes // chips), 1
    if kind == "all_to_all":
        alike = [Fraction(piece * chips * axis.apart, axis.size) for axis in axes]
        over = [axis.swapped * n for axis, n in zip(axes, alike, strict=True)]
        sent = sum((axis.swapped_hops * n for axis, n in zip(axes, alike, strict=True)), Fraction())
    else:
        times = 2 if kind == "all_reduce" else 1
        speeds = [axis.reduced if kind == "all_reduce" else axis.gathered for axis in axes]
        speeds = [speed / axis.apart for speed, axis in zip(speeds, axes, strict=True)]
        faster = [speed * rate for speed, rate in zip(speeds, rates, strict=True)]
        coming = balanced_pieces([axis.size for axis in axes], faster)
        over = [piece * n / speed for n, speed in zip(coming, speeds, strict=True)]
        sent = sum(
            (times * piece * n * axis.apart for n, axis in zip(coming, axes, strict=True)),
            Fraction(),
        )
    links = sum((axis.links * rate for axis, rate in zip(axes, rates, strict=True)), Fraction())
    return CollectiveCost(
        tuple(map(math.ceil, over)),
        math.ceil(sent),
        times * hops,
        math.ceil(sent / links) if links else 0,
    )


def _neighbour_cost(kind: Collective, n_bytes: int, axes: Sequence[LinkAxis]) -> CollectiveCost:
    """Return what it costs if each chip sends to the next one, in the order of chip numbers.

    ``axes``: the one first in which neighbours are next to one another. From its last chip the way
    to the next one leads back to its first: one link of a ring, all of a line, on which it meets
    what goes the other way.

    >>> _neighbour_cost("halo", 200, [LinkAxis(4, "line")])
    CollectiveCost(link_bytes=(100,), sent_bytes=150, hops=1, all_links_bytes=100)
    >>> _neighbour_cost("halo", 200, [LinkAxis(4, "line"), LinkAxis(2, "line", 1)])
    CollectiveCost(link_bytes=(200, 100), sent_bytes=250, hops=4, all_links_bytes=100)
    >>> _neighbour_cost("swap", 200, [LinkAxis(2, "line")])
    CollectiveCost(link_bytes=(200,), sent_bytes=200, hops=1, all_links_bytes=200)
    """
    both = kind == "halo"
    side, chips = (-(-n_bytes // 2) if both else n_bytes), math.prod(axis.size for axis in axes)
    over, back, passed, left = list[int](), 0, 0, chips
    for number, axis in enumerate(axes):
        left //= axis.size
        passed += left * (axis.size - 1) * (back + axis.apart)  # those that begin its turns
        is_near = axis.is_ring or axis.form in ("switch", "all_to_all")
        meets = number == 0 and (axis.form == "switch" or (not is_near and len(axes) > 1))
        over.append(side * axis.apart * (2 if both and meets else 1))
        back += axis.apart * (1 if is_near else axis.size - 1) if number + 1 < len(axes) else 0
    sent = Fraction(side * (1 if kind == "shift" else 2) * passed, chips)
    links = sum((axis.links for axis in axes), Fraction())
    return CollectiveCost(
        tuple(over),
        math.ceil(sent),
        back + axes[-1].apart,
        math.floor(sent / links) if links else 0,
    )


def balanced_pieces(sizes: Sequence[int], speeds: Sequence[Fraction]) -> list[Fraction]:
    """Return how many pieces come to a chip over each axis, so that the axes end together.

    A colour that goes through axes of n, then m chips brings n - 1 pieces over the first and n (m -
    1) over the second one. Mixed, colours of all orders can bring x pieces over each axis if those
    over any set of axes are at least its chips less one. The slowest set has its least, and what
    is left goes over the others (Fujishige, "Lexicographically optimal base of a polymatroid",
    1980). Where that set is all axes, no link is ever idle.

    >>> balanced_pieces([2, 8], [Fraction(1), Fraction(2)])
    [Fraction(5, 1), Fraction(10, 1)]
    """
    pieces, waiting, chips = [Fraction()] * len(sizes), set(range(len(sizes))), 1

    def time(chosen: tuple[int, ...]) -> tuple[Fraction, int]:
        more = chips * (math.prod(sizes[at] for at in chosen) - 1)
        return more / sum((speeds[at] for at in chosen), Fraction()), len(chosen)

    while waiting:
        slowest = max(_subsets(sorted(waiting)), key=time)
        per_link, _ = time(slowest)
        for at in slowest:
            pieces[at] = per_link * speeds[at]
        chips *= math.prod(sizes[at] for at in slowest)
        waiting -= set(slowest)
    return pieces


def _subsets(some: Sequence[int]) -> list[tuple[int, ...]]:
    return [chosen for n in range(1, len(some) + 1) for chosen in combinations(some, n)]
