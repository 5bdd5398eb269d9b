"""What limits a run, waits beyond its bound, and several precisions, by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest

from simaccel import build
from simaccel.analytic.floor.compulsory import least_dram_bytes
from simaccel.analytic.memories import dram_by_class
from simaccel.diagnosis.limits import computing_unit, loading_cycles, only_memory, waiting_by_cause
from simaccel.diagnosis.what_if import longest_wait, speedup_without, speedups_of
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.accounts import EngineCycles
from simaccel.machine.machine import OperatorRun
from simaccel.report.results import answer_line
from simaccel.schedulers import Options
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.units import FIELDS, LIMITS, STALLS
from simaccel.workload import (
    ModelDimensions,
    Product,
    Workload,
    attention,
    gemm,
    layers_workload,
    transformer,
    with_precision,
)
from tests.machine.accelerators import accelerator
from tests.trees import einsum, mapping, workload
from tests.workload.language.reference import small

FREE = ("dram.bandwidth_bytes_per_second=unlimited", "dram.latency_cycles=0")


def _answer(result: ExperimentResult) -> str:
    return answer_line(result, speedups_of(result, result.limit))


def _gain(result: ExperimentResult) -> float:
    return speedup_without(result, result.limit.name) or 0


def _run(m: int, *overrides: str, k: int = 256, n: int = 256) -> ExperimentResult:
    found = load_accelerator("edge", ["array.stationarity=ws", *FREE, *overrides])
    return simulate(gemm(m=m, k=k, n=n), found, "naive")


def test_one_row_of_inputs_waits_for_the_weights_of_the_array() -> None:
    """Each of 8 x 8 folds shifts 32 rows of weights in, and uses them for one cycle."""
    pipes = ("noc.distribution.topology=unlimited", "noc.collection.topology=unlimited")
    result = _run(1, *pipes)
    assert sum(loading_cycles(result.program, result.accelerator).values()) == 64 * (32 - 1)
    assert result.limit.name == result.rows[0].limit.name == "array_loading"
    assert _gain(result) > 4


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
    assert _gain(result) > 2


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
    assert _gain(result) > 100


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
    assert speedup_without(result, result.limit.name) == gain
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


def test_waits_are_for_the_only_memory_that_takes_time() -> None:
    """What a compiler keeps on the chip takes none; weights with a memory of their own do."""
    slow = {"memories": {"weight": {"bandwidth_bytes_per_second": "1 GB/s"}}}
    memories = [only_memory(load_accelerator(name)) for name in ("edge", "tpu_v4")]
    assert [*memories, only_memory(accelerator(**slow))] == ["dram", "dram", ""]


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
    assert gain == pytest.approx(speedup_without(result, wait.name), rel=0.02)
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


def test_macs_of_padding_are_in_no_utilisation() -> None:
    """A TPU v3 pads 3 channels and 4 filters to 128 lanes; two arrays have 128 x 128 PEs each."""
    result = simulate(
        build("conv", shape="M=4,C=3,P=1,Q=9,R=1,S=2"), load_accelerator("tpu_v3"), "deployed"
    )
    (row,) = result.rows
    assert row.run.macs == 128 * 128 * 9 * 2
    needed = 4 * 3 * 9 * 2 / (2 * 128 * 128) / row.cycles
    assert row.utilisation(result.accelerator) == result.utilisation == pytest.approx(needed)


def test_an_array_among_others_is_full() -> None:
    """A product of 2000 x 4 x 4 on one of four arrays of 4 x 4 streams a row a cycle."""
    of = workload(einsum("P", "C m n", "A m k", "B k n", m=2000, k=4, n=4))
    tree = "group P on core 1\n  keep A buffer, B buffer, C buffer\n  do P array ws"
    result = simulate(of, accelerator(cores={"count": 4}), mapping(of, tree))
    assert (result.rows[0].limit.name, result.limit.name) == ("array", "array")


def _run_waiting(busy: int, idle: int = 0, **stalls: int) -> OperatorRun:
    """Return a run of one engine that computes."""
    account = EngineCycles(busy, idle, stalls)
    cycles = busy + idle + sum(stalls.values())
    return OperatorRun("a", cycles, 0, 0, {}, 0, {"array": account})


@pytest.mark.parametrize(
    ("terms", "left"),
    [
        ({"array": 60}, {"dram_bandwidth": 25, "idle": 10, "dram_latency": 5}),
        ({"array": 60, "drain": 4}, {"dram_bandwidth": 25, "idle": 6, "dram_latency": 5}),
        ({"fill": 7, "array": 60}, {"dram_bandwidth": 23, "idle": 10}),
        ({"dram": 82}, {"idle": 10, "dram_latency": 5, "busy": 3}),
        ({"array": 58}, {"dram_bandwidth": 25, "idle": 10, "dram_latency": 5, "busy": 2}),
        ({"array": 60, "dram": 40}, {}),
    ],
)
def test_terms_of_the_bound_take_their_own_causes(
    terms: dict[str, int], left: dict[str, int]
) -> None:
    """60 of 100 cycles busy, 25 for bandwidth, 5 for latency, 10 idle."""
    run = _run_waiting(60, idle=10, dram_bandwidth=25, dram_latency=5)
    found = waiting_by_cause(run, terms)
    assert found == left
    assert list(found.values()) == sorted(found.values(), reverse=True)
    idle = {name: EngineCycles(0, 100, {}) for name in ("array", "sfu")}
    idle["core2.array"] = EngineCycles(50, 50, {})  # ends before core 1, which the others await
    other = replace(run, engines={**idle, "core1.array": run.engines["array"]})
    assert computing_unit(other) == "core1.array"
    assert waiting_by_cause(other, terms) == left


def test_a_bound_above_the_cycles_of_a_group_leaves_nothing() -> None:
    assert waiting_by_cause(_run_waiting(60), {"array": 61}) == {}


def test_one_tile_waits_for_what_the_bound_has_not() -> None:
    """4 x 4 x 4 on a toy: the array has 4 + 4 + 2 cycles of a fold; fill and drain surround it.

    Whatever is left beside them is a stall of the array, or it is idle behind its last fold.
    """
    found = simulate(gemm(m=4, k=4, n=4), load_accelerator("toy"), "naive")
    assert computing_unit(found.run) == "array"
    waiting = waiting_by_cause(found.run, found.prediction.bound_terms)
    assert sum(waiting.values()) == found.run.cycles - found.prediction.bound_cycles
    account = found.run.engines["array"]
    for cause, n in waiting.items():
        assert n <= {"busy": account.busy, "idle": account.idle, **account.stalls}[cause]


SLOW = load_accelerator("edge_tpu", ["dram.bandwidth_bytes_per_second=5 GB/s"])
WEIGHTS = 4 * 4096 * 4096 + 3 * 4096 * 11008
"""Elements of the matrices of a block of Llama-2-7B."""


def _decode(weights: str) -> ExperimentResult:
    sizes = {"weights": weights, "activations": "fp16", "cache": "fp8"}
    one = build("llama-2-7b", phase="decode", prompt=128, precision=sizes)
    return simulate(one, SLOW, "naive-m")


def test_weights_of_4_bits_stream_in_half_the_time_of_8() -> None:
    """Batch 1 reads each weight once: bytes are exact, and bound the time from below."""
    eight, four = _decode("int8"), _decode("int4")
    for result, bits in ((eight, 8), (four, 4)):
        read = result.run.moved
        n_bytes = sum(n for (level, t), n in read.items() if level == "dram_read" and t[0] == "W")
        assert n_bytes == WEIGHTS * bits // 8
        limit = Fraction(n_bytes * SLOW.clock_hz, 5 * 10**9)
        assert limit <= result.run.cycles < limit * 1.2
    assert four.run.cycles < eight.run.cycles * 0.6
    cached = [
        sum(n for (_, t), n in one.run.moved.items() if t in ("K", "V")) for one in (eight, four)
    ]
    assert cached[0] == cached[1] > 0


def test_what_moves_is_what_is_predicted_and_no_less_than_the_least() -> None:
    """Of a small Llama with odd sizes, and all classes of 4 bits."""
    model = small(hidden=18, heads=3, kv_heads=3, head_size=6, ff_size=21)
    whole = transformer(model, phase="decode", prompt=7)
    for sizes in ({"weights": "int4"}, dict.fromkeys(("weights", "activations", "cache"), "int4")):
        of = with_precision(whole, sizes)
        result = simulate(of, load_accelerator("toy"), "naive-m")
        assert result.prediction.moved == result.run.moved
        moved, least = dram_by_class(of, result.run.moved), least_dram_bytes(of)
        assert all(moved[name] >= least[name] for name in least)
        assert sum(moved.values()) >= result.floor.least_bytes >= result.floor.compulsory_bytes


@pytest.mark.parametrize("name", ["bf16", "fp8"])
def test_numbers_of_as_many_bits_cost_the_same(name: str) -> None:
    def run(of: Workload) -> ExperimentResult:
        return simulate(of, load_accelerator("toy"), "naive")

    of = build("gemm", shape="M=9,K=7,N=5")
    other = {"bf16": 2, "fp8": 1}[name]
    tensors = {n: replace(one, bytes_per_element=other) for n, one in of.tensors.items()}
    sizes = dict.fromkeys(("weights", "activations"), name)
    named, sized = run(with_precision(of, sizes)), run(replace(of, tensors=tensors))
    assert (named.run.cycles, named.run.moved) == (sized.run.cycles, sized.run.moved)
