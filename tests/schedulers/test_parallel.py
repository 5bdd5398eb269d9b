"""Transformers over chips: the cuts of Megatron-LM, and what is found from them."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from simaccel.diagnosis.check_chips import check_chips
from simaccel.errors import InputError
from simaccel.hardware.chips import ChipPod
from simaccel.hardware.collectives import LinkAxis
from simaccel.hardware.links import LinksSpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.files import load_mapping, mapping_text
from simaccel.report.pods import pod_json, pod_lines, sent_bytes
from simaccel.schedulers import Options
from simaccel.schedulers.parallel import ParallelDegrees, degrees_of, share_of, spread_over
from simaccel.study.experiment import simulate
from simaccel.study.generation import generate
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Workload, build
from simaccel.workload.language.build import transformer
from tests.small_pods import LITTLE
from validation.searches import QUICK


def _links(count: int) -> list[str]:
    return [
        f"chips={count}",
        "links.bytes_per_second=50 GB/s",
        "links.hop_cycles=700",
        "links.topology=switch",
        "links.pj_per_bit=1",
    ]


def _kinds(workload: Workload, tensor: int, data: int = 1) -> list[tuple[str, str]]:
    chips = ChipPod(LinksSpec(topology="switch"), (tensor * data,))
    pod = share_of(workload, spread_over(workload, ParallelDegrees(tensor, data)), chips)
    return [(one.kind, one.tensor) for one in pod.exchanges]


@pytest.mark.parametrize("tensor", [2, 8, 64])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_layer_needs_exactly_two_all_reduces(tensor: int, phase: str) -> None:
    """Shoeybi et al., Megatron-LM, section 3: one behind attention, one behind the MLP."""
    layer = build("llama3-70b", phase=phase, prompt=256, scope="block")
    assert _kinds(layer, tensor) == [("all_reduce", "Y"), ("all_reduce", "F")]


def test_other_layers_need_two_as_well() -> None:
    assert [kind for kind, _ in _kinds(build("bert", seq_len=64), 4)] == ["all_reduce"] * 2
    assert Counter(_kinds(build("gpt2", prompt=64), 4)) == {
        ("all_reduce", "Y0"): 1,
        ("all_reduce", "F0"): 1,
    }


def test_a_batch_over_chips_needs_nothing() -> None:
    layer = build("llama3-8b", phase="decode", batch=4, scope="block")
    assert _kinds(layer, 1, 4) == []
    pod = share_of(
        layer,
        spread_over(layer, ParallelDegrees(2, 2)),
        ChipPod(LinksSpec(topology="torus", dimensions=2), (2, 2)),
    )
    assert [(one.kind, one.axes, one.digits) for one in pod.exchanges] == [
        ("all_reduce", (LinkAxis(2, "ring", 1),), ((1, 2),))
    ] * 2


def test_each_chip_has_its_part_of_the_weights() -> None:
    layer = build("llama3-70b", phase="decode", scope="block")
    chips = ChipPod(LinksSpec(topology="switch"), (64,))
    pod = share_of(layer, spread_over(layer, ParallelDegrees(64, 1)), chips)
    whole, mine = layer.shapes, pod.workload.shapes
    for name, parts in {"Wq": 64, "Wk": 8, "Wo": 64, "Wup": 64, "Wdown": 64, "K": 8}.items():
        assert math.prod(whole[name]) == parts * math.prod(mine[name])


@pytest.mark.parametrize(
    ("count", "tensor", "data", "expected"),
    [(8, None, None, (8, 1)), (8, 2, None, (2, 4)), (8, None, 8, (1, 8)), (8, 4, 2, (4, 2))],
)
def test_degrees_that_are_not_asked_for_are_the_rest(
    count: int, tensor: int | None, data: int | None, expected: tuple[int, int]
) -> None:
    chips = ChipPod(LinksSpec(), (count,))
    assert degrees_of(chips, tensor, data) == ParallelDegrees(*expected)


def test_wrong_degrees_are_named() -> None:
    chips = ChipPod(LinksSpec(), (8,))
    with pytest.raises(InputError, match=r"'tensor 3 x data 2'; allowed: a product of 8 chips"):
        degrees_of(chips, 3, None)
    layer = build("llama3-8b", phase="decode", batch=3, scope="block")
    with pytest.raises(InputError, match="a degree that divides the 32 heads of llama3-8b"):
        spread_over(layer, ParallelDegrees(7, 1))
    with pytest.raises(InputError, match="a degree that divides the batch of 3"):
        spread_over(layer, ParallelDegrees(1, 2))


def test_a_saved_mapping_runs_alike(tmp_path: Path) -> None:
    layer = transformer(LITTLE, phase="prefill", prompt=8, scope="block")
    pod = load_accelerator("mxu_128", _links(4))
    options = Options(tensor_parallel=4)
    mapping = schedule_workload(layer, pod, "naive-m", options)
    (tmp_path / "pod.yaml").write_text(mapping_text(mapping))
    again = load_mapping(tmp_path / "pod.yaml", layer)
    assert again == mapping
    one, other = simulate(layer, pod, again), simulate(layer, pod, "naive-m", options=options)
    assert one.run.cycles == other.run.cycles
    assert one.run.moved == one.prediction.moved


def test_lines_and_figures_of_a_pod() -> None:
    pod = load_accelerator("mxu_128", _links(4))
    model = transformer(LITTLE, phase="decode", prompt=32, scope="model", batch=2)
    result = simulate(model, pod, "naive-m", options=Options(tensor_parallel=4))
    found = pod_json(result)["chips"]
    # 2 layers, two all-reduces of 2 rows of 32 sums of 2 bytes each: 2 x 3 quarters are sent
    assert found["sent_bytes"] == 2 * 2 * 2 * 3 * (2 * 32 * 2 // 4)
    assert [one["times"] for one in found["collectives"]] == [2, 2]
    assert found["tokens_per_second"] == 2 / pod.seconds(result.run.cycles)
    lines = list(pod_lines(result))
    assert lines[0].startswith("4 chips in a switch, of which this is one: 4 collectives")
    alone = simulate(build("gemm", shape="M=4,K=4,N=4"), load_accelerator("mxu_128"), "naive")
    assert list(pod_lines(alone)) == []
    assert pod_json(alone) == {}


@pytest.mark.long
def test_a_generation_counts_the_energy_of_all_chips() -> None:
    few = {"prompt": 16, "tokens": 2}
    one = generate("gpt2", load_accelerator("mxu_128"), "naive", **few)  # type: ignore[arg-type]
    four = generate("gpt2", load_accelerator("mxu_128", _links(4)), "naive", **few)  # type: ignore[arg-type]
    assert four.tokens_per_second > one.tokens_per_second
    assert four.energy_per_token_pj > one.energy_per_token_pj  # norms four times, and links


SEQUENCE = ["all_gather", "reduce_scatter"] * 2
"""Korthikanti et al., section 4.2.2: before and behind attention, before and behind the MLP."""


def test_sequence_parallelism_gathers_and_scatters_in_place_of_all_reduces() -> None:
    """In prefill by tokens, in decode by sequences: as many bytes as two all-reduces."""
    chips = ChipPod(LinksSpec(topology="switch"), (8,))
    for phase, batch in (("prefill", 2), ("decode", 8)):
        layer = build("llama3-70b", phase=phase, prompt=256, batch=batch, scope="block")
        cuts = spread_over(layer, ParallelDegrees(4, 2, sequence=True))
        pod = share_of(layer, cuts, chips)
        assert [one.kind for one in pod.exchanges] == SEQUENCE
        assert {one.digits for one in pod.exchanges} == {((1, 4),)}
        tokens = batch * (256 if phase == "prefill" else 1)
        assert math.prod(pod.workload.shapes["norm1.out"]) == tokens * 8192 // 8  # of 8 chips
        sent = [
            chips.cost(one.kind, one.n_bytes(one.most), one.axes).sent_bytes
            for one in pod.exchanges
        ]
        assert sent == [tokens // 2 * 8192 * 2 * 3 // 4] * 4


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_sequence_parallelism_computes_the_model(phase: str) -> None:
    """All layers, embedding and logits, on four chips of which two share a layer."""
    model = transformer(LITTLE, phase=phase, prompt=8, batch=4, scope="model")
    options = replace(QUICK, tensor_parallel=2, data_parallel=2, sequence_parallel=True)
    pod = load_accelerator("mxu_128", [*_links(4), "compiler.resident=false"])
    result = simulate(model, pod, "flat", options=options)
    checks = {one.operator: one for one in check_chips(model, result.pod)}
    assert checks["logits"].compared == checks["logits"].elements > 0
    kinds = [one.kind for one in result.pod.exchanges]
    assert kinds[:4] == SEQUENCE
    times = [model.times(one.after) for one in result.pod.exchanges]
    assert sum(times) == 4 * LITTLE.layers + 1  # what goes to the logits comes together once
    names = [name for name in result.run.moved if name[0] == "link_write"]
    assert len(names) == len(kinds)
    tokens = 4 // 2 * (8 if phase == "prefill" else 1)
    assert sent_bytes(result) == (4 * LITTLE.layers + 1) * tokens * LITTLE.hidden * 2 // 2
    plain = simulate(model, pod, "flat", options=replace(options, sequence_parallel=False))
    passed = [sum(one.elements for one in found.prediction.groups) for found in (result, plain)]
    assert passed[0] < passed[1]  # norms and residuals of half of the tokens


@pytest.mark.parametrize(("tensor", "data"), [(1, 4), (2, 2)])
def test_weights_that_lie_once_on_all_chips(tensor: int, data: int) -> None:
    """Each chip has a quarter of every matrix; the table of tokens and gains stay with all.

    It sends what others lack: of a matrix of which it needs a part of ``tensor``, its own quarter
    to the others that need this part, ``data`` - 1 of them.
    """
    model = transformer(LITTLE, phase="prefill", prompt=8, batch=4, scope="model")
    options = replace(QUICK, tensor_parallel=tensor, data_parallel=data, shard_weights=True)
    pods = {
        overlap: load_accelerator("mxu_128", [*_links(4), f"links.overlap={overlap}"])
        for overlap in ("false", "true")
    }
    runs = {how: simulate(model, pod, "naive", options=options) for how, pod in pods.items()}
    layer = 2 * LITTLE.hidden * LITTLE.heads * LITTLE.head_size
    layer += 2 * LITTLE.hidden * LITTLE.kv_heads * LITTLE.head_size
    layer += 3 * LITTLE.hidden * LITTLE.ff_size
    matrices = 2 * (LITTLE.layers * layer + LITTLE.hidden * LITTLE.vocabulary)
    for result in runs.values():
        check_chips(model, result.pod)
        ahead = [one for one in result.pod.exchanges if one.is_ahead]
        times = model.times
        own = sum(times(one.after) * one.n_bytes(one.elements[0]) for one in ahead)
        assert own == matrices // 4
        sources = {one.source for one in ahead}
        sent = sum(
            n
            for (level, name), n in result.run.moved.items()
            if level == "link_write" and name in sources
        )
        assert sent == (data - 1) * matrices // 4
    assert runs["true"].run.cycles < runs["false"].run.cycles


def test_what_sequence_parallelism_cannot_cut_is_named() -> None:
    layer = build("llama3-8b", phase="decode", batch=3, scope="block")
    with pytest.raises(InputError, match="tensor degree 2 divides tokens of no norm or residual"):
        spread_over(layer, ParallelDegrees(2, 1, sequence=True))
    with pytest.raises(InputError, match="--sequence-parallel: workload: got 'bert'"):
        spread_over(build("bert", seq_len=8), ParallelDegrees(2, 1, sequence=True))
