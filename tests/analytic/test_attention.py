"""Attention in the closed form, parts of a rank, and what a search runs first: by hand."""

from itertools import product

import pytest

from simaccel.analytic.evaluation import FamilyTotals, evaluate, first_channel_cycles, slot_cycles
from simaccel.analytic.family import family_of, ints
from simaccel.analytic.prediction import GroupPrediction, Prediction, predict
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop, Mapping, Part, WorkloadReference
from simaccel.program.lowering import lower
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator
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
from tests.trees import einsum, workload

TOY = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
WHOLE = GemmTiles(stationarity="os")


def _predict(made: Case) -> Prediction:
    return predict(made.workload, made.mapping, TOY)


def _by_level(predicted: Prediction | GroupPrediction) -> dict[str, int]:
    found: dict[str, int] = {}
    for (level, _), n_bytes in predicted.moved.items():
        found[level] = found.get(level, 0) + n_bytes
    return found


# -- softmax ----------------------------------------------------------------------------------


def softmax(rows: int, cols: int) -> GroupPrediction:
    """Prediction the softmax of 6 heads of 5 rows of 5 logits of 2 B on its own."""
    workload = attention_workload(2, 3, 5, 4)
    made = case(
        workload,
        gemm_group(workload, "L", WHOLE),
        softmax_group(workload, "softmax", Rows(rows=rows, cols=cols)),
        gemm_group(workload, "A", WHOLE),
    )
    return _predict(made).groups[1]


SIZE = 6 * 5 * 5 * 2


@pytest.mark.parametrize(
    ("cols", "passes", "loads", "reads", "writes"), [(5, 3, 1, 3, 2), (4, 2, 2, 2, 1)]
)
def test_a_softmax(cols: int, passes: int, loads: int, reads: int, writes: int) -> None:
    """Whole rows of 5: 3 passes, loaded once; each element read 3 times on chip, written twice.

    In segments of 4 and 1 columns rows are loaded twice, each time into a tile of two slots: for
    statistics, then to be normalised and stored.
    """
    found = softmax(2, cols)
    assert found.elements == passes * 150
    assert found.moved["dram_read", "S"] == loads * SIZE
    assert found.moved["dram_write", "P"] == SIZE
    assert _by_level(found) == {
        "dram_read": loads * SIZE,
        "dram_write": SIZE,
        "buffer_write": loads * SIZE + writes * SIZE,
        "buffer_read": SIZE + reads * SIZE,
    }
    assert found.buffer_bytes == loads * 2 * (2 * cols * 2)


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
    predicted = _predict(made)
    spilled = (30 - resident) * 5 * 2
    moved = predicted.moved
    for level in ("dram_read", "dram_write"):
        assert moved.get((level, "S"), 0) == moved.get((level, "P"), 0) == spilled
    for tensor in "QKV":
        # once a head: both parts of the head that is kept in part share the tiles of K and V
        assert moved["dram_read", tensor] == 30 * 4 * 2
    assert all(one.buffer_bytes >= resident * 5 * 2 for one in predicted.groups)


# -- fused ------------------------------------------------------------------------------------


def _fused(heads: int, rows: int, keys: int, *, online: bool = False) -> Prediction:
    """Predict 6 heads of 10 rows, 4 wide, in FLAT-tiles."""
    workload = attention_workload(2, 3, 10, 4)
    tiles = FlatTiles(heads=heads, rows=rows, keys=keys, online=online)
    return _predict(case(workload, flat_group(workload, tiles)))


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
    (work,) = _fused(1, 10, 4, online=True).groups
    assert work.elements == 2 * 6 * 10 * 10 + (2 + 1) * 6 * 10 * 4
    (whole,) = _fused(1, 10, 4).groups
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
    assert _predict(case(workload, flat_group(workload, tiles))).buffer_bytes == 2 * formula


@pytest.mark.parametrize("sizes", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("rows", [2, 3, 6])
def test_weights_of_parts_come_again_with_each_block_of_rows(
    sizes: tuple[int, ...], rows: int
) -> None:
    """W has 4 x 4 elements of a byte; each block of rows needs all of its parts again."""
    of = workload(einsum("o", "T m n", "X m k", "W k n", m=6, k=4, n=4), bits={"W": 8})
    inside = (Keep("W"), Keep("X"), Keep("T"), Do("o", "array", "ws"))
    tree = (Loop("m", rows), Part("n", sizes, (inside,) * (len(sizes) + 1)))
    mapping = Mapping(
        workload=WorkloadReference(of.name, of.fingerprint),
        dataflow="hand",
        body=(Group(operators=("o",), tree=tree),),
    )
    on = accelerator(buffer={"capacity_bytes": 4096})
    expected = 16 * -(-6 // rows)
    assert predict(of, mapping, on).moved["dram_read", "W"] == expected
    assert Machine(on, lower(of, mapping)).run().moved["dram_read", "W"] == expected


def _whole(*held: str, **dram: object) -> FamilyTotals:
    """Return C = A B of 8 x 1 x 8 elements of 2 B, each in one tile; ``held``: kept around it."""
    of = gemm(m=8, k=1, n=8)
    tiles = GemmTiles(
        m=8, k=1, n=8, order="mnk", stationarity="os", a_slots=1, b_slots=1, out_slots=1
    )
    group = gemm_group(of, "gemm", tiles, keep=("A" not in held, True))
    around = tuple(Keep(name) for name in held)
    return evaluate(family_of(space_of(of, group), group, around), accelerator(dram=dram))


def test_a_slot_is_taken_while_its_tile_moves_and_is_used() -> None:
    """C: 128 B at a byte a cycle and 4 folds of 1 + 3 + 3 cycles; only reads have a latency.

    A and B, 16 B each, come after the latency: 100 + 16 + 28.
    """
    found = _whole(bandwidth_bytes_per_second="1 GB/s", latency_cycles=10)
    assert int(slot_cycles(found)) == 128 + 4 * 7
    late = _whole(bandwidth_bytes_per_second="1 GB/s", latency_cycles=100)
    assert int(slot_cycles(late)) == 128 + 4 * 7
    later = _whole(bandwidth_bytes_per_second="1 GB/s", latency_cycles=200)
    assert int(slot_cycles(later)) == 200 + 16 + 4 * 7


def test_small_tiles_use_the_first_channel_alone() -> None:
    """Two channels of a byte a cycle, in turns of 64 B: B's 16 B are on one, C's 128 B on both."""
    found = _whole(
        "A", bandwidth_bytes_per_second="2 GB/s", channels=2, interleave_bytes=64, latency_cycles=0
    )
    for name, cycles in (("B", 128), ("C", 64), ("A", 64)):  # A has no tile here
        assert int(first_channel_cycles(found, {("dram_read", name): ints(128)})) == cycles
