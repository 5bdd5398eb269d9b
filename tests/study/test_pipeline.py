"""Pipelines: recurrences by hand and by events, stages against whole models, refusals."""

import heapq
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.hardware.load import with_values
from simaccel.report.generation import pipeline_json, pipeline_lines
from simaccel.schedulers import Options
from simaccel.study.experiment import simulate
from simaccel.study.pipeline import micro_batch_ends, pipeline_row, step_cycles
from simaccel.study.pipeline_plan import PipelineMessage, plan_pipeline
from simaccel.study.points import base_point
from simaccel.workload import Vector, Workload
from simaccel.workload.language.build import transformer
from simaccel.workload.language.model import LayerRun, Transformer
from tests.data_files import data_beside
from tests.small_pods import SMALL, run_stages, small_pod

DATA = data_beside(__file__)


def _build(phase: str, batch: int) -> Workload:
    return transformer(SMALL, phase=phase, prompt=8, batch=batch, scope="model")


def vectors(workload: Workload) -> Iterator[Vector]:
    """Yield the vector operators of a workload."""
    return (operator for operator in workload.operators if isinstance(operator, Vector))


def _by_events(
    stages: list[list[int]],
    batches: int,
    messages: list[list[PipelineMessage]],
    back: PipelineMessage,
) -> list[list[int]]:
    """Return when each micro-batch leaves the last stage, token by token, by events.

    ``stages`` and ``messages``: cycles of each stage, and what it sends, of each token.
    """
    last, ends = len(stages[0]) - 1, [[0] * batches for _ in stages]
    free, link_free = [0] * (last + 1), [0] * (last + 1)
    waiting: list[set[int]] = [set() for _ in free]
    turn = [0] * (last + 1)
    events = [(0, 0, number) for number in range(batches)]  # (time, stage, token * batches + batch)
    while events:
        now, stage, number = heapq.heappop(events)
        waiting[stage].add(number)
        while turn[stage] in waiting[stage]:  # in order
            number = turn[stage]
            token = number // batches
            turn[stage] += 1
            free[stage] = done = max(free[stage], now) + stages[token][stage]
            sent = back if stage == last else messages[token][stage]
            link_free[stage] = max(link_free[stage], done) + (sent.link_cycles if last else 0)
            come = link_free[stage] + sent.latency_cycles if last else done
            if stage < last:
                heapq.heappush(events, (come, stage + 1, number))
                continue
            ends[token][number % batches] = done
            if token + 1 < len(stages):
                heapq.heappush(events, (come, 0, number + batches))
    return ends


@settings(max_examples=60, deadline=None)
@given(
    stages=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    batches=st.integers(1, 6),
    links=st.lists(st.integers(0, 12), min_size=4, max_size=4),
    back=st.integers(0, 3),
    latency=st.integers(0, 9),
)
def test_recurrence_and_steady_step_are_those_of_events(
    stages: list[int], batches: int, links: list[int], back: int, latency: int
) -> None:
    """Stages of several times, and messages of several, as between slices and inside of one."""
    messages = [PipelineMessage(0, link, latency) for link in links[: len(stages) - 1]]
    token = PipelineMessage(0, back, latency)
    ends = _by_events([stages] * 60, batches, [messages] * 60, token)
    assert list(micro_batch_ends(stages, batches, messages)) == ends[0]
    assert ends[-1][-1] - ends[-2][-1] == step_cycles(stages, batches, messages, token)


@settings(max_examples=60, deadline=None)
@given(
    stages=st.lists(
        st.tuples(st.integers(5, 30), st.integers(1, 20), st.integers(0, 2)), min_size=1, max_size=5
    ),
    batches=st.integers(1, 6),
    links=st.tuples(st.integers(0, 40), st.integers(0, 4)),
    latency=st.integers(0, 9),
    tokens=st.integers(1, 12),
)
def test_a_generation_takes_its_prefill_and_its_steps_but_for_part_of_one(
    stages: list[tuple[int, int, int]],
    batches: int,
    links: tuple[int, int],
    latency: int,
    tokens: int,
) -> None:
    """Stages whose decode steps grow, behind a prefill of up to 20 times as long."""
    prefill = [step * factor for step, factor, _ in stages]
    decodes = [[step + more * at for step, _, more in stages] for at in range(tokens)]
    long, short = ([PipelineMessage(0, link, latency)] * (len(stages) - 1) for link in links)
    back = PipelineMessage(0, 1, latency)
    ends = _by_events([prefill, *decodes], batches, [long, *[short] * tokens], back)
    steps = [step_cycles(step, batches, short, back) for step in decodes]
    total = micro_batch_ends(prefill, batches, long)[-1] + sum(steps)
    assert abs(total - ends[-1][-1]) < max(steps)


