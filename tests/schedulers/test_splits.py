"""Splits of any workload over chips: which are legal, which is taken, and what chips then make."""

from collections.abc import Callable
from functools import cache, partial
from math import ceil, prod
from pathlib import Path
from random import Random
from typing import Any

import pytest
from onnx import TensorProto, helper

from simaccel.diagnosis.check_chips import check_chips
from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.links import ONE_CHIP
from simaccel.hardware.load import with_values
from simaccel.importers.accelerators import load_accelerator
from simaccel.importers.onnx_files import load_onnx
from simaccel.report.pods import pod_lines, sent_bytes
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.parallel import whole_mapping
from simaccel.schedulers.split_ways import RankCuts
from simaccel.schedulers.splits import LegalSplit, fastest_split, legal_splits
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.study.generation import generate
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Workload, build, gemm, parse_workload
from simaccel.workload.language.build import transformer
from tests.data_files import data_beside
from tests.draws import DRAWS
from tests.importers.onnx_files.models import hollow, save
from tests.refusals import refusal_of
from tests.small_pods import LARGE, SMALL, linked_layers, small_pod

DATA = data_beside(__file__)

_POOLED, _SUMMED = 0.3, 0.3
"""Shares of layers that are poolings, or that a sum is behind."""


def _pod(count: int) -> Accelerator:
    return small_pod(count, "topology=switch", "hop_cycles=50")


def _network(batch: int, size: int = 6) -> Workload:
    """Return a convolution, its rectifier, one with a border, and one of 1 x 1."""
    window = {"N": batch, "P": size, "Q": size}
    layers: dict[str, Any] = {
        "c1": {"kind": "conv", "shape": {**window, "M": 8, "C": 3, "R": 3, "S": 3}},
        "r1": {"kind": "relu"},
        "c2": {"kind": "conv", "shape": {**window, "M": 8, "C": 8, "R": 3, "S": 3}, "padding": 1},
        "c3": {"kind": "conv", "shape": {**window, "M": 6, "C": 8, "R": 1, "S": 1}},
    }
    return linked_layers(**layers)


def _run(workload: Workload, pod: Accelerator, split: LegalSplit) -> ExperimentResult:
    alone = load_accelerator("mxu_128")
    mapping = make_mapping(split.pod.workload, alone, "naive", Options())
    whole = whole_mapping(workload, split.spreads, split.pod, mapping, pod.pod)
    return simulate(workload, pod, whole)


def _is_right(workload: Workload, result: ExperimentResult) -> bool:
    checks = check_chips(workload, result.pod)
    return all(one.compared in (one.elements, 0) for one in checks) and any(
        one.compared for one in checks
    )


def test_a_network_is_cut_by_its_images_or_its_channels() -> None:
    """4 images on 2 chips; 8 channels in two halves, and 6 in two, which read what is gathered."""
    workload, pod = _network(4), _pod(2)
    legal, _ = legal_splits(workload, pod, 2)
    runs = {split.name: _run(workload, pod, split) for split in legal}
    assert list(runs) == ["n 2", "rows 2", "rows or channels 2", "channels 2"]
    assert all(_is_right(workload, run) for run in runs.values())
    images, channels = runs["n 2"], runs["channels 2"]
    assert not images.pod.exchanges
    assert [one.kind for one in channels.pod.exchanges] == ["all_gather"] * 2
    assert 2 * images.run.macs == 2 * channels.run.macs == workload.macs
    weights = [name for name, one in workload.tensors.items() if one.kind == "weight"]
    for name in weights:
        own = channels.pod.workload.tensor_bytes(name)
        assert (images.pod.workload.tensor_bytes(name), 2 * own) == (
            workload.tensor_bytes(name),
        ) * 2
    for name in set(workload.tensors) - {*weights}:
        assert 2 * images.pod.workload.tensor_bytes(name) == workload.tensor_bytes(name)


def test_tokens_of_experts_are_no_rows_of_windows() -> None:
    cuts = RankCuts(build("mixtral-8x7b", phase="prefill", prompt=130), 2)
    assert not any(cuts.rows.values())
    assert not any(cuts.columns.values())
    ways = RankCuts(_network(4), 2)
    assert [ways.rows["c2"], ways.columns["c2"]] == [(("p", 2),), (("q", 2),)]


