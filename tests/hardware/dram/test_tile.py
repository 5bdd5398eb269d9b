"""Where a tile lies in DRAM, and what its rows cost: by hand, by brute force, and never less."""

from dataclasses import astuple
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.hardware.dram.part import TIMINGS
from simaccel.hardware.dram.parts import PARTS
from simaccel.hardware.dram.tile import (
    TileRows,
    bank_clocks,
    rows_of,
    rows_of_transfer,
    tile_clocks,
)
from tests.draws import DRAWS

HBM2, LPDDR4, LPDDR5 = (PARTS[name] for name in ("HBM2", "LPDDR4-3200x16", "LPDDR5-6400x16"))
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def _elements(sides: list[int], shape: list[int]) -> np.ndarray:
    """Places of a tile's elements in its tensor, in order."""
    places = np.arange(prod(shape)).reshape(shape)
    return np.sort(places[tuple(slice(side) for side in sides)].ravel())


@given(SHAPES, st.data(), st.sampled_from([1, 2, 4]))
@settings(max_examples=20 * DRAWS)
def test_rows_are_the_stretches_that_a_tile_has_in_its_tensor(
    shape: list[int], data: st.DataObject, width: int
) -> None:
    sides = [data.draw(st.integers(1, size)) for size in shape]
    found = rows_of(tuple(sides), tuple(shape), 8 * width)
    places = _elements(sides, shape)
    begins = places[np.flatnonzero(np.diff(places, prepend=-2) != 1)]
    assert found.total_bytes == len(places) * width
    if len(begins) > 1 and len(set(np.diff(begins).tolist())) == 1:  # one pitch
        assert astuple(found) == (
            len(begins), len(places) // len(begins) * width, int(begins[1] - begins[0]) * width
        )  # fmt: skip
    assert found.count * found.n_bytes == len(places) * width
    assert found.count >= len(begins)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=6))
def test_arrays_of_tiles_are_what_each_of_them_is(sides: list[tuple[int, int]]) -> None:
    shape = (8, 8)
    columns = tuple(np.array(column) for column in zip(*sides, strict=True))
    many = rows_of(columns, shape, 16)
    clocks = np.broadcast_to(tile_clocks(HBM2, "bgil", many, 1, 1), (len(sides),))
    for at, one in enumerate(sides):
        alone = rows_of(one, shape, 16)
        assert clocks[at] == tile_clocks(HBM2, "bgil", alone, 1, 1)
        assert np.broadcast_to(many.count, (len(sides),))[at] == alone.count


