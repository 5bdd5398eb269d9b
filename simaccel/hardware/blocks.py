"""Instructions of a systolic array that stream a few positions each."""

from __future__ import annotations

from simaccel.hardware.quantity import Amount, Count
from simaccel.hardware.spec import Spec


class BlocksSpec(Spec):
    """A fold streams in blocks, an instruction each, as in Gemmini.

    A block has at most ``steps`` positions, all of one run of the innermost rank that streams (of
    a convolution: of one row of the output). It takes at least ``least_cycles``, and at most
    ``in_flight`` of them are on their way at once: by Little's law no more than these start in the
    time from the first row of an operand that shifts in to the last result at the foot.
    """

    steps: Count
    least_cycles: Count = 1
    in_flight: Count

    def cycles(
        self, stream: Amount, run: Amount, sides: tuple[int, int], cycles_per_mac: int = 1
    ) -> Amount:
        """Return the cycles of ``stream`` positions in runs of ``run``, on rows x columns PEs.

        14 runs of 2 are 14 blocks of at least 4 cycles; each is on its way for 16 + 4 + 30 cycles,
        and 8 of them overlap:

        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=8).cycles(28, 2, (16, 16))
        88
        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=8).cycles(448, 32, (16, 16))
        448
        """
        full, rest = run // self.steps, run % self.steps
        others = rest > 0
        least = rest * cycles_per_mac
        least = least + (self.least_cycles - least) * (least < self.least_cycles)
        busy = full * max(self.steps * cycles_per_mac, self.least_cycles) + others * least
        rows, cols = sides
        on_the_way = (full + others) * (2 * rows + cols - 2) + busy
        runs = stream // run
        limited = -(-runs * on_the_way // self.in_flight)
        cycles: Amount = runs * busy
        return cycles + (limited - cycles) * (limited > cycles)
