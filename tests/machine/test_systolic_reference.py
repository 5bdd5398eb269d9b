from math import ceil
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.machine.systolic_reference import Ints, Stationarity, gemm, stream_gemm

STATIONARITIES = get_args(Stationarity)
SMALL_SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 11, 13])
SIDES = st.sampled_from([1, 2, 3, 4, 5, 7])


def _operands(m: int, k: int, n: int) -> tuple[Ints, Ints]:
    numbers = np.random.default_rng(m * 10_000 + k * 100 + n)
    return numbers.integers(-9, 10, (m, k)), numbers.integers(-9, 10, (k, n))


def _parts(size: int, side: int) -> list[int]:
    return [min(side, size - start) for start in range(0, size, side)]


def _stationary(m: int, k: int, n: int, stationarity: Stationarity) -> tuple[int, int, int]:
    """The ranks on rows and columns, and the one that streams."""
    return {"ws": (k, n, m), "is": (k, m, n), "os": (m, n, k)}[stationarity]


@pytest.mark.parametrize("stationarity", STATIONARITIES)
@given(m=SMALL_SIZES, k=SMALL_SIZES, n=SMALL_SIZES, rows=SIDES, cols=SIDES)
def test_padded_folds_take_scalesims_cycles(
    stationarity: Stationarity, m: int, k: int, n: int, rows: int, cols: int
) -> None:
    a, b = _operands(m, k, n)
    product, cycles = gemm(a, b, rows=rows, cols=cols, stationarity=stationarity)
    np.testing.assert_array_equal(product, a @ b)
    on_rows, on_cols, length = _stationary(m, k, n, stationarity)
    preload = 0 if stationarity == "os" else rows
    folds = ceil(on_rows / rows) * ceil(on_cols / cols)
    assert cycles == folds * (preload + length + rows + cols - 2)


@pytest.mark.parametrize("stationarity", STATIONARITIES)
@given(m=SMALL_SIZES, k=SMALL_SIZES, n=SMALL_SIZES, rows=SIDES, cols=SIDES)
def test_used_folds_take_only_their_own_skew(
    stationarity: Stationarity, m: int, k: int, n: int, rows: int, cols: int
) -> None:
    a, b = _operands(m, k, n)
    product, cycles = gemm(a, b, rows=rows, cols=cols, stationarity=stationarity, used_only=True)
    np.testing.assert_array_equal(product, a @ b)
    on_rows, on_cols, length = _stationary(m, k, n, stationarity)
    assert cycles == sum(
        (0 if stationarity == "os" else r) + length + r + c - 2
        for r in _parts(on_rows, rows)
        for c in _parts(on_cols, cols)
    )


@given(m=SMALL_SIZES, k=SMALL_SIZES, n=SMALL_SIZES, rows=SIDES, cols=SIDES)
def test_streamed_folds_hide_all_preloads_but_the_first(
    m: int, k: int, n: int, rows: int, cols: int
) -> None:
    a, b = _operands(m, k, n)
    product, cycles = stream_gemm(a, b, rows=rows, cols=cols)
    np.testing.assert_array_equal(product, a @ b)
    folds = ceil(k / rows) * ceil(n / cols)
    # Only a fold that another one follows waits for a preload: the last one takes m.
    assert cycles == rows + (folds - 1) * max(m, rows) + m + rows + cols - 2


@given(m=SMALL_SIZES, k=SMALL_SIZES, n=SMALL_SIZES, rows=SIDES, cols=SIDES)
def test_streamed_used_folds_wait_for_the_next_folds_rows(
    m: int, k: int, n: int, rows: int, cols: int
) -> None:
    a, b = _operands(m, k, n)
    product, cycles = stream_gemm(a, b, rows=rows, cols=cols, used_only=True)
    np.testing.assert_array_equal(product, a @ b)
    used = [(r, c) for c in _parts(n, cols) for r in _parts(k, rows)]
    starts = [used[0][0]]
    for r, _ in used[1:]:
        starts.append(starts[-1] + max(m, r))
    # A short last fold can leave before the fold ahead of it has drained.
    assert cycles == max(s + m + r + c - 2 for s, (r, c) in zip(starts, used, strict=True))
