"""Memories beside the DRAM, and sums beside the array: what they spare, what doesn't fit."""

from fractions import Fraction

import pytest

from simaccel.analytic.native import roofline_cycles
from simaccel.diagnosis.what_if import what_if
from simaccel.errors import InputError
from simaccel.hardware import Accelerator, Stationarity
from simaccel.hardware.load import with_values
from simaccel.hardware.resources import limits_of
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.orojenesis.commands.bounding import bound
from simaccel.program.program import DoesNotFitError
from simaccel.program.text import parse_program, program_text
from simaccel.study.experiment import moved_tree, simulate
from simaccel.trace.questions import bytes_by_resource
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator
from tests.program.programs import gemm_case
from tests.refusals import faults_of, refusal_of

SLOW = {"bandwidth_bytes_per_second": "1 GB/s"}
CASE = gemm_case(gemm(m=4, k=4, n=4))
"""32 B each of A, B and C, all at once; ws on 4 x 4: 4 of preload, 4 of stream, 6 of skew."""
FOLD = 14


def _with(**weight: str | int) -> Accelerator:
    return accelerator(dram=SLOW, memories={"weight": weight})


def test_weights_come_beside_activations() -> None:
    """On one channel A and B need 64 cycles; B alone at 4 B a cycle 8, and 5 on its way."""
    alone = Machine(accelerator(dram=SLOW), CASE.program).run()
    assert alone.cycles == 64 + FOLD + 32
    on = _with(bandwidth_bytes_per_second="4 GB/s", latency_cycles=5)
    run = Machine(on, CASE.program).run()
    assert run.cycles == 32 + FOLD + 32
    assert run.served_cycles["weight0"] == 8
    assert run.served_cycles["dram0"] == 32 + 32
    assert run.moved == alone.moved


def test_one_queue_brings_from_one_memory_after_the_other() -> None:
    """A's 32 cycles, then B's 8 and 5 on its way."""
    memories = {"weight": {"bandwidth_bytes_per_second": "4 GB/s", "latency_cycles": 5}}
    on = accelerator(dram=SLOW, memories=memories, dma={"in_queues": "single"})
    assert Machine(on, CASE.program).run().cycles == 32 + 8 + 5 + FOLD + 32


def test_the_array_waits_for_the_memory_of_its_weights() -> None:
    """At 0.5 B a cycle B needs 64 cycles and 9 on its way: A's 32 do not matter."""
    run = Machine(
        _with(bandwidth_bytes_per_second="500 MB/s", latency_cycles=9), CASE.program
    ).run()
    assert run.cycles == 64 + 9 + FOLD + 32
    assert run.engines["array"].stalls["dram_bandwidth"] == 64
    assert run.engines["array"].stalls["dram_latency"] == 9


def test_channels_share_a_transfer() -> None:
    on = _with(bandwidth_bytes_per_second="4 GB/s", channels=2, interleave_bytes=16)
    run = Machine(on, CASE.program).run()
    assert (run.served_cycles["weight0"], run.served_cycles["weight1"]) == (8, 8)


def test_what_if_frees_all_memories() -> None:
    """Without bandwidth only the fold is left; without latency B is there when A is."""
    on = _with(bandwidth_bytes_per_second="500 MB/s", latency_cycles=9)
    found = {one.resources: one.cycles for one in what_if(on, CASE.program).freed}
    assert found["dram_bandwidth",] == 9 + FOLD
    assert found["dram_latency",] == 64 + FOLD + 32


def test_freed_slots_need_no_staging() -> None:
    """Two folds of 32 B fill the staging; freed, each has as many slots as it likes."""
    one = gemm_case(gemm(m=4, k=8, n=4), k=4, b_slots=2)
    on = _with(bandwidth_bytes_per_second="4 GB/s", staging_bytes=64)
    (found,) = what_if(on, one.program, [("slots",)]).freed
    assert found.cycles <= Machine(on, one.program).run().cycles


def test_the_roofline_has_a_roof_for_each_memory() -> None:
    """A and C are 64 B at 1 B a cycle, B 32 B at 0.25 B a cycle."""
    on = _with(bandwidth_bytes_per_second="250 MB/s")
    assert roofline_cycles(CASE.workload, on) == 128
    assert roofline_cycles(CASE.workload, accelerator(dram=SLOW)) == 96


def test_a_bound_allows_what_each_memory_can_move() -> None:
    """64 products and 48 sums; 96 B at 1.25 B a cycle, of them 32 B at 0.25: 128 cycles."""
    on = _with(bandwidth_bytes_per_second="250 MB/s")
    found = bound(gemm(m=4, k=4, n=4), on)
    assert found.performance(96) == pytest.approx(1e9 * 112 / 128)
    assert found.performance(1000) == pytest.approx(1e9 * 112 / 800)
    assert on.bytes_per_cycle(["activation", "weight"]) == Fraction(5, 4)


