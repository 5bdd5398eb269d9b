"""Predictions of whole mappings: energy, totals, refusals, and numbers that don't overflow."""

from itertools import product

import pytest

from simaccel.analytic.evaluation import CountError
from simaccel.analytic.prediction import predict
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.schedulers import NothingFitsError, Options, make_mapping
from simaccel.workload import ModelDimensions, Workload, attention, build, gemm
from tests.draws import some
from tests.machine.accelerators import accelerator
from tests.program.programs import attention_workload, gemm_case
from tests.trees import einsum, mapping, vector, workload


def test_energy_by_hand() -> None:
    """A 4 x 4 x 4 GEMM of 2-byte elements in one fold on toy, which is made for sums by hand.

    64 MACs at 1 pJ. DRAM: 96 B at 100 pJ. Buffer: 64 B in from DRAM, 64 B to the array, 32 B
    from it, 32 B out to DRAM, at 5 pJ. NoC: 64 B in, 32 B out, at 1 pJ. No softmax.
    """
    made = gemm_case(gemm(m=4, k=4, n=4))
    predicted = predict(made.workload, made.mapping, load_accelerator("toy"))
    assert predicted.energy_pj == {
        "mac": 64.0,
        "sfu": 0.0,
        "buffer": (64 + 64 + 32 + 32) * 5.0,
        "noc": 96.0,
        "dram": 9600.0,
    }


def test_sfu_energy_counts_every_pass() -> None:
    of = attention_workload(1, 1, 5, 4)
    on = load_accelerator("toy")
    predicted = predict(of, make_mapping(of, on, "naive"), on)
    assert predicted.energy_pj["sfu"] == 2.0 * 3 * 25


def test_repetitions_multiply() -> None:
    """A model of 5 layers is 5 times its block, but needs no more buffer."""
    sizes = ModelDimensions(hidden=8, heads=2, head_size=4, ff_size=12, layers=5)
    on = load_accelerator("toy", ["compiler.overlap=false"])
    block, model = (attention(sizes, batch=2, seq_len=6, scope=s) for s in ("block", "model"))
    one, all_ = (predict(w, make_mapping(w, on, "naive-m"), on) for w in (block, model))
    assert all_.macs == 5 * one.macs == model.macs
    assert all_.bound_cycles == 5 * one.bound_cycles
    assert all_.moved == {level: 5 * n for level, n in one.moved.items()}
    assert all_.energy_pj == pytest.approx({k: 5 * v for k, v in one.energy_pj.items()})
    assert all_.buffer_bytes == one.buffer_bytes


def test_totals_are_the_sums_of_the_operators() -> None:
    workload = attention(
        ModelDimensions(hidden=8, heads=2, head_size=4, ff_size=12), batch=1, seq_len=7
    )
    on = load_accelerator("toy", ["compiler.overlap=false"])
    predicted = predict(workload, make_mapping(workload, on, "flat-h"), on)
    names = ["Q", "K", "V", "L+softmax+A", "O", "FF1", "FF2"]
    assert [one.name for one in predicted.groups] == names
    assert predicted.bound_cycles == sum(one.bound_cycles for one in predicted.groups)
    assert predicted.buffer_bytes == max(one.buffer_bytes for one in predicted.groups)
    for level, n_bytes in predicted.moved.items():
        assert n_bytes == sum(one.moved.get(level, 0) for one in predicted.groups)
    for part, energy in predicted.energy_pj.items():
        assert energy == pytest.approx(sum(one.energy_pj[part] for one in predicted.groups))


@pytest.mark.parametrize(
    ("sections", "resource"),
    [
        ({}, "array"),
        ({"dram": {"bandwidth_bytes_per_second": "1 GB/s"}}, "dram"),
        ({"buffer": {"read_bytes_per_second": "1 GB/s"}}, "buffer_read"),
        ({"buffer": {"write_bytes_per_second": "1 GB/s"}}, "buffer_write"),
    ],
)
def test_bound_by(sections: dict[str, dict[str, object]], resource: str) -> None:
    made = gemm_case(gemm(m=8, k=8, n=8, batch=4))
    (one,) = predict(made.workload, made.mapping, accelerator(**sections)).groups
    assert one.bound_by == resource
    assert one.resource_bound_cycles == one.resources[resource]


def test_the_slowest_channel_is_no_bound_but_an_even_share_is() -> None:
    """5 tiles of A and of B of 128 B and of C of 64 B: 1600 B over 3 channels of 1 byte a cycle."""
    made = gemm_case(gemm(m=8, k=8, n=4, batch=5, bytes_by_tensor={"B": 4, "C": 2}))
    on = accelerator(dram={"bandwidth_bytes_per_second": "3 GB/s", "channels": 3})
    (one,) = predict(made.workload, made.mapping, on).groups
    assert one.resources["dram"] == 1600 // 3


