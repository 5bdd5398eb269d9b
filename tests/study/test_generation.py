"""Generations: which steps run, how they are summed up, and what they can't be below."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes, least_dram_bytes
from simaccel.analytic.memories import dram_by_class
from simaccel.analytic.native import masked_macs, roofline_cycles
from simaccel.errors import InputError
from simaccel.report.generation import generation_json, generation_lines
from simaccel.schedulers import Options
from simaccel.study.generation import Generation, chosen_lengths, generate, sum_between
from simaccel.study.pipeline import PipelineRun
from simaccel.workload import transformer
from tests.refusals import faults_of
from tests.small_pods import SMALL, run_stages, small_pod
from validation import PLAIN

EDGE = load_accelerator("edge")


@given(st.integers(1, 1000), st.integers(0, 300), st.integers(1, 12))
def test_lengths_have_both_ends_and_are_no_more_than_asked(
    first: int, count: int, most: int
) -> None:
    found = chosen_lengths(first, count, most)
    assert found == sorted(set(found))
    assert len(found) == min(count, most)
    assert set(found) <= set(range(first, first + count))
    if count and (most > 1 or count == 1):
        assert (found[0], found[-1]) == (first, first + count - 1)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 10**9)), min_size=1, max_size=6))
def test_sums_are_those_of_a_line_through_the_places(steps: list[tuple[int, int]]) -> None:
    places, place = [], 0
    for gap, _ in steps:
        place += gap
        places.append(place)
    values = [Fraction(value) for _, value in steps]
    total = values[-1]
    for at in range(len(places) - 1):
        low, high = places[at], places[at + 1]
        for between in range(low, high):
            part = Fraction(between - low, high - low)
            total += values[at] * (1 - part) + values[at + 1] * part
    assert sum_between(places, values) == total


def test_a_generation_is_its_prefill_and_its_steps() -> None:
    found = generate(SMALL, EDGE, "naive-m", tokens=4, prompt=10, scope="la")
    prefill = simulate(transformer(SMALL, prompt=10, scope="la"), EDGE, "naive-m").run
    steps = [
        simulate(transformer(SMALL, phase="decode", kv_len=at, scope="la"), EDGE, "naive-m").run
        for at in (10, 11, 12)
    ]
    assert found.prefill["cycles"] == prefill.cycles
    assert found.decode["cycles"] == sum(one.cycles for one in steps)
    assert found.decode["macs"] == sum(one.macs for one in steps)
    moved = [sum(n for (at, _), n in one.moved.items() if at[:4] == "dram") for one in steps]
    assert sum(found.decode["dram_bytes"].values()) == sum(moved)
    assert found.spread == 0.0
    seconds = found.decode["cycles"] / EDGE.clock_hz
    assert found.tokens_per_second == pytest.approx(3 / seconds)
    assert found.token_seconds == pytest.approx(seconds / 3)
    assert found.first_token_seconds == prefill.cycles / EDGE.clock_hz


def test_each_token_of_a_generation_goes_through_all_stages() -> None:
    """Two stages of a chip, two micro-batches of 2 sequences; 10 bytes a cycle, 700 on the way."""
    pod = small_pod(2)
    found = generate(SMALL, pod, "strips", tokens=3, prompt=8, batch=4, stages=2)

    def run(phase: str, kv_len: int | None = None) -> PipelineRun:
        sizes = {"phase": phase, "prompt": 8, "kv_len": kv_len}
        whole = transformer(SMALL, scope="model", batch=4, **sizes)  # type: ignore[arg-type]
        return run_stages(whole, pod, "strips", stages=2)

    prefill = run("prefill")
    first, last = prefill.stage_cycles
    come = [first + 103 + 700, 2 * first + 103 + 700]  # 2 x 8 x 32 values of 2 bytes
    assert found.prefill["cycles"] == max(come[0] + last, come[1]) + last
    steps = [run("decode", at) for at in (8, 9)]
    cycles = []
    for step in steps:
        first, last = step.stage_cycles
        way = first + 13 + 700 + last + 1 + 700  # 2 x 32 values of 2 bytes; two numbers of 4 bytes
        cycles.append(max(way, 2 * first, 2 * last))
    assert [step["cycles"] for step in found.steps.values()] == cycles
    assert (found.decode["cycles"], found.spread) == (sum(cycles), 0.0)
    assert found.token_seconds == pytest.approx(sum(cycles) / 2 / pod.clock_hz)
    assert found.tokens_per_second == pytest.approx(4 * 2 * pod.clock_hz / sum(cycles))
    assert found.decode["energy_pj"] == pytest.approx(sum(step.energy_pj for step in steps))
    waits = [2 * n - 2 * sum(one.stage_cycles) for n, one in zip(cycles, steps, strict=True)]
    assert found.decode["bubble_cycles"] == pytest.approx(sum(waits) / 2, abs=3)
    macs = sum(2 * stage.result.run.macs for stage in steps[0].stages)
    assert (
        next(iter(found.steps.values()))["macs"] == macs / 2
    )  # of two micro-batches, by two chips
    assert found.decode["roofline_cycles"] < found.decode["cycles"]
    lines = generation_lines(found)
    assert lines[0] == "2 stages of 1 chip; micro-batches: 2 of 2 sequences"
    assert generation_json(found)["stages"] == 2
    few: dict[str, Any] = {"tokens": 2, "prompt": 8, "batch": 2}
    alone = generate(SMALL, small_pod(1), "strips", **few, stages=1)
    plain = generate(SMALL, small_pod(1), "strips", **few)
    assert (alone.prefill, alone.decode) == (plain.prefill, plain.decode)
    with pytest.raises(InputError, match="stages: got 5; allowed: 1 to 4, the layers"):
        generate(SMALL, pod, "strips", tokens=2, batch=4, stages=5)


def test_a_generation_is_cut_by_degrees_that_all_its_phases_allow() -> None:
    """4 heads on 8 chips, 2 sequences: 4 x 2."""
    how: dict[str, Any] = {"tokens": 2, "prompt": 4, "batch": 2}
    pod = small_pod(8, "topology=switch", "hop_cycles=0")
    found = generate(SMALL, pod, "strips", **how)
    options = Options(tensor_parallel=4, data_parallel=2)
    asked = generate(SMALL, pod, "strips", **how, options=options)
    assert (found.prefill, found.decode) == (asked.prefill, asked.decode)
    assert generation_lines(found)[0] == "cut: tensor 4 x data 2"


def test_chips_that_no_degrees_need_do_the_same() -> None:
    """4 heads and a sequence on 8 chips: twice the same. Of 6 and of 18 chips 4 work."""
    how: dict[str, Any] = {"tokens": 2, "prompt": 4, "batch": 1}
    near = "topology=switch", "hop_cycles=0"
    found = generate(SMALL, small_pod(8, *near), "strips", **how)
    few = generate(SMALL, small_pod(4, *near), "strips", **how)
    assert found.prefill["cycles"] == few.prefill["cycles"]
    assert found.decode["cycles"] == few.decode["cycles"]
    assert found.decode["energy_pj"] == 2 * few.decode["energy_pj"]
    assert generation_lines(found)[0] == "cut: tensor 4 x data 1, 2 groups of chips alike"
    for chips in (6, 18):
        found = generate(SMALL, small_pod(chips, *near), "strips", **how)
        assert found.decode["cycles"] == few.decode["cycles"]
        assert found.decode["energy_pj"] == few.decode["energy_pj"]
        idle = f"{chips - 4} of {chips} chips idle"
        assert generation_lines(found)[0] == f"cut: tensor 4 x data 1, {idle}"


def test_degrees_of_a_generation_are_fastest_by_its_dataflow() -> None:
    """`naive-m` takes so long on one chip that four are worth links of 16 GB/s; `strips` less."""
    near = "topology=switch", "hop_cycles=0", "bytes_per_second=16 GB/s"
    pod, one = small_pod(4, *near), small_pod(1, *near)
    found, alone = (generate(SMALL, on, "naive-m", tokens=1, prompt=8) for on in (pod, one))
    assert generation_lines(found)[0] == "cut: tensor 4 x data 1"
    assert found.prefill["cycles"] < alone.prefill["cycles"]
    same = generate(SMALL, pod, "strips", tokens=1, prompt=8)
    assert generation_lines(same)[0] == "cut: tensor 1 x data 1, 4 groups of chips alike"


def test_degrees_of_a_generation_are_fastest_over_all_its_phases() -> None:
    """Each way of 4 chips is run; the estimate without mappings takes one within 5% of the best."""
    how: dict[str, Any] = {"tokens": 9, "prompt": 8, "batch": 4, "lengths": 1}
    pod = small_pod(4)

    def cycles(options: Options | None) -> int:
        found = generate(SMALL, pod, "strips", **how, options=options)
        return int(found.prefill["cycles"] + found.decode["cycles"])

    ways = [cycles(Options(tensor_parallel=n)) for n in (1, 2, 4)]
    assert cycles(None) <= 1.05 * min(ways)
    assert max(ways) > 1.5 * min(ways)


def test_degrees_of_a_pipelined_generation_are_fastest_over_all_its_phases() -> None:
    """A prefill alone is faster by sequences, 64 steps that read all weights by halves of them."""
    wide = replace(SMALL, hidden=1024, ff_size=4096, layers=2)
    pod = small_pod(4, "topology=switch", "hop_cycles=0", "bytes_per_second=8 GB/s")

    def found(tokens: int, tensor: int | None = None) -> Generation:
        how: dict[str, Any] = {"prompt": 256, "batch": 4, "lengths": 1, "stages": 2}
        options = Options(tensor_parallel=tensor)
        return generate(wide, pod, "strips", tokens=tokens, **how, options=options)

    data, tensor = found(65, 1), found(65, 2)
    assert data.prefill["cycles"] < tensor.prefill["cycles"]
    assert data.decode["cycles"] > 1.5 * tensor.decode["cycles"]
    assert found(1).prefill["cycles"] == data.prefill["cycles"]
    assert found(65).decode["cycles"] == tensor.decode["cycles"]


def test_a_generation_has_the_default_of_its_accelerator() -> None:
    chip = load_accelerator("tpu_v5e")
    assert generate(SMALL, chip, tokens=1, prompt=8).dataflow == "deployed"
    assert generate(SMALL, EDGE, tokens=1, prompt=8).dataflow == "flat"


def test_one_simulated_step_stands_for_all() -> None:
    """MACs grow evenly with the cache, so 7 times those of the middle step are those of all 7."""
    how: dict[str, Any] = {"tokens": 8, "prompt": 8}
    one, each = (generate(SMALL, EDGE, "strips", **how, lengths=n) for n in (1, 7))
    assert (len(one.steps), len(each.steps)) == (1, 7)
    assert (
        one.decode["macs"]
        == each.decode["macs"]
        == sum(step["macs"] for step in each.steps.values())
    )
    assert one.token_seconds == EDGE.seconds(next(iter(one.steps.values()))["cycles"])
    assert (one.spread, each.spread) == (None, 0.0)


def test_steps_between_are_close_to_those_that_are_simulated() -> None:
    few = generate(SMALL, EDGE, "naive-m", tokens=7, prompt=10, lengths=3, scope="la")
    every = generate(SMALL, EDGE, "naive-m", tokens=7, prompt=10, lengths=6, scope="la")
    assert (len(few.steps), len(every.steps), every.spread) == (3, 6, 0.0)
    # weights and caches grow evenly; of the cycles the tiles that get a remainder do not
    assert few.decode["dram_bytes"] == every.decode["dram_bytes"]
    assert few.decode["macs"] == every.decode["macs"]
    assert few.decode["cycles"] == pytest.approx(every.decode["cycles"], rel=0.02)
    assert few.spread is not None
    two = generate(SMALL, EDGE, "naive-m", tokens=7, prompt=10, lengths=2, scope="la")
    assert two.spread is None


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("llama3-8b", {"phase": "decode", "kv_len": 700}),
        pytest.param(
            "mixtral", {"phase": "decode", "kv_len": 5, "batch": 3}, marks=pytest.mark.long
        ),
        ("gpt2", {"prompt": 70, "scope": "la"}),
        ("vit-b16", {"scope": "la"}),
    ],
)
def test_no_run_is_below_its_roofline(name: str, asked: dict[str, Any]) -> None:
    workload = transformer(name, **asked)
    result = simulate(workload, EDGE, "naive-m")
    assert result.run.cycles >= roofline_cycles(workload, EDGE)
    moved, least = dram_by_class(workload, result.run.moved), least_dram_bytes(workload)
    assert all(moved[one] >= least[one] for one in least)


def test_the_least_bytes_of_a_decode_step() -> None:
    """All weights and the old cache are read, the new token is written."""
    workload = transformer("llama3-8b", phase="decode", kv_len=99, scope="model")
    least = least_dram_bytes(workload)
    table, row = 128256 * 4096, 4096
    assert least["weights"] == 2 * (8_030_261_248 - table + row)
    assert least["cache"] == 32 * 2 * 8 * 128 * 2 * (99 + 1)
    assert distinct_bytes(workload) == sum(least.values())


def test_the_least_bytes_of_a_cache_that_is_made() -> None:
    """A prefill writes its keys and values: they may stay on chip until they are read."""
    least = least_dram_bytes(transformer("llama3-8b", prompt=16, scope="model"))
    assert least["cache"] == 32 * 2 * 8 * 128 * 2 * 16


def test_the_least_bytes_of_a_table_of_positions() -> None:
    """Of GPT-2's 124,439,808 weights a step reads one of 1024 positions, and a row of a token."""
    least = least_dram_bytes(transformer("gpt2", phase="decode", kv_len=99, scope="model"))
    assert least["weights"] == 2 * (124_439_808 - 1024 * 768 + 768 + 768)


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_macs_behind_the_mask(blocks: int) -> None:
    """Of B blocks of n / B rows each, what is above the diagonal of a square of n / B."""
    n, model = 256, {"scope": "la", "causal_blocks": blocks}
    workload = transformer("llama3-8b", prompt=n, **model)  # type: ignore[arg-type]
    side = n // blocks
    expected = 2 * 32 * 128 * blocks * side * (side - 1) // 2
    assert masked_macs(workload) == expected
    windowed = transformer("mistral-7b", prompt=3, kv_len=5000, scope="la")
    assert masked_macs(windowed) == 2 * 32 * 128 * (3 * 4098 - 3 * 4096)
    capped = transformer("gemma2-9b", prompt=100, scope="la", causal_blocks=1)
    assert masked_macs(capped) == 2 * 16 * 256 * 100 * 99 // 2
    blocked = transformer("gemma2-9b", prompt=960, scope="la", causal_blocks=12)
    assert masked_macs(blocked) == 2 * 16 * 256 * 12 * 80 * 79 // 2
    assert masked_macs(transformer("gpt2", phase="decode", kv_len=9)) == 0


def test_a_step_of_one_token_streams_the_weights() -> None:
    """At batch 1 the weights are read once: nothing goes below their bytes over the bandwidth."""
    workload = transformer("gpt2", phase="decode", kv_len=64, scope="model")
    accelerator = load_accelerator("edge", PLAIN)
    run = simulate(workload, accelerator, "flat-r").run
    weights = 2 * (124_439_808 - 1023 * 768)  # of the positions one row is read
    bandwidth = accelerator.dram.bandwidth_bytes_per_second
    assert bandwidth is not None
    seconds = accelerator.seconds(run.cycles)
    assert weights / bandwidth <= seconds <= 1.25 * weights / bandwidth


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = faults_of(generate, "gpt2", EDGE, tokens=0, prompt=0, lengths=-1, batch=0)
    fields = [one.field for one in found]
    assert fields == ["generate", "lengths", "batch", "prompt"]
    with pytest.raises(InputError, match="model: got 'vit-b16'; allowed: a decoder"):
        generate("vit-b16", EDGE, tokens=3)
