"""What limits a run, against figures worked out by hand."""

import pytest

from simaccel import build
from simaccel.experiment.limits import gain_without, longest_wait
from simaccel.experiment.loading import loading_cycles
from simaccel.experiment.run import ExperimentResult, simulate
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.results import answer_line
from simaccel.schedulers import Options
from simaccel.units import LIMITS, STALLS
from simaccel.workload import ModelDimensions, attention, gemm

FREE = ("dram.bandwidth_bytes_per_second=unlimited", "dram.latency_cycles=0")


def _run(m: int, *overrides: str, k: int = 256, n: int = 256) -> ExperimentResult:
    found = load_accelerator("edge", ["array.stationarity=ws", *FREE, *overrides])
    return simulate(gemm(m=m, k=k, n=n), found, "naive")


def test_one_row_of_inputs_waits_for_the_weights_of_the_array() -> None:
    """Each of 8 x 8 folds shifts 32 rows of weights in, and uses them for one cycle."""
    pipes = ("noc.distribution.topology=unlimited", "noc.collection.topology=unlimited")
    result = _run(1, *pipes)
    assert sum(loading_cycles(result.program, result.accelerator).values()) == 64 * (32 - 1)
    assert result.limit.name == result.rows[0].limit.name == "array_loading"
    gain = gain_without(result, result.limit)
    assert gain is not None
    assert gain > 4


def test_many_rows_of_inputs_hide_it() -> None:
    result = _run(512)
    assert sum(loading_cycles(result.program, result.accelerator).values()) == 0
    assert result.limit.name == "array"


def test_a_part_of_the_array_is_not_its_macs() -> None:
    """A fold of 4 of 32 columns and 32 rows: an eighth of the PEs multiply."""
    result = _run(512, n=4)
    assert result.limit.name == "array_unfilled"


def test_a_slow_memory_is_the_limit() -> None:
    result = _run(64, "dram.bandwidth_bytes_per_second=1 GB/s")
    assert result.limit.name == "dram_bandwidth"
    gain = gain_without(result, result.limit)
    assert gain is not None
    assert gain > 2


def test_every_cause_has_a_name() -> None:
    assert {cause.name.lower() for cause in STALLS} <= LIMITS.keys()


def test_slow_links_are_the_limit_of_what_chips_add_up() -> None:
    """Twice a block two chips add up 8 x 32 sums of 2 B: 0.5 ms at 1 MB/s, where all else is us."""
    chips = ("count=2", "link_bytes_per_second=1 MB/s", "latency_cycles=0", "pj_per_bit=1")
    pod = load_accelerator("edge", [f"chips.{setting}" for setting in chips])
    dimensions = ModelDimensions(hidden=32, heads=2, head_size=16, ff_size=64)
    block = attention(dimensions, batch=1, seq_len=8, scope="block")
    result = simulate(block, pod, "naive", options=Options(tensor_parallel=2))
    assert result.limit.name == "link"
    added = [row.limit.name for row in result.rows if "reduce" in row.run.name]
    assert added == ["link", "link"]
    gain = gain_without(result, result.limit)
    assert gain is not None
    assert gain > 100


def test_an_idle_array_is_no_limit() -> None:
    """The SFU applies norms, biases and residuals of a block pass after pass, and waits for DRAM.

    No resource is busy for half of the time, and the array has nothing to do for most of it.
    """
    block = build("gpt2", phase="prefill", prompt=32, kv_len=0)
    result = simulate(block, load_accelerator("tpu_v3"), "naive")
    array = result.run.engines["array"]
    assert array.idle > max(array.stalls.values())
    assert result.limit.name == "dram_latency"


def test_a_wait_that_costs_more_than_the_busiest_resource_is_told() -> None:
    """DRAM is busy for two thirds of the time, by rules; its latency costs more than that."""
    result = simulate(gemm(m=32, k=768, n=768), load_accelerator("edge"), "naive")
    assert result.limit.name == "dram_bandwidth"
    wait = longest_wait(result, result.limit)
    assert wait is not None
    assert wait.name == "dram_latency"
    without = simulate(
        gemm(m=32, k=768, n=768), load_accelerator("edge", ["dram.latency_cycles=0"]), "naive"
    )
    gain = result.run.cycles / without.run.cycles
    assert gain == pytest.approx(gain_without(result, wait), rel=0.02)
    assert answer_line(result).endswith(f"x as fast, without DRAM latency {gain:.2f} x")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("sfu.lanes=4", "limited by SFU (busy"),
        ("sfu.latency_cycles=9000", "limited by SFU, mostly its latency of 9,000 cycles (busy"),
    ],
)
def test_an_sfu_is_limited_by_its_lanes_or_by_its_latency(change: str, told: str) -> None:
    """12 heads of 64 x 64: 37,000 cycles in three passes of 4 lanes, or 12 times 9,000."""
    workload = build("bert", seq_len=64, scope="la")
    assert told in answer_line(simulate(workload, load_accelerator("edge", [change]), "naive"))
