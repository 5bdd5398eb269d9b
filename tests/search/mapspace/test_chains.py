"""Tile chains against equation 5 of Ruby, by number, and their best orders, by brute force."""

from collections import Counter, defaultdict
from functools import cache
from itertools import product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.analytic.sizes import divisors, even_pieces
from simaccel.errors import InputError
from simaccel.importers.accelerators import load_accelerator
from simaccel.search.effort import OBJECTIVES, Effort, Objective
from simaccel.search.mapspace.blocks import Population
from simaccel.search.mapspace.chains import MAPSPACES, ChainTable, Mapspace, SplitLimit, chain_table
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import map_einsum
from simaccel.search.mapspace.ordered_tilings import best_orders
from simaccel.search.mapspace.space import EinsumMapspace, Genes
from simaccel.search.mapspace.tiling_batch import rows
from simaccel.workload.conv import Conv
from tests.search.mapspace.blocks import in_all_orders
from tests.search.mapspace.chain_counts import count_chains, list_chains
from tests.search.mapspace.test_mapspace_search import product_of, target, toy

SIZES = st.integers(1, 60)
SPLITS = st.lists(
    st.builds(SplitLimit, spatial=st.booleans(), most=st.one_of(st.none(), st.integers(1, 9))),
    min_size=0,
    max_size=3,
)


@cache
def _solutions(size: int, n_levels: int) -> set[tuple[tuple[int, int], ...]]:
    """All (P, R) from the innermost level to the outermost that solve equation 5, as it stands."""
    found = set()
    for factors in product(range(1, size + 1), repeat=n_levels):
        units = [prod(factors[:level]) for level in range(n_levels)]
        for remainders in product(*(range(1, p + 1) for p in factors)):
            total = 0
            for p, r in zip(reversed(factors), reversed(remainders), strict=True):
                total = total * p + r - 1
            if total + 1 == size:
                found.add(tuple(zip(factors, remainders, strict=True)))
                assert total == sum((r - 1) * u for r, u in zip(remainders, units, strict=True))
    return found


