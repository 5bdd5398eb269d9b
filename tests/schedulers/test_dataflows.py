"""Every dataflow: its mappings are what it says, fit, compute the right thing, and are the best."""

from functools import cache

import pytest

from simaccel.analytic.estimate import estimate
from simaccel.errors import InputError
from simaccel.experiment.check import check
from simaccel.hardware import Accelerator
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.choices import (
    FusedGroup,
    FusedMapping,
    GemmGroup,
    GemmMapping,
    Mapping,
    StagedGroup,
)
from simaccel.program.lower import lower
from simaccel.program.program import require_fit, reserved_bytes
from simaccel.schedulers import (
    DATAFLOWS,
    NothingFitsError,
    NotMappableError,
    Options,
    make_mapping,
)
from simaccel.schedulers.problems import parts
from simaccel.workload import (
    Dimensions,
    Tensor,
    Vector,
    Workload,
    attention,
    build,
    gemm,
    operand,
)

SMALL = Dimensions(hidden=6, heads=3, head_size=5, ff_size=7)
FITS_ON_TOY = ("naive", "flex", "flat", "flash")


def la(batch: int, seq_len: int) -> Workload:
    return attention(SMALL, batch=batch, seq_len=seq_len, scope="la")


def toy(capacity: str) -> Accelerator:
    return load_accelerator(
        "toy", [f"buffer.capacity_bytes={capacity}", "dram.interleave_bytes=16 B"]
    )


@cache
def small(batch: int, seq_len: int, capacity: str, dataflow: str) -> Mapping | None:
    """Mapping of a small attention on toy, or None if nothing fits."""
    return _mapping(la(batch, seq_len), toy(capacity), dataflow)


def _mapping(workload: Workload, on: Accelerator, dataflow: str) -> Mapping | None:
    try:
        return make_mapping(workload, on, dataflow)
    except NothingFitsError:
        return None


def fused(mapping: Mapping) -> FusedMapping:
    (group,) = (group for group in mapping.groups if isinstance(group, FusedGroup))
    return group.mapping


def staged(mapping: Mapping) -> StagedGroup:
    (group,) = (group for group in mapping.groups if isinstance(group, StagedGroup))
    return group


# -- any dataflow -----------------------------------------------------------------------------


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize(("hw", "seq_len"), [("edge", 499), ("edge", 4096), ("cloud", 512)])
def test_mappings_lower_and_fit(hw: str, seq_len: int, dataflow: str) -> None:
    workload, on = build("bert", batch=2, seq_len=seq_len, scope="la"), load_accelerator(hw)
    mapping = _mapping(workload, on, dataflow)
    if mapping is None:
        assert dataflow in ("flat-m", "flat-b", "flat-h")
    else:
        _require_sound(workload, on, mapping)
        assert mapping.dataflow == dataflow


def _require_sound(workload: Workload, on: Accelerator, mapping: Mapping) -> None:
    program = lower(workload, mapping)
    require_fit(program, on.capacities)
    assert estimate(workload, mapping, on).buffer_bytes == reserved_bytes(program)


@pytest.mark.parametrize("dataflow", [d for d in DATAFLOWS if d not in ("flex-b", "flex-h")])
@pytest.mark.parametrize(
    ("batch", "seq_len", "capacity"), [(2, 7, "512 B"), (2, 7, "4 KiB"), (1, 13, "1 KiB")]
)
def test_mappings_compute_attention(dataflow: str, batch: int, seq_len: int, capacity: str) -> None:
    workload, on = la(batch, seq_len), toy(capacity)
    mapping = small(batch, seq_len, capacity, dataflow)
    if mapping is None:
        assert dataflow in ("flat-m", "flat-b", "flat-h")
        return
    _require_sound(workload, on, mapping)
    assert check(workload, mapping, lower(workload, mapping))[-1].operator == "A"


@pytest.mark.parametrize("dataflow", FITS_ON_TOY)
def test_a_single_token(dataflow: str) -> None:
    workload, mapping = la(1, 1), small(1, 1, "512 B", dataflow)
    assert mapping is not None
    assert check(workload, mapping, lower(workload, mapping))[-1].operator == "A"


