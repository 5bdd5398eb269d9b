"""The occupancy figure: the bytes that each tile holds, stacked."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex

from simaccel.report.figures.occupancy import (
    BINS,
    MOST_TILES,
    BufferOccupancy,
    draw_occupied,
    occupied_bytes,
)
from simaccel.report.figures.style import new_figure, style
from simaccel.trace import TraceReader
from tests.report.figures.painted import Cycles, painted, steps


def held(trace: TraceReader, start: int, end: int) -> dict[str, Cycles]:
    """Bytes by tile in each cycle."""
    return {
        tile.removeprefix("tile "): painted(trace, start, end, tile, "held") for tile in trace.tiles
    }


def test_steps_are_exact_in_every_cycle(trace: TraceReader) -> None:
    start, end = 11, min(trace.cycles, 40_000) - 7
    found = occupied_bytes(trace, start, end)
    assert found.exact
    assert (found.edges[0], found.edges[-1]) == (start, end)
    expected = {tile: n_bytes for tile, n_bytes in held(trace, start, end).items() if n_bytes.any()}
    assert set(found.tiles) == set(expected)
    for tile, n_bytes in zip(found.tiles, found.n_bytes, strict=True):
        np.testing.assert_array_equal(np.repeat(n_bytes, np.diff(found.edges)), expected[tile])


def test_the_highest_step_is_the_peak_of_the_run(toy: TraceReader) -> None:
    found = occupied_bytes(toy, 0, toy.cycles)
    assert found.n_bytes.sum(axis=0).max() == toy.figures["peak_buffer_bytes"]


def test_more_changes_than_asked_for_are_means_of_bins(toy: TraceReader) -> None:
    found = occupied_bytes(toy, 5, toy.cycles, most_steps=1)
    assert not found.exact
    assert len(found.edges) == BINS + 1
    expected = held(toy, 5, toy.cycles)
    for tile, means in zip(found.tiles, found.n_bytes, strict=True):
        by_bin = [expected[tile][a - 5 : b - 5].mean() for a, b in pairwise(found.edges)]
        np.testing.assert_allclose(means, by_bin)


def test_a_long_run_is_bins(edge: TraceReader) -> None:
    found = occupied_bytes(edge, 0, edge.cycles)
    assert not found.exact
    room = edge.accelerator().buffer.capacity_bytes
    assert room is not None
    assert 0 < found.n_bytes.sum(axis=0).max() <= room


class Many:
    """A trace of many tiles: tile ``t`` holds ``t`` bytes in all of its ten cycles."""

    tiles = tuple(f"tile {number}" for number in range(20))

    def events(self, start: int, end: int, lane: str, at_most: int) -> np.ndarray:
        """One event: nothing changes."""
        assert (start, end) == (0, 10)
        assert at_most > 0
        row = (0, 10, int(lane.removeprefix("tile ")))
        return np.array([row], dtype=[("start", "i8"), ("end", "i8"), ("held", "i8")])


def test_many_tiles_are_the_largest_and_the_others() -> None:
    """20 tiles, of which one holds nothing: the 11 largest, 9 to 19, and 8 others."""
    found = occupied_bytes(Many(), 0, 10)  # type: ignore[arg-type]
    assert found.tiles == (*(str(number) for number in range(9, 20)), "8 others")
    assert len(found.tiles) == MOST_TILES + 1
    np.testing.assert_array_equal(found.n_bytes[:, 0], [*range(9, 20), sum(range(9))])
    with style():
        axes = new_figure(7, 2).subplots()
        draw_occupied(axes, found, None)
    looks = [(to_hex(patch.get_facecolor()), patch.get_hatch() or "") for patch in axes.patches]
    assert looks[-1] == ("#bbbbbb", "")
    assert len(set(looks)) == MOST_TILES + 1


@pytest.mark.parametrize("capacity", [4096, None, 1 << 20])
def test_the_artists_are_stacked(capacity: int | None) -> None:
    edges = np.array([10, 20, 50])
    drawn = BufferOccupancy(edges, ("K", "V"), np.array([[1024.0, 0], [2048, 2048]]), exact=True)
    with style():
        axes = new_figure(3.3, 2).subplots()
        draw_occupied(axes, drawn, capacity)
    (one, lower), (other, upper) = steps(axes)
    assert (one, other) == ("K", "V")
    np.testing.assert_array_equal(lower.baseline, [0, 0])
    np.testing.assert_array_equal(lower.values, [1, 0])
    np.testing.assert_array_equal(upper.baseline, [1, 0])
    np.testing.assert_array_equal(upper.values, [3, 2])
    np.testing.assert_array_equal(upper.edges, [0, 10, 40])
    assert axes.get_ylabel() == "bytes held (KiB)"
    top = axes.get_ylim()[1]
    assert top > 4 if capacity == 4096 else 3 < top < 4
    assert len(axes.lines) == (capacity is not None)
    for line in axes.lines:
        np.testing.assert_array_equal(line.get_ydata(), (capacity or 0) / 1024)
