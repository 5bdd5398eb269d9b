"""Operands wider than the multipliers, piece after piece; elements of 4 bits, packed."""

from math import ceil

import numpy as np
import pytest

from simaccel import load_accelerator, simulate
from simaccel.errors import InputError
from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.machine.machine import Machine, Run
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program, program_text
from simaccel.study.experiment import energy_pj
from simaccel.workload import Workload, build, canonical_text, parse_workload
from simaccel.workload.documents import einsums_document
from tests.agreement import assert_counts, assert_exact
from tests.machine.accelerators import accelerator
from tests.machine.systolic_reference import Ints, gemm, stream_gemm
from tests.program.programs import reserved_bytes
from tests.trees import einsum, mapping, vector, workload

_BOTH = ("weights", "activations")
BODY = "group E\n  keep A buffer, B buffer, C buffer\n  do E array {kind}"


def _pieces(numbers: Ints, native: int, bits: int) -> list[Ints]:
    """Cut numbers without a sign into as many of ``native`` bits as they need, the lowest first."""
    return [(numbers >> at) % 2**native for at in range(0, bits, native)]


@pytest.mark.parametrize("bits", [(8, 8), (16, 8), (8, 16), (16, 16), (4, 8)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 9, 5), (11, 4, 4), (2, 13, 7)])
def test_an_array_of_8_bits_multiplies_wider_operands_piece_by_piece(
    shape: tuple[int, int, int], bits: tuple[int, int]
) -> None:
    """Row after row of A passes once for each pair of pieces; shifted, the products add up."""
    m, k, n = shape
    numbers = np.random.default_rng(m + 10 * k + 100 * n)
    a, b = (numbers.integers(0, 2**w, s) for w, s in zip(bits, ((m, k), (k, n)), strict=True))
    parts = [
        (x, y, 8 * (i + j))
        for i, x in enumerate(_pieces(a, 8, bits[0]))
        for j, y in enumerate(_pieces(b, 8, bits[1]))
    ]
    product = np.zeros((m, n), dtype=np.int64)
    for x, y, shift in parts:
        product += gemm(x, y, rows=4, cols=4, stationarity="ws")[0] << shift
    np.testing.assert_array_equal(product, a @ b)
    on = accelerator(array={"native_bits": 8, "overlap": "stream"})
    streams = np.repeat(a, len(parts), axis=0)
    _, cycles = stream_gemm(streams, b, rows=4, cols=4)
    of = workload(
        einsum("E", "C m n", "A m k", "B k n", m=m, k=k, n=n),
        bits={"A": bits[0], "B": bits[1], "C": 32},
    )
    one = mapping(of, BODY.format(kind="ws"))
    run = assert_counts(of, one, on)
    assert_exact(of, one, on, run)
    assert run.cycles == cycles
    folded = ceil(k / 4) * ceil(n / 4) * 16 * m  # edge folds are filled up in time, not in MACs
    assert run.native_macs == len(parts) * run.macs <= len(parts) * folded


@pytest.mark.parametrize("kind", STATIONARITIES)
@pytest.mark.parametrize("overlap", ["none", "preload", "stream"])
def test_operands_of_twice_the_width_stream_as_twice_as_many(
    kind: Stationarity, overlap: str
) -> None:
    """The rank that streams may as well be twice as long, if bytes cost nothing."""
    on = accelerator(array={"native_bits": 8, "overlap": overlap})
    streamed = {"ws": "m", "os": "k", "is": "n"}[kind]

    def cycles(bits: int, **sizes: int) -> int:
        of = workload(
            einsum("E", "C m n", "A m k", "B k n", **sizes), bits={"A": bits, "B": 8, "C": 8}
        )
        return Machine(on, lower(of, mapping(of, BODY.format(kind=kind)))).run().cycles

    sizes = {"m": 6, "k": 7, "n": 9}
    assert cycles(16, **sizes) == cycles(8, **(sizes | {streamed: 2 * sizes[streamed]}))


def _narrow_cycles(kind: Stationarity, overlap: str, bits: int, **sizes: int) -> int:
    """Return the cycles of a product on 4 x 4 PEs, of which bytes go two at once."""
    on = accelerator(array={"overlap": overlap, "macs_per_cycle": {"bits8": 2}})
    of = workload(einsum("E", "C m n", "A m k", "B k n", **sizes), bits={"A": bits, "B": 8, "C": 8})
    one = mapping(of, BODY.format(kind=kind))
    run = assert_counts(of, one, on)
    assert_exact(of, one, on, run)
    return run.cycles


@pytest.mark.parametrize("overlap", ["none", "preload", "stream"])
@pytest.mark.parametrize("long", [6, 13])
def test_narrow_operands_stream_as_half_as_many(overlap: str, long: int) -> None:
    """Two steps enter in the time of one: as a stream of half the length, rounded up, would."""
    narrow = _narrow_cycles("os", overlap, 8, m=6, n=9, k=long)
    assert narrow == _narrow_cycles("os", overlap, 16, m=6, n=9, k=ceil(long / 2))


