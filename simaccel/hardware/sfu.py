"""The special function unit: softmax over rows, plain, in segments and online."""

from __future__ import annotations

from typing import Literal

from simaccel.hardware.quantity import Amount, Count, Cycles
from simaccel.hardware.spec import Spec

SfuWork = Literal["softmax", "statistics", "normalise", "online", "rescale", "divide"]


class SfuSpec(Spec):
    """``lanes`` elements per cycle and pass; ``latency_cycles`` of pipeline per piece of work.

    A whole softmax makes ``passes`` over its rows: 3 = maximum, exponential and sum, normalise;
    2 = maximum and sum together (online), then exponential and normalise.
    """

    lanes: Count
    passes: Literal[2, 3] = 3
    latency_cycles: Cycles = 0

    def passes_of(self, work: SfuWork) -> tuple[int, int, int]:
        """Give ``(passes, reads, writes)`` over each element for a kind of work.

        - ``softmax``: whole rows in place; every pass reads, all but the first write.
        - ``statistics``: running maximum and sum of a segment of long rows; nothing is written.
        - ``normalise``: a segment with known statistics: one pass, read and written.
        - ``online``: a key tile of an online softmax (Milakov and Gimelshein 2018): all passes
          of a softmax but the normalisation, one write.
        - ``rescale``: the correction of the output so far, read and written.
        - ``divide``: the output divided by the final sum, read and written.
        """
        if work == "softmax":
            return self.passes, self.passes, self.passes - 1
        if work == "statistics":
            return 1, 1, 0
        if work == "online":
            return 2, 2, 1
        return 1, 1, 1

    def cycles(self, work: SfuWork, elements: Amount) -> Amount:
        """Cycles for ``elements`` elements, memory unlimited.

        >>> SfuSpec(lanes=128, latency_cycles=10).cycles("softmax", 64 * 500)
        760
        """
        return self.passes_of(work)[0] * -(-elements // self.lanes) + self.latency_cycles
