"""Tile chains against equation 5 of Ruby, solved by brute force, and against each other."""

from collections import defaultdict
from functools import cache
from itertools import product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.analytic.sizes import divisors, even_pieces
from simaccel.search.mapspace.chains import (
    MAPSPACES,
    Mapspace,
    SplitLimit,
)
from tests.search.mapspace.chain_counts import count_chains, list_chains

SIZES = st.integers(1, 60)
SPLITS = st.lists(
    st.builds(
        SplitLimit,
        spatial=st.booleans(),
        most=st.one_of(st.none(), st.integers(1, 9)),
    ),
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