def test_a_bound_knows_what_a_mac_takes() -> None:
    """Of 16 bits on multipliers of 8 it is four cycles: 16 PEs make 4 MACs a cycle."""
    found = bound(gemm(m=4, k=4, n=4), accelerator(array={"native_bits": 8}))
    assert found.performance(96) == 1e9 * 2 * 16 / 4


def test_directives_have_one_way_off_the_chip() -> None:
    with pytest.raises(InputError, match="memories: got 'weight'; allowed: nothing besides the D"):
        hardware_of(
            load_accelerator("maestro_256", ["memories.weight.bandwidth_bytes_per_second=1 GB/s"])
        )
    two = load_accelerator(
        "maestro_256", ["dram.bandwidth_bytes_per_second=8 GB/s", "dram.channels=2"]
    )
    assert hardware_of(two).offchip_bandwidth * 2 * two.clock_hz == 8 * 10**9


def test_tiles_of_a_memory_take_no_more_than_its_staging() -> None:
    one = gemm_case(gemm(m=4, k=8, n=4), k=4, b_slots=3)
    Machine(_with(**SLOW, staging_bytes=96), one.program)
    said = refusal_of(Machine, _with(**SLOW, staging_bytes=95), one.program, error=DoesNotFitError)
    assert said == (
        "gemm: tiles need 96 B, memories.weight.staging_bytes is 95 B, 1 B too many: B 3 x 32 B"
    )


def test_a_trace_tells_memories_apart() -> None:
    on = _with(bandwidth_bytes_per_second="4 GB/s")
    run = Machine(on, CASE.program).run()
    figures = {"bytes": moved_tree(run.moved)}
    assert bytes_by_resource(figures, on)["dram"] == 96  # of a writer that told no classes
    found = bytes_by_resource(figures | {"dram_by_class": {"weights": 32, "activations": 64}}, on)
    assert (found["weight"], found["dram"]) == (32, 64)
    assert [limits_of(on, ["array"])[name] for name in ("weight", "dram")] == [4, 1]


def test_the_text_form_says_which_tensors_are_weights() -> None:
    text = program_text(CASE.program)
    assert [line.split()[-1] for line in text.splitlines() if " of B[" in line] == ["weight"]
    assert parse_program(text) == CASE.program


def test_each_field_of_a_memory_can_be_set() -> None:
    bandwidth = "memories.weight.bandwidth_bytes_per_second"
    on = load_accelerator("toy", [f"{bandwidth}=2 GB/s", "memories.weight.latency_cycles=3"])
    assert on.backing("weight").dram.latency_cycles == 3
    assert on.memory("cache") == "dram"
    assert Accelerator.model_validate_json(on.model_dump_json()) == on


def test_wrong_fields_are_all_named() -> None:
    fields = ["bandwidth_bytes_per_second=1 B/s", "channels=9", "interleave_bytes=1 GiB"]
    found = faults_of(load_accelerator, "toy", [f"memories.weight.{one}" for one in fields])
    named = {fault.field for fault in found}
    assert named == {f"memories.weight.{one.partition('=')[0]}" for one in (fields[0], fields[2])}
    with pytest.raises(InputError, match=r"memories\.weight\.bandwidth_bytes_per_second"):
        load_accelerator("toy", ["memories.weight.latency_cycles=3"])
    with pytest.raises(InputError, match="did you mean"):
        load_accelerator("toy", ["memories.wieght.latency_cycles=3"])


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
    said = refusal_of(_run, accelerator(array=tight), "ws", 5, 10, 6, error=DoesNotFitError)
    assert said == (
        "C: 5 x 4 sums of 4 B need 80 B, array.accumulator.capacity_bytes is 79 B; allowed: at "
        "most 4 ws steps in a block, a larger accumulator, or os"
    )
    assert _run(accelerator(array=tight), "os", 5, 10, 6).macs == 5 * 10 * 6


@pytest.mark.parametrize("dataflow", ["naive", "flex"])
def test_schedulers_cut_tiles_that_fit_the_accumulator(dataflow: str) -> None:
    values = {"array.accumulator": {"bytes_per_element": 4, "capacity_bytes": 64}}
    on = with_values(load_accelerator("toy"), values, "test")
    result = simulate(gemm(m=20, k=5, n=4), on, dataflow)
    assert result.run.macs == 20 * 5 * 4
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
