"""Costs of collectives on links: bytes over the links of each dimension, and hops.

The tensor is cut into parts, called colours. Each goes round the rings of the dimensions in an
order of its own and in both directions, all at the same time: an all-gather of V bytes over a torus
takes V / (bandwidth of a link in both directions x dimensions) (Austin et al., How to Scale Your
Model, 2025, ch. 3). Colours are sized so that all links end together, and cut into pieces so small
that links don't wait for one another. So the bytes over the busiest link of each dimension, in one
direction, are counted.
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
    "send_receive",
]
"""``halo``: half to the previous chip, half to the next; ``shift``: all to one of them.

``swap``: each of two chips sends all to the other. ``send_receive``: to the next stage of a
pipeline, and from the one before, whose chips have sent it a latency earlier.
"""
COLLECTIVES: Final[tuple[Collective, ...]] = get_args(Collective)
LinkAct = Literal[Collective, "send", "receive"]
"""An action of links: a collective, or one end of a message from point to point."""
LINK_ACTS: Final[tuple[LinkAct, ...]] = (*COLLECTIVES, "send", "receive")
AxisForm = Literal["ring", "line", "switch", "all_to_all"]
AXIS_FORMS: Final[tuple[AxisForm, ...]] = get_args(AxisForm)
_PAIR: Final = 2
"""Chips of the ring in which each has the same neighbour on both sides."""


class LinkAxis(NamedTuple):
    """The ``size`` chips of one dimension that a collective spans, and the form of their links.

    A ``line`` is an open ring. ``number``: of the dimension, whose links it uses. ``stride``:
    distance between its chips along the dimension; the chips between them run collectives of their
    own at the same time, so that each link carries the bytes of all.
    """

    size: int
    form: AxisForm = "ring"
    number: int = 0
    stride: int = 1

    @property
    def is_ring(self) -> bool:
        """Whether pieces arrive from both sides; two chips have only one neighbour each."""
        return self.form == "ring" and self.size > _PAIR

    @property
    def links(self) -> Fraction:
        """Links from a chip, on average: the chips at the ends of a line have one."""
        if self.is_ring:
            return Fraction(2)
        if self.form in ("ring", "line"):
            return Fraction(2 * (self.size - 1), self.size)
        return Fraction(self.size - 1 if self.form == "all_to_all" else 1)

    @property
    def hops(self) -> int:
        """Links that a piece passes until the last chip has it.

        >>> LinkAxis(16).hops, LinkAxis(4, "line").hops, LinkAxis(8, "switch").hops
        (8, 3, 1)
        """
        if self.form in ("switch", "all_to_all"):
            return 1
        return self.stride * (self.size // 2 if self.is_ring else self.size - 1)

    @property
    def all_gather_pieces(self) -> Fraction:
        """Pieces of an all-gather that a chip receives while the busiest link sends one."""
        return {"all_to_all": Fraction(self.size - 1)}.get(
            self.form, Fraction(2 if self.is_ring else 1)
        )

    @property
    def all_reduce_pieces(self) -> Fraction:
        """Pieces of an all-reduce that a chip gathers per piece or sum over the busiest link.

        In a line of n chips, the link behind the k-th one carries k gathered pieces and n - k sums.
        """
        if self.form in ("ring", "line") and not self.is_ring:
            return Fraction(self.size - 1, self.size)
        return self.all_gather_pieces / 2

    @property
    def all_to_all_pieces(self) -> Fraction:
        """Pieces over the busiest link in an all-to-all of a piece for each pair of chips.

        >>> [axis.all_to_all_pieces for axis in (LinkAxis(4), LinkAxis(5), LinkAxis(4, "line"))]
        [Fraction(2, 1), Fraction(3, 1), Fraction(4, 1)]
        """
        if self.form in ("switch", "all_to_all"):
            return (self.size - 1) / self.all_gather_pieces
        near = self.size // 2
        return Fraction(near * (self.size - near), 2 if self.is_ring else 1)

    @property
    def all_to_all_hops(self) -> Fraction:
        """Links that all pieces of a chip pass in an all-to-all, on average of all chips.

        >>> LinkAxis(4).all_to_all_hops, LinkAxis(4, "line").all_to_all_hops
        (Fraction(4, 1), Fraction(5, 1))
        """
        if self.form in ("switch", "all_to_all"):
            return Fraction(self.size - 1)
        return 2 * self.all_to_all_pieces if self.is_ring else Fraction(self.size**2 - 1, 3)


class CollectiveCost(NamedTuple):
    """The cost of a collective for a chip.

    ``link_bytes``: over the busiest link of each axis, in one direction; ``sent_bytes``: over all
    links of a chip, including those that it forwards; ``hops``: links that the last piece passes.
    """

    link_bytes: tuple[int, ...]
    sent_bytes: int
    hops: int


@lru_cache(1 << 12)
def collective_cost(
    kind: Collective,
    n_bytes: int,
    axes: tuple[LinkAxis, ...],
    rates: tuple[Fraction, ...] = (),
) -> CollectiveCost:
    """Return the cost of a collective over some axes.

    ``rates``: of the links of each axis, relative to a reference link; by default all are equal.
    ``n_bytes``: of the tensor on a chip when it has most of it: before a reduce-scatter, after an
    all-gather, for an all-to-all at any time. Pieces are padded to one size.

    >>> torus = LinkAxis(4), LinkAxis(4)
    >>> collective_cost("all_gather", 1600, torus)
    CollectiveCost(link_bytes=(375, 375), sent_bytes=1500, hops=4)
    >>> collective_cost("all_reduce", 1600, (LinkAxis(4, "line"),))
    CollectiveCost(link_bytes=(1600,), sent_bytes=2400, hops=6)
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
    piece, passes = -(-n_bytes // chips), 1
    if kind == "all_to_all":
        piece_bytes = [Fraction(piece * chips * axis.stride, axis.size) for axis in axes]
        link_bytes = [axis.all_to_all_pieces * n for axis, n in zip(axes, piece_bytes, strict=True)]
        sent = sum(
            (axis.all_to_all_hops * n for axis, n in zip(axes, piece_bytes, strict=True)),
            Fraction(),
        )
    else:
        passes = 2 if kind == "all_reduce" else 1
        speeds = [
            axis.all_reduce_pieces if kind == "all_reduce" else axis.all_gather_pieces
            for axis in axes
        ]
        speeds = [speed / axis.stride for speed, axis in zip(speeds, axes, strict=True)]
        weighted = [speed * rate for speed, rate in zip(speeds, rates, strict=True)]
        pieces = balanced_pieces(tuple(axis.size for axis in axes), tuple(weighted))
        link_bytes = [piece * n / speed for n, speed in zip(pieces, speeds, strict=True)]
        sent = sum(
            (passes * piece * n * axis.stride for n, axis in zip(pieces, axes, strict=True)),
            Fraction(),
        )
    return CollectiveCost(tuple(map(math.ceil, link_bytes)), math.ceil(sent), passes * hops)


def _neighbour_cost(kind: Collective, n_bytes: int, axes: Sequence[LinkAxis]) -> CollectiveCost:
    """Return the cost of sends from each chip to the next one, in the order of chip numbers.

    ``axes``: innermost first, along which most neighbours are adjacent. The route from the last
    chip of a row to the next row leads back to the row's first chip: over one link of a ring, or
    over all links of a line, where it meets the messages in the other direction.

    >>> _neighbour_cost("halo", 200, [LinkAxis(4, "line")])
    CollectiveCost(link_bytes=(100,), sent_bytes=150, hops=1)
    >>> _neighbour_cost("halo", 200, [LinkAxis(4, "line"), LinkAxis(2, "line", 1)])
    CollectiveCost(link_bytes=(200, 100), sent_bytes=250, hops=4)
    >>> _neighbour_cost("swap", 200, [LinkAxis(2, "line")])
    CollectiveCost(link_bytes=(200,), sent_bytes=200, hops=1)
    """
    both = kind == "halo"
    side, chips = (-(-n_bytes // 2) if both else n_bytes), math.prod(axis.size for axis in axes)
    link_bytes, way_back, links_passed, rows = list[int](), 0, 0, chips
    for number, axis in enumerate(axes):
        rows //= axis.size
        # messages to the next chip along this axis, each after the way back along those inside
        links_passed += rows * (axis.size - 1) * (way_back + axis.stride)
        is_closed = axis.is_ring or axis.form in ("switch", "all_to_all")
        meets = number == 0 and (axis.form == "switch" or (not is_closed and len(axes) > 1))
        link_bytes.append(side * axis.stride * (2 if both and meets else 1))
        way_back += (
            axis.stride * (1 if is_closed else axis.size - 1) if number + 1 < len(axes) else 0
        )
    sent = Fraction(side * (1 if kind == "shift" else 2) * links_passed, chips)
    return CollectiveCost(tuple(link_bytes), math.ceil(sent), way_back + axes[-1].stride)


@lru_cache(1 << 12)
def balanced_pieces(sizes: tuple[int, ...], speeds: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Return the pieces that a chip receives over each axis, such that all axes end together.

    A colour that goes through axes of n, then m chips brings n - 1 pieces over the first axis and
    n (m - 1) over the second. A mix of colours of all orders can bring any numbers of pieces over
    the axes whose sum over each set of axes is at least the set's chips less one. So the slowest
    set gets this minimum, and the other axes the rest (Fujishige, "Lexicographically optimal base
    of a polymatroid", 1980). If the slowest set is all axes, no link is ever idle.

    >>> balanced_pieces((2, 8), (Fraction(1), Fraction(2)))
    (Fraction(5, 1), Fraction(10, 1))
    """
    pieces, remaining, chips = [Fraction()] * len(sizes), set(range(len(sizes))), 1

    def time(chosen: tuple[int, ...]) -> tuple[Fraction, int]:
        more = chips * (math.prod(sizes[at] for at in chosen) - 1)
        return more / sum((speeds[at] for at in chosen), Fraction()), len(chosen)

    while remaining:
        slowest = max(_subsets(sorted(remaining)), key=time)
        per_link, _ = time(slowest)
        for at in slowest:
            pieces[at] = per_link * speeds[at]
        chips *= math.prod(sizes[at] for at in slowest)
        remaining -= set(slowest)
    return tuple(pieces)


def _subsets(numbers: Sequence[int]) -> list[tuple[int, ...]]:
    return [chosen for n in range(1, len(numbers) + 1) for chosen in combinations(numbers, n)]
