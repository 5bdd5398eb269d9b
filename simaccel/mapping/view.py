"""A tensor as an operator of a group sees it: dimensions that are sums of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from simaccel.numbers import BYTE, PACKED_BITS, Element, in_bytes


@dataclass(frozen=True, kw_only=True)
class TensorView:
    """A tensor as one operator sees it: named ranks, their sizes, bytes per element.

    A dimension may be a sum of ranks, such as ``2*p+r`` of a convolution's input. ``kind`` is the
    class of a tensor that may live elsewhere than in DRAM: ``weight`` or ``cache``; else empty.
    ``packed``: its elements have 4 bits, and lie two in a byte. ``number``: as of a tensor.
    """

    name: str
    ranks: tuple[str, ...]
    shape: tuple[int, ...]
    bytes_per_element: int
    kind: str = ""
    packed: bool = False
    number: str = ""

    @property
    def n_bytes(self) -> int:
        """Size of the whole tensor in bytes."""
        return in_bytes(math.prod(self.shape), self.bits)

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return PACKED_BITS if self.packed else BYTE * self.bytes_per_element

    @property
    def element(self) -> Element:
        """Bits of an element, and its number."""
        return self.bits, self.number

    def as_wide(self, bits: int) -> TensorView:
        """Return the view with elements of so many bits."""
        if bits == self.bits:
            return self
        return replace(self, bytes_per_element=-(-bits // BYTE), packed=bits == PACKED_BITS)

    @cached_property
    def terms(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """Each dimension as (rank, coefficient) pairs.

        >>> TensorView(name="I", ranks=("c", "2*p+r"), shape=(3, 9), bytes_per_element=1).terms
        ((('c', 1),), (('p', 2), ('r', 1)))
        """
        terms = [[term.rpartition("*") for term in rank.split("+")] for rank in self.ranks]
        return tuple(tuple((rank, int(n or 1)) for n, _, rank in dim) for dim in terms)

    @cached_property
    def names(self) -> frozenset[str]:
        """The ranks of all dimensions."""
        return frozenset(rank for dim in self.terms for rank, _ in dim)

    def start(self, at: Mapping[str, int]) -> tuple[int, ...]:
        """Return where a block starts whose ranks start at ``at`` (0 where not named)."""
        return tuple(sum(c * at.get(rank, 0) for rank, c in dim) for dim in self.terms)

    def extent(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the bounding box, in elements per dimension, of ranks of these sizes."""
        return tuple(1 + sum(c * (sizes[rank] - 1) for rank, c in dim) for dim in self.terms)
