from typing import Literal, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, ArraySpec, Stationarity, spatial

Overlap = Literal["none", "preload", "stream"]
EdgeFolds = Literal["full", "used"]
SIZES = st.integers(1, 40)


def _pieces(size: int, side: int) -> list[int]:
    return [min(side, size - start) for start in range(0, size, side)]


def _looped(array: ArraySpec, sizes: tuple[int, int, int], stationarity: Stationarity) -> int:
    """Walk the folds one by one, with the costs written out anew."""
    m, k, n = sizes
    high, wide, steps = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[stationarity]
    total = 0
    folds = [(r, c) for r in _pieces(high, array.rows) for c in _pieces(wide, array.cols)]
    for i, (used_rows, used_cols) in enumerate(folds):
        rows = array.rows if array.edge_folds == "full" else used_rows
        cols = array.cols if array.edge_folds == "full" else used_cols
        skew = rows + cols - 2
        preload = 0 if stationarity == "os" else rows
        if array.overlap == "none":
            total += preload + steps + skew
            continue
        if i == 0:
            total += preload
        if array.overlap == "preload":
            total += steps + skew
        elif i < len(folds) - 1:
            total += max(steps, rows)  # the next operand shifts in meanwhile
        else:
            total += steps + skew
    return total


@given(
    st.tuples(SIZES, SIZES, SIZES),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from(get_args(Overlap)),
    st.sampled_from(get_args(EdgeFolds)),
    st.sampled_from(STATIONARITIES),
)
def test_gemm_cycles_equal_a_loop_over_the_folds(
    sizes: tuple[int, int, int],
    sides: tuple[int, int],
    overlap: Overlap,
    edge_folds: EdgeFolds,
    stationarity: Stationarity,
) -> None:
    array = ArraySpec(rows=sides[0], cols=sides[1], overlap=overlap, edge_folds=edge_folds)
    m, k, n = sizes
    cycles = array.gemm_cycles(m=m, k=k, n=n, stationarity=stationarity)
    assert cycles == _looped(array, sizes, stationarity)
    assert cycles * array.pes >= m * k * n


@given(
    st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=6),
    st.sampled_from(get_args(Overlap)),
    st.sampled_from(get_args(EdgeFolds)),
    st.sampled_from(STATIONARITIES),
)
def test_arrays_give_what_integers_give(
    sizes: list[tuple[int, int, int]],
    overlap: Overlap,
    edge_folds: EdgeFolds,
    stationarity: Stationarity,
) -> None:
    array = ArraySpec(rows=4, cols=3, overlap=overlap, edge_folds=edge_folds)
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


def test_only_stationary_operands_are_preloaded() -> None:
    array = ArraySpec(rows=8, cols=4, overlap="stream", edge_folds="used")
    assert [array.lead_cycles(5, s) for s in STATIONARITIES] == [5, 0, 5]
    assert array.tail_cycles(5, 3, 9) == 6
    blocking = ArraySpec(rows=8, cols=4, overlap="none")
    assert blocking.lead_cycles(5, "ws") == blocking.tail_cycles(5, 3, 9) == 0


def test_the_last_fold_waits_for_no_next_operand() -> None:
    array = ArraySpec(rows=8, cols=8, overlap="stream")
    for steps in (1, 7, 8, 9):
        last = array.fold_cycles(8, 8, steps, "ws") + array.tail_cycles(8, 8, steps)
        assert last == steps + 8 + 8 - 2


def test_spatial_keeps_the_named_operand() -> None:
    assert spatial(1, 2, 3, "ws") == (2, 3, 1)
    assert spatial(1, 2, 3, "os") == (1, 3, 2)
    assert spatial(1, 2, 3, "is") == (2, 1, 3)
