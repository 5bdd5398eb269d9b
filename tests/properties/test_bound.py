"""No run of a mapping is below its lower bound, on any machine; work and bytes are as counted."""

from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.agreement import assert_bounded
from tests.drawn_machines import example_machine, machines
from tests.drawn_trees import Drawn, draw_case, draw_held, over_cores
from tests.draws import DRAWS
from tests.program.tree_cases import CASES

_MACHINES = 14
"""Of each mapping: drawing one takes longer than running it."""
_SEEDS = st.integers(0, 2**32)


def _check(case: Drawn | None, seed: int) -> None:
    assume(case is not None)
    assert case is not None
    case = over_cores(seed, case)
    for on in islice(machines(case.of, case.mapping, case.on, seed), _MACHINES):
        assert_bounded(case.of, case.mapping, on)


@pytest.mark.parametrize("draw", [draw_case, draw_held])
@given(_SEEDS, st.booleans())
@settings(max_examples=3 * DRAWS, suppress_health_check=[HealthCheck.filter_too_much])
def test_no_run_of_a_random_tree_is_below_its_bound(
    draw: Callable[..., Drawn | None],
    seed: int,
    spatial: bool,  # noqa: FBT001
) -> None:
    _check(draw(seed, spatial=spatial), seed)


@pytest.mark.parametrize("name", CASES)
def test_no_run_of_an_example_is_below_its_bound(name: str) -> None:
    of, one = CASES[name]
    for on in islice(machines(of, one, example_machine(one), len(name)), DRAWS):
        assert_bounded(of, one, on)
