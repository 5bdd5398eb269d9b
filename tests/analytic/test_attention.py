"""Softmax, staged and fused attention in the closed form, by hand."""

from itertools import product

import pytest

from simaccel.analytic.estimate import Estimate, OperatorEstimate, estimate
from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group
from tests.program.programs import (
    Case,
    FlatTiles,
    GemmTiles,
    Rows,
    attention_workload,
    case,
    flat_group,
    gemm_group,
    softmax_group,
    staged_groups,
)
from tests.trees import einsum, vector
from tests.trees import workload as make_workload

TOY = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
WHOLE = GemmTiles(stationarity="os")


def _estimate(made: Case) -> Estimate:
    return estimate(made.workload, made.mapping, TOY)


def _by_level(predicted: Estimate | OperatorEstimate) -> dict[str, int]:
    found: dict[str, int] = {}
    for (level, _), n_bytes in predicted.moved.items():
        found[level] = found.get(level, 0) + n_bytes
    return found


# -- softmax ----------------------------------------------------------------------------------


def softmax(rows: int, cols: int) -> OperatorEstimate:
    """Estimate the softmax of 6 heads of 5 rows of 5 logits of 2 B on its own."""
    workload = attention_workload(2, 3, 5, 4)
    made = case(
        workload,
        gemm_group(workload, "L", WHOLE),
        softmax_group(workload, "softmax", Rows(rows=rows, cols=cols)),
        gemm_group(workload, "A", WHOLE),
    )
    return _estimate(made).operators[1]


SIZE = 6 * 5 * 5 * 2


def test_a_softmax_in_whole_rows() -> None:
    """3 passes; in and out of DRAM once.

    3 reads and 2 writes of each element on chip beside what DMA writes and reads.
    """
    found = softmax(2, 5)
    assert found.elements == 3 * 150
    assert found.moved["dram_read", "S"] == found.moved["dram_write", "P"] == SIZE
    assert _by_level(found) == {
        "dram_read": SIZE,
        "dram_write": SIZE,
        "buffer_write": SIZE + 2 * SIZE,
        "buffer_read": SIZE + 3 * SIZE,
    }
    assert found.buffer_bytes == 2 * (2 * 5 * 2)


def test_a_softmax_in_segments_reads_its_rows_twice() -> None:
    """The same in segments of 4 and 1 columns: statistics, then normalised and stored."""
    found = softmax(2, 4)
    assert found.elements == 2 * 150
    assert found.moved["dram_read", "S"] == 2 * SIZE
    assert found.moved["dram_write", "P"] == SIZE
    assert _by_level(found) == {
        "dram_read": 2 * SIZE,
        "dram_write": SIZE,
        "buffer_write": 2 * SIZE + SIZE,
        "buffer_read": 2 * SIZE + SIZE,
    }


def test_cycles_of_the_lanes() -> None:
    """4 lanes, 3 cycles of latency a piece, rows in blocks of 2, 2 and 1; 6 heads.

    Whole rows of 5: 3 * ceil(10 / 4) + 3 = 12 twice and 3 * ceil(5 / 4) + 3 = 9. In segments of
    4 and 1, for each of the two passes: ceil(8 / 4) + 3 and ceil(2 / 4) + 3 twice, 4 and 4 once.
    """
    assert softmax(2, 5).resources["sfu"] == 6 * (2 * 12 + 9)
    assert softmax(2, 4).resources["sfu"] == 6 * 2 * (2 * (5 + 4) + 4 + 4)


# -- staged -----------------------------------------------------------------------------------


@pytest.mark.parametrize("resident", range(31))
def test_what_stays_on_chip_is_not_spilled(resident: int) -> None:
    """6 heads of 5 rows of 5 logits: the rows that stay save a write and a read each of S and P."""
    workload = attention_workload(2, 3, 5, 4)
    made = case(workload, *staged_groups(workload, WHOLE, Rows(rows=2, cols=5), WHOLE, resident))
    predicted = _estimate(made)
    spilled = (30 - resident) * 5 * 2
    moved = predicted.moved
    for level in ("dram_read", "dram_write"):
        assert moved.get((level, "S"), 0) == moved.get((level, "P"), 0) == spilled
    for tensor in "QKV":
        # once a head: both parts of the head that is kept in part share the tiles of K and V
        assert moved["dram_read", tensor] == 30 * 4 * 2
    assert all(one.buffer_bytes >= resident * 5 * 2 for one in predicted.operators)


# -- fused ------------------------------------------------------------------------------------


def _fused(heads: int, rows: int, keys: int, *, online: bool = False) -> Estimate:
    """Estimate 6 heads of 10 rows, 4 wide, in FLAT-tiles."""
    workload = attention_workload(2, 3, 10, 4)
    tiles = FlatTiles(heads=heads, rows=rows, keys=keys, online=online)
    return _estimate(case(workload, flat_group(workload, tiles)))


@pytest.mark.parametrize(("heads", "rows"), [*product([1, 2, 4, 6], [1, 3, 10])])
def test_fused_traffic_by_hand(heads: int, rows: int) -> None:
    """All of Q, K, V and Z cross once; nothing of S or P does."""
    size = 6 * 10 * 4 * 2
    moved = _fused(heads, rows, 10).moved
    dram = {level: n for level, n in moved.items() if level[0].startswith("dram")}
    reads = {("dram_read", tensor): size for tensor in "QKV"}
    assert dram == reads | {("dram_write", "Z"): size}


@pytest.mark.parametrize("online", [False, True])
def test_streamed_keys_come_once_a_row_block(*, online: bool) -> None:
    """Rows in 4 blocks of at most 3: K and V come 4 times."""
    size = 6 * 10 * 4 * 2
    moved = _fused(1, 3, 4, online=online).moved
    assert moved["dram_read", "Q"] == size
    assert moved["dram_read", "K"] == moved["dram_read", "V"] == 4 * size


