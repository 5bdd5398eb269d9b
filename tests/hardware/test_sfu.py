import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import SfuSpec
from simaccel.workload.vectors import VECTORS
from simaccel.workload.vectors.kind import Passes


def _passes(passes: int, exponentials: int = 0) -> Passes:
    return Passes(passes=passes, reads=(1,), writes=1, exponentials=exponentials)


def test_work_is_merged_where_it_can_be_and_the_unit_does() -> None:
    separate, merged = _passes(3), _passes(2)
    assert SfuSpec(lanes=4, passes=3).chosen(separate, merged) == separate
    assert SfuSpec(lanes=4, passes=2).chosen(separate, merged) == merged
    assert SfuSpec(lanes=4, passes=2).chosen(separate, None) == separate


def test_an_exponential_takes_as_many_passes_as_the_unit_says() -> None:
    """Maximum, exponential and division: 1 + 13 + 1; without an exponential nothing changes."""
    sfu = SfuSpec(lanes=4, exponential_passes=13)
    assert sfu.chosen(_passes(3, exponentials=1), None).passes == 15
    assert sfu.chosen(_passes(2), None).passes == 2
    softmax = VECTORS["softmax"].steps["whole"]
    assert sfu.chosen(softmax, softmax.merged).passes == 15
    assert sfu.chosen(VECTORS["silu"].steps["whole"], None).passes == 13
    norm = VECTORS["layer_norm"].steps["whole"]
    assert sfu.chosen(norm, norm.merged).passes == 3


@pytest.mark.parametrize(("elements", "cycles"), [(1, 13), (4, 13), (5, 16), (8, 16), (9, 19)])
def test_an_element_more_than_the_lanes_takes_a_cycle_per_pass(elements: int, cycles: int) -> None:
    assert SfuSpec(lanes=4, latency_cycles=10).cycles(3, elements) == cycles


@given(st.integers(1, 64), st.integers(1, 3), st.integers(1, 500), st.integers(0, 9))
def test_cycles_equal_a_walk_over_the_elements(
    lanes: int, passes: int, elements: int, latency: int
) -> None:
    sfu = SfuSpec(lanes=lanes, latency_cycles=latency)
    walked = latency
    for _ in range(passes):
        walked += len(range(0, elements, lanes))
    assert sfu.cycles(passes, elements) == walked
    assert sfu.cycles(passes, np.array([elements])).tolist() == [walked]