def test_a_pipeline_of_two_stages_by_hand() -> None:
    """Each chip has two layers; 4 sequences in two micro-batches of 2 x 8 x 32 bf16."""
    pod = small_pod(2)
    run = run_stages(_build("prefill", 4), pod, "strips", stages=2)
    assert [(one.name, one.count, one.layers) for one in run.stages] == [
        ("first", 1, 2),
        ("last", 1, 2),
    ]
    assert run.plan.micro_batches == 2
    (message,) = run.plan.messages
    assert (message.n_bytes, message.link_cycles) == (2 * 8 * 32 * 2, 103)
    first, last = (one.cycles for one in run.stages)
    come = [first + 103 + 700, 2 * first + 103 + 700]
    done = come[0] + last
    assert list(run.ends) == [done, max(done, come[1]) + last]
    assert run.cycles == run.ends[-1]
    assert run.tokens_per_second == 4 * 8 / pod.seconds(run.cycles)
    assert run.bubbles == 1 - 2 * (first + last) / (2 * run.cycles)
    json = pipeline_json(run)
    assert json["micro_batch_ends"] == list(run.ends)
    assert pipeline_lines(run)[0].startswith("2 stages of 1 chip; micro-batches: 2 of 2 sequences")


def test_stages_do_what_the_whole_model_does() -> None:
    """MACs and weights of four stages are those of the model on one chip."""
    whole = transformer(SMALL, phase="decode", prompt=8, batch=2, scope="model")
    run = run_stages(_build("decode", 8), small_pod(4), "naive-m", stages=4)
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
    assert row["utilisation"] * run.cycles == pytest.approx(whole.macs / run.accelerator.pes)
    assert 0 < row["bound"]["cycles"] == run.cycles - row["bound"]["waiting_cycles"]


@pytest.mark.parametrize(
    ("stages", "layers", "names"),
    [
        (1, [13], ["only"]),
        (2, [7, 6], ["first", "last"]),
        (4, [4, 3, 3, 3], ["first", "layers 5-7", "layers 8-10", "last"]),
        (13, [1] * 4, ["first", "layer 2", "layer 3", "last"]),
    ],
)
def test_layers_of_two_kinds_are_cut_anywhere(
    stages: int, layers: list[int], names: list[str]
) -> None:
    """13 layers, each second with a window: stages do together what the whole model does."""
    model = replace(SMALL, layers=13, windows=(4, None))
    whole = transformer(model, phase="decode", prompt=8, scope="model")
    assert whole.repeat == 6
    switch = small_pod(stages, "topology=switch")
    plan = plan_pipeline(replace(base_point(whole, switch), stages=stages))
    assert [stage.layers for stage in plan.stages] == layers
    assert [stage.name for stage in plan.stages] == names
    assert sum(stage.count * stage.workload.macs for stage in plan.stages) == whole.macs
    assert sum(stage.count * stage.layers for stage in plan.stages) == 13
    for stage in plan.stages:
        assert sum(op.kind == "softmax" for op in vectors(stage.workload)) <= 3


@pytest.mark.parametrize(
    ("stages", "layers", "names"),
    [
        (4, [4, 3, 3], ["first", "between", "last"]),
        (13, [1] * 4, ["first", "layer 2", "layer 3", "last"]),
    ],
)
def test_first_layers_without_experts_are_in_the_first_stages(
    stages: int, layers: list[int], names: list[str]
) -> None:
    """Of 13 layers two are dense: stages do together what the whole model does."""
    dense = (True, True, *[False] * 11)
    model = replace(SMALL, layers=13, experts=2, chosen=1, dense=dense, dense_ff=8)
    whole = transformer(model, phase="decode", prompt=8, scope="model")
    switch = small_pod(stages, "topology=switch")
    plan = plan_pipeline(replace(base_point(whole, switch), stages=stages))
    assert [stage.layers for stage in plan.stages] == layers
    assert [stage.name for stage in plan.stages] == names
    assert sum(stage.count * stage.workload.macs for stage in plan.stages) == whole.macs
    names_of = [{operator.name for operator in one.workload.operators} for one in plan.stages]
    routed = [any("router" in name for name in found) for found in names_of]
    assert routed == ([True] * 3 if stages == 4 else [False, False, True, True])