def test_rows_are_read_with_what_neighbours_send() -> None:
    """8 rows of 6 + 2 numbers, 4 channels, 2 bytes, on 4 chips: a row above and one below of each.

    On 2 chips each sends one row; a stride of 2 needs the row above alone.
    """
    for stride, count, rows in ((1, 4, 2), (1, 2, 1), (2, 4, 1)):
        size = {"P": 8 // stride, "Q": 6 // stride}
        second = {"kind": "conv", "shape": {**size, "M": 2, "C": 4, "R": 3, "S": 3}}
        layers: dict[str, Any] = {
            "c1": {"kind": "conv", "shape": {"P": 8, "Q": 6, "M": 4, "C": 3, "R": 3, "S": 3}},
            "c2": {**second, "stride": stride, "padding": 1},
        }
        workload = linked_layers(**layers)
        pod = small_pod(count, "topology=torus")  # closed to a ring
        legal, _ = legal_splits(workload, pod, count)
        result = _run(workload, pod, next(one for one in legal if one.name == f"rows {count}"))
        (exchange,) = result.pod.exchanges
        columns = 8 if stride == 1 else 7  # the border behind them isn't reached
        assert exchange.elements == (rows * columns * 4,) * 2
        edges = rows * (count - 1) if rows * count > 2 else 2  # of all chips, one by each of two
        assert sent_bytes(result) == edges * columns * 4 * 2 // count
        assert result.run.macs * count == workload.macs
        assert _is_right(workload, result)


@pytest.mark.parametrize(("side", "sent"), [(2, [16, 24]), (4, [16, 32])])
def test_rows_and_columns_are_read_with_what_neighbours_send(side: int, sent: list[int]) -> None:
    """8 x 8 numbers, a border around, 4 channels, on 2 x 2 and 4 x 4 chips: edges, then corners.

    Of 4 x 4 numbers a row of 4 goes up or down, then a column of 4 + 2; of 2 x 2 numbers two rows
    of 2, then two columns of 2 + 2.
    """
    size = {"P": 8, "Q": 8, "R": 3, "S": 3}
    layers: dict[str, Any] = {
        "c1": {"kind": "conv", "shape": {**size, "M": 4, "C": 3}},
        "c2": {"kind": "conv", "shape": {**size, "M": 2, "C": 4}, "padding": 1},
    }
    workload = linked_layers(**layers)
    pod = small_pod(side**2, "topology=torus", "dimensions=2")
    legal, _ = legal_splits(workload, pod, side**2)
    split = next(one for one in legal if one.name == f"rows {side} x columns {side}")
    result = _run(workload, pod, split)
    assert [one.kind for one in result.pod.exchanges] == ["swap" if side == 2 else "halo"] * 2
    assert [one.elements[0] for one in result.pod.exchanges] == sent
    assert result.run.macs * side**2 == workload.macs
    assert _is_right(workload, result)


@pytest.mark.parametrize("seed", range(8 * DRAWS))
def test_networks_that_are_cut_along_rows_make_the_same(seed: int) -> None:
    """Primes, strides, windows and borders of all sizes; poolings and sums; one or two cuts."""
    workload, count = _drawn_network(Random(seed))  # noqa: S311 - reproducible, not secret
    pod = small_pod(count, "topology=torus")
    legal, _ = legal_splits(workload, pod, count)
    assert any("rows" in split.name for split in legal)
    for split in legal:
        if "rows" in split.name:
            result = _run(workload, pod, split)
            assert _is_right(workload, result), split.name
            assert result.run.cycles >= result.prediction.bound_cycles


def _drawn_network(draw: Random) -> tuple[Workload, int]:
    """Return a network of some layers, and chips that divide the rows of the first one at least."""
    count = draw.choice([2, 3, 4, 5, 7])
    rows, columns, channels = count * draw.choice([2, 4, 6]), draw.randint(5, 8), 4
    batch = draw.choice([1, 1, 2])
    image = {"N": batch, "M": channels, "C": 2, "R": 3, "S": 3}
    layers: dict[str, Any] = {"c0": {"kind": "conv", "shape": {**image, "P": rows, "Q": columns}}}
    for at in range(draw.randint(1, 3)):
        window, stride = draw.choice([1, 2, 3, 5]), draw.choice([1, 1, 2])
        padding = draw.randint(0, window // 2)
        sizes = [(n + 2 * padding - window) // stride + 1 for n in (rows, columns)]
        if min(sizes) < 1:
            continue
        rows, columns = sizes
        shape = {"P": rows, "Q": columns, "R": window, "S": window}
        if draw.random() < _POOLED:
            layers[f"p{at}"] = {"kind": "pooling", "shape": shape}
        else:
            channels, given = draw.choice([4, 6]), channels
            shape |= {"N": batch, "M": channels, "C": given}
            layers[f"c{at + 1}"] = {"kind": "conv", "shape": shape}
        layers[[*layers][-1]] |= {"stride": stride, "padding": padding}
        if draw.random() < _SUMMED:
            before = [*layers][-1]
            layers[f"s{at}"] = {"kind": "residual", "reads": [before, before]}
    return linked_layers(**layers), count


def test_an_onnx_model_is_cut_along_its_rows(tmp_path: Path) -> None:
    """A depthwise filter of 3 x 3 and a pooling over 16 rows, of which each of four chips has four.

    Rows of 8 channels of 10 + 2 numbers (r1, read by both and by a sum), of 5 x 5 windows with two
    rows on each side (mp), and an edge above for the pooling with a stride of 2 (add).
    """
    convolution: Any = partial(helper.make_node, "Conv")
    sides: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1] * 4}
    nodes = [
        convolution(["x", "w1"], ["a"], "c1", strides=[2, 2], **sides),
        helper.make_node("Relu", ["a"], ["b"], "r1"),
        convolution(["b", "w2"], ["c"], "dw", group=8, **sides),
        helper.make_node("Add", ["c", "b"], ["e"], "add"),
        helper.make_node("MaxPool", ["e"], ["f"], "mp", strides=[2, 2], **sides),
        convolution(["f", "w5"], ["y"], "c5", kernel_shape=[5, 5], pads=[2] * 4),
    ]
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 1, 3, 3), "w5": (4, 8, 5, 5)}
    inputs = {"x": (TensorProto.FLOAT, (1, 3, 32, 20))}
    outputs = {"y": (TensorProto.FLOAT, (1, 4, 8, 5))}
    weights = {name: hollow(name, *sizes) for name, sizes in shapes.items()}
    workload = load_onnx(save(tmp_path / "net.onnx", nodes, inputs, outputs, weights)).workload
    pod = small_pod(4, "topology=torus")
    legal, _ = legal_splits(workload, pod, 4)
    result = _run(workload, pod, next(split for split in legal if split.name == "rows 4"))
    assert [(one.kind, one.elements[0]) for one in result.pod.exchanges] == [
        ("halo", 2 * 8 * 12),
        ("shift", 8 * 11),
        ("halo", 4 * 8 * 9),
    ]
    assert result.run.macs * 4 == workload.macs
    assert _is_right(workload, result)
    # fused: but for the sum, which reads its own rows of what the filter reads with its neighbours'
    fused = simulate(workload, pod, "flex", options=Options(data_parallel=4, tensor_parallel=1))
    assert _is_right(workload, fused)
    assert all(not {"dw", "add"} <= {*group.operators} for group in fused.mapping.groups)


