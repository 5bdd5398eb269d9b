"""Decode steps at several precisions: weights' bytes, and time against the streaming limit."""

from dataclasses import replace
from fractions import Fraction

import pytest

from simaccel.experiment.run import ExperimentResult, simulate
from simaccel.experiment.traffic import dram_by_class, least_dram_bytes
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import Workload, build, transformer, with_precision
from tests.workload.language.reference import small

SLOW = load_accelerator("edge_tpu", ["dram.bandwidth_bytes_per_second=5 GB/s"])
WEIGHTS = 4 * 4096 * 4096 + 3 * 4096 * 11008
"""Elements of the matrices of a block of Llama-2-7B."""


def _decode(weights: str) -> ExperimentResult:
    sizes = {"weights": weights, "activations": "fp16", "cache": "fp8"}
    one = build("llama-2-7b", phase="decode", prompt=128, precision=sizes)
    return simulate(one, SLOW, "naive-m")


def test_weights_of_4_bits_stream_in_half_the_time_of_8() -> None:
    """Batch 1 reads each weight once: bytes are exact, and bound the time from below."""
    eight, four = _decode("int8"), _decode("int4")
    for result, bits in ((eight, 8), (four, 4)):
        read = result.run.moved
        n_bytes = sum(n for (level, t), n in read.items() if level == "dram_read" and t[0] == "W")
        assert n_bytes == WEIGHTS * bits // 8
        limit = Fraction(n_bytes * SLOW.clock_hz, 5 * 10**9)
        assert limit <= result.run.cycles < limit * 1.2
    assert four.run.cycles < eight.run.cycles * 0.6
    cached = [
        sum(n for (_, t), n in one.run.moved.items() if t in ("K", "V")) for one in (eight, four)
    ]
    assert cached[0] == cached[1] > 0


def test_what_moves_is_what_is_predicted_and_no_less_than_the_least() -> None:
    """Of a small Llama with odd sizes, and all classes of 4 bits."""
    model = small(hidden=18, heads=3, kv_heads=3, head_size=6, ff_size=21)
    whole = transformer(model, phase="decode", prompt=7)
    for sizes in ({"weights": "int4"}, dict.fromkeys(("weights", "activations", "cache"), "int4")):
        of = with_precision(whole, sizes)
        result = simulate(of, load_accelerator("toy"), "naive-m")
        assert result.prediction.moved == result.run.moved
        moved, least = dram_by_class(of, result.run.moved), least_dram_bytes(of)
        assert all(moved[name] >= least[name] for name in least)
        assert sum(moved.values()) >= result.floor.least_bytes >= result.floor.compulsory_bytes


@pytest.mark.parametrize("name", ["bf16", "fp8"])
def test_numbers_of_as_many_bits_cost_the_same(name: str) -> None:
    def run(of: Workload) -> ExperimentResult:
        return simulate(of, load_accelerator("toy"), "naive")

    of = build("gemm", shape="M=9,K=7,N=5")
    other = {"bf16": 2, "fp8": 1}[name]
    tensors = {n: replace(one, bytes_per_element=other) for n, one in of.tensors.items()}
    sizes = dict.fromkeys(("weights", "activations"), name)
    named, sized = run(with_precision(of, sizes)), run(replace(of, tensors=tensors))
    assert (named.run.cycles, named.run.moved) == (sized.run.cycles, sized.run.moved)