def test_a_bank_conflict_by_hand() -> None:
    """16 rows of 64 B, 64 KiB apart: one bank of HBM2, a row cycle of 48 clocks each.

    A row of all banks is 2 KiB x 16 = 32 KiB, so each row of the tile is in the same bank. With a
    pitch of 32 KiB + 8 KiB they go round the four banks of a bank group (8 KiB = 2 KiB of each of
    four groups): four row cycles; but 16 activates of tFAW / 4 = 7.5 clocks take 120.
    """
    assert bank_clocks(HBM2, "bgil", TileRows(16, 64, 65536), 1, 0) == 16 * 48
    assert bank_clocks(HBM2, "bgil", TileRows(16, 64, 40960), 1, 0) == max(4 * 48, 16 * 30 // 4)
    assert bank_clocks(HBM2, "bgil", TileRows(4, 64, 40960), 1, 0) == 4 * 30 // 4


def test_writes_hold_a_bank_longer_than_reads() -> None:
    """A write of 2 bursts: tRCD + 1 burst + CWL + burst + tWR + tRP = 14 + 2 + 4 + 2 + 16 + 14."""
    rows = TileRows(8, 128 * 4, 65536)  # two bursts in each of four bank groups
    assert bank_clocks(HBM2, "bgil", rows, 1, 1) == 8 * 52
    assert bank_clocks(HBM2, "bgil", rows, 1, 0) == max(8 * 48, 8 * 4 * 30 // 4)


def test_pages_of_a_bank_that_bursts_of_its_group_take_turns_in() -> None:
    """Of LPDDR5 41 pages 16 apart, all in one of 16 banks: 64 bursts each, tCCD_L = 4 clocks apart.

    A read of a page takes tRCD + 63 x 4 + tRTP + tRP = 15 + 252 + 8 + 15 clocks, a write
    tRCD + 63 x 4 + CWL + burst + tWR + tRP = 15 + 252 + 9 + 2 + 28 + 15. Of 3125 clocks a refresh
    takes 168 + 8 + 15 + 15. DDR5's writes in a group are 48 clocks apart, not 12: 41 pages in one
    of 4 banks of each of 8 groups, 8 bursts in each: 39 + 7 x 48 + 38 + 8 + 72 + 39.
    """
    rows = TileRows(41, 2048, 32768)
    assert bank_clocks(LPDDR5, "rbc", rows, 1, 0) == 41 * 290
    assert bank_clocks(LPDDR5, "rbc", rows, 1, 1) == 41 * 321
    assert tile_clocks(LPDDR5, "rbc", rows, 1, 0) == -(-41 * 290 * 3125 // 2919)
    rows = TileRows(41, 4096, 4096 * 8 * 4)
    assert bank_clocks(PARTS["DDR5-4800"], "bgil", rows, 1, 1) == 41 * 532


def test_refresh_takes_its_share_of_every_tile() -> None:
    """64 bursts of 2 clocks; of 3900 clocks a refresh takes 260 and opening banks 14 + 5 + 14."""
    assert tile_clocks(HBM2, "bgil", TileRows(1, 4096, 4096), 1, 0) == -(-128 * 3900 // 3607)


def test_a_row_of_a_part_without_groups_streams() -> None:
    """LPDDR4 x16: 64 bursts of 8 clocks; one page of 2 KiB."""
    assert tile_clocks(LPDDR4, "rbc", TileRows(1, 2048, 2048), 1, 0) == -(-512 * 6246 // 5728)


def test_channels_share_a_tile() -> None:
    one, four = (tile_clocks(HBM2, "bgil", TileRows(1, 65536, 65536), n, 0) for n in (1, 4))
    assert one == -(-2048 * 3900 // 3607)
    assert four == -(-512 * 3900 // 3607)


def test_bytes_without_rows_lie_in_one() -> None:
    assert astuple(rows_of_transfer(1000, None)) == (1, 1000, 1000)
    assert astuple(rows_of_transfer(1000, TileRows(64, 48, 512))) == (21, 48, 512)
    assert rows_of_transfer(0, None).total_bytes == 0
    assert [
        tile_clocks(HBM2, name, rows_of_transfer(0, None), 1, 0) for name in ("bgil", "rbc")
    ] == [0, 0]


@given(
    st.sampled_from(sorted(PARTS)),
    st.sampled_from(["bgil", "rbc"]),
    st.sampled_from([name for name in TIMINGS if name not in ("refi", "read_latency")]),
    st.builds(TileRows, st.integers(1, 99), st.integers(1, 9999), st.integers(1, 99_999)),
    st.integers(1, 4),
)
@settings(max_examples=34 * DRAWS)
def test_a_part_with_a_longer_timing_is_never_faster(
    name: str, mapping: str, timing: str, rows: TileRows, channels: int
) -> None:
    part = PARTS[name]
    slower = part.model_copy(update={timing: getattr(part, timing) + 3})
    for write in (0, 1):
        fast, slow = (tile_clocks(one, mapping, rows, channels, write) for one in (part, slower))
        assert slow >= fast


@pytest.mark.parametrize("name", PARTS)
def test_no_tile_is_faster_than_the_data_bus(name: str) -> None:
    part = PARTS[name]
    for n_bytes in (1, 31, 64, 1000, 100_000):
        bursts = -(-n_bytes // part.burst_bytes)
        least = -(-bursts // part.pseudo_channels) * part.burst
        assert tile_clocks(part, "bgil", TileRows(1, n_bytes, n_bytes), 1, 0) >= least
