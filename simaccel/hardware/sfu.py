"""The special function unit: passes of vector operators over blocks of elements."""

from __future__ import annotations

from typing import Literal, TypeVar

from simaccel.hardware.quantity import Amount, Count, Cycles
from simaccel.hardware.spec import Spec

Form = TypeVar("Form")


class SfuSpec(Spec):
    """``lanes`` elements per cycle and pass; ``latency_cycles`` of pipeline per piece of work.

    ``passes`` of a whole softmax: 3 = maximum, exponential and sum, normalise; 2 = statistics
    that need one another are taken in one pass, here maximum and sum, for all kinds of work.
    """

    lanes: Count
    passes: Literal[2, 3] = 3
    latency_cycles: Cycles = 0

    def chosen(self, separate: Form, merged: Form | None) -> Form:
        """Return the merged form of a piece of work where it has one and this unit merges passes.

        >>> SfuSpec(lanes=1, passes=2).chosen(3, 2), SfuSpec(lanes=1).chosen(3, 2)
        (2, 3)
        """
        return separate if merged is None or self.passes > 2 else merged  # noqa: PLR2004 - merged

    def cycles(self, passes: int, elements: Amount) -> Amount:
        """Cycles for passes over ``elements`` elements, memory unlimited.

        >>> SfuSpec(lanes=128, latency_cycles=10).cycles(3, 64 * 500)
        760
        """
        return passes * -(-elements // self.lanes) + self.latency_cycles
