from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import SfuSpec, SfuWork

WORKS: tuple[SfuWork, ...] = ("softmax", "statistics", "normalise", "online", "rescale")


@pytest.mark.parametrize("passes", [2, 3])
def test_a_softmax_reads_in_every_pass_and_writes_in_all_but_one(passes: Literal[2, 3]) -> None:
    sfu = SfuSpec(lanes=1, passes=passes)
    assert sfu.passes_of("softmax") == (passes, passes, passes - 1)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("statistics", (1, 1, 0)),
        ("normalise", (1, 1, 1)),
        ("online", (2, 2, 1)),
        ("rescale", (1, 1, 1)),
    ],
)
def test_the_pieces_of_a_segmented_softmax(work: SfuWork, expected: tuple[int, int, int]) -> None:
    assert SfuSpec(lanes=4).passes_of(work) == expected


@pytest.mark.parametrize(("elements", "cycles"), [(1, 13), (4, 13), (5, 16), (8, 16), (9, 19)])
def test_an_element_more_than_the_lanes_takes_a_cycle_per_pass(elements: int, cycles: int) -> None:
    assert SfuSpec(lanes=4, passes=3, latency_cycles=10).cycles("softmax", elements) == cycles


@given(st.integers(1, 64), st.sampled_from(WORKS), st.integers(1, 500), st.integers(0, 9))
def test_cycles_equal_a_walk_over_the_elements(
    lanes: int, work: SfuWork, elements: int, latency: int
) -> None:
    sfu = SfuSpec(lanes=lanes, latency_cycles=latency)
    walked = latency
    for _ in range(sfu.passes_of(work)[0]):
        walked += len(range(0, elements, lanes))
    assert sfu.cycles(work, elements) == walked
    assert sfu.cycles(work, np.array([elements])).tolist() == [walked]