def _counts(factors: tuple[int, ...], size: int) -> tuple[int, ...]:
    counts = [size]
    for p in factors:
        counts.append(-(-counts[-1] // p))
    return tuple(counts)


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("mapspace", MAPSPACES)
@pytest.mark.parametrize("spatial", [(False, False), (True, False), (False, True)])
def test_chains_are_the_solutions_of_equation_5_up_to_redundancy(
    size: int, mapspace: Mapspace, spatial: tuple[bool, bool]
) -> None:
    """Of the solutions with the same numbers of tiles the one with the smallest tiles is kept."""
    splits = [SplitLimit(spatial=s) for s in spatial]
    smallest: dict[tuple[int, ...], tuple[int, ...]] = {}
    for solution in sorted(_solutions(size, 3)):
        factors, remainders = zip(*solution, strict=True)
        if factors[-1] != remainders[-1]:
            continue  # the outermost level has no last time: it happens once
        exact = [p == r for p, r in solution]
        if all(e or split.may_leave(mapspace) for e, split in zip(exact, splits, strict=False)):
            smallest.setdefault(_counts(factors, size), factors)
    found = [tuple(row) for row in list_chains(size, splits, mapspace)]
    assert len(found) == len(set(found))
    assert {_counts(row, size) for row in found} == set(smallest)
    for row in found:
        tiles = [prod(row[:level]) for level in range(3)]
        kept = smallest[_counts(row, size)]
        assert tiles <= [prod(kept[:level]) for level in range(3)]


@given(SIZES, SPLITS, st.sampled_from(MAPSPACES))
def test_counted_and_enumerated_agree(
    size: int, splits: list[SplitLimit], mapspace: Mapspace
) -> None:
    rows = list_chains(size, splits, mapspace)
    found = np.array(rows).reshape(-1, len(splits) + 1)
    assert len(np.unique(found, axis=0)) == len(found) == count_chains(size, splits, mapspace)
    assert all(split.most is None or (found[:, i] <= split.most).all()
               for i, split in enumerate(splits))  # fmt: skip


@given(st.integers(1, 3000))
def test_canonical_numbers_of_pieces(n: int) -> None:
    by_groups: dict[int, int] = {}
    for p in range(1, n + 1):
        by_groups.setdefault(-(-n // p), p)
    assert even_pieces(n).tolist() == sorted(by_groups.values())
    for most in (1, n // 7 + 1, n // 2 + 1, n):
        assert even_pieces(n, most).tolist() == sorted(p for p in by_groups.values() if p <= most)
    assert divisors(n).tolist() == [p for p in range(1, n + 1) if n % p == 0]


@given(st.integers(1, 10_000), st.integers(1, 4))
def test_perfect_factorisations_are_counted_by_their_primes(size: int, n_splits: int) -> None:
    primes: dict[int, int] = defaultdict(int)
    rest, p = size, 2
    while rest > 1:
        while rest % p == 0:
            primes[p] += 1
            rest //= p
        p += 1
    expected = prod(comb(e + n_splits, n_splits) for e in primes.values())
    assert count_chains(size, [SplitLimit()] * n_splits, "pfm") == expected


def test_mapspaces_contain_each_other() -> None:
    splits = [SplitLimit(), SplitLimit(spatial=True, most=9)]
    for size in (27, 100, 113, 127, 128, 4096):
        n = {m: count_chains(size, splits, m) for m in MAPSPACES}
        assert n["pfm"] <= n["ruby-s"] <= n["ruby"]
        assert n["pfm"] <= n["ruby-t"] <= n["ruby"]


def test_the_examples_of_the_paper() -> None:
    """Figs. 4 and 5: 100 elements on 6 PEs take 20 steps, with remainders 17."""
    steps = {}
    for mapspace in MAPSPACES:
        rows = list_chains(100, [SplitLimit(spatial=True, most=6)], mapspace)
        steps[mapspace] = min(outer for _, outer in rows)
    assert steps == {"pfm": 20, "ruby": 17, "ruby-s": 17, "ruby-t": 20}


def test_a_fixed_number_of_pieces() -> None:
    splits = [SplitLimit(spatial=True, exactly=7)]
    assert list_chains(27, splits, "ruby-s") == [[7, 4]]
    assert count_chains(27, splits, "pfm") == 0
    assert count_chains(27, [SplitLimit(spatial=True, exactly=9)], "pfm") == 1


EYERISS = load_accelerator(
    "eyeriss_like", ["array.dataflow=[]", "dram.bandwidth_bytes_per_second=1 GB/s"]
)
WINDOWS = Conv(m=4, c=6, p=8, q=6, r=3, s=3).einsum("conv")
GOALS = {
    "windows over each other": target(WINDOWS, EYERISS, "ruby-s"),
    "weights past the buffer": target(WINDOWS, EYERISS, "ruby", ["buffer.keep=input,output"]),
    "a given order": target(product_of(12, 10, 9), EYERISS, "ruby", ["dram.order=n,m"]),
    "one memory": target(product_of(12, 10, 9), toy(4, 64), "ruby"),
}


def valid(goal: MappingTarget, n: int) -> tuple[EinsumMapspace, Genes, np.ndarray]:
    """Return tilings that fit, drawn at random."""
    (space,) = goal.spaces()
    genes, factors = space.fitting(space.random(np.random.default_rng(0), n, perfect=True))
    fits = goal.fits(space, space.candidates(genes, factors))
    return space, genes.take(fits), rows(factors, fits)


@pytest.mark.parametrize("name", GOALS)
def test_the_best_orders_are_the_best_of_all(name: str) -> None:
    """To the last bit, for each objective."""
    goal = GOALS[name]
    space, genes, factors = valid(goal, 150)
    every, all_factors = in_all_orders(space, genes, factors)
    row = np.repeat(np.arange(len(genes)), space.book.counts(factors).prod(axis=1))
    assert len(genes) > 20
    for objective in OBJECTIVES:
        value, tie = goal.score(space, space.candidates(every, all_factors), objective)
        tilings = space.candidates(genes, factors)
        found = best_orders(goal, space, tilings, objective)
        for at in range(len(genes)):
            mine = np.flatnonzero(row == at)
            best = min(zip(value[mine].tolist(), tie[mine].tolist(), strict=True))
            assert (found.values[at], found.ties[at]) == best
        ordered = space.candidates(Genes(genes.chains, found.orders, genes.keeps), factors)
        again = goal.score(space, ordered, objective)
        assert np.array_equal(again[0], found.values)
        assert np.array_equal(again[1], found.ties)


@pytest.mark.parametrize("name", GOALS)
def test_which_tilings_are_evaluated_together_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, genes, factors = valid(GOALS[name], 150)
    tilings = space.candidates(genes, factors)
    together = best_orders(GOALS[name], space, tilings, "edp")
    monkeypatch.setattr("simaccel.search.mapspace.ordered_tilings._NUMBERS", 50)
    apart = best_orders(GOALS[name], space, tilings, "edp")
    for figures in ("values", "ties", "orders"):
        assert np.array_equal(getattr(together, figures), getattr(apart, figures))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_good_ones_of_a_whole_mapspace_are_those_of_all_its_mappings(
    objective: Objective,
) -> None:
    goal = target(product_of(8, 6, 4), EYERISS, "pfm")
    (space,) = goal.spaces()
    found = map_einsum(goal, Effort(objective=objective)).found
    assert found.complete
    assert found.good is not None
    _, genes, factors = space.block(0, space.combinations)
    every = space.candidates(*in_all_orders(space, genes, factors))
    every = every.take(goal.fits(space, every))
    value, tie = goal.score(space, every, objective)
    wide = every.factors[:, space.hierarchy.spatial].reshape(len(every), -1)
    _, niches = np.unique(wide, axis=0, return_inverse=True)
    nothing = np.zeros((len(every), 1), dtype=np.int64)
    best = Population(nothing, nothing, np.arange(len(every)), value, tie, niches).elite()
    again = goal.score(space, found.good, objective)
    assert again[0].tolist() == best.values.tolist()
    assert again[1].tolist() == best.ties.tolist()
    assert found.valid == len(every)


TABLE_SPLITS = st.lists(
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


@given(st.integers(1, 60), TABLE_SPLITS, st.sampled_from(MAPSPACES))
def test_the_chain_of_a_number(size: int, splits: list[SplitLimit], mapspace: Mapspace) -> None:
    listed = list_chains(size, splits, mapspace)
    table = ChainTable(size, splits, mapspace)
    assert table.count == len(listed)
    found = table.chains_at(np.arange(table.count, dtype=np.int64))
    assert found.tolist() == listed
    assert table.numbers(found).tolist() == list(range(table.count))


def test_states_from_which_no_chain_follows_have_no_numbers() -> None:
    """Of 25, 5 pieces at the outer level and 5 left: at one of three levels inside or outermost."""
    splits = (*[SplitLimit(spatial=True)] * 3, SplitLimit(exactly=5))
    table = ChainTable(25, splits, "pfm")
    assert table.numbers(table.chains_at(np.arange(table.count))).tolist() == [0, 1, 2, 3]


@given(st.integers(1, 200), TABLE_SPLITS, st.sampled_from(MAPSPACES))
def test_chains_of_smaller_mapspaces_have_numbers_in_larger_ones(
    size: int, splits: list[SplitLimit], mapspace: Mapspace
) -> None:
    perfect, larger = (ChainTable(size, splits, which) for which in ("pfm", mapspace))
    rows = perfect.chains_at(np.arange(perfect.count))
    assert np.array_equal(larger.chains_at(larger.numbers(rows)), rows)


@given(st.integers(1, 40), TABLE_SPLITS, st.sampled_from(MAPSPACES), st.data())
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


@given(st.integers(1, 60), TABLE_SPLITS, st.sampled_from(MAPSPACES), st.data())
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