@pytest.mark.parametrize("dataflow", ["flat-r", "flat", "flash"])
def test_pipelined_mappings_compute_attention(dataflow: str) -> None:
    workload, on = la(2, 11), toy("8 KiB")
    mapping = make_mapping(workload, on, dataflow, Options(pipeline=True))
    tiles = fused(mapping)
    assert tiles.pipelined
    assert min(tiles.in_slots, tiles.out_slots, tiles.tile_slots) >= 2
    assert check(workload, mapping, lower(workload, mapping))


@pytest.mark.parametrize("dataflow", FITS_ON_TOY)
@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 7, 5), (5, 13, 2)])
def test_gemms_compute(dataflow: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    workload, on = gemm(m=m, k=k, n=n, batch=2), toy("128 B")
    mapping = make_mapping(workload, on, dataflow)
    require_fit(lower(workload, mapping), {("buffer",): 128})
    assert check(workload, mapping, lower(workload, mapping))


@pytest.mark.parametrize("dataflow", FITS_ON_TOY)
def test_the_same_input_gives_the_same_mapping(dataflow: str) -> None:
    assert make_mapping(la(2, 7), toy("4 KiB"), dataflow) == small(2, 7, "4 KiB", dataflow)


def test_unknown_dataflow() -> None:
    with pytest.raises(InputError) as caught:
        make_mapping(la(1, 2), load_accelerator("toy"), "falt")
    assert str(caught.value) == "--dataflow: dataflow: got 'falt'; allowed: did you mean 'flat'?"


def test_attentions_are_found_among_the_operators() -> None:
    workload = attention(SMALL, batch=1, seq_len=3)
    assert parts(workload) == ["Q", "K", "V", ("L", "softmax", "A"), "O", "FF1", "FF2"]
    assert parts(gemm(m=1, k=1, n=1)) == ["gemm"]


# -- the best of its kind -----------------------------------------------------------------------


@pytest.mark.parametrize("family", ["flex", "flat"])
@pytest.mark.parametrize(
    ("batch", "seq_len", "capacity"), [(2, 7, "512 B"), (2, 7, "4 KiB"), (2, 7, "unlimited")]
)
def test_the_family_is_never_worse_than_its_granularities(
    family: str, batch: int, seq_len: int, capacity: str
) -> None:
    workload, on = la(batch, seq_len), toy(capacity)
    parts_of = [small(batch, seq_len, capacity, f"{family}-{x}") for x in "mbhr"]
    cycles = [estimate(workload, one, on).cycles for one in parts_of if one is not None]
    chosen = small(batch, seq_len, capacity, family)
    assert chosen is not None
    assert estimate(workload, chosen, on).cycles == min(cycles)


@pytest.mark.parametrize(
    ("hw", "dataflow"),
    [("edge", "flex"), ("edge", "flat"), ("cloud", "flat"), ("edge", "flash"), ("cloud", "flash")],
)
def test_more_buffer_never_moves_more(hw: str, dataflow: str) -> None:
    """BERT at 512: neither bytes nor cycles grow with the buffer."""
    workload = build("bert", batch=4, seq_len=512, scope="la")
    moved: list[int] = []
    cycles: list[int] = []
    for capacity in ("512 KiB", "2 MiB", "16 MiB"):
        on = load_accelerator(hw, [f"buffer.capacity_bytes={capacity}"])
        mapping = _mapping(workload, on, dataflow)
        if mapping is not None:
            found = estimate(workload, mapping, on)
            moved.append(sum(n for (level, _), n in found.moved.items() if level[:4] == "dram"))
            cycles.append(found.cycles)
    assert len(moved) > 1
    assert moved == sorted(moved, reverse=True)
    assert cycles == sorted(cycles, reverse=True)


# -- what a granularity is ------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", ["1 KiB", "4 KiB", "unlimited"])
@pytest.mark.parametrize(("batch", "seq_len"), [(1, 13), (2, 7), (3, 5)])
def test_flat_tiles_are_of_their_granularity(batch: int, seq_len: int, capacity: str) -> None:
    """M: all heads of all samples; B: whole samples; H: whole heads; R: rows of one head."""
    mappings = {x: small(batch, seq_len, capacity, f"flat-{x}") for x in "mbhr"}
    found = {x: fused(mapping) for x, mapping in mappings.items() if mapping is not None}
    assert "r" in found
    assert capacity != "unlimited" or len(found) == 4
    heads = SMALL.heads
    for granularity, tile in found.items():
        assert not tile.online
        allowed = {
            "m": [batch * heads],
            "b": [heads * samples for samples in range(1, max(2, batch))],
            "h": range(1, heads),
            "r": [1],
        }[granularity]
        assert tile.heads in allowed
        assert tile.rows < seq_len if granularity == "r" else tile.rows == seq_len


@pytest.mark.parametrize("granularity", "mbhr")
@pytest.mark.parametrize("capacity", ["512 B", "4 KiB", "unlimited"])
def test_the_resident_part_of_flex_is_whole_units(granularity: str, capacity: str) -> None:
    """M: all or nothing; B: samples; H: heads; R: blocks of as many rows as the array has."""
    batch, rows = 2, 7
    mapping = small(batch, rows, capacity, f"flex-{granularity}")
    assert mapping is not None
    all_rows = batch * SMALL.heads * rows
    unit = {"m": all_rows, "b": SMALL.heads * rows, "h": rows, "r": 4}[granularity]
    resident = staged(mapping).resident_rows
    assert resident % unit == 0
    assert resident * rows * 2 <= (toy(capacity).buffer.capacity_bytes or all_rows * rows * 2)


def test_flex_keeps_everything_if_memory_is_slow_and_the_buffer_unlimited() -> None:
    on = load_accelerator(
        "toy", ["buffer.capacity_bytes=unlimited", "dram.bandwidth_bytes_per_second=1 GB/s"]
    )
    group = staged(make_mapping(la(2, 8), on, "flex"))
    assert group.resident_rows == 2 * SMALL.heads * 8


def test_flex_spills_nothing_for_nothing() -> None:
    """Where memory is unlimited, keeping all of the intermediate costs no cycle and saves bytes."""
    on = load_accelerator(
        "toy",
        [
            "buffer.capacity_bytes=unlimited",
            "dram.bandwidth_bytes_per_second=unlimited",
            "dram.latency_cycles=0",
            "dram.turnaround_cycles=0",
            "sfu.passes=2",
        ],
    )
    group = staged(make_mapping(la(2, 8), on, "flex"))
    assert group.resident_rows == 2 * SMALL.heads * 8


def test_flash_tiles_the_keys_online() -> None:
    tiles = fused(make_mapping(la(2, 40), toy("1 KiB"), "flash"))
    assert tiles.online
    assert tiles.heads == 1
    assert tiles.keys < 40


# -- naive ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hw", "side"), [("edge", 32), ("cloud", 256), ("toy", 4)])
def test_naive_has_one_tile_for_every_gemm(hw: str, side: int) -> None:
    """One fold of weights held while rows of A, four array sides at a time, stream past."""
    expected = GemmMapping(m=4 * side, k=side, n=side, order="nkm", stationarity="ws")
    for size in (4 * side, 8 * side, 1024 * side):
        mapping = make_mapping(gemm(m=size, k=size, n=size), load_accelerator(hw), "naive")
        (group,) = mapping.groups
        assert isinstance(group, GemmGroup)
        assert group.mapping == expected


def test_naive_does_not_keep_anything_between_operators() -> None:
    workload = build("bert", batch=1, seq_len=64, scope="la")
    on = load_accelerator("cloud")
    assert staged(make_mapping(workload, on, "naive")).resident_rows == 0
    moved = estimate(workload, make_mapping(workload, on, "naive"), on).moved
    assert moved["dram_read", "S"] == moved["dram_write", "S"] == workload.tensor_bytes("S")


def test_naive_lowers_its_tile_only_if_it_must() -> None:
    """On toy a fold's weights take 32 B a slot; A and C 8 B a row and slot."""
    for capacity, rows in (("576 B", 16), ("575 B", 8), ("320 B", 8), ("319 B", 4), ("96 B", 1)):
        (group,) = make_mapping(gemm(m=64, k=64, n=64), toy(capacity), "naive").groups
        assert isinstance(group, GemmGroup)
        assert (group.mapping.m, group.mapping.k, group.mapping.n) == (rows, 4, 4)
    with pytest.raises(NothingFitsError, match=r"one row need 96 B, the buffer has 95 B"):
        make_mapping(gemm(m=64, k=64, n=64), toy("95 B"), "naive")


# -- nothing fits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hw", "seq_len", "row_bytes"),
    [
        ("edge", 262_144, 524_288),
        ("edge", 1_048_576, 2_097_152),
        ("toy", 512, 1024),
    ],
)
def test_flat_needs_a_whole_row_of_logits(hw: str, seq_len: int, row_bytes: int) -> None:
    """One row, even with one slot each and the smallest key tiles, is larger than the buffer."""
    on = load_accelerator(hw)
    workload = build("bert", batch=64, seq_len=seq_len, scope="la")
    capacity = on.buffer.capacity_bytes
    for dataflow in ("flat", "flat-r"):
        with pytest.raises(NothingFitsError) as caught:
            make_mapping(workload, on, dataflow)
        text = str(caught.value)
        assert "the smallest FLAT-tile (1 heads, 1 rows, K and V in tiles of" in text
        assert f"the buffer has {capacity} B" in text
        assert f"S 1 x {row_bytes} B" in text
        tiles = [part.split() for part in text.split(f"{capacity} B: ")[1].split(", ")]
        assert f"needs {sum(int(slots) * int(n) for _, slots, _, n, _ in tiles)} B" in text