def test_online_softmax_work() -> None:
    """Keys in 3 tiles: 2 passes over all logits, 2 corrections and a division of the output."""
    (work,) = _fused(1, 10, 4, online=True).operators
    assert work.elements == 2 * 6 * 10 * 10 + (2 + 1) * 6 * 10 * 4
    (whole,) = _fused(1, 10, 4).operators
    assert whole.elements == 3 * 6 * 10 * 10


@pytest.mark.parametrize(
    ("heads", "rows", "formula"),
    [
        # M: 8BDN + HN^2 in the paper; what comes once needs one slot: 4BDN + BHN^2
        (24, 50, 4 * 2 * 50 * 36 + 2 * 12 * 50 * 50),
        (12, 50, 8 * 36 * 50 + 12 * 50 * 50),  # B: 8DN + HN^2
        (1, 50, 8 * 50 * 3 + 50 * 50),  # H: 8Nd + N^2
        (1, 7, 4 * 7 * 3 + 4 * 50 * 3 + 7 * 50),  # R: 4Rd + 4Nd + RN
    ],
)
def test_buffer_requirement_of_flat_table_1(heads: int, rows: int, formula: int) -> None:
    """B = 2, H = 12, N = 50, d = 3, D = Hd = 36: elements on chip (FLAT, section 5.3.3)."""
    workload = attention_workload(2, 12, 50, 3)
    tiles = FlatTiles(heads=heads, rows=rows, keys=50)
    assert _estimate(case(workload, flat_group(workload, tiles))).buffer_bytes == 2 * formula


# -- pipelined attention beside the ports of the buffer -------------------------------------------


def _pipelined(heads: int, rows: int, length: int, tiles: tuple[int, int, int]) -> Case:
    """Return heads of attention on tiles of 64 rows, softmax beside both products."""
    keys, segment, values = tiles
    cut = f"loop c {segment}\n    " if segment < length else ""
    tree = parse_tree(
        f"loop h 1\nloop q {rows}\nkeep Q buffer, Z buffer, S buffer x2\nfork ahead 1\n"
        f"  | loop c {keys}\n    keep K buffer x2\n    do L array is\n"
        f"  | {cut}do softmax sfu\n"
        f"  | loop c {values}\n    keep V buffer x3\n    do A array is\n"
    )
    workload = attention_workload(1, heads, length, 64)
    return case(workload, Group(operators=("L", "softmax", "A"), tree=tree))


def _both(made: Case, hw: str = "edge_tpu") -> tuple[int, int]:
    on = load_accelerator(hw)
    predicted = estimate(made.workload, made.mapping, on).cycles
    return predicted, Machine(on, made.program).run().cycles


@pytest.mark.parametrize(
    ("heads", "length", "tiles"),
    [
        (1, 512, (512, 512, 64)),
        (3, 512, (512, 512, 64)),
        (2, 1024, (512, 1024, 64)),
        (1, 2048, (512, 2048, 64)),
    ],
)
def test_a_pipelined_softmax_beside_the_array(
    heads: int, length: int, tiles: tuple[int, int, int]
) -> None:
    """The SFU reads and writes while the array does, whose folds take turns with it at the ports.

    K goes when the last block of L has read it, before A of the iteration before.
    """
    predicted, run = _both(_pipelined(heads, 64, length, tiles))
    assert predicted == run


def test_three_at_the_ports_of_a_pipelined_softmax() -> None:
    """Remainders everywhere; array, SFU and DMA write at once."""
    predicted, run = _both(_pipelined(1, 55, 2048, (451, 1024, 64)))
    assert predicted == pytest.approx(run, rel=0.005)


def test_a_pipelined_softmax_waits_for_the_sfu() -> None:
    """GELU of the rows before stands between two softmaxes, though A comes before it."""
    made = make_workload(
        einsum("L", "S q c", "Q q d", "K c d", q=256, c=512, d=64),
        vector("softmax", "softmax", "P q c", "S q c", axis="c", q=256, c=512),
        einsum("A", "Z q d", "P q c", "V c d", q=256, c=512, d=64),
        vector("act", "gelu", "Y q d", "Z q d", q=256, d=64),
    )
    tree = parse_tree(
        "loop q 64\nkeep Q buffer, Z buffer, S buffer x2\nfork ahead 1\n"
        "  | keep K buffer\n    do L array is\n  | do softmax sfu\n"
        "  | loop c 64\n    keep V buffer x3\n    do A array is\n  | do act sfu\n"
    )
    group = Group(operators=("L", "softmax", "A", "act"), tree=tree)
    predicted, run = _both(case(made, group))
    assert predicted == run


@pytest.mark.parametrize("rows", [16, 37, 100])
@pytest.mark.parametrize("hw", ["edge", "cloud"])
@pytest.mark.parametrize("kinds", [("ws", "ws"), ("os", "is")])
def test_pipelined_products_with_nothing_between_them(
    rows: int, hw: str, kinds: tuple[str, str]
) -> None:
    """The second product takes H of its own iteration, not the one that the first is making."""
    made = make_workload(
        einsum("up", "H q f", "X q d", "W d f", q=640, d=64, f=128),
        einsum("down", "Z q e", "H q f", "V f e", q=640, f=128, e=64),
    )
    tree = parse_tree(
        f"keep W buffer, V buffer\nloop q {rows}\nkeep X buffer x2, H buffer x2, Z buffer x2\n"
        f"fork ahead 1\n  | do up array {kinds[0]}\n  | do down array {kinds[1]}\n"
    )
    predicted, run = _both(case(made, Group(operators=("up", "down"), tree=tree)), hw)
    assert predicted == run
