"""Memories that are too small: by hand, refused with what would hold it, and run all the same."""

import re
from dataclasses import replace

import pytest

from simaccel.analytic.memories import MemoryOverflowError, memory_demands, stored_demands
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.chips.sharding import pod_of
from simaccel.mapping.tree import Spread
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.chip_share import chip_share
from simaccel.schedulers.chip_work import ChipWork
from simaccel.study.capacity import require_room
from simaccel.study.experiment import simulate
from simaccel.study.placement import place_on
from simaccel.workload import TRANSFORMERS, Transformer, Workload, build, transformer
from simaccel.workload.stages import stage_of
from tests.program.programs import attention_workload
from tests.small_pods import LARGE, SMALL, small_pod


def test_demand_of_a_decode_by_hand() -> None:
    """Llama-3-8B: 8.03 G numbers, with the whole embedding; 128 KiB a token and sequence."""
    work = build("llama3-8b", phase="decode", kv_len=2047, scope="model", batch=64)
    dram, _ = memory_demands(work, load_accelerator("tpu_v5e"))
    assert dram.by_part["weights"] == 2 * 8_030_261_248
    assert dram.by_part["cache"] == 64 * 2048 * 128 * 1024
    assert (dram.capacity_bytes, dram.fits) == (16 * 2**30, False)


@pytest.mark.parametrize("model", TRANSFORMERS.values(), ids=lambda one: one.name)
def test_weights_in_memory_are_the_published_parameters(model: Transformer) -> None:
    """With the tables of words and positions, of which a run reads some rows; a tied one once.

    The first and the last stage of a pipeline each have a tied table.
    """
    work = transformer(model, prompt=16, scope="model", experts="uniform", bytes_per_element=2)
    assert _weights(work) == 2 * model.parameters
    if not model.is_vision:
        stages = stage_of(work, 0, model.layers - 1), stage_of(work, model.layers - 1, 1)
        tied = model.vocabulary * model.hidden * model.tied
        assert sum(map(_weights, stages)) == 2 * (model.parameters + tied)


def test_a_table_is_no_larger_for_more_tokens() -> None:
    """2,048 rows of a table of 32 rows are read; memory holds the table."""
    one, many = (transformer(SMALL, prompt=n, batch=n, scope="model") for n in (1, 64))
    assert _weights(one) == _weights(many) == 2 * SMALL.parameters


