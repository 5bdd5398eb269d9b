"""Exchanges: collectives that bring a tensor from how it is made to how it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipAxis, Collective
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.numbers import BYTE, in_bytes


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A collective of one tensor, after the operator that makes it.

    ``source`` and ``target`` name the tensor on a chip before and after it, of so many elements
    of ``bits``. It goes over ``digits`` of chips' numbers, in ``rings`` of these sizes. ``before``
    and ``after``: how all of it lies.
    """

    kind: Collective
    tensor: str
    source: str
    target: str
    elements: tuple[int, int]
    bits: int
    digits: tuple[ChipAxis, ...]
    rings: tuple[int, ...]
    after: str
    before: ChipLayout
    behind: ChipLayout

    @property
    def name(self) -> str:
        """Name in tables and traces, such as ``Y.all_reduce``."""
        return f"{self.source}.{self.kind}"

    @property
    def most(self) -> int:
        """Elements on the side where a chip has more."""
        return max(self.elements)

    def chunks(self, accelerator: Accelerator) -> Iterator[tuple[int, int, int]]:
        """Yield how often which elements go in and come out at once: full chunks, then the rest."""
        least, most = min(self.elements), max(self.elements)
        times = most // least
        n_bytes = accelerator.chips.chunk(accelerator.buffer.capacity_bytes)
        size = max(1, min(least, n_bytes * BYTE // self.bits // times))
        full, rest = divmod(least, size)
        grows = [1 if side == least else times for side in self.elements]
        for trips, one in ((full, size), (1 if rest else 0, rest)):
            if trips:
                yield trips, one * grows[0], one * grows[1]

    def n_bytes(self, elements: int) -> int:
        """Return the bytes of so many elements."""
        return in_bytes(elements, self.bits)
