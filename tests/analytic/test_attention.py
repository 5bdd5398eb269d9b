"""Softmax, staged and fused attention in the closed form, by hand."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from simaccel.analytic.attention import AttentionProblem, pieces, sfu_pass, softmax_work
from simaccel.analytic.estimate import estimate
from simaccel.analytic.fused import fused_work
from simaccel.analytic.row_blocks import FusedTiles
from simaccel.analytic.work import ints
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.choices import (
    FusedGroup,
    FusedMapping,
    GemmMapping,
    SoftmaxMapping,
    StagedGroup,
)
from tests.machine.accelerators import accelerator
from tests.program.programs import LA, attention_workload, case

ROWS_AND_COLS = [(5, 7), (4, 4), (1, 9), (6, 1)]


def problem(g: int, q: int, c: int, *, d: int = 4, wide: str = "") -> AttentionProblem:
    """Give an attention of 2-byte elements; those of the tensor of role ``wide`` have 4."""
    names = {"q": "Q", "k": "K", "logits": "S", "weights": "P", "v": "V", "z": "Z"}
    widths = {role: 4 if role == wide else 2 for role in names}
    return AttentionProblem(g=g, q=q, c=c, d=d, e=d, names=names, widths=widths)


# -- softmax ----------------------------------------------------------------------------------


def test_a_softmax_in_whole_rows() -> None:
    """2 heads of 5 x 7, in 3 passes: 3 * 70 elements, in and out of DRAM once, on toy.

    3 reads and 2 writes of each element on chip beside what DMA writes and reads.
    """
    work = softmax_work(problem(2, 5, 7), ints(2), ints(7), 2, load_accelerator("toy"))
    size = 2 * 5 * 7 * 2
    assert int(work.elements) == 3 * 70
    assert {level: int(n) for level, n in work.moved.items()} == {
        ("dram_read", "S"): size,
        ("dram_write", "P"): size,
        ("buffer_write", "S"): size + 2 * size,
        ("buffer_read", "P"): size,
        ("buffer_read", "S"): 3 * size,
    }
    assert int(work.buffer_bytes) == 2 * (2 * 7 * 2)


def test_a_softmax_in_segments_reads_its_rows_twice() -> None:
    """The same in segments of 4 and 3 columns: statistics, then normalised and stored."""
    work = softmax_work(problem(2, 5, 7), ints(2), ints(4), 2, load_accelerator("toy"))
    size = 2 * 5 * 7 * 2
    assert int(work.elements) == 2 * 70
    assert {level: int(n) for level, n in work.moved.items()} == {
        ("dram_read", "S"): 2 * size,
        ("dram_write", "P"): size,
        ("buffer_write", "S"): 2 * size + size,
        ("buffer_read", "S"): 2 * size,
        ("buffer_read", "P"): size,
    }
    assert int(work.buffer_bytes) == 2 * (2 * 4 * 2) + 2 * (2 * 4 * 2)


def test_cycles_of_the_lanes() -> None:
    """4 lanes, 3 cycles of latency a piece, rows in blocks of 2, 2 and 1.

    Whole rows of 7: 3 * ceil(14 / 4) + 3 = 15 twice and 3 * ceil(7 / 4) + 3 = 9. In segments of
    4 and 3, for each of the two passes: ceil(8 / 4) + 3 and ceil(6 / 4) + 3 twice, 4 and 4 once.
    """
    toy = load_accelerator("toy")
    assert int(softmax_work(problem(2, 5, 7), ints(2), ints(7), 2, toy).sfu) == 2 * (2 * 15 + 9)
    assert int(softmax_work(problem(2, 5, 7), ints(2), ints(4), 2, toy).sfu) == 2 * 2 * (20 + 8)


def test_softmax_is_as_slow_as_its_slowest_port() -> None:
    """8 elements, 3 passes at 8 lanes: 3 cycles; 48 B in at 8 B/cycle: 6; 32 B out at 4: 8."""
    fast = accelerator(sfu={"lanes": 8})
    assert int(sfu_pass(fast, "whole", ints(8), 2).cycles) == 3
    reads = accelerator(sfu={"lanes": 8}, buffer={"read_bytes_per_second": "8 GB/s"})
    assert int(sfu_pass(reads, "whole", ints(8), 2).cycles) == 6
    ports = {"read_bytes_per_second": "8 GB/s", "write_bytes_per_second": "4 GB/s"}
    assert (
        int(sfu_pass(accelerator(sfu={"lanes": 8}, buffer=ports), "whole", ints(8), 2).cycles) == 8
    )


def test_a_kept_intermediate_needs_no_dram_and_no_space() -> None:
    work = softmax_work(problem(2, 5, 7), ints(2), ints(3), 2, load_accelerator("toy"), kept=True)
    assert int(work.dram) == int(work.buffer_bytes) == 0
    assert int(work.elements) == 3 * 70  # in place and whole: no second reading


# -- staged -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("g", "q"), [(1, 1), (3, 1), (1, 5), (4, 3), (2, 7)])
def test_pieces_share_out_the_rows(g: int, q: int) -> None:
    """Whatever stays on chip: each row is in one piece, and the right number of rows is kept."""
    for resident in range(g * q + 3):
        found = pieces(problem(g, q, 5), resident)
        assert sum(piece.g * piece.q for piece in found) == g * q
        assert sum(piece.g * piece.q for piece in found if piece.kept) == min(resident, g * q)
        assert all(piece.g > 0 and piece.q > 0 for piece in found)


def test_what_stays_on_chip_is_not_spilled() -> None:
    """6 heads of 5 rows of 5 logits: the rows that stay save a write and a read each of S and P."""
    workload = attention_workload(2, 3, 5, 4)
    whole = GemmMapping(m=5, k=5, n=5, order="mnk", stationarity="os")
    on = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
    for resident in range(31):
        group = StagedGroup(
            operators=LA,
            logit=whole,
            softmax=SoftmaxMapping(rows=2, cols=5),
            attend=whole,
            resident_rows=resident,
        )
        made = case(workload, group)
        predicted = estimate(workload, made.mapping, on)
        spilled = (30 - resident) * 5 * 2
        moved = predicted.moved
        for level in ("dram_read", "dram_write"):
            assert moved.get((level, "S"), 0) == moved.get((level, "P"), 0) == spilled
        for tensor in "QKV":
            # K and V come once a head, twice for the head of which only a part is kept
            once = 30 * 4 * 2
            again = 5 * 4 * 2 if tensor in "KV" and resident % 5 else 0
            assert moved["dram_read", tensor] == once + again
        kept = resident * 5 * 2
        assert predicted.buffer_bytes >= kept
        logit, softmax, attend = predicted.operators
        assert min(logit.buffer_bytes, softmax.buffer_bytes, attend.buffer_bytes) >= kept


def test_the_wider_of_logits_and_weights_is_kept() -> None:
    for wide in ("logits", "weights"):
        given = problem(1, 4, 8, wide=wide)
        assert given.tile_width == 4
        assert given.tile_name == given.names[wide]
    assert problem(1, 4, 8).tile_name == "S"


# -- fused ------------------------------------------------------------------------------------


def _fused(heads: int, rows: int, keys: int, *, online: bool = False) -> FusedTiles:
    return FusedTiles(
        heads=ints(heads),
        rows=ints(rows),
        keys=ints(keys),
        online=online,
        pipelined=False,
        stationarity=("os", "os"),
        slots=(2, 2, 1),
    )


def test_fused_traffic_by_hand() -> None:
    """All of Q, K, V and Z cross once; nothing of S or P does."""
    given, toy = problem(6, 10, 10), load_accelerator("toy")
    size = 6 * 10 * 4 * 2
    for heads, rows in product([1, 2, 4, 6], [1, 3, 10]):
        moved = fused_work(given, _fused(heads, rows, 10), toy).moved
        dram = {level: int(n) for level, n in moved.items() if level[0].startswith("dram")}
        reads = {("dram_read", tensor): size for tensor in "QKV"}
        assert dram == reads | {("dram_write", "Z"): size}


@pytest.mark.parametrize("online", [False, True])
def test_streamed_keys_come_once_a_row_block(*, online: bool) -> None:
    """Rows in 4 blocks of at most 3: K and V come 4 times."""
    given, toy = problem(6, 10, 10), load_accelerator("toy")
    size = 6 * 10 * 4 * 2
    moved = fused_work(given, _fused(1, 3, 4, online=online), toy).moved
    assert int(moved["dram_read", "Q"]) == size
    assert int(moved["dram_read", "K"]) == int(moved["dram_read", "V"]) == 4 * size


def test_online_softmax_work() -> None:
    """Keys in 3 tiles: 2 passes over all logits, 2 corrections and a division of the output."""
    given, toy = problem(6, 10, 10), load_accelerator("toy")
    work = fused_work(given, _fused(1, 10, 4, online=True), toy)
    assert int(work.elements) == 2 * 6 * 10 * 10 + (2 + 1) * 6 * 10 * 4
    whole = fused_work(given, _fused(1, 10, 4), toy)
    assert int(whole.elements) == 3 * 6 * 10 * 10


@pytest.mark.parametrize(
    ("heads", "rows", "formula"),
    [
        (24, 50, 8 * 2 * 50 * 36 + 2 * 12 * 50 * 50),  # M: 8BDN + BHN^2
        (12, 50, 8 * 36 * 50 + 12 * 50 * 50),  # B: 8DN + HN^2
        (1, 50, 8 * 50 * 3 + 50 * 50),  # H: 8Nd + N^2
        (1, 7, 4 * 7 * 3 + 4 * 50 * 3 + 7 * 50),  # R: 4Rd + 4Nd + RN
    ],
)
def test_buffer_requirement_of_flat_table_1(heads: int, rows: int, formula: int) -> None:
    """B = 2, H = 12, N = 50, d = 3, D = Hd = 36: elements on chip (FLAT, section 5.3.3)."""
    given = problem(24, 50, 50, d=3)
    work = fused_work(given, _fused(heads, rows, 50), load_accelerator("toy"))
    assert int(work.buffer_bytes) == 2 * formula
    mapping = FusedMapping(
        heads=heads, rows=rows, keys=50, logit_stationarity="os", attend_stationarity="os"
    )
    made = case(attention_workload(2, 12, 50, 3), FusedGroup(operators=LA, mapping=mapping))
    on = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
    assert estimate(made.workload, made.mapping, on).buffer_bytes == 2 * formula


def test_100_000_candidates_in_one_call() -> None:
    rng, count = np.random.default_rng(0), 100_000
    given = replace(problem(768, 512, 512), d=64, e=64)
    heads, rows, keys = (rng.integers(1, extent + 1, count) for extent in (768, 512, 512))
    tiles = replace(_fused(1, 1, 1), heads=heads, rows=rows, keys=keys)
    work = fused_work(given, tiles, load_accelerator("cloud"))
    assert work.cycles().shape == (count,)
    assert (work.cycles() >= work.bound()).all()
    assert work.bound().min() > 0
    softmax = softmax_work(given, rows, keys, 2, load_accelerator("cloud"))
    assert softmax.cycles().shape == (count,)
    assert (softmax.cycles() >= softmax.bound()).all()
