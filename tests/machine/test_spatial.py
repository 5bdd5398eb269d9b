"""What the engines of a spatial array wait for, by hand."""

import pytest

from simaccel.hardware import Accelerator
from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.program.lowering import lower
from simaccel.workload import gemm
from tests.trees import mapping

TREE = """
group gemm
  keep A pe
  keep B pe
  keep C pe
  do gemm mac
"""
"""4 x 4 x 4 MACs on one PE, from DRAM straight to it and back."""


def _on(hops: int, latency: int) -> Accelerator:
    """Give an array behind a bus that takes no time but its latency."""
    wide = ["noc.distribution.topology=bus", "noc.distribution.link_bytes_per_cycle=10000"]
    slow = [f"noc.distribution.hop_cycles={hops}", f"dram.latency_cycles={latency}"]
    return load_accelerator("toy_linear", [*wide, *slow])


@pytest.mark.parametrize(
    ("hops", "latency", "cause"), [(7, 0, "noc"), (7, 5, "noc"), (7, 9, "dram_latency")]
)
def test_the_longer_latency_of_a_load_into_pes_is_named(
    hops: int, latency: int, cause: str
) -> None:
    workload, on = gemm(m=4, k=4, n=4), _on(hops, latency)
    one = mapping(workload, TREE)
    assert faults(workload, one, on) == []
    run = Machine(on, lower(workload, one)).run()
    transfer = 2  # both inputs over one pipe, one cycle each
    assert run.cycles == transfer + hops + latency + 4**3
    assert run.engines["array"].busy == 4**3
    assert run.engines["array"].stalls[cause] >= hops + latency
