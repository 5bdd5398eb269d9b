"""The directives' runtime of folds: by hand, by MAESTRO's rule for levels, and by its reasons."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import gemm, load_accelerator
from simaccel.hardware import Accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.text import parse_text
from simaccel.mapping.tree import paths
from simaccel.papers.maestro.analysis.runtime import OperatorTime, blocks_of, operator_times
from simaccel.workload import Workload
from tests.draws import DRAWS

TREE = """
mapping mine of {workload.name} {workload.fingerprint}
  group gemm
{loops}    keep A buffer, B buffer, C buffer
    do gemm array {stationarity}
"""


def _times(
    workload: Workload, accelerator: Accelerator, loops: str = "", stationarity: str = "ws"
) -> OperatorTime:
    text = TREE.format(workload=workload, loops=loops, stationarity=stationarity)
    (group,) = parse_text(text).groups
    (found,) = operator_times(space_of(workload, group), group, accelerator)
    return found


def _fill(accelerator: Accelerator, elements: int) -> int:
    """Cycles that elements of 2 bytes take through the NoC: its latency, then its rate."""
    rate = accelerator.distribution_rate.exact() / 2
    assert isinstance(rate, Fraction)
    return accelerator.lead_latency_cycles + ceil(elements / rate) - 1


def test_one_fold_by_hand() -> None:
    """4 x 4 PEs take 5 rows of A, B and C: first fill of columns and PEs, 5 steps, last sums.

    Inside, 5 links: 8 elements take 1 + 2 - 1 cycles and a sum leaves after 1; then each step 1.
    """
    toy = load_accelerator("toy")
    found = _times(gemm(m=5, k=4, n=4), toy)
    inside = (2 + 1 + 1) + 4
    assert found.cycles == inside + _fill(toy, 5 * 4 + 4 * 4) + _fill(toy, 5 * 4)
    assert found.transfers == found.cycles - 5
    assert found.written.endswith(
        "SpatialMap(1,1) N; TemporalMap(4,4) K; TemporalMap(5,5) M; Cluster(4,P); "
        "SpatialMap(1,1) K; TemporalMap(1,1) M"
    )


@pytest.mark.parametrize(
    ("stationarity", "sizes", "steps"),
    [
        ("ws", (7, 4, 4), 7),
        ("is", (4, 4, 7), 7),
        ("os", (4, 7, 4), 7),
        ("ws", (7, 9, 5), 2 * 3 * 7),
    ],
)
def test_without_a_noc_folds_take_their_streams(
    stationarity: str, sizes: tuple[int, int, int], steps: int
) -> None:
    m, k, n = sizes
    found = _times(gemm(m=m, k=k, n=n), load_accelerator("toy"), stationarity=stationarity)
    assert found.cycles is not None
    assert found.transfers is not None
    assert found.cycles - found.transfers == steps


@given(
    sizes=st.tuples(*[st.integers(1, 23)] * 3),
    cuts=st.lists(st.tuples(st.sampled_from("mkn"), st.integers(1, 9)), max_size=3),
    stationarity=st.sampled_from(("ws", "os", "is")),
)
@settings(max_examples=7 * DRAWS, deadline=None)
def test_blocks_are_those_of_plain_loops_and_each_is_paid_alone(
    sizes: tuple[int, int, int], cuts: list[tuple[str, int]], stationarity: str
) -> None:
    """MAESTRO's rule: a level above takes as long as the runs of what is inside, one by one."""
    m, k, n = sizes
    workload, toy = gemm(m=m, k=k, n=n), load_accelerator("toy")
    left = {"m": m, "k": k, "n": n}
    blocks = [left]
    loops = ""
    for rank, tile in cuts:
        if tile >= left[rank]:
            continue
        left = {**left, rank: tile}
        loops += f"    loop {rank} {tile}\n"
        blocks = [
            {**one, rank: min(tile, one[rank] - start)}
            for one in blocks
            for start in range(0, one[rank], tile)
        ]
    text = TREE.format(workload=workload, loops=loops, stationarity=stationarity)
    (group,) = parse_text(text).groups
    space = space_of(workload, group)
    ((outside, leaf),) = paths(group.tree)
    found = blocks_of(space, space.bound_operator(leaf.operator), outside)
    by_hand = [tuple(one[rank] for rank in "mkn") for one in blocks]
    assert found == {one: by_hand.count(one) for one in by_hand}
    alone = {
        one: _times(gemm(m=one[0], k=one[1], n=one[2]), toy, stationarity=stationarity).cycles
        for one in found
    }
    whole = _times(workload, toy, loops, stationarity)
    assert whole.cycles == sum(count * (alone[one] or 0) for one, count in found.items())


def test_parts_of_a_rank_are_blocks_of_their_own() -> None:
    """7 rows in pieces of 3, of each the first row alone: 1 + 2, 1 + 2, 1; by hand."""
    workload, toy = gemm(m=7, k=4, n=4), load_accelerator("toy")
    text = f"""
mapping mine of {workload.name} {workload.fingerprint}
  group gemm
    keep B buffer
    loop m 3
    part m 1 rest
      | keep A buffer, C buffer
        do gemm array ws
      | keep A buffer, C buffer
        do gemm array os
"""
    (group,) = parse_text(text).groups
    (found,) = operator_times(space_of(workload, group), group, toy)
    one = _times(gemm(m=1, k=4, n=4), toy).cycles
    two = _times(gemm(m=2, k=4, n=4), toy, stationarity="os").cycles
    assert one is not None
    assert two is not None
    assert found.cycles == 3 * one + 2 * two
