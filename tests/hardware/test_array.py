import csv
import math
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, ArraySpec, FoldGrid, Gang, Stationarity
from simaccel.hardware.fold_grid import spatial

Overlap = Literal["none", "preload", "stream"]
EdgeFolds = Literal["full", "used"]
SIZES = st.integers(1, 40)


def _pieces(size: int, side: int) -> list[int]:
    return [min(side, size - start) for start in range(0, size, side)]


def _looped(array: ArraySpec, sizes: tuple[int, int, int], stationarity: Stationarity) -> int:
    """Walk the folds one by one: when each may begin, and when its last result is out."""
    m, k, n = sizes
    high, wide, steps = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[stationarity]
    grid = array.grid((high, wide, steps), (array.rows, array.cols), Fraction(1), stationarity)
    gang = grid.gang or Gang(1, 1, 1, 1, 1)
    steps = max(_pieces(steps, -(-steps // gang.along)))
    steps = math.ceil(steps / Fraction(str(array.steps_per_cycle)))
    folds = [
        (min(r, array.rows), min(c, array.cols))
        for c in _pieces(wide, array.cols * gang.across)
        for r in _pieces(high, array.rows * gang.down)
    ]
    if array.edge_folds == "full":
        folds = [(array.rows, array.cols)] * len(folds)
    held = stationarity != "os"
    alone = [steps + r + c - 2 for r, c in folds]
    if array.overlap == "none":
        return sum(alone) + held * sum(r for r, _ in folds)
    begin, left, before, ends = held * folds[0][0], 0, 0, [0]
    for i, (r, c) in enumerate(folds):
        streamed = begin + (alone[i] if array.overlap == "preload" else steps)
        if held:
            ends.append(begin + alone[i])
            following = folds[i + 1][0] if i + 1 < len(folds) else 0
            begin = max(streamed, begin + following)  # its weights fall in behind this fold
        elif array.overlap == "preload":
            ends.append(streamed + r - 1)
            begin = streamed
        else:
            begin = max(streamed, left + before)  # sums go when those before them have left
            left, before = begin, r
            ends.append(begin + 2 * r + c - 3)
    return max(ends)


@given(
    st.tuples(SIZES, SIZES, SIZES),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from(get_args(Overlap)),
    st.sampled_from(get_args(EdgeFolds)),
    st.sampled_from(STATIONARITIES),
    st.sampled_from([1, 2, 3, 4, 6]),
    st.sampled_from([1, 0.7, 0.33]),
)
def test_gemm_cycles_equal_a_loop_over_the_folds(
    sizes: tuple[int, int, int],
    sides: tuple[int, int],
    overlap: Overlap,
    edge_folds: EdgeFolds,
    stationarity: Stationarity,
    count: int,
    rate: float,
) -> None:
    array = ArraySpec(
        rows=sides[0],
        cols=sides[1],
        count=count,
        steps_per_cycle=rate,
        overlap=overlap,
        edge_folds=edge_folds,
    )
    m, k, n = sizes
    cycles = array.gemm_cycles(m=m, k=k, n=n, stationarity=stationarity)
    assert cycles == _looped(array, sizes, stationarity)
    assert cycles * array.pes >= m * k * n


@given(
    st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=6),
    st.sampled_from(get_args(Overlap)),
    st.sampled_from(get_args(EdgeFolds)),
    st.sampled_from(STATIONARITIES),
    st.sampled_from([1, 3, 4]),
)
def test_arrays_give_what_integers_give(
    sizes: list[tuple[int, int, int]],
    overlap: Overlap,
    edge_folds: EdgeFolds,
    stationarity: Stationarity,
    count: int,
) -> None:
    array = ArraySpec(rows=4, cols=3, count=count, overlap=overlap, edge_folds=edge_folds)
    m, k, n = np.array(sizes, dtype=np.int64).T
    many = array.gemm_cycles(m=m, k=k, n=n, stationarity=stationarity)
    assert many.tolist() == [
        array.gemm_cycles(m=a, k=b, n=c, stationarity=stationarity) for a, b, c in sizes
    ]
    folds = array.fold_cycles(m, k, n, stationarity)
    assert folds.tolist() == [array.fold_cycles(a, b, c, stationarity) for a, b, c in sizes]


@pytest.mark.parametrize(
    ("overlap", "edge_folds", "cycles"),
    [
        ("none", "full", 8 + 32 + 14),
        ("preload", "full", 32 + 14),
        ("stream", "full", 32),
        ("none", "used", 5 + 32 + 6),
        ("preload", "used", 32 + 6),
        ("stream", "used", 32),
    ],
)
def test_a_fold_of_5_by_3_on_8_by_8(overlap: Overlap, edge_folds: EdgeFolds, cycles: int) -> None:
    array = ArraySpec(rows=8, cols=8, overlap=overlap, edge_folds=edge_folds)
    assert array.fold_cycles(5, 3, 32, "ws") == cycles


def test_a_stream_shorter_than_the_array_waits_for_the_next_operand() -> None:
    array = ArraySpec(rows=8, cols=8, overlap="stream")
    assert [array.fold_cycles(8, 8, steps, "ws") for steps in (1, 8, 9)] == [8, 8, 9]


def _grid(high: int, wide: int, stream: int) -> FoldGrid[int]:
    return FoldGrid(high, wide, stream, 8, 4)


def test_only_stationary_operands_are_preloaded() -> None:
    array = ArraySpec(rows=8, cols=4, overlap="stream", edge_folds="used")
    assert [array.lead_cycles(_grid(5, 3, 9), s) for s in STATIONARITIES] == [5, 0, 5]
    assert array.tail_cycles(_grid(5, 3, 9), "ws") == 5 + 3 - 2
    # sums leave through five rows
    assert array.tail_cycles(_grid(5, 3, 9), "os") == 5 + 3 - 2 + 4
    blocking = ArraySpec(rows=8, cols=4, overlap="none")
    assert [blocking.lead_cycles(_grid(5, 3, 9), s) for s in STATIONARITIES] == [0, 0, 0]
    assert [blocking.tail_cycles(_grid(5, 3, 9), s) for s in STATIONARITIES] == [0, 0, 0]


def test_a_fold_alone_waits_for_no_other() -> None:
    array = ArraySpec(rows=8, cols=8, overlap="stream")
    for steps in (1, 7, 8, 9):
        assert array.gemm_cycles(m=steps, k=8, n=8, stationarity="ws") == 8 + steps + 8 + 8 - 2
        assert array.gemm_cycles(m=8, k=steps, n=8, stationarity="os") == steps + 8 + 8 - 2 + 7


def test_small_edge_folds_by_hand() -> None:
    """Ws, k = 5 on 4 rows, one step: the fold of one row begins a cycle later and ends 3 before.

    Two strips of 8 + 1 rows and 1 column are shorter than the preload: 8; 8, max(1, 8); 8, 1.
    """
    array = ArraySpec(rows=4, cols=1, overlap="stream", edge_folds="used")
    assert array.gemm_cycles(m=1, k=5, n=1, stationarity="ws") == 4 + 1 + 4 + 1 - 2
    array = ArraySpec(rows=8, cols=1, overlap="preload", edge_folds="used")
    assert array.gemm_cycles(m=1, k=9, n=2, stationarity="ws") == 8 + 8 + 8 + 8 + 1


def test_spatial_keeps_the_named_operand() -> None:
    assert spatial(1, 2, 3, "ws") == (2, 3, 1)
    assert spatial(1, 2, 3, "os") == (1, 3, 2)
    assert spatial(1, 2, 3, "is") == (2, 1, 3)


DATA = Path(__file__).parents[2] / "validation" / "scalesim" / "scalesim_v3_calc.csv"


@pytest.mark.parametrize("stationarity", STATIONARITIES)
def test_gemm_cycles_equal_scalesim(stationarity: Stationarity) -> None:
    """SCALE-Sim reports the index of the last cycle."""
    with DATA.open(newline="") as file:
        every = [run for run in csv.DictReader(file) if run["status"] == "ok"]
    runs = [run for run in every if run["dataflow"] == stationarity]
    assert len(every) == 126
    assert len(runs) >= 33
    for run in runs:
        rows, cols = map(int, run["array"].split("x"))
        array = ArraySpec(rows=rows, cols=cols, overlap="none", edge_folds="full")
        m, k, n = (int(run[rank]) for rank in "MKN")
        cycles = array.gemm_cycles(m=m, k=k, n=n, stationarity=stationarity)
        assert cycles == int(run["total_cycles_reported"]) + 1, run