def test_both_directions_of_the_noc_work_at_a_time() -> None:
    """The way in has 512 B, the way out 640 B: not 256 B of one group and 512 B of the other.

    Eight folds of 4 x 4 in each group: 16 B of weights and 16 B of a stream go in for each. Of the
    first come 16 sums of a byte, of the second 16 of four bytes.
    """
    of = workload(
        einsum("one", "T m n", "A m k", "B k n", m=4, k=32, n=4),
        einsum("two", "O m p", "T m n", "D n p", m=4, n=4, p=32),
        bits=dict.fromkeys("ABDT", 8) | {"O": 32},
    )
    one = mapping(
        of,
        """
        group one
          keep A buffer, B buffer, T buffer
          do one array ws
        group two
          keep T buffer, D buffer, O buffer
          do two array ws
        """,
    )
    pipe = {"topology": "bus", "link_bytes_per_cycle": 1}
    on = accelerator(noc={"distribution": pipe, "collection": pipe}, compiler={"overlap": True})
    work = predict(of, one, on).resources
    assert (work["noc_distribution"], work["noc_collection"]) == (2 * 8 * 32, 8 * 16 + 8 * 64)
    served = Machine(on, lower(of, one)).run().served_cycles
    assert (served["noc_distribution"], served["noc_collection"]) == (512, 640)


def test_what_is_too_large_to_count_is_refused() -> None:
    """Before it is scheduled, too; 2^60 MACs are taken (below)."""
    made = gemm_case(gemm(m=2**20, k=2**20, n=2**20, batch=2))
    on = load_accelerator("edge")
    with pytest.raises(CountError, match=rf"{2**61} MACs; allowed: at most 2\^60"):
        predict(made.workload, made.mapping, on)
    with pytest.raises(CountError, match=rf"{2**61} MACs; allowed: at most 2\^60"):
        make_mapping(made.workload, on, "flex")


# -- large ------------------------------------------------------------------------------------


def _long(hw: str, dataflow: str, workload: Workload) -> None:
    on = load_accelerator(hw)
    mapping = make_mapping(workload, on, dataflow, Options(patience=1))
    predicted = predict(workload, mapping, on)
    assert predicted.macs == workload.macs
    assert predicted.bound_cycles >= workload.macs // on.array.pes
    for one in predicted.groups:
        assert min(one.moved.values()) > 0
        assert min(one.resources.values()) >= 0
        assert one.buffer_bytes <= (on.buffer.capacity_bytes or 0)
    for tensor in "QKV":
        assert predicted.moved["dram_read", tensor] >= workload.tensor_bytes(tensor)
    assert predicted.moved["dram_write", "Z"] >= workload.tensor_bytes("Z")


@pytest.mark.parametrize(
    ("dataflow", "hw"), some(product(["naive", "flat", "flex", "flash"], ["edge", "cloud"]), 3)
)
def test_no_overflow_at_262144_tokens(hw: str, dataflow: str) -> None:
    """BERT with batch 64: 1.35e16 MACs; edge has no room for one row of logits (FLAT)."""
    workload = build("bert", batch=64, seq_len=262_144, scope="la")
    if (hw, dataflow) == ("edge", "flat"):
        with pytest.raises(NothingFitsError, match=r"needs 532736 B, the buffer has 524288 B"):
            make_mapping(workload, load_accelerator(hw), dataflow)
    else:
        _long(hw, dataflow, workload)


@pytest.mark.parametrize("hw", some(["edge", "cloud"]))
def test_no_overflow_with_a_million_on_every_side(hw: str) -> None:
    """2^60 MACs."""
    workload = gemm(m=2**20, k=2**20, n=2**20)
    on = load_accelerator(hw)
    for dataflow in some(("naive", "flex")):
        mapping = make_mapping(workload, on, dataflow, Options(patience=1))
        predicted = predict(workload, mapping, on)
        assert predicted.macs == 2**60
        assert predicted.bound_cycles >= 2**60 // on.array.pes
        assert min(predicted.moved.values()) >= 2**40 * 2


# -- groups that overlap -------------------------------------------------------------------------

BEHIND = """
    group two+relu
      keep A buffer, B buffer, T buffer
      fork
        | do two array ws
        | keep V buffer
          do relu sfu
    group three
      keep C buffer, D buffer, U buffer
      do three array ws
"""
LATE = """
    group one
      keep C buffer, X buffer
      do one sfu
    group two+add
      keep A buffer, B buffer, T buffer x2
      fork
        | do two array ws
        | keep X buffer, V buffer
          do add sfu
    group three
      keep C buffer x2, D buffer, U buffer
      do three array ws
"""
GEMM, OTHER = (
    einsum(name, f"{out} m n", f"{x} m k", f"{w} k n", m=4, k=4, n=4)
    for name, out, x, w in (("two", "T", "A", "B"), ("three", "U", "C", "D"))
)


@pytest.mark.parametrize(
    ("body", "sizes", "cycles"),
    [(BEHIND, (("relu", "relu", "V m n", "T m n"),), 14 + 16), (LATE, (), 16 + 16)],
)
def test_the_array_does_not_wait_for_vector_operators(
    body: str, sizes: tuple[tuple[str, str, str, str], ...], cycles: int
) -> None:
    """A fold takes 4 cycles of weights and 10 of a stream, the SFU 16 for 16 elements.

    `relu` takes what `two` makes, in a tile of its own; `add` takes what `one` makes. In both
    groups the array is free after 14 cycles, and then `three` has its fold.
    """
    vectors = [vector(*one, m=4, n=4) for one in sizes] or [
        vector("one", "relu", "X m n", "C m n", m=4, n=4),
        vector("add", "residual", "V m n", "X m n", "T m n", m=4, n=4),
    ]
    of = workload(*(vectors[:-1]), GEMM, vectors[-1], OTHER)
    on = accelerator(compiler={"overlap": True})
    one = mapping(of, body)
    assert Machine(on, lower(of, one)).run().cycles == cycles
    assert predict(of, one, on).bound_cycles <= cycles
