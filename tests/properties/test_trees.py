"""Trees by example and drawn: machine, closed form, numpy and fast-forward agree on each."""

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from simaccel.mapping.checks import faults
from tests.agreement import assert_counts, assert_exact
from tests.drawn_machines import example_machine
from tests.drawn_trees import draw_case, draw_held, over_cores
from tests.draws import DRAWS
from tests.program.tree_cases import CASES
from tests.trees import assert_computes


@pytest.mark.parametrize("name", CASES)
def test_an_example_moves_what_the_closed_form_counts(name: str) -> None:
    of, one = CASES[name]
    on = example_machine(one)
    assert faults(of, one, on) == []
    assert_exact(of, one, on, assert_counts(of, one, on))


def _check(seed: int, *, spatial: bool) -> None:
    case = draw_case(seed, spatial=spatial)
    assume(case is not None)
    assert case is not None
    case = over_cores(seed, case)
    assert_computes(case.of, case.mapping)
    run = assert_counts(case.of, case.mapping, case.on)
    assert_exact(case.of, case.mapping, case.on, run)


@given(st.integers(0, 2**32))
@example(22082591532254183425)  # a core's last piece is as small as the tile of an inner loop
@settings(max_examples=6 * DRAWS, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_random_tree_on_a_systolic_array(seed: int) -> None:
    _check(seed, spatial=False)


@given(st.integers(0, 2**32))
@settings(max_examples=6 * DRAWS, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_random_tree_on_a_spatial_array(seed: int) -> None:
    _check(seed, spatial=True)


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=4 * DRAWS, suppress_health_check=[HealthCheck.filter_too_much])
def test_tensors_that_stay_from_group_to_group(seed: int, spatial: bool) -> None:  # noqa: FBT001
    """Values, and bytes by tensor and level."""
    case = draw_held(seed, spatial=spatial)
    assume(case is not None)
    assert case is not None
    assert_computes(case.of, case.mapping)
    assert_counts(case.of, case.mapping, case.on)
