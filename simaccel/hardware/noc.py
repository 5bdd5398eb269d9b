"""NoC pipes between buffer and PE array: width and latency of a topology."""

from __future__ import annotations

from typing import Literal

from simaccel.hardware.quantity import Count, Cycles, Rate
from simaccel.hardware.spec import Spec

Topology = Literal["systolic", "tree", "crossbar", "bus", "mesh", "unlimited"]


def hops_and_bisection(topology: Topology, rows: int, cols: int) -> tuple[int, int]:
    """Return the average hops of a word (rounded up), and the links across a bisection.

    "Users should select bisection bandwidth and average latency considering uniform
    communication to all the PEs from a global buffer" (MAESTRO, section 4.2). On a systolic
    chain only the hop into the array counts: the others are the skew that the array charges.
    The bisection cuts the PEs into a left and a right half; a lone column has one link per row. A
    systolic array is limited by what enters and leaves it (``rate``), not by its bisection.

    Closed forms, because counting a graph of 256 x 256 PEs takes half a second; the tests count
    small graphs.

    >>> hops_and_bisection("mesh", 4, 4), hops_and_bisection("tree", 4, 4)
    ((4, 4), (4, 1))
    """
    pes = rows * cols
    if topology == "systolic":
        return 1, rows
    if topology == "mesh":
        return 1 + (rows + cols - 1) // 2, rows
    if topology == "crossbar":
        return 1, max(1, pes // 2)
    if topology == "bus":
        return 1, 1
    # every path to the far half leaves through one wire of the root
    return max(1, (pes - 1).bit_length()), 1


class NocSpec(Spec):
    """One pipe: a topology, its link width and hop delay.

    ``link_bytes_per_cycle``: bandwidth of one link of the topology; in a systolic array, of one
    PE's results (downwards) or operands (half from the left, half from above).
    """

    topology: Topology = "systolic"
    link_bytes_per_cycle: Count = 4
    hop_cycles: Cycles = 1

    def rate(self, rows: int, cols: int) -> Rate:
        """Return the bytes per cycle of the pipe from ``rows`` x ``cols`` PEs: its bisection width.

        The results of a systolic array leave it at the foot of its columns.
        """
        if self.topology == "unlimited":
            return Rate(1, 0)
        if self.topology == "systolic":
            return Rate(cols * self.link_bytes_per_cycle, 1)
        return Rate(hops_and_bisection(self.topology, rows, cols)[1] * self.link_bytes_per_cycle, 1)

    def latency_cycles(self, rows: int, cols: int) -> int:
        """Return the latency in cycles of a GEMM's first word: hops times ``hop_cycles``."""
        if self.topology == "unlimited":
            return 0
        return hops_and_bisection(self.topology, rows, cols)[0] * self.hop_cycles


class DistributionSpec(NocSpec):
    """The pipe from buffer to array.

    Without ``multicast`` a word for several PEs is sent to each of them. A systolic array passes
    words on from PE to PE, so it always multicasts.
    """

    multicast: bool = True

    def rate(self, rows: int, cols: int) -> Rate:
        """Return the bytes per cycle of the pipe to ``rows`` x ``cols`` PEs: its bisection width.

        Operands enter a systolic array by all its rows and columns. A link carries the operands of
        one PE, half of them from the left and half from above: a square array has
        ``link_bytes_per_cycle`` for each of its rows.

        >>> DistributionSpec(link_bytes_per_cycle=4).rate(32, 32).cycles(1024)
        8
        >>> DistributionSpec(link_bytes_per_cycle=4).rate(8, 128).cycles(272)
        1
        """
        if self.topology != "systolic":
            return super().rate(rows, cols)
        n_bytes = (rows + cols) * self.link_bytes_per_cycle
        return Rate(n_bytes // 2, 1) if n_bytes % 2 == 0 else Rate(n_bytes, 2)

    @property
    def multicasts(self) -> bool:
        """Whether a word for several PEs is sent only once."""
        return self.multicast or self.topology == "systolic"


class NocPipes(Spec):
    """The two pipes between buffer and array."""

    distribution: DistributionSpec
    collection: NocSpec
