"""Times that are known are those that would be worked out anew, whatever differs."""

import numpy as np
import pytest
from hypothesis import given, settings

from simaccel.analytic.estimate import evaluate
from simaccel.analytic.family import Family, Ints, family_of
from simaccel.analytic.known import forget
from simaccel.hardware import Accelerator
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.space import space_of
from simaccel.schedulers import make_mapping
from simaccel.workload import Dimensions, attention
from tests.draws import DRAWS
from tests.machine.accelerators import accelerators
from tests.properties.families import Drawn, flat_families, gemm_families

CHANGES = (
    "clock_hz=2 GHz",
    "array.rows=8",
    "array.cols=2",
    "array.overlap=none",
    "array.edge_folds=used",
    "buffer.read_bytes_per_second=4 GB/s",
    "buffer.write_bytes_per_second=4 GB/s",
    "noc.distribution.link_bytes_per_cycle=1",
    "noc.collection.link_bytes_per_cycle=1",
    "noc.distribution.hop_cycles=9",
    "sfu.lanes=1",
    "sfu.passes=2",
    "sfu.latency_cycles=90",
    "dram.bandwidth_bytes_per_second=1 GB/s",
    "dram.channels=2",
    "dram.latency_cycles=50",
    "dram.turnaround_cycles=40",
    "dram.batch_bytes=8 B",
    "dram.in_flight_bytes=8 B",
    "memories.weight.bandwidth_bytes_per_second=1 GB/s",
)
CHANGES_OF_NO_TIME = (
    "buffer.capacity_bytes=unlimited",
    "buffer.capacity_bytes=4 KiB",
    "energy.mac_pj=3",
    "name=other",
)


def times(family: Family, on: Accelerator) -> Ints:
    return evaluate(family, on).timed()


def times_anew(family: Family, on: Accelerator) -> Ints:
    forget()
    found = times(family, on)
    forget()
    return found


@pytest.fixture(scope="module")
def fused() -> Family:
    """A fused attention on toy, whose tensors are of several classes."""
    workload = attention(
        Dimensions(hidden=6, heads=3, head_size=5, ff_size=7), batch=1, seq_len=5, scope="la"
    )
    mapping = make_mapping(workload, load_accelerator("toy"), "flat-r")
    (group,) = (group for group in mapping.groups if len(group.operators) == 3)
    return family_of(space_of(workload, group), group)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_accelerator_is_told_apart(change: str, fused: Family) -> None:
    one, other = load_accelerator("toy"), load_accelerator("toy", [change])
    anew = times_anew(fused, one), times_anew(fused, other)
    assert (times(fused, one), times(fused, other), times(fused, one)) == (*anew, anew[0])


@pytest.mark.parametrize("change", CHANGES_OF_NO_TIME)
def test_what_no_time_depends_on_is_not_worked_out_again(change: str, fused: Family) -> None:
    one, other = load_accelerator("toy"), load_accelerator("toy", [change])
    assert times_anew(fused, one) == times_anew(fused, other)
    assert times(fused, one) is times(fused, other)


@given(gemm_families(), flat_families(), flat_families(), accelerators(), accelerators())
@settings(max_examples=7 * DRAWS)
def test_families_are_told_apart(
    gemm: Drawn, first: Drawn, second: Drawn, one: Accelerator, other: Accelerator
) -> None:
    cases = [(drawn.family, on) for drawn in (gemm, first, second) for on in (one, other)]
    anew = [times_anew(*case) for case in cases]
    for expected, case in zip((*anew, *anew), (*cases, *cases), strict=True):
        np.testing.assert_array_equal(times(*case), expected)
