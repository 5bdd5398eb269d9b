"""Sums beside the array: what they spare the buffer, by hand, and what does not fit."""

import pytest

from simaccel.experiment.run import simulate
from simaccel.hardware import Accelerator, Stationarity
from simaccel.hardware.load import with_values
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.program import DoesNotFitError
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator
from tests.program.programs import gemm_case

FOUR = {"accumulator": {"bytes_per_element": 4, "capacity_bytes": "unlimited"}}


def _run(on: Accelerator, kind: Stationarity, m: int, k: int, n: int) -> Run:
    return Machine(on, gemm_case(gemm(m=m, k=k, n=n), stationarity=kind).program).run()


def test_sums_stay_beside_the_array_until_the_strip_is_complete() -> None:
    """Ws, 5 x 10 x 6 on 4 x 4: three folds of rows in each of two strips, 4 B a sum, 2 B in C.

    Without: each fold writes 5 x 6 x 2 = 60 B, all but the first read as many. With: the first
    two write 5 x 6 x 4 = 120 B beside the array, the last two read them, one writes C.
    """
    without, beside = (_run(accelerator(array=a), "ws", 5, 10, 6) for a in ({}, FOUR))
    # the store to DRAM reads C once more
    assert without.moved["buffer_read", "C"] == 2 * 60 + 60
    assert without.moved["buffer_write", "C"] == without.moved["noc_collection", "C"] == 3 * 60
    assert beside.moved["buffer_read", "C"] == 60
    assert beside.moved["buffer_write", "C"] == beside.moved["noc_collection", "C"] == 60
    assert beside.moved["accumulator_write", "C"] == 2 * 120
    assert beside.moved["accumulator_read", "C"] == 2 * 120
    assert without.cycles == beside.cycles


def test_output_stationary_sums_grow_in_the_pes() -> None:
    without, beside = (_run(accelerator(array=a), "os", 5, 10, 6) for a in ({}, FOUR))
    assert without.moved == beside.moved


def test_a_narrow_port_is_relieved() -> None:
    """Ws, 4 x 8 x 4 on 4 x 4: two folds, each 4 + 4 + 6 cycles; 32 B of C at 1 B a cycle each."""
    narrow = {"write_bytes_per_second": "1 GB/s"}
    fold = 4 + 4 + 6
    without = _run(accelerator(buffer=narrow), "ws", 4, 8, 4)
    beside = _run(accelerator(array=FOUR, buffer=narrow), "ws", 4, 8, 4)
    # the loads write 64 B each into the buffer first, one after the other through one port
    assert without.cycles - beside.cycles == 32 - fold
    assert beside.cycles == 2 * 64 + fold + 32


def test_a_strip_that_does_not_fit_is_refused_with_what_would() -> None:
    """Five steps of four columns of 4 B are 80 B."""
    tight = {"accumulator": {"bytes_per_element": 4, "capacity_bytes": 79}}
    with pytest.raises(DoesNotFitError) as refused:
        _run(accelerator(array=tight), "ws", 5, 10, 6)
    assert str(refused.value) == (
        "C: 5 x 4 sums of 4 B need 80 B, array.accumulator.capacity_bytes is 79 B; allowed: at "
        "most 4 ws steps in a block, a larger accumulator, or os"
    )
    assert _run(accelerator(array=tight), "os", 5, 10, 6).macs == 5 * 10 * 6


@pytest.mark.parametrize("dataflow", ["naive", "flex"])
def test_schedulers_cut_tiles_that_fit_the_accumulator(dataflow: str) -> None:
    values = {"array.accumulator": {"bytes_per_element": 4, "capacity_bytes": 64}}
    on = with_values(load_accelerator("toy"), values, "test")
    result = simulate(gemm(m=40, k=9, n=8), on, dataflow)
    assert result.run.macs == 40 * 9 * 8
    predicted = {key: n for key, n in result.prediction.moved.items() if n}
    assert {key: n for key, n in result.run.moved.items() if n} == predicted


def test_the_accumulator_has_a_price() -> None:
    values = {"array.accumulator": {"bytes_per_element": 4, "capacity_bytes": "1 KiB"}}
    on = with_values(load_accelerator("toy"), values, "test")
    moved = {("accumulator_read", "C"): 3, ("buffer_read", "C"): 1}
    assert on.energy_by_level(0, 0, moved)["accumulator"] == 3 * on.prices.buffer_pj_per_byte
    own = with_values(on, {"array.accumulator.pj_per_byte": 7}, "test")
    assert own.energy_by_level(0, 0, moved)["accumulator"] == 3 * 7
    assert own.energy_by_tensor(moved)["C"] == {"accumulator": 21, "buffer": 5}
