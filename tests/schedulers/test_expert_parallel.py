"""Experts over chips: all-to-alls found from the cuts, their bytes by hand, values in numpy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simaccel.analytic.memories import memory_demands
from simaccel.diagnosis.check_chips import check_chips
from simaccel.diagnosis.plain_values import drawn_tensors, expected_values
from simaccel.errors import InputError
from simaccel.hardware.chips import ChipPod
from simaccel.hardware.links import LINK_SENT, LinksSpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.pods import pod_lines
from simaccel.schedulers import Options
from simaccel.schedulers.chip_share import grouped_experts, with_split
from simaccel.schedulers.parallel import ParallelDegrees, degrees_of, share_of, spread_over
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.study.placement import place_on
from simaccel.workload import build
from simaccel.workload.language.build import transformer
from simaccel.workload.language.experts import ways_of
from tests.small_pods import LITTLE

SMALL = replace(LITTLE, hidden=16, ff_size=24, vocabulary=32, experts=4, chosen=2)


def _chips(count: int) -> ChipPod:
    return ChipPod(LinksSpec(topology="all_to_all", bytes_per_second=10**9), (count,))


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_mixtral_needs_two_all_to_alls_a_layer(phase: str) -> None:
    """By hand: 64 tokens, two copies each, over eight chips: 16 copies of 4,096 bf16 on each."""
    prompt = 32 if phase == "decode" else 8
    layer = build("mixtral-8x7b", phase=phase, prompt=prompt, batch=64, experts="grouped")
    pod = share_of(layer, spread_over(layer, ParallelDegrees(1, 1, 8)), _chips(8))
    assert [(one.kind, one.tensor) for one in pod.exchanges] == [
        ("all_to_all", "D"),
        ("all_to_all", "E"),
    ]
    tokens = 64 * (1 if phase == "decode" else prompt)
    n_bytes = tokens * 2 // 8 * 4096 * 2
    for one in pod.exchanges:
        assert one.n_bytes(one.most) == n_bytes
        assert _chips(8).cost(one.kind, n_bytes, one.axes).sent_bytes == n_bytes * 7 // 8
    weights, mine = layer.shapes["experts.Wup"], pod.workload.shapes["experts.Wup"]
    assert (weights, mine) == ((8, 4096, 14336), (1, 4096, 14336))


@pytest.mark.parametrize(
    ("phase", "degrees"),
    [
        ("decode", (2, 2, 2)),
        ("prefill", (1, 2, 2)),
        pytest.param("decode", (1, 1, 4), marks=pytest.mark.long),
        pytest.param("prefill", (2, 1, 4), marks=pytest.mark.long),
    ],
)
def test_all_chips_make_what_one_makes(phase: str, degrees: tuple[int, int, int]) -> None:
    tensor, data, expert = degrees
    count = tensor * data * expert
    layer = transformer(
        SMALL, phase=phase, prompt=4, batch=8, experts=f"grouped:{data * expert}", causal_blocks=1
    )
    sets = [f"chips={count}", "links.topology=switch"]
    pod = load_accelerator("mxu_128", [*sets, "links.bytes_per_second=9 GB/s"])
    options = Options(tensor_parallel=tensor, data_parallel=data, expert_parallel=expert)
    result = simulate(layer, pod, "naive", options=options)
    checks = check_chips(layer, result.pod)
    assert all(one.compared == one.elements for one in checks if one.operator == "combine")
    kinds = [one.kind for one in result.pod.exchanges]
    assert kinds.count("all_to_all") == 2
    assert kinds.count("all_reduce") == (2 if tensor > 1 else 0)
    sent = sum(n for (level, _), n in result.run.moved.items() if level == LINK_SENT)
    assert sent == sum(
        pod.pod.cost(one.kind, one.n_bytes(one.most), one.axes).sent_bytes
        for one in result.pod.exchanges
    )


def test_masks_bring_each_token_to_its_experts_and_back() -> None:
    """With masks of zeros and ones: the weighted sum of the chosen experts, token by token."""
    layer = transformer(SMALL, phase="decode", prompt=4, batch=8, experts="grouped")
    given: dict[str, Any] = drawn_tensors(layer)
    mask, weights = given["mask"], given["weights"]
    assert mask.shape == (1, 4, 2, 4, 1)  # groups of two tokens, a place for one at each of four
    mask[...], weights[...] = 0, 0
    for token in range(8):
        for k in range(2):
            group, place = divmod(token, 2)
            mask[0, group, place, 2 * place + k, 0] = 1
            weights[0, group, place, 2 * place + k, 0] = (token + 1) * (k + 1)
    values = expected_values(layer, given)
    rows, out = values["norm2.out"][:, 0], values["F"][:, 0]
    for token in range(8):
        total = np.zeros(16)
        for k in range(2):
            x = 2 * (token % 2) + k
            gate, up = (rows[token] @ given[f"experts.W{name}"][x] for name in ("gate", "up"))
            inner = gate / (1 + np.exp(-gate)) * up
            total += (token + 1) * (k + 1) * (inner @ given["experts.Wdown"][x])
        np.testing.assert_allclose(out[token], total)


def _layer(name: str, **sizes: Any) -> Any:  # noqa: ANN401 - what `build` takes
    return build(name, **{"phase": "decode", "prompt": 16, "batch": 32, **sizes})


@pytest.mark.parametrize(
    ("name", "experts", "degree", "said"),
    [
        ("llama3-8b", "uniform", 4, "got 4; allowed: nothing: llama3-8b has no experts"),
        ("mixtral-8x7b", "grouped", 16, "at most the 8 experts of mixtral-8x7b"),
        ("mixtral-8x7b", "grouped", 3, "degree that divides the 8 places of experts"),
        ("mixtral-8x7b", "uniform", 4, "nothing, but with --set experts=grouped"),
        ("mixtral-8x7b", "uniform", 16, "nothing, but with --set experts=grouped"),
    ],
)
def test_experts_that_cannot_be_cut(name: str, experts: str, degree: int, said: str) -> None:
    layer = _layer(name, experts=experts)
    with pytest.raises(InputError, match=said):
        spread_over(layer, ParallelDegrees(1, 1, degree))


def _run_in_groups(phase: str, batch: int, ways: int) -> ExperimentResult:
    """Run a small model with its experts over all chips; its values are those of numpy."""
    sizes: dict[str, Any] = {"phase": phase, "prompt": 4, "batch": batch, "causal_blocks": 1}
    sets = [f"chips={ways}", "links.topology=switch", "links.bytes_per_second=9 GB/s"]
    pod = load_accelerator("tpu_v3", sets)
    options = Options(tensor_parallel=1, expert_parallel=ways)
    result = simulate(transformer(SMALL, **sizes, experts="grouped"), pod, "naive", options=options)
    whole = transformer(SMALL, **sizes, experts=f"grouped:1:{ways}")
    checks = {one.operator: one for one in check_chips(place_on(whole, pod), result.pod)}
    assert checks["combine"].compared == checks["combine"].elements > 0
    return result


@pytest.mark.parametrize(
    ("phase", "batch", "tokens", "held"),
    [("decode", 12, 6, 2), ("decode", 8, 4, 2), ("prefill", 3, 6, 2), ("decode", 1, 1, 1)],
)
def test_chips_that_do_not_divide_the_experts(
    phase: str, batch: int, tokens: int, held: int
) -> None:
    """Four experts on three chips: two, one and one; the run is that of two. Values in numpy.

    Each token goes to two of four: an expert has half of all tokens.
    """
    result = _run_in_groups(phase, batch, 3)
    mine, expert = result.pod.workload, 16 * 24
    assert mine.shapes["experts.Wup"] == (held, 16, 24)
    assert mine.stored_bytes("experts.Wup") == 2 * expert * 2
    assert mine.operator("experts.up").macs == held * tokens * expert


@pytest.mark.parametrize(
    ("phase", "batch", "ways", "better"),
    [
        ("decode", 12, 6, " (tensor 2 x data 1 x expert 3 has no such group)"),
        ("decode", 8, 8, " (tensor 2 x data 1 x expert 4 has no such group)"),
        ("prefill", 3, 5, ""),
        ("decode", 1, 8, " (tensor 2 x data 1 x expert 4 has no such group)"),
    ],
)
def test_more_chips_than_experts(phase: str, batch: int, ways: int, better: str) -> None:
    """Four experts: some chips have one, the others padding. Values in numpy; weights by hand."""
    result = _run_in_groups(phase, batch, ways)
    expert = 16 * 24 * 2
    for name in ("Wgate", "Wup", "Wdown"):
        assert result.pod.workload.stored_bytes(f"experts.{name}") == expert
        assert result.run.moved["dram_read", f"experts.{name}"] % expert == 0
    lines = [line for line in pod_lines(result) if "experts over" in line]
    held = f"4 experts over {ways} groups of chips: this one holds 1, the most"
    assert lines == [f"{held}; {ways - 4} groups hold none{better}"]


def test_more_chips_than_experts_are_no_split_by_default() -> None:
    layer = build("mixtral-8x7b", phase="decode", batch=16, kv_len=512)
    tried = [ways_of(one.parameters["experts"]) for one in grouped_experts(layer, _chips(9 * 16))]
    assert set(tried) == {1, 3, 5, 6, 7}  # those that do not divide 8 are padded


def test_a_token_reads_the_experts_that_it_uses() -> None:
    """Of 8 experts a token of Mixtral uses two, on two chips one on each, on three one of each."""
    layer, expert = build("mixtral-8x7b", phase="decode", batch=1, experts="grouped"), 4096 * 14336
    for count, held in ((2, 4), (3, 3), (8, 1)):
        options = Options(tensor_parallel=1, expert_parallel=count)
        pods = load_accelerator("tpu_v5e", [f"chips={count}"])
        told = with_split(layer, pods, options, "deployed")
        pod = share_of(told, spread_over(told, ParallelDegrees(1, 1, count)), _chips(count))
        assert pod.workload.tensor_bytes("experts.Wdown") == 2 * expert
        assert pod.workload.stored_bytes("experts.Wdown") == 2 * expert * held


@pytest.mark.parametrize(("count", "spread"), [(3, "expected"), (21, "expected"), (3, "grouped")])
def test_uneven_experts_are_among_the_splits(count: int, spread: str) -> None:
    """Three chips have three heads of none, two tokens, four experts: only experts can be cut.

    21 chips are cut by divisors.
    """
    links = ("links.topology=switch", "links.pj_per_bit=1", "links.closes_at=1")
    pod = load_accelerator("tpu_v5e", [f"chips={count}", *links])
    sizes: dict[str, Any] = {"phase": "decode", "prompt": 4, "batch": 2}
    model = replace(SMALL, hidden=256, ff_size=2048, layers=1)
    result = simulate(transformer(model, **sizes, experts=spread), pod, "deployed")
    assert "grouped:" in result.workload.parameters["experts"]
    lines = [line for line in pod_lines(result) if "experts over" in line]
    assert lines == ["4 experts over 3 groups of chips: this one holds 2, the most"]
    again = transformer(model, **sizes, experts=spread)
    assert simulate(place_on(again, pod), pod, result.whole).run.cycles == result.run.cycles


def test_a_model_without_experts_groups_nothing() -> None:
    with pytest.raises(InputError, match="nothing, as the model has no"):
        _layer("llama3-8b", experts="grouped")


@pytest.mark.parametrize(
    ("phase", "batch", "prompt", "kinds"),
    [
        ("decode", 4, 4, ["all_gather", "reduce_scatter"]),  # a token on each chip
        ("decode", 1, 4, ["all_reduce"]),  # on no chip less than all tokens
        ("prefill", 1, 5, ["all_reduce"]),
        pytest.param("decode", 3, 4, ["all_reduce"], marks=pytest.mark.long),
        ("prefill", 4, 5, ["all_to_all", "all_to_all"]),
    ],
)
def test_any_number_of_tokens_goes_to_experts_on_four_chips(
    phase: str, batch: int, prompt: int, kinds: list[str]
) -> None:
    """Values of each chip in numpy; experts' MACs of all chips are those of the whole layer."""
    layer = transformer(
        SMALL, phase=phase, prompt=prompt, batch=batch, experts="grouped:4", causal_blocks=1
    )
    sets = ["chips=4", "links.topology=switch", "links.bytes_per_second=9 GB/s"]
    pod = load_accelerator("tpu_v3", sets)
    result = simulate(layer, pod, "naive", options=Options(tensor_parallel=1, expert_parallel=4))
    checks = {one.operator: one for one in check_chips(layer, result.pod)}
    assert checks["combine"].compared == checks["combine"].elements > 0
    assert [one.kind for one in result.pod.exchanges] == kinds
    own = [op for op in layer.operators if op.name.startswith(("experts", "dispatch", "combine"))]
    shares = sum(result.pod.workload.operator(op.name).macs for op in own)
    assert 4 * shares == sum(op.macs for op in own)


