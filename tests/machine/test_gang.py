"""Several arrays behind one buffer: what each does, element by element, and by hand."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, ArraySpec, Gang, Stationarity
from simaccel.machine.folds import Fold, FoldLoop, folds_of
from simaccel.machine.machine import Machine, Run
from simaccel.program.program import Compute, Folds, commands
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator
from tests.program.programs import gemm_case

SIZES = st.integers(1, 30)


def _total(folds: Sequence[Fold | FoldLoop], what: str) -> int:
    """Return the sum of one field over all executions of the folds."""
    return sum(
        node.trips * _total(node.body, what) if isinstance(node, FoldLoop) else getattr(node, what)
        for node in folds
    )


@given(
    st.tuples(SIZES, SIZES, SIZES),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.integers(1, 6),
    st.sampled_from(STATIONARITIES),
)
def test_every_product_is_made_once_on_an_array_that_has_the_room(
    sizes: tuple[int, int, int], sides: tuple[int, int], count: int, stationarity: Stationarity
) -> None:
    """Walk the arrays of each round: what they multiply is the iteration space, once."""
    array = ArraySpec(rows=sides[0], cols=sides[1], count=count)
    grid = array.grid(sizes, sides, Fraction(1), stationarity)
    gang = grid.gang or Gang(1, 1, 1, 1, 1)
    high, wide, stream = sizes
    made = np.zeros(sizes, dtype=int)
    for row, col in product(range(0, high, grid.round_rows), range(0, wide, grid.round_cols)):
        at_work = 0
        for down, across, along in product(*map(range, (gang.down, gang.across, gang.along))):
            rows = slice(row + down * sides[0], min(high, row + (down + 1) * sides[0]))
            cols = slice(col + across * sides[1], min(wide, col + (across + 1) * sides[1]))
            steps = slice(along * grid.steps, min(stream, (along + 1) * grid.steps))
            part = made[rows, cols, steps]
            part += 1
            at_work += part.size > 0
        assert at_work <= count
        here = grid.arrays(min(high - row, grid.round_rows), min(wide - col, grid.round_cols))
        assert here.down * here.across * here.along == at_work
    assert (made == 1).all()


@given(st.tuples(SIZES, SIZES, SIZES), st.integers(1, 6), st.sampled_from(STATIONARITIES))
def test_more_arrays_never_take_more_cycles(
    sizes: tuple[int, int, int], count: int, stationarity: Stationarity
) -> None:
    m, k, n = sizes
    alone, several = (
        ArraySpec(rows=3, cols=4, count=number, overlap="none").gemm_cycles(
            m=m, k=k, n=n, stationarity=stationarity
        )
        for number in (1, count)
    )
    assert several <= alone


def test_two_arrays_share_the_columns_of_a_product() -> None:
    """By hand: 4 x 4 PEs twice, C[10, 8] = A[10, 4] B[4, 8], 2 B an element, weight-stationary.

    Each array holds 4 x 4 of B and streams A: 4 cycles of preload, 10 of stream, 6 of skew. A is
    read once for both (80 B), B once each (64 B); A enters both arrays.
    """
    fold = _only_fold(m=10, k=4, n=8)
    assert (fold.cycles, fold.macs) == (4 + 10 + 6, 320)
    assert (fold.a_bytes, fold.b_bytes, fold.out_bytes, fold.sums_bytes) == (80, 64, 160, 0)
    assert (fold.a_sent_bytes, fold.b_sent_bytes) == (160, 64)
    assert (fold.pipe_in_bytes, fold.pipe_out_bytes) == (80 + 32, 80)


def test_arrays_below_one_another_add_their_sums_at_the_buffer() -> None:
    """By hand: C[3, 4] = A[3, 8] B[8, 4] on two 4 x 4 arrays: a half of the sum each.

    Both write 24 B of partial sums, and one of the two reads those of the other. Sharing out the
    stream would give 4 + 2 + 6 cycles twice, sharing out the sum 4 + 3 + 6 once.
    """
    fold = _only_fold(m=3, k=8, n=4)
    assert fold.cycles == 4 + 3 + 6
    assert (fold.out_bytes, fold.sums_bytes, fold.pipe_out_bytes) == (48, 24, 24)


def test_heads_are_shared_out_where_each_is_small() -> None:
    """By hand: 5 products of 4 x 4 x 4 on two 4 x 4 arrays: three rounds, the last with one.

    A round takes 4 + 4 + 6 cycles and moves the operands of its products, 32 B a tensor and
    product; a pipe brings those of one.
    """
    program = gemm_case(gemm(m=4, k=4, n=4, batch=5), stationarity="ws").program
    (command,) = (node for node in commands(program.body) if isinstance(node, Compute))
    assert isinstance(command.on, Folds)
    whole = replace(command, shape=(5, 4, 4, 4))
    folds = folds_of(whole, command.on, accelerator(array={"count": 2})).folds
    assert (_total((folds,), "cycles"), _total((folds,), "macs")) == (3 * 14, 5 * 64)
    assert _total((folds,), "a_bytes") == _total((folds,), "b_sent_bytes") == 5 * 32
    assert _total((folds,), "pipe_in_bytes") == 3 * 64


@pytest.mark.parametrize(
    ("edges", "sizes", "rounds", "cycles"),
    [
        ("full", (4, 2, 2), [4, 4, 1], 4 + 4 + 6),
        ("used", (4, 2, 2), [2, 2, 2, 2, 1], 2 + 4 + 2),  # loading and skew of 4 rows take longer
        ("used", (12, 1, 1), [8, 1], 4 + 12 + 6),
    ],
)
def test_products_share_the_diagonals_of_two_arrays(
    edges: str, sizes: tuple[int, int, int], rounds: list[int], cycles: int
) -> None:
    """By hand: 9 products of m x k x n on two arrays of 4 x 4: a share of rows and columns each.

    Without the diagonal five rounds are needed: 5 x 14 cycles for 3 x 14, 5 x 13 for 2 x 22, and
    3 x 14 are more than 5 x 8. A pipe brings the operands of all products on its array.
    """
    m, k, n = sizes
    program = gemm_case(gemm(m=m, k=k, n=n, batch=9), stationarity="ws").program
    (command,) = (node for node in commands(program.body) if isinstance(node, Compute))
    assert isinstance(command.on, Folds)
    whole = replace(command, shape=(9, m, k, n))
    on = accelerator(array={"count": 2, "edge_folds": edges, "diagonal": True})
    folds = folds_of(whole, replace(command.on, diagonal=True), on).folds
    assert _total((folds,), "cycles") == len(rounds) * cycles
    assert _total((folds,), "macs") == 9 * m * k * n
    assert _total((folds,), "a_bytes") == _total((folds,), "a_sent_bytes") == 9 * 2 * m * k
    on_each = [min(products, max(1, rounds[0] // 2)) for products in rounds]
    assert _total((folds,), "pipe_in_bytes") == sum(on_each) * 2 * (m * k + k * n)


def _only_fold(*, m: int, k: int, n: int) -> Fold:
    """Return the only round of a product on two arrays of 4 x 4 PEs."""
    program = gemm_case(gemm(m=m, k=k, n=n), stationarity="ws").program
    (command,) = (node for node in commands(program.body) if isinstance(node, Compute))
    assert isinstance(command.on, Folds)
    (fold,) = folds_of(command, command.on, accelerator(array={"count": 2})).folds.body
    while isinstance(fold, FoldLoop):
        assert fold.trips == 1
        (fold,) = fold.body
    return fold


@pytest.mark.parametrize("stationarity", STATIONARITIES)
def test_without_limits_four_arrays_take_a_quarter(stationarity: Stationarity) -> None:
    """Each of 16 x 16 folds streams 256 steps; fill and skew of one array stand once around."""

    def run(count: int) -> Run:
        on = accelerator(array={"count": count, "rows": 16, "cols": 16, "overlap": "stream"})
        whole = gemm_case(gemm(m=256, k=256, n=256), stationarity=stationarity)
        return Machine(on, whole.program).run()

    alone, four = run(1), run(4)
    assert alone.macs == four.macs == 256**3
    edges = alone.cycles - 16 * 16 * 256
    assert 0 <= edges <= 16 + 16 + 15 + 15 + 15
    assert four.cycles - edges == 16 * 16 * 256 // 4
