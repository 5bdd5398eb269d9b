"""A tensor in the ranks of an operator's group: each dimension is a rank or a sum of ranks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from simaccel.numbers import BYTE, PACKED_BITS, Element, in_bytes


@dataclass(frozen=True, kw_only=True)
class TensorView:
    """A tensor as one operator indexes it.

    ``ranks``: of each dimension the rank, or a sum of ranks such as ``2*p+r`` of a convolution's
    input. ``kind``: the class of a tensor that may live elsewhere than in DRAM (``weight`` or
    ``cache``), else empty. ``packed``: elements have 4 bits, two in a byte. ``number``: the number
    format, as of `Tensor`.
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
        """Bytes of the whole tensor."""
        return in_bytes(math.prod(self.shape), self.bits)

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return PACKED_BITS if self.packed else BYTE * self.bytes_per_element

    @property
    def element(self) -> Element:
        """(bits of an element, its number format)."""
        return self.bits, self.number

    def as_wide(self, bits: int) -> TensorView:
        """Return the view with elements of ``bits`` bits."""
        if bits == self.bits:
            return self
        return replace(self, bytes_per_element=-(-bits // BYTE), packed=bits == PACKED_BITS)

    @cached_property
    def terms(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The (rank, coefficient) terms of each dimension.

        >>> TensorView(name="I", ranks=("c", "2*p+r"), shape=(3, 9), bytes_per_element=1).terms
        ((('c', 1),), (('p', 2), ('r', 1)))
        """
        terms = [[term.rpartition("*") for term in rank.split("+")] for rank in self.ranks]
        return tuple(tuple((rank, int(n or 1)) for n, _, rank in dim) for dim in terms)

    @cached_property
    def names(self) -> frozenset[str]:
        """The ranks in any dimension."""
        return frozenset(rank for dim in self.terms for rank, _ in dim)

    def start(self, at: Mapping[str, int]) -> tuple[int, ...]:
        """Return the first index, by dimension, of a block whose ranks start at ``at`` (else 0)."""
        return tuple(sum(c * at.get(rank, 0) for rank, c in dim) for dim in self.terms)

    def extent(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of the block of ranks of these sizes, halo included."""
        return tuple(1 + sum(c * (sizes[rank] - 1) for rank, c in dim) for dim in self.terms)


def sum_text(terms: Iterable[tuple[str, int]]) -> str:
    """Return a sum of ranks as a view has it, such as ``2*p+r``."""
    return "+".join(rank if c == 1 else f"{c}*{rank}" for rank, c in terms)


def pe_memory(position: int, count: int) -> str:
    """Return the memory in PEs of an operand, by its position among ``count`` with the output.

    >>> [pe_memory(position, 4) for position in range(4)]
    ['input', 'weight', 'input2', 'output']
    """
    if position == count - 1:
        return "output"
    return ("input", "weight", f"input{position}")[min(position, 2)]


def transposed_ranks(views: Iterable[TensorView]) -> set[str]:
    """Return the ranks that stand in different dimensions of a tensor."""
    places = {
        (view.name, rank, at)
        for view in views
        for at, dim in enumerate(view.terms)
        for rank, _ in dim
    }
    counts = Counter((name, rank) for name, rank, _ in places)
    return {rank for (_, rank), n in counts.items() if n > 1}
