"""What limits a run, against figures worked out by hand."""

import pytest

from simaccel import build
from simaccel.diagnosis.speedups import longest_wait, speedup_without, speedups_of
from simaccel.experiment.limits import loading_cycles
from simaccel.experiment.run import ExperimentResult, simulate
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.results import answer_line
from simaccel.schedulers import Options
from simaccel.units import FIELDS, LIMITS, STALLS
from simaccel.workload import ModelDimensions, Product, attention, gemm, layers_workload
from tests.machine.accelerators import accelerator

FREE = ("dram.bandwidth_bytes_per_second=unlimited", "dram.latency_cycles=0")


def _answer(result: ExperimentResult) -> str:
    return answer_line(result, speedups_of(result, result.limit))


def _run(m: int, *overrides: str, k: int = 256, n: int = 256) -> ExperimentResult:
    found = load_accelerator("edge", ["array.stationarity=ws", *FREE, *overrides])
    return simulate(gemm(m=m, k=k, n=n), found, "naive")


def test_one_row_of_inputs_waits_for_the_weights_of_the_array() -> None:
    """Each of 8 x 8 folds shifts 32 rows of weights in, and uses them for one cycle."""
    pipes = ("noc.distribution.topology=unlimited", "noc.collection.topology=unlimited")
    result = _run(1, *pipes)
    assert sum(loading_cycles(result.program, result.accelerator).values()) == 64 * (32 - 1)
    assert result.limit.name == result.rows[0].limit.name == "array_loading"
    gain = speedup_without(result, result.limit)
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
    gain = speedup_without(result, result.limit)
    assert gain is not None
    assert gain > 2


def test_every_cause_has_a_name() -> None:
    assert {cause.name.lower() for cause in STALLS} <= LIMITS.keys()


def test_slow_links_are_the_limit_of_what_chips_add_up() -> None:
    """Twice a block two chips add up 8 x 32 sums of 2 B: 0.5 ms at 1 MB/s, where all else is us."""
    chips = ("bytes_per_second=1 MB/s", "hop_cycles=0", "pj_per_bit=1")
    pod = load_accelerator("edge", ["chips=2", *(f"links.{setting}" for setting in chips)])
    dimensions = ModelDimensions(hidden=32, heads=2, head_size=16, ff_size=64)
    block = attention(dimensions, batch=1, seq_len=8, scope="block")
    result = simulate(block, pod, "naive", options=Options(tensor_parallel=2))
    assert result.limit.name == "link"
    added = [row.limit.name for row in result.rows if "reduce" in row.run.name]
    assert added == ["link", "link"]
    gain = speedup_without(result, result.limit)
    assert gain is not None
    assert gain > 100


def test_starts_of_operators_are_counted_and_freed() -> None:
    """Three GEMMs wait 1,000,000 cycles of 1 ns each before their first load.

    Without them each is the GEMM alone on a machine that takes no time to start.
    """
    slow = ("clock_hz=1 GHz", "compiler.overlap=false")
    on = load_accelerator("edge", [*slow, "compiler.kernel_start_cycles=1000000"])
    three = layers_workload("three", dict.fromkeys("abc", Product(m=64, k=64, n=64)))
    result = simulate(three, on, "naive")
    assert result.limit.name == "start"
    quick = simulate(three, load_accelerator("edge", slow), "naive")
    assert result.run.cycles - quick.run.cycles == 3 * 1_000_000
    gain = result.run.cycles / quick.run.cycles
    assert speedup_without(result, result.limit) == gain
    told = _answer(result)
    assert "limited by 3 starts of 1.00 ms (compiler.kernel_start_cycles, waiting 100% of" in told
    assert told.endswith(f"without that limit {gain:.2f} x as fast")


@pytest.mark.parametrize(
    ("memory", "field"),
    [
        ("dram", "dram.bandwidth_bytes_per_second"),
        ("memories.weight", "memories.weight.bandwidth_bytes_per_second"),
    ],
)
def test_a_limit_names_the_field_of_its_own_memory(memory: str, field: str) -> None:
    """Weights of 256 x 256 cross at 1 GB/s, of the one memory or of the other."""
    slow = {"bandwidth_bytes_per_second": "1 GB/s", "latency_cycles": 10}
    on = accelerator(**({"dram": slow} if memory == "dram" else {"memories": {"weight": slow}}))
    result = simulate(gemm(m=8, k=256, n=256), on, "naive")
    assert result.limit.fields == (field,)
    assert f"limited by DRAM bandwidth ({field}, busy" in answer_line(
        result, speedups_of(result, result.limit)
    )


def test_every_limit_of_hardware_names_fields_that_there_are() -> None:
    on = load_accelerator("edge")
    fields = [field for known in FIELDS.values() for field in known]
    for section, _, name in (field.partition(".") for field in fields):
        assert name in type(getattr(on, section)).model_fields
    assert LIMITS.keys() - FIELDS.keys() == {"drain", "idle"}


def test_an_idle_array_is_no_limit() -> None:
    """The SFU applies norms, biases and residuals of a block pass after pass, and waits for DRAM.

    No resource is busy for half of the time, and the array has nothing to do for most of it.
    """
    block = build("gpt2", phase="prefill", prompt=32, kv_len=0)
    result = simulate(block, load_accelerator("mxu_128"), "naive")
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
    assert gain == pytest.approx(speedup_without(result, wait), rel=0.02)
    assert _answer(result).endswith(f"x as fast, without DRAM latency {gain:.2f} x")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("sfu.lanes=4", "limited by SFU (sfu.lanes, busy"),
        (
            "sfu.latency_cycles=9000",
            "limited by SFU, mostly its latency of 9,000 cycles (sfu.lanes, busy",
        ),
    ],
)
def test_an_sfu_is_limited_by_its_lanes_or_by_its_latency(change: str, told: str) -> None:
    """12 heads of 64 x 64: 37,000 cycles in three passes of 4 lanes, or 12 times 9,000."""
    workload = build("bert", seq_len=64, scope="la")
    result = simulate(workload, load_accelerator("edge", [change]), "naive")
    assert told in _answer(result)
