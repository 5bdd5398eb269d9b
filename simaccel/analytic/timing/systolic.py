"""Blocks on a systolic array in time: only where it runs empty do fill and drain show."""

from __future__ import annotations

from simaccel.analytic.array import Edges
from simaccel.analytic.blocks import Block
from simaccel.analytic.bodies import Work
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.pointwise import larger, pick, without
from simaccel.analytic.timing.ports import Ports
from simaccel.analytic.timing.times import ARRAY, FREE, LEFT, OUT, ZERO, Begin
from simaccel.hardware import Accelerator


class Systolic(Ports):
    """The array, with what is on its way into it and out of it."""

    def __init__(self, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(begin)
        self.accelerator = accelerator

    def folds(self, work: Work, block: Block, edges: Edges, begun: Bools) -> Floats:
        """Run the folds of a block as soon as they can be on the array; say when all is out.

        ``begun``: where they add to sums.

        The stationary operand shifts in behind the last folds before, as far as it has come;
        sums that stay leave, at the end of the first stream, once those before have left.
        """
        latency = self.accelerator.lead_latency_cycles
        *inputs, made = work.keys
        begin = larger(self.x[ARRAY], self._sums(made, edges.holds_sums & begun))
        for number, key in enumerate(inputs):
            come = latency + (ZERO if key is None else self.x["ready", key])
            shifted = larger(self.x[FREE], come) + edges.lead
            begin = larger(begin, pick(edges.holds[number], shifted, come))
        behind = pick(edges.holds_sums, self.x[LEFT] - edges.hidden, ZERO)
        begin = larger(begin, behind)
        end = begin + block.cycles + self.beside(begin, block)
        self.x[ARRAY], self.x[FREE] = end, end - edges.hidden
        self.x[LEFT] = larger(self.x[LEFT], end + edges.leaving)
        out = end + edges.tail + self.accelerator.tail_latency_cycles
        self.x[OUT] = out = larger(self.x[OUT], out)
        if made is not None:
            self.x["folded", made], self.x["out", made] = end, out
        self.done(ARRAY, begin, end, out, block)
        return out

    def _sums(self, made: int | None, come_back: Bools) -> Floats:
        """Return when there is room for the sums, or what they are added to.

        Sums that leave the array are added to by the next folds as they leave; output-stationary
        ones have to ``come_back``.
        """
        if made is None:
            return ZERO
        ready = self.x["ready", made]
        leaving = (ready > 0) & (ready == self.x["out", made]) & without(come_back)
        return pick(leaving, self.x["folded", made], ready)