def test_degrees_of_a_network_are_those_of_images_and_channels() -> None:
    """4 images on 2 x 2 chips: pairs have 2 images each, of which each makes half of the channels.

    Each chip sends its half of what r1 and c2 make of its pair's 2 images: 2 x 4 channels of 8 x 8
    (with a border) and of 6 x 6 numbers of 2 bytes. What c3 makes nobody reads.
    """
    workload, pod = _network(4), _pod(4)
    result = simulate(workload, pod, "naive", options=Options(tensor_parallel=2, data_parallel=2))
    assert result.run.macs * 4 == workload.macs
    assert [one.kind for one in result.pod.exchanges] == ["all_gather"] * 2
    assert sent_bytes(result) == 2 * 4 * (8 * 8 + 6 * 6) * 2
    assert {len(cuts["n"]) for cuts in result.pod.cuts.values()} == {1}
    assert _is_right(workload, result)


def test_operators_that_cannot_be_cut_so_are_done_by_all() -> None:
    """Groups of c2 make channels of one tensor; c1 and c3 are cut by channels on two chips.

    Each chip sends half of c1's 8 channels of 6 x 6 numbers; c3 reads what both have made of c2.
    """
    size = {"P": 6, "Q": 6, "R": 1, "S": 1}
    layers: dict[str, Any] = {
        "c1": {"kind": "conv", "shape": {**size, "M": 8, "C": 3}},
        "c2": {"kind": "conv", "shape": {**size, "G": 2, "M": 3, "C": 4}},
        "c3": {"kind": "conv", "shape": {**size, "M": 4, "C": 6}},
    }
    workload = linked_layers(**layers)
    halves = [one.name for one in workload.operators if one.name.startswith("c2")]
    assert len(halves) == 2
    legal, _ = legal_splits(workload, _pod(2), 2)
    split = next(one for one in legal if one.name == "channels 2")
    result = _run(workload, _pod(2), split)
    macs = {one.name: one.macs for one in workload.operators}
    own = {one.name: one.macs for one in result.pod.workload.operators}
    assert own == {name: n if name in halves else n // 2 for name, n in macs.items()}
    assert [one.kind for one in result.pod.exchanges] == ["all_gather"]
    assert sent_bytes(result) == 4 * 6 * 6 * 2
    assert _is_right(workload, result)


@pytest.mark.parametrize(("degrees", "said"), DATA["refused"])
def test_degrees_that_a_network_does_not_have(degrees: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        simulate(_network(4), _pod(max(degrees.values())), "naive", options=Options(**degrees))


def test_an_encoder_is_cut_by_heads_sequences_or_tokens() -> None:
    sizes = {"hidden": 16, "heads": 4, "head_size": 4, "ff_size": 24, "seq_len": 4, "batch": 2}
    workload = parse_workload({"kind": "attention", "layers": 1, **sizes})
    legal, reasons = legal_splits(workload, _pod(2), 2)
    names = [split.name for split in legal]
    assert {"tensor 2 x data 1", "tensor 1 x data 2", "n 2"} <= {*names}
    assert not reasons
    tokens = next(split for split in legal if split.name == "n 2")
    result = _run(workload, _pod(2), tokens)
    assert [one.name for one in result.pod.exchanges] == ["K.all_gather", "V.all_gather"]
    assert 2 * result.run.macs == workload.macs
    assert _is_right(workload, result)


def test_what_is_taken_is_the_fastest() -> None:
    """Of all legal splits, each run on the machine: images, rows of a single image.

    Rows of a small one where a rectifier of 1,152 numbers takes as many cycles, half on each chip.
    """
    for batch, lanes, name in ((4, 512, "n 2"), (1, 1, "rows 2")):
        workload, pod = _network(batch, 12), with_values(_pod(2), {"sfu.lanes": lanes}, "drawn")
        taken = simulate(workload, pod, "naive")
        legal, _ = legal_splits(workload, pod, 2)
        cycles = {split.name: _run(workload, pod, split).run.cycles for split in legal}
        assert taken.run.cycles == min(cycles.values()) == cycles[name]


def test_what_is_taken_is_the_fastest_of_the_dataflow() -> None:
    """`naive` takes four times as long as the array could, so that slow links are worth it longer.

    Two chips with rows, and one alone, run on the machine.
    """
    workload = _network(1, 24)
    for rate, taken in (("0.25 GB/s", "rows 2"), ("0.125 GB/s", "undivided")):
        pod = small_pod(2, f"bytes_per_second={rate}", "hop_cycles=50", "topology=switch")
        alone = pod.with_sections(chips=ONE_CHIP)
        cycles = {"undivided": simulate(workload, alone, "naive").run.cycles}
        for split in legal_splits(workload, pod, 2)[0]:
            if taken != "undivided" or split.name == "rows 2":  # the fastest with faster links
                cycles[split.name] = _run(workload, pod, split).run.cycles
        assert cycles[taken] == min(cycles.values())
        assert simulate(workload, pod, "naive").run.cycles == cycles[taken]


@pytest.mark.parametrize(
    ("name", "sizes", "taken", "pieces"),
    [
        ("resnet50", {"scope": "model", "batch": 64}, "n 64", 64),
        # 49 chips have a position each of layers of 7 x 7; 15 are idle
        ("resnet50", {"scope": "model"}, "rows 7 x columns 7", 49),
        ("bert", {"batch": 1}, "n 64", 64),
        ("bert", {"batch": 64}, "tensor 1 x data 64", 64),
        # 12 heads, one causal sequence: 1 / 17 of the MACs, attention, in 4 parts, others in 64
        ("gpt2", {}, "tokens 16 x tensor 4 x data 1 with sequence", 34),
    ],
)
def test_published_workloads_on_64_chips(
    name: str, sizes: dict[str, Any], taken: str, pieces: int
) -> None:
    workload = build(name, **sizes)
    split = fastest_split(workload, _pod(64))
    assert split.name == taken
    share = split.pod.workload.macs * pieces / workload.macs
    assert 1 <= share < 1.6  # what no piece is left of is done by all alike


def test_what_is_not_legal_names_what_is() -> None:
    gpt2 = build("gpt2", batch=2, scope="block", phase="decode", prompt=9)
    message = refusal_of(simulate, gpt2, _pod(8), "naive", options=Options(tensor_parallel=8))
    said = "a degree that divides the 12 heads of gpt2; legal on these chips: tensor 4 x data 2"
    assert said in message
    message = refusal_of(simulate, gpt2, _pod(8), "naive", options=Options(tensor_parallel=3))
    assert "a product of 8 chips; legal on these chips: tensor 4 x data 2" in message
    with pytest.raises(InputError, match=r"on these chips: n 2, rows 2, .*channels 2"):
        simulate(_network(4), _pod(2), "naive", options=Options(expert_parallel=2))


def test_layers_that_are_not_linked_are_cut_by_their_own_images() -> None:
    """Twenty ranks of images, one a layer: any of them says that each layer is cut by its own."""
    shape = {"N": 4, "P": 4, "Q": 4, "M": 8, "C": 8, "R": 1, "S": 1}
    layers = {f"c{at}": {"kind": "conv", "shape": shape} for at in range(20)}
    workload = parse_workload({"kind": "layers", "name": "n", "layers": layers})
    split = fastest_split(workload, _pod(4))
    assert split.pod.workload.macs * 4 == workload.macs
    assert not split.pod.exchanges
    assert len(RankCuts(workload, 4).free_ranks) == 3


def test_chips_that_cannot_be_faster_than_one_do_what_it_does() -> None:
    """8 channels and 6 rows on 5 chips; a product that takes less than to gather what it makes."""
    alone = _network(1).select_operators(["c1"])
    legal, reasons = legal_splits(alone, _pod(5), 5)
    assert not legal
    assert reasons["n 5"] == "a number that divides 1, the size of n"
    small = _network(4)
    slow = small_pod(2, "topology=switch", "hop_cycles=100000")
    for workload, pod in ((alone, _pod(5)), (small.select_operators(["c2", "c3"]), slow)):
        one = simulate(workload, load_accelerator("mxu_128"), "naive")
        result = simulate(workload, pod, "naive")
        assert result.run.cycles <= one.run.cycles
        assert not result.pod.exchanges
    (line,) = pod_lines(simulate(gemm(m=1, n=1, k=7), _pod(5), "naive"))
    assert "5 chips" in line
    assert "each does all of it" in line


def _mixtral_decode() -> Workload:
    return build("mixtral-8x7b", phase="decode", kv_len=64, batch=12)


def _gpt2_decode() -> Workload:
    return build("gpt2", phase="decode", kv_len=256, batch=3, scope="block")


@pytest.mark.parametrize(
    ("chip", "make", "used"),
    [
        # 512 columns or rows over a power of two; 3 sequences and 12 heads over 3, 6
        ("tpu_v5e", lambda: gemm(m=512, n=512, k=512), [1, 2, 2, 4, 4, 4, 4, 8]),
        ("tpu_v5e", _gpt2_decode, None),
        ("tpu_v6e", lambda: build("bert", seq_len=96, batch=6), [1, 2, 3, 3, 3, 6, 6, 6]),
        # experts in groups of 3 or 6, of which 7 chips had none
        ("tpu_v5e", _mixtral_decode, None),
    ],
)
def test_one_more_chip_is_never_slower(
    chip: str, make: Callable[[], Workload], used: list[int] | None
) -> None:
    """Chips are idle where the work can't be cut over all of them; they take no energy."""
    pods = [load_accelerator(chip, [f"chips={count}"]) for count in range(1, 9)]
    results = [simulate(make(), pod, "deployed") for pod in pods]
    cycles = [result.run.cycles for result in results]
    assert cycles == sorted(cycles, reverse=True)
    if used is not None:
        assert [len(result.pod.places[0]) for result in results] == used
        first = next(at for at, count in enumerate(used) if at and count == used[at - 1])
        result, mapping = results[first], schedule_workload(make(), pods[first], "deployed")
        again = simulate(make(), pods[first], mapping)
        assert again.run.cycles == result.run.cycles
        energies = [one.energy_pj for one in (again, result, results[first - 1])]
        assert len({*map(str, energies)}) == 1
        assert f"{used[first]} of {first + 1} chips, the others idle" in "".join(pod_lines(result))


@pytest.mark.parametrize(
    ("chip", "count", "name", "sizes"),
    [
        ("tpu_v5e", 4, "gpt2", {"phase": "decode", "kv_len": 128, "scope": "block"}),
        ("tpu_v5e", 4, "gpt2", {"phase": "prefill", "prompt": 64, "scope": "block"}),
        ("tpu_v5e", 2, "bert", {"seq_len": 512}),  # 77,077 by its bound, and waits for links
        ("tpu_v4", 4, "mobilenet_v2", {}),  # depthwise layers, and 33 collectives if all are cut
        ("tpu_v4", 4, "gpt2", {"phase": "decode", "kv_len": 512, "scope": "model"}),
    ],
)
def test_chips_are_never_slower_than_one(
    chip: str, count: int, name: str, sizes: dict[str, Any]
) -> None:
    """Nor than all of them by degrees of parallelism that are given."""
    workload, pod = build(name, **sizes), load_accelerator(chip, [f"chips={count}"])
    taken = simulate(workload, pod, "deployed").run.cycles
    assert taken <= simulate(workload, load_accelerator(chip), "deployed").run.cycles
    for degree in {2, count} if "mobilenet" not in name else ():
        options = Options(tensor_parallel=degree, data_parallel=1, copies=count // degree)
        assert taken <= simulate(workload, pod, "deployed", options=options).run.cycles


@pytest.mark.parametrize("dataflow", ["deployed", "naive"])
def test_sequence_parallelism_without_degrees_takes_the_fastest(dataflow: str) -> None:
    """As `generate` does; all chips shared each layer, and 5 chips were refused."""
    workload = build("gpt2", phase="prefill", prompt=64, batch=4, scope="block")
    for count, degrees in ((4, [(4, 1), (2, 2)]), (5, [(4, 1), (2, 2)])):
        pod = load_accelerator("tpu_v5e", [f"chips={count}"])
        ways = [
            Options(tensor_parallel=tensor, data_parallel=data, sequence_parallel=True, copies=1)
            for tensor, data in degrees
        ]
        each = [simulate(workload, pod, dataflow, options=way).run.cycles for way in ways]
        free = simulate(workload, pod, dataflow, options=Options(sequence_parallel=True))
        assert free.run.cycles == min(each)
        assert any("n" in cuts for cuts in free.pod.cuts.values())


def _wide_network() -> Workload:
    window = {"N": 8, "P": 6, "Q": 6}
    layers: dict[str, Any] = {
        "c1": {"kind": "conv", "shape": {**window, "M": 512, "C": 512, "R": 3, "S": 3}},
        "r1": {"kind": "relu"},
        "c2": {"kind": "conv", "shape": {**window, "M": 1024, "C": 512, "R": 1, "S": 1}},
    }
    layers["c1"]["padding"] = 1
    return linked_layers(**layers)


@pytest.mark.parametrize(
    ("workload", "options", "given"),
    [
        # chips that do the same have all weights alike: 264,126 cycles to gather them
        (
            build("gpt2", prompt=64),
            Options(shard_weights=True),
            Options(tensor_parallel=4, shard_weights=True),
        ),
        # an estimate of 19,569 cycles and a run of 17,548; rows take 18,762
        (_wide_network(), Options(), Options(data_parallel=4)),
    ],
)
def test_no_degree_is_faster_than_what_is_taken(
    workload: Workload, options: Options, given: Options
) -> None:
    """Weights in pieces, and an estimate above the run."""
    pod = load_accelerator("tpu_v5e", ["chips=4"])
    taken = simulate(workload, pod, "deployed", options=options).run.cycles
    assert taken <= simulate(workload, pod, "deployed", options=given).run.cycles


def test_more_chips_than_few_are_not_slower() -> None:
    """32 heads on 16 of 20 (4 x 5) and of 24 (4 x 6) chips, parts of their sides; then on 32."""
    workload = build("llama3-8b", phase="decode", kv_len=64, batch=3)
    pods = [load_accelerator("tpu_v5e", [f"chips={count}"]) for count in (16, 20, 24, 32)]
    cycles = [simulate(workload, pod, "deployed").run.cycles for pod in pods]
    assert cycles == sorted(cycles, reverse=True)
    assert 17 not in pods[2].pod.split_counts  # 1 x 17
    assert 18 in pods[2].pod.split_counts  # 3 x 6


def test_numbers_of_pieces_have_parts_that_are_none() -> None:
    """20 chips are 1 x 4 x 5, of which 16 (1 x 4 x 4) are a part, but 8 (2 x 2 x 2) aren't."""
    pods = [load_accelerator("tpu_v4", [f"chips={count}"]) for count in range(17, 65)]
    for pod in pods:
        split = fastest_split(build("llama3-8b", phase="decode", kv_len=64, batch=12), pod)
        assert len(split.pod.places[0]) in (1, *pod.pod.split_counts)


def test_sharded_weights_fit_where_whole_ones_do_not() -> None:
    """All 16.1 GB of weights don't fit 12 GiB, a quarter does: else 1,561,730,378 cycles."""
    workload = build("llama3-8b", phase="prefill", prompt=8192, batch=4, scope="model")
    pod = load_accelerator("tpu_v5e", ["chips=4", "dram.capacity_bytes=12 GiB"])
    given, free = Options(data_parallel=4, shard_weights=True), Options(shard_weights=True)
    taken = simulate(workload, pod, "deployed", options=free).run.cycles
    assert taken <= simulate(workload, pod, "deployed", options=given).run.cycles


@pytest.mark.parametrize("chip", ["tpu_v5e", "tpu_v4"])
def test_chips_never_generate_slower_than_one(chip: str) -> None:
    """On four of `tpu_v4` weights stay on the chip, which the layers of one don't fit."""

    def cycles(count: int) -> int:
        pod = load_accelerator(chip, [f"chips={count}"])
        made = generate("gpt2", pod, tokens=32, prompt=64, lengths=2)
        return int(made.prefill["cycles"] + made.decode["cycles"])

    assert cycles(4) <= cycles(1)


_CHIPS = ["chips=256"]


@cache
def _large(**sizes: Any) -> tuple[Workload, ExperimentResult]:  # noqa: ANN401 - of `transformer`
    """Run a model of 405 billion weights on 256 chips."""
    workload = transformer(LARGE, scope="model", **sizes)
    return workload, simulate(workload, load_accelerator("tpu_v5e", _CHIPS), "deployed")


@pytest.mark.parametrize(
    ("sizes", "taken", "pieces"),
    [
        ({"phase": "decode", "kv_len": 2048, "batch": 16}, "tensor 128 x data 2", 128),
        ({"phase": "prefill", "prompt": 512}, "tokens 4 x tensor 64 x data 1 with sequence", 64),
    ],
)
def test_a_model_of_405_billion_weights_fits_256_chips(
    sizes: dict[str, Any], taken: str, pieces: int
) -> None:
    """128 query heads and 512 tokens are cut; several chips have the same head of K and V.

    A chip has 126 layers of a 128th or 64th of Wq, Wo and three feed-forward weights, and an 8th of
    Wk and Wv; as much of the logits and of the table of words; 2 bytes each.
    """
    workload, result = _large(**sizes)
    assert fastest_split(workload, load_accelerator("tpu_v5e", _CHIPS)).name == taken
    layer = (2 * 16384 * 16384 + 3 * 16384 * 53248) // pieces
    layer += 2 * 16384 * 1024 // 8 + 2 * 16384
    once = 2 * 16384 * 128256 // pieces + 16384
    (memory, *_) = result.memories
    assert memory.by_part["weights"] == 2 * (126 * layer + once)
    assert memory.fits


def test_chips_that_share_a_layer_are_a_block_of_a_large_torus() -> None:
    """128 of 64 x 64 chips are 8 x 16, not 64 x 2: sums pass 2 (7 + 15) links, not 2 (32 + 1).

    By hand: 3,000 cycles and 1,500 a link; the sums of a token, 16,384 values of 2 bytes, are 128
    pieces of 256 bytes, of which 127 x 16/29 are on each link, at 45 GB/s x 95% and 1.5 GHz.
    """
    workload = transformer(LARGE, scope="model", phase="decode", kv_len=2048, batch=16)
    on = load_accelerator("tpu_v5e", ["chips=64x64"])
    split = fastest_split(workload, on)
    summed = next(one for one in split.pod.exchanges if one.after == "down")
    assert (split.name, summed.kind) == ("tensor 128 x data 16", "all_reduce")
    assert {(axis.size, axis.form, axis.stride) for axis in summed.axes} == {
        (8, "line", 1),
        (16, "line", 1),
    }
    cycles = on.pod.cycles("all_reduce", summed.n_bytes(summed.most), summed.axes)
    assert cycles == 3000 + 44 * 1500 + ceil(256 * 127 * 16 / 29 / (45 * 0.95 / 1.5))
    line = next(line for line in pod_lines(simulate(workload, on, "deployed")) if "torus" in line)
    assert line.startswith(
        "4096 chips in a torus of 64 x 64, counted in blocks of 8 x 16, of which"
    )


def test_tokens_are_cut_over_all_chips_where_that_is_faster() -> None:
    """A prefill of Llama 3.1 405B on 256 chips, whose 128 heads are fewer, against heads alone.

    Heads alone leave half of the chips to do the same; norms and residuals all of them. By hand, of
    a layer: each chip has tokens of its own in norms and residuals, a 256th of their elements.
    """
    workload, taken = _large(phase="prefill", prompt=512)
    half = load_accelerator("tpu_v5e", ["chips=16x8"])
    heads = simulate(workload, half, "deployed", options=Options(tensor_parallel=128))
    assert 1.25 * taken.run.cycles < heads.run.cycles
    assert prod(taken.pod.workload.operator("norm2").ranks.values()) == 512 * 16384 // 256


def test_splits_with_norms_by_tokens_compute_the_model() -> None:
    """Heads, sequences and tokens on four chips, norms and residuals by tokens, in numpy."""
    model = transformer(SMALL, phase="prefill", prompt=8, batch=2, scope="block", causal_blocks=1)
    legal, _ = legal_splits(model, _pod(4), 4)
    splits = {split.name: split for split in legal if "sequence" in split.name}
    degrees = "tensor 4 x data 1", "tensor 2 x data 2", "tokens 2 x tensor 2 x data 1"
    assert [*splits] == [f"{name} with sequence" for name in degrees]
    for split in splits.values():
        result = _run(model, _pod(4), split)
        assert _is_right(model, result), split.name
        assert result.run.cycles >= result.prediction.bound_cycles
