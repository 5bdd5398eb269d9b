"""What the engines of a spatial array wait for, by hand."""

import pytest

from simaccel.hardware import Accelerator
from simaccel.hardware.levels import ROLES
from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.choices import Mapping, NestGroup, NestLevel, NestMapping, WorkloadReference
from simaccel.program.lower import lower
from simaccel.program.program import Program
from simaccel.workload import gemm


def _one_pass() -> Program:
    """Give 4 x 4 x 4 MACs on one PE, from DRAM straight to it and back."""
    workload = gemm(m=4, k=4, n=4)
    keep = ROLES
    (operator,) = workload.operators
    levels = (
        NestLevel(level="dram", keep=keep),
        NestLevel(level="rows"),
        NestLevel(level="cols"),
        NestLevel(level="pe", keep=keep, factors=dict.fromkeys("mkn", 4)),
    )
    group = NestGroup(operator=operator.name, mapping=NestMapping(levels=levels))
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    return lower(workload, Mapping(workload=reference, dataflow="hand", groups=(group,)))


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
    run = Machine(_on(hops, latency), _one_pass()).run()
    transfer = 2  # both inputs over one pipe, one cycle each
    assert run.cycles == transfer + hops + latency + 4**3
    assert run.engines["array"].busy == 4**3
    assert run.engines["array"].stalls[cause] >= hops + latency
