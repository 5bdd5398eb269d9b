from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.mapping.choices import ORDERS, GemmMapping
from simaccel.program.interpreter import interpret
from simaccel.program.lower import NotThisWorkloadError, lower
from simaccel.program.lower_gemm import blocks
from simaccel.program.program import Compute, Load, Store, size
from simaccel.workload import gemm
from tests.program.programs import Case, gemm_case, gemm_cases, gemm_operands, gemm_shape
from tests.program.tree import dram_bytes, executed

RANKS = {"A": "mk", "B": "kn", "C": "mn"}


def _mapping(case: Case) -> GemmMapping:
    (group,) = case.mapping.groups
    mapping = group.mapping  # type: ignore[union-attr]  # a GEMM group
    assert isinstance(mapping, GemmMapping)
    return mapping


def _visits(case: Case) -> list[dict[str, range]]:
    """What each step of the loops over tiles touches, in order, by rank."""
    _, m, k, n = gemm_shape(case.workload)
    extents = {"m": m, "k": k, "n": n}
    mapping = _mapping(case)
    pieces = {
        r: [range(s, min(s + getattr(mapping, r), e)) for s in range(0, e, getattr(mapping, r))]
        for r, e in extents.items()
    }
    return [
        dict(zip(mapping.order, ranges, strict=True))
        for ranges in product(*(pieces[r] for r in mapping.order))
    ]


def _elements(where: dict[str, range], ranks: str) -> int:
    result = 1
    for rank in ranks:
        result *= len(where[rank])
    return result


def _block(where: dict[str, range], ranks: str) -> tuple[range, ...]:
    return tuple(where[r] for r in ranks)


def _expected_elements(case: Case) -> Counter[tuple[str, str]]:
    """A tile moves when the walk goes over to another one; unfinished sums come back."""
    visits = _visits(case)
    moved: Counter[tuple[str, str]] = Counter()
    for tensor in "AB":
        ranks = RANKS[tensor]
        for before, here in pairwise([None, *visits]):
            assert here is not None
            if before is None or _block(before, ranks) != _block(here, ranks):
                moved[("dram_read", tensor)] += _elements(here, ranks)
    seen: set[tuple[range, ...]] = set()
    for here, after in pairwise([*visits, None]):
        assert here is not None
        block = _block(here, "mn")
        if after is None or _block(after, "mn") != block:
            moved[("dram_write", "C")] += _elements(here, "mn")
            if block in seen:
                moved[("dram_read", "C")] += _elements(here, "mn")
            seen.add(block)
    return moved


@given(gemm_cases())
def test_each_tensor_moves_as_a_walk_over_the_tiles_finds(case: Case) -> None:
    batch = gemm_shape(case.workload)[0]
    expected = {key: 2 * batch * n for key, n in _expected_elements(case).items()}
    assert dram_bytes(case.program) == expected


@pytest.mark.parametrize(
    ("order", "times"),
    [
        # the textbook: a tensor is loaded once for each step of the loops outside its own
        # innermost one that are not over its ranks; partial sums are read one time less
        ("mnk", {"A": 3, "B": 4, "C": 1}),
        ("nmk", {"A": 3, "B": 4, "C": 1}),
        ("mkn", {"A": 1, "B": 4, "C": 5}),
        ("kmn", {"A": 1, "B": 4, "C": 5}),
        ("nkm", {"A": 3, "B": 1, "C": 5}),
        ("knm", {"A": 3, "B": 1, "C": 5}),
    ],
)
def test_textbook_counts_of_a_gemm_cut_into_4_by_5_by_3_tiles(
    order: str, times: dict[str, int]
) -> None:
    case = gemm_case(gemm(m=16, k=20, n=9), m=4, k=4, n=3, order=order)
    assert dram_bytes(case.program) == Counter(
        {
            ("dram_read", "A"): times["A"] * 16 * 20 * 2,
            ("dram_read", "B"): times["B"] * 20 * 9 * 2,
            ("dram_write", "C"): times["C"] * 16 * 9 * 2,
            ("dram_read", "C"): (times["C"] - 1) * 16 * 9 * 2,
        }
    )


@given(gemm_cases())
def test_the_product_is_complete(case: Case) -> None:
    batch, m, _, n = gemm_shape(case.workload)
    a, b = gemm_operands(case.workload)
    result = interpret(case.program, {"A": a, "B": b, "C": np.full((batch, m, n), np.nan)})
    np.testing.assert_array_equal(result["C"], a @ b)


@given(gemm_cases())
def test_every_multiplication_is_done_once(case: Case) -> None:
    macs = sum(c.macs for c in executed(case.program.body) if isinstance(c, Compute))
    assert macs == case.workload.macs


@pytest.mark.parametrize("order", ORDERS)
def test_program_size_does_not_follow_the_trip_counts(order: str) -> None:
    small = gemm_case(gemm(m=19, k=19, n=19), m=4, k=4, n=4, order=order)
    large = gemm_case(gemm(m=4_000_003, k=4_000_003, n=4_000_003), m=4, k=4, n=4, order=order)
    assert size(large.program) == size(small.program) < 120


@pytest.mark.parametrize("order", ORDERS)
def test_a_perfect_factorisation_has_no_peeled_remainder(order: str) -> None:
    case = gemm_case(gemm(m=16, k=16, n=16), m=4, k=4, n=4, order=order)
    gemms = {c.shape for c in executed(case.program.body) if isinstance(c, Compute)}
    assert gemms == {(1, 4, 4, 4)}


def test_equal_bodies_are_one_object() -> None:
    """The two halves of a peeled reduction share the body of their inner loops."""
    case = gemm_case(gemm(m=19, k=19, n=19), m=4, k=4, n=4, order="nmk")
    objects = {id(c) for c in executed(case.program.body)}
    assert len(objects) < size(case.program)


@given(gemm_cases())
def test_loads_of_a_tensor_keep_to_its_queue(case: Case) -> None:
    queues = {
        (c.tile.view.name, c.queue) for c in executed(case.program.body) if isinstance(c, Load)
    }
    assert queues <= {("A", 0), ("B", 1), ("C", 2)}


@given(gemm_cases())
def test_every_output_is_stored(case: Case) -> None:
    _, m, _, n = gemm_shape(case.workload)
    stored = sum(c.tile.n_bytes for c in executed(case.program.body) if isinstance(c, Store))
    assert stored >= case.workload.tensor_bytes("C")
    assert {c.tile.view.name for c in executed(case.program.body) if isinstance(c, Store)} == {"C"}
    assert m * n * 2 <= stored


@given(st.integers(0, 50), st.integers(1, 60), st.integers(1, 70))
def test_blocks_cover_a_rank_once(start: int, extent: int, tile: int) -> None:
    covered = [
        position
        for first, trips, length in blocks(start, extent, tile)
        for trip in range(trips)
        for position in range(first + trip * length, first + (trip + 1) * length)
    ]
    assert covered == list(range(start, start + extent))
    assert len(list(blocks(start, extent, tile))) <= 2


def test_a_mapping_for_another_workload_is_refused() -> None:
    case = gemm_case(gemm(m=4, k=4, n=4))
    other = gemm(m=4, k=4, n=5)
    with pytest.raises(NotThisWorkloadError, match="the mapping is for workload gemm"):
        lower(other, case.mapping)


def test_a_mapping_that_leaves_an_operator_out_is_refused() -> None:
    case = gemm_case(gemm(m=4, k=4, n=4))
    nothing = case.mapping.model_copy(update={"groups": ()})
    with pytest.raises(NotThisWorkloadError, match="the workload needs gemm in this order"):
        lower(case.workload, nothing)