def test_mixtral_with_a_token_on_each_of_eight_chips() -> None:
    """Two tokens for each expert, exactly; each chip brings seven rows and sends seven sums."""
    layer = build("mixtral-8x7b", phase="decode", kv_len=512, batch=8, experts="grouped")
    pod = share_of(layer, spread_over(layer, ParallelDegrees(1, 1, 8)), _chips(8))
    rows = 8 * 4096 * 2
    found = [(one.kind, one.n_bytes(one.most)) for one in pod.exchanges]
    assert found == [("all_gather", rows), ("reduce_scatter", rows)]
    sent = [_chips(8).cost(one.kind, rows, one.axes).sent_bytes for one in pod.exchanges]
    assert sent == [rows * 7 // 8] * 2
    assert pod.workload.operator("experts.gate").macs == 2 * 4096 * 14336
    assert pod.workload.operator("Q").macs == 4096 * 4096  # of one token


@pytest.mark.parametrize(("shared", "gate"), [(0, False), (12, False), (12, True)])
@pytest.mark.parametrize("sequence", ["", "reduce_scatter"])
def test_sums_are_added_once_for_each_token(
    shared: int,
    gate: bool,  # noqa: FBT001 - a parameter of the test
    sequence: str,
) -> None:
    """Two chips have half of each expert: 8 tokens of 16 numbers of 2 bytes go over the links.

    What a token's experts make, and the expert of all tokens, is weighed and added before.
    """
    model = replace(SMALL, shared_ff=shared, shared_gate=gate)
    layer = transformer(model, phase="decode", prompt=4, batch=8, experts="drawn:3")
    links = ("links.topology=switch", "links.bytes_per_second=9 GB/s", "links.pj_per_bit=1")
    pod = load_accelerator("tpu_v5e", ["chips=2", *links, "links.closes_at=1"])
    options = Options(tensor_parallel=2, data_parallel=1, sequence_parallel=bool(sequence))
    result = simulate(layer, pod, "deployed", options=options)
    kinds = [(one.tensor, one.kind) for one in result.pod.exchanges]
    added = [kind for kind in kinds if kind[1] != "all_gather"]
    assert added == [("Y", sequence or "all_reduce"), ("F", sequence or "all_reduce")]
    gathered = {"norm1.out", "norm2.out"} if sequence else set()
    assert {tensor for tensor, kind in kinds if kind == "all_gather"} == gathered
    assert {one.n_bytes(one.most) for one in result.pod.exchanges} == {8 * 16 * 2}
    checks = check_chips(layer, result.pod)
    assert all(one.compared in (one.elements, 0) for one in checks)


def test_a_chip_with_one_group_of_tokens_adds_what_comes_back_apart() -> None:
    """Eight groups of two tokens on four and eight chips: groups cut F, tokens cut Xout."""
    layer = transformer(SMALL, phase="decode", prompt=4, batch=16, experts="grouped:8")
    for count in (4, 8):
        links = ("links.topology=switch", "links.bytes_per_second=9 GB/s", "links.pj_per_bit=1")
        pod = load_accelerator("tpu_v5e", [f"chips={count}", *links, "links.closes_at=1"])
        expert = 4
        options = Options(expert_parallel=expert, data_parallel=count // expert, tensor_parallel=1)
        result = simulate(layer, pod, "deployed", options=options)
        checks = check_chips(layer, result.pod)
        assert all(one.compared in (one.elements, 0) for one in checks)
        assert any(one.compared for one in checks if one.operator == "add2")


def test_chips_read_the_weights_of_experts_that_tokens_choose_and_hold_all() -> None:
    """16 tokens use 82 of Qwen3-30B-A3B's 128 experts: 88 on eight chips, 11 each, of 16 there."""
    model = replace(
        SMALL, hidden=2048, ff_size=768, experts=128, chosen=8, heads=1, kv_heads=1, layers=1
    )
    layer = transformer(model, phase="decode", prompt=4, batch=16, experts="grouped:8")
    pod = share_of(layer, spread_over(layer, ParallelDegrees(1, 1, 8)), _chips(8))
    expert = 2048 * 768 * 2
    for name in ("gate", "up", "down"):
        assert pod.workload.tensor_bytes(f"experts.W{name}") == 11 * expert
        assert pod.workload.stored_bytes(f"experts.W{name}") == 16 * expert


def test_experts_on_several_chips_are_among_the_splits() -> None:
    """Without degrees the fastest way is taken, each of them run; other spreads of tokens stay.

    A chip reads half of the weights by experts as by halves of each; it sends less by experts.
    """
    model = replace(SMALL, hidden=256, ff_size=2048, layers=1, experts=8)
    links = ("links.topology=switch", "links.pj_per_bit=1", "links.closes_at=1")
    pod = load_accelerator("tpu_v5e", ["chips=2", *links])
    sizes: dict[str, Any] = {"phase": "decode", "prompt": 4, "batch": 8}
    ways = {how: transformer(model, **sizes, experts=how) for how in ("expected", "grouped:2")}
    taken = simulate(ways["expected"], pod, "deployed")
    cycles = list[int]()
    for tensor, data, expert in ((2, 1, 1), (1, 2, 1), (1, 1, 2)):
        options = Options(tensor_parallel=tensor, data_parallel=data, expert_parallel=expert)
        way = ways["expected" if tensor > 1 else "grouped:2"]
        cycles.append(simulate(way, pod, "deployed", options=options).run.cycles)
    assert taken.run.cycles == cycles[-1] == min(cycles)
    cut = {rank for ranks in taken.pod.cuts.values() for rank, digits in ranks.items() if digits}
    assert "x" in cut
    again = simulate(
        place_on(ways["expected"], pod), pod, taken.whole
    )  # as the mapping has its tokens
    assert again.run.cycles == taken.run.cycles
    uniform = transformer(model, **sizes, experts="uniform")
    assert simulate(uniform, pod, "deployed").workload.parameters["experts"] == "uniform"


@pytest.mark.parametrize("experts", ["expected", "uniform", "drawn:1", "grouped"])
def test_memory_has_all_experts(experts: str) -> None:
    """Two tokens of Mixtral use 2 to 8 of 8 experts; 46.7 G parameters."""
    whole = build("mixtral-8x7b", phase="decode", kv_len=8, batch=1, scope="model", experts=experts)
    (memory, *_) = memory_demands(whole, load_accelerator("tpu_v5e"))
    assert memory.by_part["weights"] == 2 * 46_702_792_704


def test_the_product_of_degrees_is_the_number_of_chips() -> None:
    assert degrees_of(_chips(16), None, None, 4) == ParallelDegrees(4, 1, 4)
    assert degrees_of(_chips(16), 2, None, 4) == ParallelDegrees(2, 2, 4)
    with pytest.raises(InputError, match="'tensor 8 x data 1 x expert 3'; allowed: a product of"):
        degrees_of(_chips(16), 8, 1, 3)
