"""Chains by number against the enumeration, and counted by their loops."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.search.mapspace.chains import MAPSPACES, ChainTable, Mapspace, SplitLimit, chain_table
from tests.search.mapspace.chain_counts import count_chains, list_chains

SPLITS = st.lists(
    st.builds(
        SplitLimit,
        spatial=st.booleans(),
        most=st.one_of(st.none(), st.integers(1, 9)),
        exactly=st.one_of(st.none(), st.none(), st.integers(1, 4)),
        whole=st.sampled_from([False, False, False, True]),
    ),
    min_size=0,
    max_size=3,
)


@given(st.integers(1, 60), SPLITS, st.sampled_from(MAPSPACES))
def test_the_chain_of_a_number(size: int, splits: list[SplitLimit], mapspace: Mapspace) -> None:
    listed = list_chains(size, splits, mapspace)
    table = ChainTable(size, splits, mapspace)
    assert table.count == len(listed)
    found = table.chains_at(np.arange(table.count, dtype=np.int64))
    assert found.tolist() == listed
    assert table.numbers(found).tolist() == list(range(table.count))


@given(st.integers(1, 200), SPLITS, st.sampled_from(MAPSPACES))
def test_chains_of_smaller_mapspaces_have_numbers_in_larger_ones(
    size: int, splits: list[SplitLimit], mapspace: Mapspace
) -> None:
    perfect, larger = (ChainTable(size, splits, which) for which in ("pfm", mapspace))
    rows = perfect.chains_at(np.arange(perfect.count))
    assert np.array_equal(larger.chains_at(larger.numbers(rows)), rows)


@given(st.integers(1, 40), SPLITS, st.sampled_from(MAPSPACES), st.data())
def test_the_chain_that_is_nearest(
    size: int, splits: list[SplitLimit], mapspace: Mapspace, data: st.DataObject
) -> None:
    """Level by level, of the chains that are left those with the most pieces up to the wanted."""
    left = list_chains(size, splits, mapspace)
    pieces = st.integers(1, 2 * size)
    wanted = data.draw(st.lists(pieces, min_size=len(splits) + 1, max_size=len(splits) + 1))
    table = ChainTable(size, splits, mapspace)
    if not left:
        return
    numbered = [list(row) for row in left]
    for level, want in enumerate(wanted[:-1]):
        there = {row[level] for row in left}
        chosen = max((p for p in there if p <= want), default=min(there))
        left = [row for row in left if row[level] == chosen]
    assert len(left) == 1
    assert table.numbers(np.array([wanted])).tolist() == [numbered.index(left[0])]


@given(st.integers(1, 60), SPLITS, st.sampled_from(MAPSPACES), st.data())
def test_chains_by_the_levels_of_their_loops(
    size: int, splits: list[SplitLimit], mapspace: Mapspace, data: st.DataObject
) -> None:
    asked = data.draw(st.lists(st.booleans(), min_size=len(splits) + 1, max_size=len(splits) + 1))
    marks = [(1 << level) * bit for level, bit in enumerate(asked)]
    expected: Counter[int] = Counter()
    for row in list_chains(size, splits, mapspace):
        expected[sum(mark for mark, p in zip(marks, row, strict=True) if p > 1)] += 1
    assert ChainTable(size, splits, mapspace).by_loops(marks) == dict(expected)


def test_far_more_chains_than_memory() -> None:
    """Timeloop's Ruby needs over 32 GB for a rank of 6,144; the table some 10,000 rows."""
    splits = (
        SplitLimit(),
        SplitLimit(spatial=True),
        SplitLimit(),
        SplitLimit(spatial=True),
        SplitLimit(),
    )
    table = chain_table(6144, splits, "ruby")
    assert table.count == count_chains(6144, splits, "ruby") > 500_000
    assert sum(len(step.pieces) for step in table._steps) < 50_000
    numbers = np.random.default_rng(0).integers(0, table.count, 1000)
    rows = table.chains_at(numbers)
    tiles = np.full(len(rows), 6144)
    for level in range(rows.shape[1]):
        tiles = -(-tiles // rows[:, level])
    assert (tiles == 1).all()
    assert (np.diff(np.sort(numbers)) > 0).sum() == len(np.unique(rows, axis=0)) - 1


def test_a_rank_too_large_to_count() -> None:
    with pytest.raises(InputError, match="ruby of a rank: got 1099511627776; allowed: a rank with"):
        ChainTable(2**40, [SplitLimit()] * 3, "ruby")


def test_a_fixed_number_of_pieces_is_taken_as_it_stands() -> None:
    """13 pieces of 27 make as many groups as 9; who asks for 13 gets 13."""
    splits = [SplitLimit(spatial=True, exactly=13)]
    assert list_chains(27, splits, "ruby-s") == [[13, 3]]
    assert count_chains(5, [SplitLimit(spatial=True, exactly=7)], "ruby-s") == 0
    assert list_chains(5, [SplitLimit(whole=True)], "pfm") == [[5, 1]]
