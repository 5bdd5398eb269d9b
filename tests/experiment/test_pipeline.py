"""Pipelines: recurrences by hand and by events, stages against whole models, refusals."""

import heapq
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.experiment.pipeline import (
    PipelineMessage,
    micro_batch_ends,
    run_pipeline,
    step_cycles,
)
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.pipeline import pipeline_json, pipeline_lines
from simaccel.report.pipeline_row import pipeline_row
from simaccel.schedulers import Options
from simaccel.workload import Workload
from simaccel.workload.language import Transformer
from simaccel.workload.language.build import transformer

SMALL = Transformer(
    name="small",
    source="sizes for sums by hand",
    hidden=32,
    layers=4,
    heads=4,
    kv_heads=2,
    head_size=8,
    ff_size=64,
    vocabulary=64,
)


def _pod(count: int, *more: str) -> Accelerator:
    sets = ["link_bytes_per_second=9.4 GB/s", "latency_cycles=700", "pj_per_bit=1"]
    chips = [f"chips.{one}" for one in (f"count={count}", *sets, *more)]
    return load_accelerator("tpu_v3", chips)  # 940 MHz: 10 bytes a cycle


def _build(phase: str) -> Callable[[int], Workload]:
    return lambda batch: transformer(SMALL, phase=phase, prompt=8, batch=batch, scope="model")


def _by_events(
    stages: list[int], batches: int, message: PipelineMessage, back: PipelineMessage, tokens: int
) -> list[list[int]]:
    """Return when each micro-batch leaves the last stage, token by token, by events."""
    last, ends = len(stages) - 1, [[0] * batches for _ in range(tokens)]
    free, link_free = [0] * len(stages), [0] * len(stages)
    waiting: list[set[int]] = [set() for _ in stages]
    turn = [0] * len(stages)
    events = [(0, 0, number) for number in range(batches)]  # (time, stage, token * batches + batch)
    while events:
        now, stage, number = heapq.heappop(events)
        waiting[stage].add(number)
        while turn[stage] in waiting[stage]:  # in order
            number = turn[stage]
            turn[stage] += 1
            free[stage] = done = max(free[stage], now) + stages[stage]
            sent = back if stage == last else message
            link_free[stage] = max(link_free[stage], done) + (sent.link_cycles if last else 0)
            come = link_free[stage] + sent.latency_cycles if last else done
            if stage < last:
                heapq.heappush(events, (come, stage + 1, number))
                continue
            ends[number // batches][number % batches] = done
            if number // batches + 1 < tokens:
                heapq.heappush(events, (come, 0, number + batches))
    return ends


@settings(max_examples=60, deadline=None)
@given(
    stages=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    batches=st.integers(1, 6),
    link=st.integers(0, 12),
    back=st.integers(0, 3),
    latency=st.integers(0, 9),
)
def test_recurrence_and_steady_step_are_those_of_events(
    stages: list[int], batches: int, link: int, back: int, latency: int
) -> None:
    message, token = PipelineMessage(0, link, latency), PipelineMessage(0, back, latency)
    ends = _by_events(stages, batches, message, token, 60)
    assert micro_batch_ends(stages, batches, message) == ends[0]
    assert ends[-1][-1] - ends[-2][-1] == step_cycles(stages, batches, message, token)


def test_a_pipeline_of_two_stages_by_hand() -> None:
    """Each chip has two layers; 4 sequences in two micro-batches of 2 x 8 x 32 bf16."""
    pod = _pod(2)
    run = run_pipeline(_build("prefill"), pod, "naive", stages=2, batch=4)
    assert [(one.name, one.count, one.layers) for one in run.stages] == [
        ("first", 1, 2),
        ("last", 1, 2),
    ]
    assert run.micro_batches == 2
    assert (run.message.n_bytes, run.message.link_cycles) == (2 * 8 * 32 * 2, 103)
    first, last = (one.cycles for one in run.stages)
    come = [first + 103 + 700, 2 * first + 103 + 700]
    done = come[0] + last
    assert run.ends == [done, max(done, come[1]) + last]
    assert run.cycles == run.ends[-1]
    assert run.tokens_per_second == 4 * 8 / pod.seconds(run.cycles)
    assert run.bubbles == 1 - 2 * (first + last) / (2 * run.cycles)
    json = pipeline_json(run)
    assert json["micro_batch_ends"] == run.ends
    assert pipeline_lines(run)[0].startswith("2 stages of 1 chip; micro-batches: 2 of 2 sequences")


def test_stages_do_what_the_whole_model_does() -> None:
    """MACs and weights of four stages are those of the model on one chip."""
    whole = transformer(SMALL, phase="decode", prompt=8, batch=2, scope="model")
    run = run_pipeline(_build("decode"), _pod(4), "naive", stages=4, batch=8)
    assert [(one.name, one.count, one.layers) for one in run.stages] == [
        ("first", 1, 1),
        ("between", 2, 1),
        ("last", 1, 1),
    ]
    assert sum(one.count * one.result.run.macs for one in run.stages) == whole.macs
    first, between, last = (one.cycles for one in run.stages)
    hop = -(-2 * 32 * 2 // 10) + 700
    way = first + 2 * between + last + 3 * hop + 1 + 700
    assert run.cycles == max(way, 4 * max(first, between, last))
    row = pipeline_row(run)  # a chip of four: the mean of all, four micro-batches each
    assert row["macs"] == whole.macs  # 4 micro-batches / 4 chips
    assert 4 * sum(row["energy_pj"].values()) == pytest.approx(run.energy_pj)
    array = row["engines"]["array"]
    assert array["busy"] + array["idle"] + sum(array["stalls"].values()) == run.cycles
    assert row["utilisation"] * run.cycles == pytest.approx(
        sum(one.count * one.result.ideal_cycles for one in run.stages)
    )
    assert 0 < row["bound"]["cycles"] == run.cycles - row["bound"]["waiting_cycles"]


def test_stages_of_several_chips_share_their_layers() -> None:
    """Eight chips in two stages of four, each of which has two groups of two."""
    options = Options(tensor_parallel=2, data_parallel=2)
    switch = _pod(8, "topology=switch")
    run = run_pipeline(
        _build("decode"), switch, "naive", stages=2, batch=8, micro_batches=2, options=options
    )
    assert run.message.n_bytes == 4 * 32 * 2 // 2  # each of two groups has half of the sequences
    assert {one.kind for stage in run.stages for one in stage.result.pod.exchanges} == {
        "all_reduce"
    }


@pytest.mark.parametrize(
    ("stages", "batch", "micro", "more", "said"),
    [
        (3, 4, None, (), "got 3; allowed: a number that divides the 4 times that layers of small"),
        (2, 4, 3, (), "--micro-batches: micro-batches: got 3; allowed: a number that divides the"),
        (2, 4, None, ("topology=ring",), "got 2; allowed: one of 1, 4, the first dimensions of"),
        (4, 4, None, ("topology=torus", "shape=[2, 2]"), ""),
    ],
)
def test_what_cannot_be_cut(
    stages: int, batch: int, micro: int | None, more: tuple[str, ...], said: str
) -> None:
    def run() -> object:
        return run_pipeline(
            _build("decode"),
            _pod(4, *more),
            "naive",
            stages=stages,
            batch=batch,
            micro_batches=micro,
        )

    if not said:
        assert run()
        return
    with pytest.raises(InputError, match=said):
        run()