@pytest.mark.parametrize(
    ("hw", "seq_len", "fits"),
    [
        ("edge", 512, "r"),
        ("edge", 131_072, "r"),
        ("edge", 262_144, ""),
        ("cloud", 512, "bhr"),
        ("cloud", 2048, "hr"),
        ("cloud", 4096, "r"),
        ("cloud", 1_048_576, "r"),
    ],
)
def test_which_granularity_holds_which_length(hw: str, seq_len: int, fits: str) -> None:
    """BERT, batch 64, by Table 1 of FLAT: edge has 512 KiB, cloud 32 MiB."""
    workload = build("bert", batch=64, seq_len=seq_len, scope="la")
    on = load_accelerator(hw)
    found = [x for x in "mbhr" if _mapping(workload, on, f"flat-{x}") is not None]
    assert "".join(found) == fits


@pytest.mark.parametrize("dataflow", ["flex", "flash"])
def test_the_others_have_no_longest_sequence(dataflow: str) -> None:
    workload = build("bert", batch=1, seq_len=262_144, scope="la")
    on = load_accelerator("edge")
    assert estimate(workload, make_mapping(workload, on, dataflow), on).buffer_bytes <= 2**19


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_nothing_fits_says_what_the_smallest_needs(dataflow: str) -> None:
    """32 B is one operand of a fold on toy: no dataflow finds a mapping of attention."""
    workload = build("bert", batch=1, seq_len=64, scope="la")
    with pytest.raises(NothingFitsError, match=r"32 B.*needs? \d+ B|needs? \d+ B.* 32 B"):
        make_mapping(workload, toy("32 B"), dataflow)


@pytest.mark.parametrize("dataflow", [*DATAFLOWS, "ruby-s"])
def test_other_vector_operators_are_refused_by_name(dataflow: str) -> None:
    gelu = Vector("act", "gelu", {"m": 4}, (operand("X m"),), operand("Y m"))
    workload = Workload("acts", (gelu,), {"X": Tensor("X"), "Y": Tensor("Y", kind="output")})
    with pytest.raises(NotMappableError, match=r"takes softmax .*; act is of kind gelu"):
        make_mapping(workload, load_accelerator("toy"), dataflow)
