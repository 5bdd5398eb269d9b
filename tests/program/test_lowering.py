"""Trees lowered and interpreted: they compute what plain numpy computes."""

import pytest

from simaccel.mapping.checks import faults
from tests.program.tree_cases import CASES
from tests.trees import assert_computes


@pytest.mark.parametrize("name", CASES)
def test_a_tree_computes_what_numpy_does(name: str) -> None:
    of, one = CASES[name]
    assert faults(of, one) == []
    assert_computes(of, one)
