"""The kernels of chips' compilers: times against chips, values against numpy, what is refused."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simaccel import Trace, build, estimate, gemm, load_accelerator, record, simulate
from simaccel.cli.app import main
from simaccel.diagnosis.check import check
from simaccel.diagnosis.check_chips import check_chips
from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.mapping.text import tree_text
from simaccel.mapping.tree import Keep, Loop
from simaccel.report.pods import measured_lines
from simaccel.schedulers import NotMappableError, Options, default_dataflow
from simaccel.study.placement import place_on
from simaccel.verbs.running import Result
from simaccel.workload import Conv, Vector, Workload, conv2d, layers_workload, operand
from simaccel.workload.einsum import Tensor
from simaccel.workload.language.build import transformer
from simaccel.workload.precision import with_precision
from tests.small_pods import LITTLE, linked_layers
from tests.trees import einsum
from tests.trees import vector as vector_operator
from tests.trees import workload as linked
from validation.silicon.runs import attention_workload, vector_workload

COMPILED = (
    "compiler.converts=[fp16]",
    "compiler.attention.heads_at_once=2",
    "compiler.attention.repeats_keys=true",
    "compiler.stays=[operands,rows]",
)


def toy(products: str, *settings: str) -> Accelerator:
    first = f"compiler.products={products}"
    return load_accelerator("toy", [first, *COMPILED, *settings])


def _checked(workload: Workload, on: Accelerator) -> Result:
    """Run kernels of the compiler; all that they compute is what numpy does."""
    result = simulate(workload, on, "deployed")
    check(result.workload, result.mapping, result.program)
    return result


def in_number(workload: Workload, number: str) -> Workload:
    return with_precision(workload, dict.fromkeys(("weights", "activations", "cache"), number))


fp16 = partial(in_number, number="fp16")


@pytest.mark.parametrize("products", ["whole", "streamed"])
@pytest.mark.parametrize("room", ["64 KiB", "700 B"])
@pytest.mark.parametrize("sizes", [(13, 11, 17), (1, 29, 5), (31, 2, 3)])
def test_products_have_their_values(products: str, room: str, sizes: tuple[int, ...]) -> None:
    on = toy(products, f"buffer.capacity_bytes={room}")
    m, k, n = sizes
    for workload in (gemm(m=m, k=k, n=n), fp16(gemm(m=m, k=k, n=n))):
        result = _checked(workload, on)
        assert result.run.macs == m * k * n
        assert result.run.cycles >= result.prediction.bound_cycles


def test_a_decode_with_shared_keys_has_its_values() -> None:
    workload = build("llama3-8b", phase="decode", kv_len=3, batch=1, scope="la")
    on = load_accelerator("tpu_v6e")
    result = simulate(workload, on, "deployed")
    names = [operator.name for operator in result.workload.operators]
    assert {"K.repeated", "V.repeated"} < {*names}
    check(result.workload, result.mapping, result.program)
    # 32 query heads of one row on 4 keys, 128 numbers each
    assert result.run.macs == 2 * 32 * 4 * 128


def test_keys_are_repeated_in_layers_that_run_once() -> None:
    """Five layers of two windows: two repeat twice, and the one behind them runs once."""
    model = replace(LITTLE, layers=5, kv_heads=1, windows=(4, None))
    step = transformer(model, phase="decode", kv_len=8, batch=2, scope="model")
    made = place_on(step, load_accelerator("tpu_v6e"), "deployed")
    names = [name for name in made.by_name if name.endswith(".repeated")]
    assert [(name, made.times(name)) for name in names] == [
        (f"layer{layer}.{what}.repeated", 1 if layer == 4 else 2)
        for layer in (0, 1, 4)
        for what in "KV"
    ]
    assert simulate(step, load_accelerator("tpu_v6e"), "deployed").run.macs == step.macs


def decode(keys: int, sequences: int) -> Workload:
    return build("llama3-8b", phase="decode", kv_len=keys, batch=sequences, scope="la")


MEASURED = [
    ("tpu_v4", fp16(gemm(m=4096, k=4096, n=2048)), 486.043e-6, 0.02),
    ("tpu_v4", fp16(gemm(m=1024, k=2048, n=1024)), 52.6071e-6, 0.04),
    ("tpu_v6e", decode(1024, 64), 716.4e-6, 0.03),
    ("tpu_v6e", decode(576, 48), 346.1e-6, 0.02),
    ("tpu_v6e", decode(64, 128), 375.2e-6, 0.03),
    ("tpu_v7_chiplet", in_number(gemm(m=3, k=4096, n=2048, batch=30), "fp8"), 81.9e-6, 0.1),
]
"""Rows of validation/silicon: seconds on the chip, and how near the page says a run is."""


@pytest.mark.parametrize(("chip", "workload", "seconds", "near"), MEASURED)
def test_a_default_run_takes_what_the_chip_took(
    chip: str, workload: Workload, seconds: float, near: float
) -> None:
    on = load_accelerator(chip)
    result = simulate(workload, on, default_dataflow(on, workload))
    assert result.mapping.dataflow == "deployed"
    cycles = result.run.cycles + result.program_start_cycles
    assert on.seconds(cycles) == pytest.approx(seconds, rel=near)


POD = ("chips=2x2", "links.topology=torus", "links.dimensions=2", "links.bytes_per_second=1 GB/s")


@pytest.mark.parametrize(
    ("phase", "number", "tensor"),
    [
        *[("prefill", "bf16", 1), ("decode", "fp16", 1)],
        *[("prefill", "fp16", 2), ("decode", "bf16", 2)],
        *[("prefill", "bf16", 4), ("decode", "fp16", 4)],
    ],
)
def test_each_of_several_chips_runs_kernels(phase: str, number: str, tensor: int) -> None:
    """Sums that chips add are converted behind the addition; repeated keys are a chip's own.

    All pairs of phase, number and degree.
    """
    on = toy("streamed", "buffer.capacity_bytes=16 KiB", *POD)
    model = transformer(replace(LITTLE, layers=1), phase=phase, prompt=4, batch=4, scope="block")
    model = fp16(model) if number == "fp16" else model
    assert default_dataflow(on, model) == "deployed"
    result = simulate(model, on, "deployed", options=Options(tensor_parallel=tensor))
    compiled = place_on(model, on, "deployed")
    converted = [name for name in compiled.by_name if ".converted." in name]
    assert bool(converted) == (number == "fp16")
    checks = check_chips(compiled, result.pod)
    assert {check.operator for check in checks} == {*compiled.by_name}
    tokens = 16 if phase == "prefill" else 4
    again = 2 * tokens * 32 * 16 if tensor == 4 else 0  # 2 key heads on 4 chips: each on two
    assert result.run.macs * 4 == model.macs + again


def test_keys_are_repeated_where_a_chips_share_of_them_fits() -> None:
    """16 sequences of 1,025 keys: 2 x 2 x 128 MiB of repeated keys and values, on 4 chips 64."""
    workload = decode(1024, 16)
    alone = simulate(workload, load_accelerator("tpu_v6e"), "deployed")
    shared = simulate(workload, load_accelerator("tpu_v6e", list(POD)), "deployed")
    assert "K.repeated" not in alone.workload.by_name
    assert "K.repeated" in shared.workload.by_name
    assert shared.run.macs * 4 == alone.run.macs


def test_keys_are_repeated_where_they_fit_the_chips_that_have_pieces_of_them() -> None:
    """A third of 16 or 8 sequences or of 8 key heads is none: of 6 x 1 chips 2 have pieces.

    A chip's half of 16 sequences is 128 MiB, all that there is, though a sixth would fit; of 8
    sequences it is 64 MiB.
    """
    on = load_accelerator("tpu_v6e", [*POD, "chips=6x1"])
    for sequences, are_repeated in ((16, False), (8, True)):
        workload = decode(1024, sequences)
        shared = simulate(workload, on, "deployed")
        assert ("K.repeated" in shared.workload.by_name) == are_repeated
        assert shared.run.macs * 2 == workload.macs


def test_elementwise_operators_come_whole_or_in_blocks() -> None:
    """Whole, both arrays come, then all is added, then it goes: nothing beside one another."""
    made = {
        way: simulate(
            vector_workload("residual", (100,)),
            toy("whole", f"compiler.elementwise={way}", "compiler.vector_block_elements=64"),
            "deployed",
        )
        for way in ("whole", "blocks")
    }
    run, on = made["whole"].run, made["whole"].accelerator
    busy = sum(run.engines[name].busy for name in ("dma_in1", "sfu", "dma_out"))
    assert run.cycles == busy + on.dram.latency_cycles + on.compiler.kernel_start_cycles
    assert made["blocks"].run.cycles < run.cycles
    assert made["blocks"].run.moved == run.moved


ONE_HEAD = replace(LITTLE, layers=1, heads=1, kv_heads=1)
EXPERTS = replace(ONE_HEAD, layers=2, hidden=256, head_size=16, ff_size=128, experts=8, chosen=2)


def test_products_of_experts_with_unequal_tokens_are_one_kernel() -> None:
    """Of four experts, 2, 2, 2 and 2 tokens or 4, 2, 1 and 1: as many kernels start.

    The array works on the same tokens, and memory brings the same weights.
    """
    on, runs = load_accelerator("tpu_v4"), []
    for counts in ([2, 2, 2, 2], [4, 2, 1, 1]):
        asked = {"phase": "decode", "prompt": 4, "batch": 4}
        layer = transformer(EXPERTS, **asked, experts=[*counts, 0, 0, 0, 0])  # type: ignore[arg-type]
        result = _checked(layer, on)
        assert result.cycles >= result.prediction.bound_cycles
        runs.append(result)
    equal, unequal = runs
    assert [group.name for group in unequal.mapping.groups if group.joined] == [
        "+".join(f"experts{at}.{name}" for name in kernel)
        for kernel in (("gate", "silu"), ("up", "product"), ("down",))
        for at in (1, 2)
    ]
    starts = [one.run.engines["array"].stalls["start"] for one in (equal, unequal)]
    assert starts == [starts[0], starts[0]]
    assert starts[0] % on.compiler.kernel_start_cycles == 0
    moved = [one.run.moved["dram_read", "experts.Wgate"] for one in runs]
    assert moved == [4 * 256 * 128 * 2] * 2


def test_products_of_the_same_weights_are_kernels_of_their_own() -> None:
    """Two products read all of one weight, one after the other: nothing of it is grouped."""
    first = einsum("first", "S m n", "X m k", "W k n", m=8, k=16, n=16)
    second = einsum("second", "T m n", "Y m k", "W k n", m=8, k=16, n=16)
    both = linked(first, second, weights=["W"])
    mapping = simulate(both, load_accelerator("tpu_v4"), "deployed").mapping
    assert [group.joined for group in mapping.groups] == [False, False]


def test_a_layer_of_a_whole_image_has_its_channels_in_whole_lanes() -> None:
    """20 channels of 4 x 4 positions and 10 classes lie in lanes of 128: 128 x 16 x 128 MACs."""
    layers = {
        "conv": {"kind": "conv", "shape": {"M": 20, "C": 3, "P": 4, "Q": 4, "R": 1, "S": 1}},
        "dense": {"kind": "gemm", "shape": {"M": 1, "K": 320, "N": 10}},
    }
    result = _checked(linked_layers(**layers), load_accelerator("tpu_v3"))
    assert [row.macs for row in result.run.operators] == [128 * 16 * 128, 128 * 16 * 128]


def test_conversions_are_operators_of_the_vector_unit() -> None:
    """13 x 11 and 11 x 17 numbers are converted, and 13 x 17 back; the array does the product."""
    on = toy("whole", "buffer.capacity_bytes=64 KiB")
    result = simulate(fp16(gemm(m=13, k=11, n=17)), on, "deployed")
    elements = {one.name: one.elements for one in result.workload.operators if not one.macs}  # type: ignore[union-attr]
    assert sorted(elements.values()) == [13 * 11, 11 * 17, 13 * 17]
    assert result.run.elements == sum(elements.values())
    (group,) = result.mapping.groups
    assert len(group.operators) == 4
    plain = simulate(gemm(m=13, k=11, n=17), toy("whole"), "deployed")
    assert [one.name for one in plain.workload.operators] == ["gemm"]


BLOCKS = ("rows=32", "columns=8", "depth=8")
FREE = (
    "buffer.read_bytes_per_second=unlimited",
    "buffer.write_bytes_per_second=unlimited",
    "dram.bandwidth_bytes_per_second=unlimited",
    "dram.latency_cycles=0",
    "noc.distribution.link_bytes_per_cycle=64",
    "noc.distribution.hop_cycles=0",
    "noc.collection.link_bytes_per_cycle=64",
    "noc.collection.hop_cycles=0",
    "sfu.latency_cycles=0",
    "sfu.lanes=32",
)


def in_blocks(above: int, *settings: str) -> Accelerator:
    fields = (f"ahead_above_bytes={above}", *BLOCKS)
    blocks = (f"compiler.converted_blocks.{field}" for field in fields)
    return toy("whole", "buffer.capacity_bytes=64 KiB", *blocks, *settings)


@pytest.mark.parametrize(
    ("m", "k", "n", "blocks"), [(32, 8, 8, 1), (32, 16, 8, 2), (64, 16, 16, 8)]
)
def test_blocks_of_a_product_are_converted_while_the_array_works(
    m: int, k: int, n: int, blocks: int
) -> None:
    """By hand: 256 and 64 numbers take 8 and 2 cycles; 4 folds of 32 behind 4 rows that shift in.

    6 cycles later all sums are there, and 8 later converted. Of the other blocks with the same
    columns the array's 128 cycles are left.
    """
    product = fp16(gemm(m=m, k=k, n=n))
    result = _checked(product, in_blocks(100, "compiler.overlap=false", *FREE))
    assert result.cycles == 128 * blocks + n // 8 * (8 + 2 + 4 + 6 + 8)


@pytest.mark.parametrize(
    "sizes",
    [(33, 9, 9, 1), (70, 31, 5, 1), (8, 8, 9, 3), (32, 9, 8, 2), (70, 7, 19, 1), (40, 8, 3, 2)],
)
@pytest.mark.parametrize("converted", [{"weights"}, {"activations"}, {"weights", "activations"}])
def test_products_in_converted_blocks_have_their_values(
    sizes: tuple[int, ...], converted: set[str]
) -> None:
    m, k, n, b = sizes
    plain = {"weights": "bf16", "activations": "bf16", "cache": "bf16"}
    product = with_precision(gemm(m=m, k=k, n=n, batch=b), plain | dict.fromkeys(converted, "fp16"))
    result = _checked(product, in_blocks(1))
    assert result.cycles >= result.prediction.bound_cycles


@pytest.mark.parametrize("block", [4, 24, 1024])
@pytest.mark.parametrize("elementwise", ["blocks", "whole"])
def test_a_bias_is_converted_once(block: int, elementwise: str) -> None:
    """5 x 9 numbers and a bias of 9 are converted and added, 45 + 9 + 45 elements in any blocks."""
    on = toy(
        "whole", f"compiler.vector_block_elements={block}", f"compiler.elementwise={elementwise}"
    )
    added = vector_operator("add", "residual", "Y m n", "X m n", "b n", m=5, n=9)
    result = _checked(fp16(linked(added)), on)
    assert result.run.elements == 45 + 9 + 45


@pytest.mark.parametrize(("keys", "slots"), [(3, 1), (4, 2)])
def test_values_come_ahead_where_there_are_enough_keys(keys: int, slots: int) -> None:
    on = toy("whole", "compiler.attention.values_ahead_from=4", "buffer.capacity_bytes=64 KiB")
    result = _checked(attention_workload(4, keys, 5), on)
    (group,) = result.mapping.groups
    kept = {node.tensor: node.slots for node in group.tree if isinstance(node, Keep)}
    assert (kept["K"], kept["V"]) == (2, slots)


@pytest.mark.parametrize("m", [32, 64])
def test_deep_sums_are_converted_block_by_block(m: int) -> None:
    """By hand as above, one after the other: 8 and 2 cycles, 4 + 128 of the array; 6 + 8 behind."""
    product = fp16(gemm(m=m, k=16, n=8))
    result = _checked(product, in_blocks(9999, "compiler.overlap=false", *FREE))
    assert result.cycles == m // 32 * (2 * (8 + 2 + 4 + 128) + 6 + 8)


@pytest.mark.parametrize(("k", "n_bytes"), [(8, 1266), (9, 1350)])
def test_blocks_come_ahead_above_so_many_bytes(k: int, n_bytes: int) -> None:
    """33 x k and k x 9 numbers and 33 x 9 results of two bytes; sums of 8 are whole below."""
    product = fp16(gemm(m=33, k=k, n=9))
    trees = [
        tree_text(simulate(product, in_blocks(above), "deployed").mapping)
        for above in (n_bytes, n_bytes - 1)
    ]
    assert ["x2" in tree for tree in trees] == [False, True]
    assert ("loop k 8" in trees[0]) == (k > 8)


def test_chips_without_a_compiler_are_refused_and_have_other_defaults() -> None:
    workload, edge = gemm(m=4, k=4, n=4), load_accelerator("edge")
    assert default_dataflow(edge, workload) == "flex"
    with pytest.raises(NotMappableError, match=re.escape("edge has no section compiler")):
        simulate(workload, edge, "deployed")


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("--constrain", Options(constraints=("dram.m=2",))),
        ("--pipeline", Options(pipeline=True)),
        ("--objective", Options(objective="energy")),
        ("--stationarity", Options(stationarity="os")),
    ],
)
def test_options_of_a_search_are_refused(option: str, options: Options) -> None:
    with pytest.raises(InputError, match=f"{option}: .*nothing with deployed"):
        simulate(gemm(m=4, k=4, n=4), load_accelerator("tpu_v5e"), "deployed", options=options)


def test_a_mapping_file_of_deployed_runs_again(tmp_path: Path) -> None:
    """It is for the workload with its conversions; the run is given the plain one."""
    path, sizes = tmp_path / "gemm.yaml", "M=64,K=64,N=96"
    what = ["--hw", "tpu_v4", "--workload", "gemm", "--shape", sizes, "--precision", "fp16"]
    made = CliRunner().invoke(main, ["map", *what, "--dataflow", "deployed", "-o", str(path)])
    assert made.exit_code == 0, made.output
    runs = [
        CliRunner().invoke(main, ["run", *what, *more, "--json"])
        for more in ([], ["--mapping", str(path)])
    ]
    first, again = (json.loads(run.stdout) for run in runs)
    assert first["cycles"] == again["cycles"]
    # operands lie on the chip; 64 x 96 results of two bytes go
    assert again["dram_bound"]["compulsory_bytes"] == 2 * 64 * 96
    assert sum(again["bytes"]["dram"]["write"].values()) == 2 * 64 * 96


def test_blocks_of_queries_that_were_asked_for_stay() -> None:
    """A TPU v6e cuts a prefill of 512 tokens into two; four that were asked for are run."""
    on = load_accelerator("tpu_v6e")
    plain = build("llama3-8b", phase="prefill", prompt=512, scope="la")
    asked = build("llama3-8b", phase="prefill", prompt=512, scope="la", causal_blocks=4)
    assert place_on(plain, on, "deployed").parameters["causal_blocks"] == 2
    assert place_on(asked, on, "deployed").parameters["causal_blocks"] == 4
    eight = build("llama3-8b", phase="prefill", prompt=512, scope="la", causal_blocks=8)
    assert place_on(eight, on, "deployed").parameters["causal_blocks"] == 8
    assert plain.fingerprint == eight.fingerprint  # eight are the blocks of other dataflows


def test_channels_of_a_convolution_are_padded_to_the_lanes() -> None:
    """A TPU v3 core took 247,383 cycles (validation/silicon/tpu_v3, 3.3% off there)."""
    settings = (
        "compiler.kernel_start_cycles=0",
        "compiler.products=whole",
        "compiler.layout.lanes=128",
        "compiler.layout.pads=[convolutions]",
    )
    conv = conv2d(n=64, m=512, c=512, p=7, q=7, r=3, s=3)
    result = simulate(conv, load_accelerator("tpu_v3", list(settings)), "deployed")
    assert result.run.cycles + 1666 == pytest.approx(247_383, rel=0.04)
    few = simulate(
        conv2d(n=1, m=3, c=5, p=4, q=4, r=3, s=3),
        load_accelerator("tpu_v3", list(settings)),
        "deployed",
    )
    (group,) = few.mapping.groups
    assert dict(group.padded) == {"c": 128, "m": 128}


@pytest.mark.parametrize(("phases", "made"), [(1, (1, 4)), (2, (2, 4)), (5, (6, 3)), (4, (4, 3))])
def test_phases_of_a_transposed_convolution_lie_beside_its_filters(
    phases: int, made: tuple[int, int]
) -> None:
    """3 channels in 4 lanes; 3 filters of so many phases in as few fours as hold them all."""
    ranks = {"p": 6, "m": 3, "u": phases, "c": 3, "r": 2}
    part = einsum("phases", "O p u m", "I p+r c", "W c r u m", **ranks)
    on = toy("whole", "compiler.layout.lanes=4", "compiler.layout.pads=[convolutions]")
    result = _checked(linked(part, weights=["W"]), on)
    (group,) = result.mapping.groups
    assert ranks | dict(group.padded) == ranks | {"c": 4, "u": made[0], "m": made[1]}
    assert result.run.macs == 6 * 2 * 4 * made[0] * made[1]


@pytest.mark.parametrize(
    ("images", "taps", "room", "loops"),
    [
        (1, 1, 1024, {}),
        (3, 1, 1024, {"npq": 24}),
        (3, 3, 1536, {"n": 1}),
        (3, 3, 1100, {"n": 1, "m": 4}),
    ],
)
def test_convolutions_are_padded_and_cut_by_images_then_filters(
    images: int, taps: int, room: int, loops: dict[str, int]
) -> None:
    """Channels and filters, 3 and 7, are padded to 4 and 8, of a 1 x 1, too; two bytes each.

    By hand, 1 x 1: an image reads 128 bytes and makes 256, beside 64 of filters: 1,216 of three,
    640 of half. 3 x 3: 288 and 256 beside 576, 1,120; 704 with half of the filters.
    """
    padded = "compiler.layout.lanes=4", "compiler.layout.pads=[convolutions]"
    on = toy("whole", *padded, f"buffer.capacity_bytes={room} B")
    result = _checked(conv2d(n=images, m=7, c=3, p=4, q=4, r=taps, s=taps), on)
    (group,) = result.mapping.groups
    assert dict(group.padded) == {"c": 4, "m": 8}
    cut = {one.rank: one.tile for one in group.tree if isinstance(one, Loop)}
    assert {rank: tile for rank, tile in cut.items() if rank not in "rs"} == loops


@pytest.mark.parametrize("keys", [1, 5, 8])
def test_an_attention_that_divides_its_results_has_their_values(keys: int) -> None:
    """2 passes over the scores, 1 over results between two pieces of keys, 1 to divide: by hand."""
    workload = attention_workload(2, keys, 3)
    on = toy("whole", "compiler.attention.divides_results=true", "buffer.capacity_bytes=64 KiB")
    result = _checked(workload, on)
    scores, results = 2 * keys * keys, 2 * keys * 3
    assert result.run.elements == (3 * scores if keys == 1 else 2 * scores + 2 * results)


def vector(kind: str, shape: Sequence[int], number: str = "fp16") -> Workload:
    ranks = dict(zip("abcd", shape, strict=False))
    axis = [*ranks][-1] if kind == "layer_norm" else None
    given, made = (operand(" ".join((name, *ranks))) for name in "xy")
    one = Vector(kind, kind, ranks, (given,), made, axis)
    tensors = {"x": Tensor("x", 2, "input"), "y": Tensor("y", 2, "output")}
    return with_precision(Workload(kind, (one,), tensors), {"activations": number})


@pytest.mark.parametrize("room", ["64 KiB", "700 B"])
def test_layer_norms_apart_have_their_values(room: str) -> None:
    """Mean and mean square of 5 x 13 rows of 17, a row's root in lanes of its own, 4 of them."""
    settings = ("compiler.norms=apart", "compiler.layout.lanes=4", "compiler.layout.pads=[vectors]")
    on = toy("whole", f"buffer.capacity_bytes={room}", *settings)
    result = _checked(vector("layer_norm", (5, 13, 17)), on)
    assert len(result.mapping.groups) == 4
    # 17 numbers of a row lie in 20; four rows a tile have 16 x 5 of 13 x 5
    rows, lying = 5 * 13, min(20 * 13 * 5, 16 * 5 * 17, 8 * 13 * 17)
    assert result.run.elements == 2 * rows * 17 + 2 * rows * 4 + lying
    # of a single row nothing lies apart but its 17 numbers, in 20
    result = _checked(vector("layer_norm", (17,)), on)
    assert result.run.elements == 2 * 17 + 2 + 20