@pytest.mark.parametrize(
    ("overlap", "bits", "long", "cycles"),
    [
        # by hand: 7 x 9 held numbers are six folds of 4 x 4; bytes shift in for two cycles, not 4
        ("none", 8, 6, 6 * (2 + 3 + 4 + 4 - 2)),
        ("none", 16, 6, 6 * (4 + 6 + 4 + 4 - 2)),
        ("preload", 8, 6, 2 + 6 * (3 + 4 + 4 - 2)),
        ("stream", 8, 6, 2 + 6 * 3 + 4 + 4 - 2),
        ("stream", 8, 2, 1 + 6 * 2 + 4 + 4 - 2),  # the next shifts in longer than two rows stream
        ("stream", 16, 2, 2 + 6 * 4 + 4 + 4 - 2),
    ],
)
def test_narrow_stationary_operands_shift_in_two_rows_at_once(
    overlap: str, bits: int, long: int, cycles: int
) -> None:
    assert _narrow_cycles("ws", overlap, bits, k=7, n=9, m=long) == cycles
    assert _narrow_cycles("is", overlap, bits, k=7, m=9, n=long) == cycles


@pytest.mark.parametrize(
    ("array", "precision", "cycles"),
    [
        # half of the cycles for int8; fp8 as bf16; of both the slower
        ({"macs_per_cycle": {"bits8": 2}, "multiplied_as": {"fp8": "bf16"}}, ("fp8", "fp8"), 18),
        ({"macs_per_cycle": {"bits8": 2}, "multiplied_as": {"fp8": "bf16"}}, ("int8", "int8"), 12),
        ({"macs_per_cycle": {"bits8": 2}, "multiplied_as": {"fp8": "bf16"}}, ("fp8", "int8"), 18),
        # a chip whose int8 is no faster and whose fp8 is
        ({"macs_per_cycle": {"bits8": 2}, "multiplied_as": {"int8": "bf16"}}, ("fp8", "fp8"), 12),
        ({"macs_per_cycle": {"bits8": 2}, "multiplied_as": {"int8": "bf16"}}, ("int8", "int8"), 18),
        # f32 as four products of bf16, tf32 as one
        ({"native_bits": 16, "multiplied_as": {"tf32": "bf16"}}, ("fp32", "fp32"), 42),
        ({"native_bits": 16, "multiplied_as": {"tf32": "bf16"}}, ("tf32", "tf32"), 18),
    ],
)
def test_numbers_go_as_those_as_which_they_are_multiplied(
    array: dict[str, object], precision: tuple[str, str], cycles: int
) -> None:
    """By hand, 4 x 4 PEs: 4 rows shift in, 8 stream, 4 + 4 - 2 cycles later all have left."""
    of = build("gemm", shape="M=8,K=4,N=4", precision=dict(zip(_BOTH, precision, strict=True)))
    on, one = accelerator(array=array), mapping(of, BODY.format(kind="ws").replace("E", "gemm"))
    run = assert_counts(of, one, on)
    assert_exact(of, one, on, run)
    assert run.cycles == cycles


def test_a_number_is_part_of_a_workload_and_its_program() -> None:
    fp8 = build("gemm", shape="M=8,K=4,N=4", precision="weights=fp8,activations=fp8")
    int8 = build("gemm", shape="M=8,K=4,N=4", precision="weights=int8,activations=int8")
    assert fp8 != int8
    assert canonical_text(fp8) != canonical_text(int8)
    assert fp8.fingerprint == int8.fingerprint  # a mapping is one of tiles
    document = einsums_document(fp8.name, fp8.operators, fp8.tensors.values())
    assert parse_workload(document).tensors == fp8.tensors
    program = lower(fp8, mapping(fp8, BODY.format(kind="ws").replace("E", "gemm")))
    text = program_text(program)
    assert "B[b=1,k=4,n=4] 1B:fp8" in text
    assert program_text(parse_program(text)) == text


def test_a_number_of_other_bits_than_its_tensor_is_refused() -> None:
    fp8 = build("gemm", shape="M=8,K=4,N=4", precision="weights=fp8,activations=fp8")
    document = einsums_document(fp8.name, fp8.operators, fp8.tensors.values())
    document["tensors"]["A"]["bytes_per_element"] = 2
    with pytest.raises(InputError, match=r"tensors.A.number: got 'fp8'; allowed: elements of 8"):
        parse_workload(document)