def test_chips_share_a_table_as_they_share_layers() -> None:
    """Llama-3-8B on 4 chips: a quarter of all weights but 65 norms, which each chip has.

    So it is if they share layers, with parts of tokens in norms or not, and if weights are sharded;
    a chip for a part of the batch has all. The vocabulary of a tied GPT-2 is odd: each has all of
    its table, and 12 layers share a quarter of their products and of biases that are not of e.
    """
    norms = 65 * 4096
    quarter = 2 * ((8_030_261_248 - norms) // 4 + norms)
    work = build("llama3-8b", phase="decode", kv_len=8, scope="model", batch=4)
    for options, expected in (
        (Options(), quarter),
        (Options(tensor_parallel=4), quarter),
        (Options(tensor_parallel=4, sequence_parallel=True), quarter),
        (Options(data_parallel=4, shard_weights=True), quarter),
        (Options(data_parallel=4), 2 * 8_030_261_248),
        (Options(data_parallel=2), 2 * ((8_030_261_248 - norms) // 2 + norms)),
    ):
        assert _weights_of_chip(work, options) == expected
    tied, hidden = build("gpt2", phase="decode", kv_len=8, scope="model", batch=4), 768
    tables = (50257 + 1024) * hidden
    cut, whole = hidden * (12 * hidden + 3 + 4), hidden * (2 + 2 * 2)
    layers = 12 * (cut // 4 + whole)
    assert _weights_of_chip(tied, Options(tensor_parallel=4)) == 2 * (tables + layers + 2 * hidden)


def test_a_split_is_chosen_by_the_table_that_a_chip_holds() -> None:
    """Of Llama-3-8B a chip of four also has the caches of 9 tokens, 128 KiB each.

    On 8 GiB all weights of a part of the batch are too many, and a quarter of them isn't.
    """
    work = build("llama3-8b", phase="decode", kv_len=8, scope="model", batch=4)
    on = load_accelerator("tpu_v5e", ["chips=4", "dram.capacity_bytes=8 GiB"])
    for options, beyond in (
        (Options(data_parallel=4), 2 * 8_030_261_248 + 9 * 128 * 1024 - 8 * 2**30),
        (Options(tensor_parallel=4), 0),
    ):
        share = chip_share(work, on, options)
        assert share is not None
        assert ChipWork(work, on).bytes_beyond(share.spreads) == beyond


def test_a_split_is_chosen_by_the_shards_of_weights_that_a_chip_holds() -> None:
    """Four sequences of a Llama-3-8B: a chip's quarter of the weights, and its sequence's cache.

    Of 8,030,261,248 parameters all but the 65 norms of 4,096 can be cut in four.
    """
    work = build("llama3-8b", phase="prefill", prompt=64, scope="model", batch=4)
    on = load_accelerator("tpu_v5e", ["chips=4", "dram.capacity_bytes=1 MiB"])
    options = Options(data_parallel=4, shard_weights=True)
    share = chip_share(work, on, options)
    assert share is not None
    cache, norms = 64 * 128 * 1024, 65 * 4096
    held = 2 * (8_030_261_248 - norms) // 4 + 2 * norms + cache
    beyond = ChipWork(work, on, shard_weights=True).bytes_beyond(share.spreads)
    assert beyond + 2**20 == held
    demands, *_ = memory_demands(share.pod.workload, on, pod=share.pod)
    assert demands.by_part["weights"] + demands.by_part["cache"] == held


def test_what_does_not_fit_is_refused_before_any_split_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Caches of 64 x 100,000 tokens, of each 2 x 32 layers x 8 heads x 128 values of 2 bytes."""

    def run(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Machine, "cycles_below", run)
    work = build("llama3-8b", phase="prefill", prompt=100_000, scope="model", batch=64)
    with pytest.raises(MemoryOverflowError, match=r"cache 391 GiB.* chips hold it"):
        simulate(work, load_accelerator("tpu_v5e", ["chips=2"]), "deployed")


def _weights(work: Workload) -> int:
    return memory_demands(work, load_accelerator("tpu_v5e"))[0].by_part["weights"]


def _weights_of_chip(work: Workload, options: Options) -> int:
    """Return the bytes of weights of one of four chips."""
    share = chip_share(work, load_accelerator("tpu_v5e", ["chips=4"]), options)
    assert share is not None
    pod = share.pod
    return memory_demands(pod.workload, share.accelerator, pod=pod)[0].by_part["weights"]


def test_what_a_chip_reads_a_part_of_is_there_once() -> None:
    """Keys and values of 4 sequences and 9 tokens, of 2 heads on both chips; each reads one."""
    decode = transformer(SMALL, phase="decode", kv_len=8, batch=4, scope="model")
    decode = place_on(decode, small_pod(1))
    mapping = make_mapping(decode, small_pod(1), "strips")
    over_chips = Spread("g", 1, "chips")
    body = tuple(
        replace(group, tree=(over_chips, *group.tree)) if group.name in "L softmax A" else group
        for group in mapping.groups
    )
    pod = pod_of(decode, replace(mapping, body=body), small_pod(2))
    assert dict(pod.parts) == {"Q.part": "Q", "K.part": "K", "V.part": "V"}
    for found in (memory_demands(decode, small_pod(1)), stored_demands(pod, small_pod(2), {})):
        assert [each.by_part["cache"] for each in found] == [2 * 2 * 4 * 9 * 2 * 8 * SMALL.layers]


def test_what_does_not_fit_is_refused_with_the_chips_that_hold_it() -> None:
    """A GEMM of 4 Ki x 4 Ki x 4 Ki on 33 MiB: 32 MiB of weights and 64 MiB in and out."""
    work = build("gemm", shape="M=4096,K=4096,N=4096")
    on = load_accelerator("edge", ["dram.capacity_bytes=33 MiB"])
    allowed = r"activations 64.0 MiB of 33.0 MiB; at least 3 chips hold it; --set allow-overflow "
    with pytest.raises(MemoryOverflowError, match=allowed):
        simulate(work, on, "naive")
    result = simulate(work, on, "naive", options=Options(allow_overflow=True))
    assert [one.fits for one in result.memories] == [False]


def test_what_a_mapping_stores_is_refused_as_the_figure_says() -> None:
    """Logits and their softmax: 2 x 32 x 32 x 2 bytes; Q, K, V and Z: 4 x 32 x 4 x 2.

    Fused they stay on the chip; one of them is stored at a time, or both.
    """
    work = attention_workload(1, 1, 32, 4)
    room = {n: load_accelerator("toy", [f"dram.capacity_bytes={n} B"]) for n in (1024, 4096, 5120)}
    assert [one.needed_bytes for one in simulate(work, room[1024], "flash").memories] == [1024]
    with pytest.raises(MemoryOverflowError) as refused:
        simulate(work, room[4096], "naive-m")
    assert refused.value.shortage == (
        "attention does not fit the DRAM of toy: activations 5.00 KiB of 4.00 KiB; its mapping "
        "stores P (2.00 KiB), S (2.00 KiB): one that keeps them on chip needs less, as does a "
        "smaller batch"
    )
    for on, options in ((room[4096], Options(allow_overflow=True)), (room[5120], Options())):
        (demand,) = simulate(work, on, "naive-m", options=options).memories
        assert (demand.needed_bytes, demand.fits) == (5120, on is room[5120])


def test_chips_share_what_one_cannot_hold() -> None:
    """4 chips have a quarter each of a layer's products, and all of its norms."""
    work = build("gpt2", phase="decode", kv_len=8, scope="block", batch=4)
    (whole,) = memory_demands(work, small_pod(1))
    room = f"dram.capacity_bytes={whole.needed_bytes // 3}"
    pod = small_pod(4, "topology=switch")
    pod = pod.model_copy(update={"dram": load_accelerator("mxu_128", [room]).dram})
    assert simulate(work, pod, "naive").memories[0].fits
    with pytest.raises(MemoryOverflowError, match=r"on each chip; 4 chips hold it"):
        simulate(work, pod, "naive", options=Options(tensor_parallel=1, data_parallel=4))


def test_the_chips_that_hold_a_model_run_it() -> None:
    """Of 60 GiB on 16 GiB a chip 4 hold weights and cache, but not the norms that each has."""
    work = build("llama3-8b", phase="decode", kv_len=2047, scope="model", batch=192)
    (whole, _), room = memory_demands(work, load_accelerator("tpu_v5e")), 16 * 2**30
    assert 3 * room < whole.needed_bytes < 4 * room + 2**30
    with pytest.raises(MemoryOverflowError, match=r"of 16.0 GiB; \d+ chips hold it") as refused:
        require_room(work, load_accelerator("tpu_v5e"), "deployed", Options())
    (count,) = map(int, re.findall(r"--chips (\d+)", str(refused.value)))
    require_room(work, load_accelerator("tpu_v5e", [f"chips={count}"]), "deployed", Options())
    fewer = load_accelerator("tpu_v5e", [f"chips={count // 2}"])
    with pytest.raises(MemoryOverflowError):
        require_room(work, fewer, "deployed", Options())


def test_a_table_decides_how_many_chips_hold_a_model() -> None:
    """Llama-3-8B has 8.03 G weights of 2 bytes: 14.96 GiB, and 13.98 GiB without its embedding."""
    work = build("llama3-8b", phase="decode", kv_len=8, scope="model")
    on = load_accelerator("tpu_v5e", ["dram.capacity_bytes=14.5 GiB"])
    with pytest.raises(MemoryOverflowError, match=r"weights 15.0 GiB, .*; 2 chips hold it"):
        require_room(work, on, "deployed", Options())
    require_room(work, load_accelerator("tpu_v5e"), "deployed", Options())


def test_stages_that_hold_a_model_are_named() -> None:
    """64 sequences of 2,048 tokens have 8 heads of K and V, which 64 chips have 8 times.

    In 8 stages each of 8 chips has one of them: 810 GB / 64, and 16 layers of 2 x 32 MiB.
    """
    work = transformer(LARGE, phase="decode", kv_len=2048, scope="model", batch=64)
    pod = load_accelerator("tpu_v5e", ["chips=8x8"])
    said = r"on each chip; 128 chips hold it \(--chips 128\), or these in 8 stages \(--pipeline"
    with pytest.raises(MemoryOverflowError, match=said):
        simulate(work, pod, "deployed")
