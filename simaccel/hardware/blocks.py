"""Folds that stream in blocks: instructions of a few positions each."""

from __future__ import annotations

from simaccel.hardware.quantity import Amount, Count
from simaccel.hardware.spec import Spec


class BlocksSpec(Spec):
    """A fold streams in blocks, an instruction each, as in Gemmini.

    A block has at most ``steps`` positions of one run of the innermost streaming rank (of a
    convolution: of one output row). It takes at least ``least_cycles``; the first block of a fold
    takes at least as many cycles as the array has rows, as the next stationary operand shifts in
    meanwhile. At most ``in_flight`` blocks are in the array at once: by Little's law no more start
    in the time from the first operand of a block to its last result, which is longer than the block
    by as many cycles as the array has rows and columns (skew in and out, a register at each end).
    """

    steps: Count
    least_cycles: Count = 1
    in_flight: Count

    def cycles(
        self, stream: Amount, run: Amount, sides: tuple[int, int], cycles_per_mac: int = 1
    ) -> Amount:
        """Return the cycles of ``stream`` positions in runs of ``run``, on rows x columns PEs.

        7 runs of 7 are blocks of 16 and 6 x 7 cycles. 14 runs of 2 are blocks of 16 and 13 x 4, and
        each is in the array for 32 cycles more, but only 5 at once:

        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=5).cycles(49, 7, (16, 16))
        58
        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=5).cycles(28, 2, (16, 16))
        104
        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=5).cycles(448, 32, (16, 16))
        448
        """
        full, rest = run // self.steps, run % self.steps
        others = rest > 0
        least = rest * cycles_per_mac
        least = least + (self.least_cycles - least) * (least < self.least_cycles)
        whole = max(self.steps * cycles_per_mac, self.least_cycles)
        rows, cols = sides
        short = rows - least - (whole - least) * (full > 0)
        runs = stream // (run + (run < 1))  # a piece that isn't there has runs of 0 positions
        cycles: Amount = runs * (full * whole + others * least) + short * (short > 0)
        limited = -(-(runs * (full + others) * (rows + cols) + cycles) // self.in_flight)
        return cycles + (limited - cycles) * (limited > cycles)