def test_a_layer_norm_of_a_tpu_v4_is_four_kernels() -> None:
    """The chip took 25.68 us for 8 x 256 rows of 512 (validation/silicon/tpu_v4).

    By hand: three passes over 2^20 numbers and two over a number a row in 128 lanes, 220 a cycle,
    are 16,682 cycles; four kernels start, 850 each with the latency of DRAM. Before they work a
    block comes, 2^18 numbers of two bytes, of the third 2 x 2^18 of four; behind the last two as
    many leave: 5,505 at 952 bytes a cycle.
    """
    on = load_accelerator("tpu_v4")
    result = simulate(vector("layer_norm", (8, 256, 512)), on, "deployed")
    assert result.run.elements == 3 * 2**20 + 2 * 2048 * 128
    assert result.run.cycles == pytest.approx(16_682 + 4 * 850 + 5_505, rel=0.04)
    assert on.seconds(result.run.cycles) == pytest.approx(25.68e-6, rel=0.07)


def test_a_copy_is_made_by_dma() -> None:
    """33.5 MB at 1,000 GB/s and 1.05 GHz, what starts it, the latency of DRAM; no vector work."""
    on = load_accelerator("tpu_v4")
    result = simulate(vector("copy", (4096, 4096)), on, "deployed")
    least = -(-2 * 4096 * 4096 * 105 // 100_000) + 560 + 300
    assert least <= result.run.cycles <= least + 64
    assert result.run.elements == 0
    assert result.run.moved["dram_read", "x"] == 2 * 4096 * 4096
    assert ("dram_write", "y") not in result.run.moved


@pytest.mark.parametrize(
    ("batch", "sizes", "folds"),
    [(4, (10, 2, 2), 2), (5, (10, 2, 2), 3), (3, (7, 3, 1), 3), (17, (6, 1, 1), 5)],
)
def test_products_apart_share_an_array_on_its_diagonal(
    batch: int, sizes: tuple[int, int, int], folds: int
) -> None:
    """Two products of 2 x 2 have room on 4 x 4 PEs, four of 1 x 1, one of 3 rows: by hand."""
    (m, k, n), unlimited = sizes, "dram.bandwidth_bytes_per_second=unlimited"
    for diagonal, count in (("true", folds), ("false", batch)):
        on = toy("whole", f"array.diagonal={diagonal}", unlimited, "buffer.capacity_bytes=64 KiB")
        result = _checked(gemm(batch=batch, m=m, k=k, n=n), on)
        assert result.run.engines["array"].busy == count * m
        assert result.run.macs == batch * m * k * n
        assert result.run.moved["buffer_read", "B"] == 2 * batch * k * n


@pytest.mark.parametrize(("chip", "arrays"), [("tpu_v5e", 4), ("tpu_v6e", 4), ("tpu_v4", 8)])
def test_channels_of_a_depthwise_convolution_share_the_arrays(chip: str, arrays: int) -> None:
    """32 channels of 112 x 112 on one diagonal: each array streams its share of pixels for 9 taps.

    A grouped one of 4 channels a group is as fast: 32 groups take 128 rows and columns.
    """
    on = load_accelerator(chip)
    for channels in (1, 4):
        layer = conv2d(g=32, m=channels, c=channels, p=112, q=112, r=3, s=3)
        result = simulate(layer, on, "deployed")
        busy = result.run.engines["array"].busy
        assert busy == pytest.approx(9 * 112 * 112 / arrays, rel=0.01)


def test_few_channels_on_a_diagonal_load_few_rows() -> None:
    """32 channels of 16 x 16: an array streams 64 of 256 pixels, longer than 32 rows take."""
    layer = conv2d(g=32, m=1, c=1, p=16, q=16, r=3, s=3)
    result = simulate(layer, load_accelerator("tpu_v5e"), "deployed")
    assert result.run.engines["array"].busy == 9 * 64


def test_heads_of_an_attention_share_no_array() -> None:
    """Their keys are no weights: a TPU v6e takes what each head alone takes."""
    on = load_accelerator("tpu_v6e")
    decode = build("llama3-8b", phase="decode", kv_len=64, batch=8, scope="la")
    mapping = simulate(decode, on, "deployed").mapping
    assert "diagonal" not in tree_text(mapping)


@pytest.mark.parametrize(("network", "milliseconds"), [("mobilenet_v2", 2.6), ("vgg16", 296)])
def test_models_on_an_edge_tpu_take_what_the_chip_took(network: str, milliseconds: float) -> None:
    """Coral's table at USB 3; activations stay in 8 MiB, weights as far as there is room."""
    on = load_accelerator("coral_edge_tpu")
    workload = build(network, scope="model")
    result = simulate(workload, on, default_dataflow(on, workload))
    seconds = on.seconds(result.run.cycles + result.program_start_cycles)
    assert 1e3 * seconds == pytest.approx(milliseconds, rel=0.03)


@pytest.mark.parametrize(
    ("layer", "room", "weights_first"),
    [
        (Conv(m=5, c=3, p=9, q=7, r=1, s=1), "8 KiB", True),
        (Conv(m=3, c=4, p=6, q=6, r=3, s=2), "8 KiB", True),
        (Conv(m=8, c=3, p=4, q=2, r=1, s=1), "8 KiB", False),  # as many filters as pixels
        (Conv(m=5, c=30, p=5, q=4, r=1, s=1), "600 B", False),  # weights don't fit
    ],
)
def test_weights_of_a_convolution_stay_where_they_are_smaller_and_fit(
    layer: Conv, room: str, *, weights_first: bool
) -> None:
    on = toy("streamed", "compiler.held=smaller", f"buffer.capacity_bytes={room}")
    result = _checked(layers_workload("layers", {"conv": layer}), on)
    (group,) = result.mapping.groups
    assert (group.tree[0] == Keep("conv.W")) == weights_first


def test_an_array_begins_with_the_first_rows_of_an_image() -> None:
    """By hand, NVDLA at 10 B a cycle: 64 x 56 x 56 in, 64 x 256 weights, 256 x 56 x 56 out.

    They take 101,991 cycles, of which the array's work, 25,088, hides in all but the ends.
    """
    on = load_accelerator("nvdla_2048")
    layer = Conv(m=256, c=64, p=56, q=56, r=1, s=1)
    cycles = simulate(layers_workload("layers", {"conv": layer}), on).cycles
    assert 101_991 < cycles < 102_400


def test_activations_and_weights_stay_where_there_is_room() -> None:
    """Three layers of 6, 9 and 4 KiB of activations and 9, 18 and 3 bytes of weights, by hand.

    Beside 9 KiB four bytes have room for the last weights alone. The second layer does not fit
    6 KiB, so that what it reads and makes goes through DRAM; the image and the results always do.
    """
    layers = {
        "a": Conv(m=3, c=3, p=32, q=32, r=1, s=1),
        "b": Conv(m=6, c=3, p=32, q=32, r=1, s=1),
        "c": Conv(m=1, c=3, p=32, q=32, r=1, s=1),
    }
    workload = layers_workload("three", layers, bytes_per_element=1)
    for capacity, on_chip in (
        (9 * 1024 + 4, {"b.I", "b.O", "c.I", "a.O", "c.W"}),
        (6 * 1024 + 27, {"a.O", "c.I", "a.W", "b.W"}),
        (6 * 1024 + 26, {"a.O", "c.I", "a.W", "c.W"}),
    ):
        settings = ("compiler.products=streamed", "compiler.stays=[activations,weights]")
        on = load_accelerator("toy", [*settings, f"buffer.capacity_bytes={capacity} B"])
        made = place_on(workload, on, "deployed")
        assert {name for name, tensor in made.tensors.items() if tensor.shared} == on_chip


@pytest.mark.parametrize(
    ("repeat", "room", "stays"), [(1, 4, True), (2, 4, False), (2, 6, True), (3, 6, False)]
)
def test_weights_of_all_layers_have_to_fit(repeat: int, room: int, *, stays: bool) -> None:
    """Weights of 3 bytes, once for each repetition, beside activations of 3 and 1 KiB."""
    layer = layers_workload("one", {"c": Conv(m=1, c=3, p=32, q=32, r=1, s=1)}, bytes_per_element=1)
    settings = "compiler.products=streamed", "compiler.stays=[activations,weights]"
    on = load_accelerator("toy", [*settings, f"buffer.capacity_bytes={4 * 1024 + room} B"])
    assert place_on(replace(layer, repeat=repeat), on, "deployed").tensors["c.W"].shared == stays


@pytest.mark.parametrize(("repeat", "stays"), [(1, True), (2, False)])
def test_operands_of_all_layers_have_to_fit(repeat: int, *, stays: bool) -> None:
    """Operands and result are 4 x 4 numbers of two bytes; each layer has weights of its own."""
    settings = "compiler.products=whole", "compiler.stays=[operands]"
    on = load_accelerator("toy", [*settings, "buffer.capacity_bytes=96 B"])
    made = place_on(replace(gemm(m=4, k=4, n=4), repeat=repeat), on, "deployed")
    assert {tensor.shared for tensor in made.tensors.values() if tensor.kind == "weight"} == {stays}


@pytest.mark.parametrize(
    ("chip", "width", "shape"),
    [
        ("tpu_v4", 2, {"prompt": 32, "scope": "model"}),
        ("coral_edge_tpu", 1, {"prompt": 32, "scope": "model"}),
        ("coral_edge_tpu", 1, {"prompt": 32}),
        ("tpu_v3", 2, {"phase": "decode", "kv_len": 64, "scope": "model"}),
    ],
)
def test_a_model_reads_the_weights_and_caches_of_all_layers(
    chip: str, width: int, shape: dict[str, Any]
) -> None:
    """A layer of GPT-2 has 12 x 768^2 weights, and 2 x 768 keys and values for each token."""
    workload = build("gpt2", **shape)
    moved = estimate(workload, load_accelerator(chip)).prediction.moved
    kinds = {name: tensor.kind for name, tensor in workload.tensors.items()}
    read = Counter[str]()
    for (level, name), n_bytes in moved.items():
        if level == "dram_read":
            read[kinds.get(name, "")] += n_bytes
    assert read["weight"] >= workload.repeat * 12 * 768**2 * width
    if "kv_len" in shape:
        assert read["cache"] >= workload.repeat * 2 * 768 * 64 * width


def test_what_stays_is_a_piece_on_one_chip() -> None:
    """The same layers of four images: on four chips each has one, on two of them two.

    6, 9 and 4 KiB of activations of one image leave room for the last weights in 9 KiB + 4. Of two
    images 6 + 6 and 6 + 6 (half of b's channels) don't fit, 6 + 2 do, beside which all weights do.
    """
    conv = partial(Conv, p=32, q=32, r=1, s=1, n=4)
    layers = {"a": conv(m=3, c=3), "b": conv(m=6, c=3), "c": conv(m=1, c=3)}
    workload = layers_workload("three", layers, bytes_per_element=1)
    settings = ("compiler.products=streamed", "compiler.stays=[activations,weights]")
    links = ("chips=4", "links.bytes_per_second=1 GB/s", "links.topology=switch")
    on = load_accelerator("toy", [*settings, *links, f"buffer.capacity_bytes={9 * 1024 + 4} B"])
    for data, on_chip in (
        (None, {"b.I", "b.O", "c.I", "a.O", "c.W"}),
        (4, {"b.I", "b.O", "c.I", "a.O", "c.W"}),
        (2, {"c.I", "a.W", "b.W", "c.W"}),
    ):
        options = Options(data_parallel=data, tensor_parallel=data and 4 // data)
        made = place_on(workload, on, "deployed", options)
        assert {name for name, tensor in made.tensors.items() if tensor.shared} == on_chip


def test_a_program_starts_once() -> None:
    """A model's start does not grow with its operators, and is no part of a run's cycles."""
    on = load_accelerator("tpu_v6e")
    result = simulate(build("llama3-8b", phase="decode", kv_len=64, scope="block"), on, "deployed")
    assert result.program_start_cycles == 4600
    assert len(result.mapping.groups) > 8
    assert "start" not in result.prediction.bound_terms


def test_a_trace_of_converted_numbers_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "fp16.h5"
    result = record(path, fp16(gemm(m=5, k=7, n=3)), toy("whole"), "deployed")
    with Trace.open(path) as trace:
        assert trace.cycles == result.run.cycles


def test_a_run_says_what_was_measured_of_its_operators() -> None:
    command = "run --hw tpu_v6e --workload llama3-8b --phase decode --kv-len 64 --detail"
    (line,) = [
        line
        for line in CliRunner().invoke(main, command.split()).output.splitlines()
        if line.startswith("measured on this chip: ")
    ]
    assert re.match(r".*: \d+ GEMMs \(median .*%, 90% within .*%; .*\); .* attentions \(", line)
    assert "; 94 networks (median 8.0%, 90% within 12.1%; a block of Llama" in line
    assert line.endswith("; no elementwise operator; no row-wise operator")


@pytest.mark.parametrize(
    ("chip", "workload", "said"),
    [
        ("tpu_v4", vector_workload("copy", (64, 128)), r"81 copy operators \(median 2.0%, .*\)"),
        ("tpu_v5e", vector_workload("copy", (64, 128)), "no copy operator"),
        ("tpu_v4", vector_workload("relu", (64, 128)), r"205 elementwise operators \(.*\)"),
        ("vta_16", build("alexnet"), r"6 networks \(.*\); no convolution; no pooling operator"),
        ("nvdla_2048", gemm(m=64, k=64, n=64), "no GEMM"),
    ],
)
def test_kinds_that_no_row_of_a_chip_has_are_named(
    chip: str, workload: Workload, said: str
) -> None:
    (line,) = measured_lines(simulate(workload, load_accelerator(chip)))
    assert re.fullmatch(f"measured on this chip: {said}", line)


@pytest.mark.parametrize(
    ("document", "settings", "where"),
    [
        ("of: tpu_v4", {}, "on the chip that this one changes"),  # under another name
        ("name: tpu_v4\nof: tpu_v4\narray: {rows: 64}", {}, "on the chip that this one changes"),
        (None, {"buffer.capacity_bytes": "8 MiB"}, "on the chip that this one changes"),
        (None, {"chips": "2x2", "energy.mac_pj": 1.0}, "on this chip"),
    ],
)
def test_rows_of_a_chip_are_not_those_of_a_changed_one(
    document: str | None, settings: dict[str, object], where: str, tmp_path: Path
) -> None:
    file = tmp_path / "my chip.yaml"
    file.write_text(document or "")
    chip = load_accelerator(file if document else "tpu_v4", settings)
    (line,) = measured_lines(simulate(vector_workload("relu", (64, 128)), chip))
    assert line.startswith(f"measured {where}: 205 elementwise operators (median ")
    assert chip.name == ("my_chip" if document == "of: tpu_v4" else "tpu_v4")


def test_experts_take_the_bytes_of_those_that_tokens_choose() -> None:
    """Of 128 experts 16 tokens with 8 each use 128 x (1 - (120 / 128)^16) = 82.4.

    Those of Qwen3-30B-A3B have 3 x 2,048 x 768 weights of 2 bytes: 774 MB, 474 us at 1,638 GB/s.
    """
    model = replace(
        ONE_HEAD, hidden=2048, head_size=2, ff_size=768, vocabulary=2, experts=128, chosen=8
    )
    step = transformer(model, phase="decode", kv_len=1, batch=16)
    result = simulate(step, load_accelerator("tpu_v6e"), "deployed")
    rows = [one for one in result.run.operators if one.name.startswith("experts")]
    read = sum(
        n
        for one in rows
        for (level, name), n in one.moved.items()
        if level == "dram_read" and name.startswith("experts.W")
    )
    assert read == 82 * 3 * 2048 * 768 * 2
    seconds = result.accelerator.seconds(sum(one.cycles for one in rows))
    assert seconds == pytest.approx(read / 1638e9, rel=0.03)


@pytest.mark.parametrize(
    ("chip", "tokens"),
    [("tpu_v5e", 130), ("tpu_v6e", 130), ("tpu_v7_chiplet", 130), ("tpu_v3", 2048)],
)
def test_weights_of_experts_are_read_once(chip: str, tokens: int) -> None:
    """Eight experts of Mixtral 8x7B, whose tokens lie one expert after the other."""
    result = estimate(build("mixtral-8x7b", phase="prefill", prompt=tokens), load_accelerator(chip))
    for matrix in ("gate", "up", "down"):
        read = result.prediction.moved["dram_read", f"experts.W{matrix}"]
        assert read == 8 * 4096 * 14336 * 2


def test_what_does_not_fit_goes_expert_by_expert() -> None:
    """Two experts of 8 x 16 with 16 tokens each, in 1 KiB, everything in two slots.

    Both experts take 2 x 2 x 256 B. Of one, half of its columns (256 B in two slots) fit beside
    half of its tokens (256 B) and their products (256 B): its tokens come twice to each product.
    """
    model = replace(ONE_HEAD, hidden=8, head_size=4, ff_size=16, experts=2, chosen=1)
    workload = transformer(model, phase="prefill", prompt=32)
    on = toy("whole", "buffer.capacity_bytes=1 KiB")
    result = _checked(workload, on)
    moved = result.run.moved
    assert [moved["dram_read", f"experts.W{name}"] for name in ("gate", "up")] == [512, 512]
    assert moved["dram_read", "D"] == 2 * 2 * 512
