"""When tiles of PEs come and go, calculated by hand."""

from simaccel.analytic.estimate import estimate
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.workload import gemm
from tests.trees import mapping

SLOW = [
    "array.bypass_buffer=[input, weight]",
    "dram.bandwidth_bytes_per_second=1 GB/s",
    "noc.collection.topology=bus",
    "noc.collection.link_bytes_per_cycle=1",
]
"""A byte a cycle, to and from DRAM and from the PE to the buffer."""


def test_results_leave_pes_when_the_buffer_has_stored_those_before() -> None:
    """B comes behind a row of A, a row of C takes 20 cycles, and twice 40 on its way out."""
    of, on = gemm(m=6, k=1, n=20), load_accelerator("toy_linear", SLOW)
    one = mapping(
        of,
        """
        group gemm
          loop m 1
          keep C buffer
          keep A pe x2, B pe, C pe x2
          do gemm mac
        """,
    )
    assert faults(of, one, on) == []
    assert estimate(of, one, on).cycles == (2 + 40) + 20 + 6 * (40 + 40)