def test_an_array_full_of_narrow_operands_is_used_whole() -> None:
    """16 x 16 PEs, two MACs each a cycle: 16 x 16 x 4,096 MACs take 2,048 cycles, and fill."""
    numbers = "weights=int8,activations=int8"
    of = build("gemm", shape="M=4096,K=16,N=16", precision=numbers)
    array = ["array.rows=16", "array.cols=16", "array.macs_per_cycle.bits8=2"]
    on = load_accelerator("edge", [*array, "dram.bandwidth_bytes_per_second=unlimited"])
    result = simulate(of, on, "flex")
    assert result.ideal_cycles == 2048
    assert 0.9 < result.utilisation <= 1
    assert [row.utilisation(on) for row in result.rows] == [result.utilisation]
    assert result.rows[0].limit.name == "array"


def test_a_mac_of_wide_operands_costs_as_many() -> None:
    """1 pJ a MAC: 6 x 7 x 9 of them, four times each with 16 bits on both sides."""
    on = accelerator(array={"native_bits": 8})
    energies = []
    for precision in ("weights=int8,activations=int8", "weights=int16,activations=int16"):
        found = simulate(build("gemm", shape="M=6,K=7,N=9", precision=precision), on, "naive")
        assert found.prediction.energy_pj["mac"] == energy_pj(found.run, on)["mac"]
        assert found.prediction.bound_cycles <= found.run.cycles
        energies.append(found.prediction.energy_pj["mac"])
    assert energies == [6 * 7 * 9, 4 * 6 * 7 * 9]


ROW = accelerator(array={"rows": 1, "cols": 3})


def _product(bits: dict[str, int]) -> Workload:
    """3 x 3 x 3, all sides odd."""
    return workload(einsum("E", "C m n", "A m k", "B k n", m=3, k=3, n=3), bits=bits)


def _run(of: Workload, body: str) -> Run:
    one = mapping(of, f"group E\n{body}\n  do E array ws")
    run = assert_counts(of, one, ROW)
    assert_exact(of, one, ROW, run)
    program = lower(of, one)
    assert parse_program(program_text(program)) == program
    return run


def test_folds_read_a_packed_tile_fold_by_fold() -> None:
    """B is 9 elements, 5 B, and comes once; folds of 1 x 3 of it are 2 B each, three of them."""
    run = _run(_product({"A": 8, "B": 4, "C": 8}), "  keep A buffer, B buffer, C buffer")
    assert run.moved["dram_read", "B"] == run.moved["buffer_write", "B"] == 5
    assert run.moved["buffer_read", "B"] == run.moved["noc_distribution", "B"] == 3 * 2
    assert run.moved["dram_read", "A"] == 9
    assert run.peak_buffer_bytes == 9 + 5 + 9


@pytest.mark.parametrize(("tile", "n_bytes"), [(1, 3 * 2), (2, 3 + 2), (3, 5)])
def test_tiles_are_rounded_up_one_by_one(tile: int, n_bytes: int) -> None:
    """A of 3 x 3: rows of 3 take 2 B each; two rows and one row 3 B and 2 B; all at once 5 B."""
    body = f"  loop m {tile}\n  keep A buffer, B buffer, C buffer"
    run = _run(_product({"A": 4, "B": 8, "C": 4}), body)
    assert run.moved["dram_read", "A"] == run.moved["dram_write", "C"] == n_bytes


def test_sums_that_come_back_are_packed_as_they_went() -> None:
    """C leaves after each of three steps of k in columns of 3 (2 B), and comes back twice."""
    body = "  loop k 1\n  loop n 1\n  keep A buffer, B buffer, C buffer"
    run = _run(_product({"A": 8, "B": 8, "C": 4}), body)
    assert run.moved["dram_write", "C"] == 9 * 2
    assert run.moved["dram_read", "C"] == 6 * 2


def test_a_window_that_slides_brings_its_new_elements_packed() -> None:
    """Steps of 1 along p, r = 3: the first window of I has 3 elements (2 B), then 1 (1 B) each."""
    of = workload(
        einsum("E", "O m p", "I c p+r", "W m c r", m=1, c=1, p=5, r=3),
        bits={"I": 4, "W": 8, "O": 8},
    )
    one = mapping(
        of, "group E\n  keep W buffer\n  loop p 1\n  keep I buffer, O buffer\n  do E array ws"
    )
    assert assert_counts(of, one, ROW).moved["dram_read", "I"] == 2 + 4 * 1


def test_a_tile_is_as_wide_as_what_is_made_in_it_in_place() -> None:
    """The input of 4 bits comes as 5 B into a tile of 9 B, in which the output of 8 bits is."""
    of = workload(vector("R", "relu", "Y m n", "X m n", m=3, n=3), bits={"X": 4, "Y": 8})
    one = mapping(of, "group R\n  keep X buffer\n  do R sfu")
    run = assert_counts(of, one, ROW)
    assert (run.moved["dram_read", "X"], run.moved["dram_write", "Y"]) == (5, 9)
    assert reserved_bytes(lower(of, one)) == 9
    assert Machine(ROW, lower(of, one)).run().peak_buffer_bytes == 9
