"""The search over tile sizes against all tile sizes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.analytic.estimate import gemm_problem, tiles_of
from simaccel.analytic.gemm import GemmProblem, GemmTiles, gemm_work
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.choices import ORDERS
from simaccel.schedulers.search import (
    UNLIMITED,
    GemmSearch,
    NothingFitsError,
    best,
    capacity,
    tile_sizes,
)
from simaccel.workload import gemm


def _fastest_of_all(problem: GemmProblem, on: Accelerator) -> int:
    """Cycles of the fastest double-buffered mapping with any tile sizes at all."""
    extents = (problem.m, problem.k, problem.n)
    m, k, n = np.array(list(product(*(range(1, extent + 1) for extent in extents)))).T
    found = []
    for order, stationarity in product(ORDERS, STATIONARITIES):
        tiles = GemmTiles(m=m, k=k, n=n, order=order, stationarity=stationarity)
        work = gemm_work(problem, tiles, on)
        cycles = np.broadcast_to(work.cycles(), len(m))
        found.append(int(cycles[work.buffer_bytes <= capacity(on)].min()))
    return min(found)


@pytest.mark.parametrize("shape", [(9, 7, 5), (16, 8, 12), (1, 17, 13), (11, 1, 19), (13, 16, 3)])
@pytest.mark.parametrize("bandwidth", ["2 GB/s", "8 GB/s", "32 GB/s"])
def test_no_other_tile_size_is_faster(shape: tuple[int, int, int], bandwidth: str) -> None:
    """Within 2% of the best of all tile sizes on toy with its 1 KiB."""
    on = load_accelerator("toy", [f"dram.bandwidth_bytes_per_second={bandwidth}"])
    m, k, n = shape
    problem = gemm_problem(gemm(m=m, k=k, n=n, batch=2), "gemm")
    chosen = GemmSearch(on).best(problem, "gemm")
    cycles = int(gemm_work(problem, tiles_of(chosen), on).cycles())
    assert cycles <= 1.05 * _fastest_of_all(problem, on)


@given(st.integers(1, 5000), st.integers(1, 300))
def test_tile_sizes(extent: int, side: int) -> None:
    """Sorted, from 1 to the rank, the rank itself among them, few enough to try all triples."""
    found = tile_sizes(extent, side)
    assert found == sorted(set(found))
    assert found[0] >= 1
    assert found[-1] == extent
    assert len(found) <= 30
    if extent <= side:
        assert found[0] == 1


def test_the_fastest_that_fits_then_the_one_that_moves_least() -> None:
    cycles = np.array([[9, 5], [5, 5]])
    dram = np.array([[1, 7], [6, 6]])
    space = np.array([[1, 4], [5, 4]])
    assert best(cycles, dram, space, 10) == 3  # 5 cycles, 6 B moved, 4 B of buffer
    assert best(cycles, dram, space, 3) == 0
    assert best(cycles, dram, space, 0) is None


def test_capacity() -> None:
    assert capacity(load_accelerator("toy")) == 1024
    assert capacity(load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])) == UNLIMITED


def test_equal_problems_are_searched_once() -> None:
    search = GemmSearch(load_accelerator("toy"))
    first = gemm_problem(gemm(m=5, k=6, n=7), "gemm")
    table = search.table(first, (2, 2, 2))
    assert search.table(gemm_problem(gemm(m=5, k=6, n=7), "gemm"), (2, 2, 2)) is table
    assert search.table(first, (1, 1, 1)) is not table


def test_nothing_fits() -> None:
    on = load_accelerator("toy", ["buffer.capacity_bytes=64 B"])
    problem = gemm_problem(gemm(m=50, k=60, n=70), "gemm")
    with pytest.raises(NothingFitsError) as caught:
        GemmSearch(on).best(problem, "gemm")
    expected = "gemm: no tiling fits the buffer of 64 B; the smallest that was tried needs 96 B"
    assert str(caught.value) == expected


def test_single_slots_if_two_do_not_fit() -> None:
    on = load_accelerator("toy", ["buffer.capacity_bytes=100 B"])
    mapping = GemmSearch(on).best(gemm_problem(gemm(m=50, k=60, n=70), "gemm"), "gemm")
    assert (mapping.a_slots, mapping.b_slots, mapping.out_slots) == (1, 1, 1)
