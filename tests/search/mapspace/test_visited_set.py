"""No mapping is judged twice: codes against the mappings themselves, and against a set."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simaccel.search.effort import Effort
from simaccel.search.mapspace.nests import map_einsum
from simaccel.search.mapspace.visited_set import VisitedSet, codes
from tests.search.mapspace.test_mapspace_search import CONV, product_of, target, toy


def test_two_mappings_have_one_code_where_they_are_the_same() -> None:
    """Drawn mappings, compared by all that they are written out as."""
    (space,) = target(CONV, toy(4, 64), "ruby").problem().spaces
    genes, factors = space.fitting(space.random(np.random.default_rng(0), 3000, perfect=True))
    made = space.candidates(genes, factors)
    loops = np.where(
        np.take_along_axis(factors[:, space.hierarchy.temporal], made.orders, 2) > 1, 1, 0
    )
    order = np.where(loops, made.orders, -1)
    rows = [
        (factors[at, 1:].tobytes(), order[at].tobytes(), made.keeps[at].tobytes())
        for at in range(len(genes))
    ]
    pairs = set(zip(rows, codes(space, genes, factors).tolist(), strict=True))
    assert len(pairs) == len({row for row, _ in pairs}) == len({code for _, code in pairs})
    assert 100 < len(pairs) < len(rows)


def test_a_mapping_has_the_same_code_in_a_larger_mapspace() -> None:
    goal = target(product_of(12, 6, 10), toy(4, 64), "ruby-s")
    (large,) = goal.problem().spaces
    (small,) = large.inside
    genes, factors = small.fitting(small.random(np.random.default_rng(0), 200))
    again, theirs = large.fitting(large.nearest_mappings(small.candidates(genes, factors)))
    assert codes(small, genes, factors).tolist() == codes(large, again, theirs).tolist()


@given(st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=5))
def test_what_is_new_is_new_once(blocks: list[list[int]]) -> None:
    known, seen = VisitedSet(), set[int]()
    for block in blocks:
        expected = []
        for at, one in enumerate(block):
            if one not in seen:
                expected.append(at)
            seen.add(one)
        assert known.fresh(np.array(block, dtype=np.uint64)).tolist() == expected
    assert len(known) == len(seen)
    assert len(VisitedSet([known, known])) == len(seen)


def test_a_search_counts_no_mapping_twice() -> None:
    """It draws ten times as many as there are, and counts at most those that there are."""
    goal = target(product_of(6, 5, 4), toy(3, 24), "pfm")
    whole = map_einsum(goal, Effort()).found
    drawn = map_einsum(goal, Effort(exhaustive=0, patience=10 * whole.valid)).found
    assert drawn.ended == "patience"
    assert whole.valid // 2 < drawn.valid <= whole.valid
    assert drawn.score == whole.score