@pytest.mark.parametrize(
    ("windows", "times"),
    [((4, None), 2), ((9, None), 5)],  # no token is outside of 9
)
def test_layers_that_repeat_are_those_written_out(
    windows: tuple[int | None, ...], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = replace(SMALL, layers=5, windows=windows)
    whole = transformer(model, phase="decode", prompt=8, scope="model")
    short = simulate(whole, small_pod(1), "strips").run
    monkeypatch.setattr(Transformer, "layer_run", LayerRun(first=0, length=5, times=1))
    written = transformer(model, phase="decode", prompt=8, scope="model")
    long = simulate(written, small_pod(1), "strips").run
    assert (whole.repeat, written.repeat) == (times, 1)
    assert (short.cycles, short.macs) == (long.cycles, long.macs)
    assert sum(short.moved.values()) == sum(long.moved.values())


def test_stages_of_several_chips_share_their_layers() -> None:
    """Eight chips in two stages of four, each of which has two groups of two."""
    options = Options(tensor_parallel=2, data_parallel=2)
    switch = small_pod(8, "topology=switch")
    run = run_stages(
        _build("decode", 8), switch, "strips", stages=2, micro_batches=2, options=options
    )
    assert run.plan.message_bytes == 4 * 32 * 2 // 2  # each of two has half of the batch
    assert {one.kind for stage in run.stages for one in stage.result.pod.exchanges} == {
        "all_reduce",
        "send_receive",
    }
    assert run.stage_cycles == [stage.cycles for stage in run.stages]


@pytest.mark.parametrize("shape", ["8", "2x4", "2x2x4", "4x4x2"])
def test_messages_go_over_other_links_than_collectives(shape: str) -> None:
    """Of a torus or ring a stage has whole dimensions, and messages go through the others."""
    dims = shape.count("x") + 1
    topology = ["topology=torus", f"dimensions={dims}"] if dims > 1 else ["topology=ring"]
    pod = small_pod(8, *topology).with_sections(chips=tuple(map(int, shape.split("x")))).pod
    for size in pod.group_sizes:
        group = pod.group(size)
        own = set(range(group.before, group.before + len(group.shape))) if size > 1 else set()
        for first in range(0, pod.count, size):
            for second in range(0, pod.count, size):
                assert own.isdisjoint(axis.number for axis in pod.route(first, second))


def test_stages_of_more_chips_than_heads_share_sequences_as_well() -> None:
    """8 chips a stage, 4 heads, micro-batches of 2 sequences: 4 x 2 is the only legal way."""
    switch = small_pod(16, "topology=switch", "hop_cycles=0")
    whole = _build("decode", 4)
    taken = run_stages(whole, switch, "strips", stages=2)
    options = Options(tensor_parallel=4, data_parallel=2)
    asked = run_stages(whole, switch, "strips", stages=2, options=options)
    assert taken.cycles == asked.cycles
    assert pipeline_lines(taken)[0].startswith("2 stages of 8 chips (tensor 4 x data 2); micro")


def test_chips_of_a_stage_that_no_degrees_need_do_the_same() -> None:
    """A stage of 8 chips of which 4 have the 4 heads and the others do the same; 4 of 6, 18."""
    near, whole = ("topology=switch", "hop_cycles=0"), _build("decode", 1)
    few = run_stages(whole, small_pod(8, *near), "strips", stages=2)
    for chips, others in (
        (8, "2 groups of chips alike"),
        (6, "2 of 6 chips idle"),
        (18, "14 of 18 chips idle"),
    ):
        run = run_stages(whole, small_pod(2 * chips, *near), "strips", stages=2)
        assert run.stage_cycles == few.stage_cycles
        assert f"{chips} chips (tensor 4 x data 1, {others})" in pipeline_lines(run)[0]


@pytest.mark.parametrize(
    ("shape", "stages", "turned", "group"),
    [
        ("2x4", 4, (4, 2), (1, 2)),  # stages are places along the side of 4
        ("2x4", 2, (2, 4), (1, 4)),
        ("4x2", 2, (2, 4), (1, 4)),  # a ring of 4 in both, not a torus of 2 x 2
        ("4x2", 4, (4, 2), (1, 2)),
    ],
)
def test_stages_are_places_along_any_side(
    shape: str, stages: int, turned: tuple[int, int], group: tuple[int, int]
) -> None:
    pod = with_values(small_pod(8, "topology=torus", "dimensions=2"), {"chips": shape}, "test")
    plan = plan_pipeline(replace(base_point(_build("prefill", 8), pod), stages=stages))
    assert (plan.accelerator.pod.shape, plan.group.pod.shape) == (turned, group)


def test_messages_between_slices_go_over_the_network_and_others_over_links() -> None:
    """Two slices of two chips, a stage each: 2 x 8 x 32 bf16 at 10 bytes a cycle, and at 1."""
    network = ("network_bytes_per_second=0.94 GB/s", "network_start_cycles=5000", "topology=torus")
    pod = small_pod(4, *network)
    pod = with_values(pod, {"chips": "2x2"}, "test")
    plan = plan_pipeline(replace(base_point(_build("prefill", 8), pod), stages=4, micro_batches=4))
    n_bytes = 2 * 8 * 32 * 2
    assert [message.n_bytes for message in plan.messages] == [n_bytes] * 3
    near, across = -(-n_bytes // 10), n_bytes
    assert [message.link_cycles for message in plan.messages] == [near, across, near]
    assert [message.latency_cycles for message in plan.messages] == [700, 5000, 700]
    assert plan.back.latency_cycles == 5000


@pytest.mark.parametrize(("stages", "batch", "micro", "more", "said"), DATA["refused"])
def test_what_cannot_be_cut(
    stages: int, batch: int, micro: int | None, more: list[str], said: str
) -> None:
    cut = {"stages": stages, "micro_batches": micro}
    with pytest.raises(InputError, match=said):
        run_stages(_build("decode", batch), small_pod(4, *more), "strips", **cut)
