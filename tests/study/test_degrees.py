"""Design spaces and their draws; degrees of parallelism as axes, by hand."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.exploration import counted_lines, exploration_table
from simaccel.schedulers import Options
from simaccel.study.experiment import energy_pj, simulate
from simaccel.study.explore import ExplorationObjective, explore
from simaccel.study.parallel import open_workers
from simaccel.study.points import Axis, Of, Setting, StudyRow, WeightedWorkload
from simaccel.study.space import DesignSpace, Settings, draw, require_sizes
from simaccel.verbs.exploring import explore as explore_verb
from simaccel.workload import build, gemm
from simaccel.workload.language.build import transformer
from tests.data_files import data_beside
from tests.small_pods import SMALL, run_stages, small_pod

DATA = data_beside(__file__)

PREFILL = transformer(SMALL, phase="prefill", prompt=8, batch=4, scope="model")
DECODE = transformer(SMALL, phase="decode", kv_len=8, batch=4, scope="model")
POD = small_pod(4, "topology=switch")


def _axis(name: str, *values: int) -> Settings:
    axis = Axis(name.replace("_", "-"), name, name, "mapping")
    return tuple(Setting(axis, n, str(n), {name: n}) for n in values)


def _explored(*axes: Settings) -> dict[tuple[object, ...], StudyRow]:
    loads = WeightedWorkload(PREFILL), WeightedWorkload(DECODE, 15)
    space = DesignSpace((POD,), loads, axes, ("strips",))
    with open_workers(jobs=1) as team:
        designs = space.designs(draw(space, None))
        found = explore(space.dimensions, designs, ExplorationObjective(objective="cycles"), team)
    return {tuple(one.value for one in row.settings): row for row in found.rows}


def test_splits_of_four_chips_by_hand() -> None:
    """Tensor x pipeline, of all data: of what no product of 4 has it says so."""
    tensor, pipeline = _axis("tensor_parallel", 2, 4), _axis("pipeline_parallel", 1, 2)
    whole = _explored(tensor, pipeline, _axis("data_parallel", 1))
    found = {key[:2]: point for key, point in whole.items()}
    ran = {key: point.figures for key, point in found.items() if point.figures is not None}
    assert list(ran) == [(2, 2), (4, 1)]
    assert "got 'tensor 4 x data 1 x pipeline 2'; allowed: a product of" in found[4, 2].problem
    first = simulate(PREFILL, POD, "strips", options=Options(tensor_parallel=4))
    step = simulate(DECODE, POD, "strips", options=Options(tensor_parallel=4))
    by_layers = ran[4, 1]  # a pipeline of one stage is none
    assert by_layers["first_token_seconds"] == POD.seconds(first.run.cycles)
    assert by_layers["token_seconds"] == pytest.approx(POD.seconds(step.run.cycles))
    user = by_layers["tokens_per_second_per_user"]
    assert user == pytest.approx(1 / POD.seconds(step.run.cycles))
    assert by_layers["cycles"] == first.run.cycles + 15 * step.run.cycles
    seconds = POD.seconds(first.run.cycles + 15 * step.run.cycles)
    assert by_layers["tokens_per_second"] == pytest.approx(4 * 16 / seconds)
    assert by_layers["tokens_per_second_per_chip"] == pytest.approx(16 / seconds)
    energy = sum(
        times * sum(energy_pj(one.run, POD).values()) for one, times in ((first, 1), (step, 15))
    )
    assert by_layers["energy_per_token_pj"] == pytest.approx(4 * energy / (4 * 16))
    used = first.utilisation * first.run.cycles + 15 * step.utilisation * step.run.cycles
    assert by_layers["utilisation"] == pytest.approx(used / (by_layers["cycles"] or 0))

    two = Options(tensor_parallel=2)
    head, tail = run_stages(DECODE, POD, "strips", stages=2, options=two).stage_cycles
    way = head + 13 + 700 + tail + 1 + 700  # 2 x 32 values of 2 bytes; two numbers of 4 bytes
    assert ran[2, 2]["token_seconds"] == pytest.approx(POD.seconds(max(way, 2 * head, 2 * tail)))
    head, tail = run_stages(PREFILL, POD, "strips", stages=2, options=two).stage_cycles
    come = [head + 103 + 700, 2 * head + 103 + 700]  # 2 x 8 x 32 values of 2 bytes
    last = max(come[0] + tail, come[1]) + tail
    assert ran[2, 2]["first_token_seconds"] == pytest.approx(POD.seconds(last))
    half = (2 * 32 * 32 + 2 * 32 * 16 + 2 * 32 * 64) // 2  # of Q, O, K, V and feed-forward
    layer = half + 2 * 32 + 4 * 9 * 2 * 8  # norms; K and V of 4 sequences after 9 tokens
    assert ran[2, 2]["resident_bytes"] == 2 * (2 * layer + 32 * 32 + 32)  # half the logits, a norm


def test_the_table_has_times_rates_and_reasons() -> None:
    loads = (WeightedWorkload(DECODE),)
    axes = (_axis("pipeline_parallel", 2, 8), _axis("data_parallel", 1, 3, 5))
    space = DesignSpace((POD,), loads, axes, ("strips",), Options(tensor_parallel=2))
    with open_workers(jobs=1) as team:
        designs = space.designs(draw(space, None))
        found = explore(space.dimensions, designs, ExplorationObjective(), team)
    assert found.ran == 1
    heads = [column.header for column in exploration_table(found).columns]
    rates = ["tokens/s", "tokens/s/chip", "tokens/s/user", "energy/token"]
    assert heads[-8:-2] == ["per token", *rates, heads[-3]]
    lines = counted_lines(found)
    assert lines[0].startswith("6 designs: 5 do not run")
    assert lines[1] == (
        "does not run (3): --pipeline-parallel: stages: got 8; allowed: 1 to 4, the layers of small"
    )
    assert lines[2] == (
        "does not run (2): --tensor-parallel, --data-parallel, --pipeline-parallel: degrees: "
        "allowed: a product of 4 chips"
    )


@pytest.mark.parametrize(("axes", "said"), DATA["refused"])
def test_what_cannot_be_is_said(axes: dict[str, list[int]], said: str) -> None:
    found = explore_verb(DECODE, POD, axes, "strips", where=["cycles<1"])
    (point,) = found.points.rows
    assert said in point.problem
    assert found.points.ran == 0


def test_stages_are_those_of_a_whole_transformer() -> None:
    (point,) = explore_verb(
        gemm(m=4, k=4, n=4), POD, {"pipeline_parallel": [2]}, "strips"
    ).points.rows
    assert "got 'gemm'; allowed: a transformer with --scope model" in point.problem
    with pytest.raises(InputError, match="a whole number from 1"):
        explore_verb(DECODE, POD, {"pipeline_parallel": [0]})


TOY = load_accelerator("toy")
BUFFERS, LATENCIES = (1024, 2048, 4096), (0, 7)


def _axis_of(name: str, field: str, values: tuple[int, ...], of: Of = "accelerator") -> Settings:
    axis = Axis(name, name, name, of)
    return tuple(Setting(axis, value, str(value), {field: value}) for value in values)


def _space(*sizes: int) -> DesignSpace:
    """Make a space that is as large as it is said, whatever it is of."""
    axes = [
        _axis_of(f"a{at}", "dram.latency_cycles", tuple(range(n))) for at, n in enumerate(sizes)
    ]
    return DesignSpace((TOY,), (WeightedWorkload(gemm(m=9, k=7, n=5)),), tuple(axes))


def test_the_product_of_everything_in_order() -> None:
    space = DesignSpace(
        (TOY, load_accelerator("edge")),
        (WeightedWorkload(gemm(m=9, k=7, n=5)),),
        (
            _axis_of("buffer", "buffer.capacity_bytes", BUFFERS),
            _axis_of("latency", "dram.latency_cycles", LATENCIES),
        ),
        ("naive", "flex"),
    )
    designs = list(space.designs(range(space.size)))
    expected = [*product(("toy", "edge"), ("naive", "flex"), BUFFERS, LATENCIES)]
    assert space.size == len(expected) == 24
    for one, (name, dataflow, buffer, latency) in zip(designs, expected, strict=True):
        if name == "edge":  # its folds need more than 1 KiB to 4 KiB
            assert (buffer < 2048) == bool(one.problem), one
        if not one.problem:
            assert one.accelerator.name == name
            assert one.accelerator.buffer.capacity_bytes == buffer
            assert one.accelerator.dram.latency_cycles == latency
        assert one.dataflow == dataflow


def test_what_no_hardware_can_be_is_said() -> None:
    space = DesignSpace((TOY,), (), (_axis_of("buffer", "buffer.capacity_bytes", (8, 1024)),))
    bad, good = space.designs(range(2))
    assert bad.problem.startswith("design: buffer.capacity_bytes: got 8; allowed: at least 32 B")
    assert good.problem == ""


def test_sizes_of_workloads_are_scenarios_and_not_choices() -> None:
    bert = build("bert", seq_len=8, batch=1, scope="la")
    loads = (WeightedWorkload(bert), WeightedWorkload(gemm(m=9, k=7, n=5), 2))
    space = DesignSpace((TOY,), loads, (
        _axis_of("seq-len", "seq_len", (4, 16), "workload"),
    ))  # fmt: skip
    require_sizes("--axis", space.axes, space.loads)
    short, long = space.designs(range(2))
    assert (short.row.scenario, long.row.scenario) == (("4",), ("16",))
    assert [load.workload.parameters.get("seq_len") for load in long.loads] == [16, None]
    built = build("bert", seq_len=16, batch=1, scope="la")
    assert long.loads[0].workload.fingerprint == built.fingerprint
    assert long.loads[1].weight == space.loads[1].weight
    assert long.loads[1].workload.fingerprint == space.loads[1].workload.fingerprint


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    count=st.integers(1, 60),
    seed=st.integers(0, 9),
)
def test_a_latin_hypercube_uses_each_setting_alike(sizes: list[int], count: int, seed: int) -> None:
    space = _space(*sizes)
    numbers = draw(space, count, "latin", seed)
    assert numbers == draw(space, count, "latin", seed)
    assert len(set(numbers)) == len(numbers) <= min(count, space.size)
    assert all(0 <= number < space.size for number in numbers)
    if count >= space.size:
        assert numbers == [*range(space.size)]
        return
    if len(numbers) < count:
        return  # some were drawn twice whatever was exchanged: see below
    designs = [*product(*map(range, sizes))]
    for axis, size in enumerate(sizes):
        used = Counter(designs[number][axis] for number in numbers)
        assert {used[at] for at in range(size)} <= {count // size, -(-count // size)}


def test_few_of_many_are_all_distinct() -> None:
    for seed in range(20):
        assert len(draw(_space(8, 8, 8), 100, "latin", seed)) == 100
        assert len(draw(_space(10, 10), 50, "latin", seed)) == 50


@given(count=st.integers(1, 50), seed=st.integers(0, 9))
def test_a_random_draw_has_distinct_designs(count: int, seed: int) -> None:
    numbers = draw(_space(5, 7), count, "random", seed)
    assert len(set(numbers)) == len(numbers) == min(count, 35)
    assert numbers == sorted(numbers) == draw(_space(5, 7), count, "random", seed)


def test_a_draw_of_a_space_that_is_too_large_to_list() -> None:
    space = _space(*[1000] * 6)
    assert space.size == 10**18
    assert len(draw(space, 10, "latin")) == len(draw(space, 10, "random")) == 10
