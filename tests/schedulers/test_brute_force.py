"""What is picked is the best of a space, as found by simulating each mapping of it.

Trees are written by hand in `validation.search.brute`, which draws more of them.
"""

import pytest

from simaccel.errors import SimaccelError
from tests.draws import some
from validation.search.brute import SMALL, Case, simulated


@pytest.mark.parametrize("case", some(SMALL, 4), ids=lambda case: f"{case.dataflow}-{case.shape}")
def test_no_mapping_of_the_space_is_faster(case: Case) -> None:
    """Primes, remainders, and buffers in which most of the mappings don't fit."""
    every, fit, optimum = simulated(case)
    assert 0 < fit <= every
    assert optimum is not None
    assert case.picked() <= optimum


def test_the_best_product_need_not_have_the_best_softmax() -> None:
    """The softmax with the least energy times delay of its own makes that of all three 13% more."""
    case = Case("naive-b", (2, 2, 3, 1), 544, 32, holds="is", objective="edp")
    assert case.picked() == simulated(case)[2]


def test_what_has_no_mapping_that_fits_is_refused() -> None:
    case = Case("flat", (1, 1, 7, 8), 40, holds="ws")
    assert simulated(case)[1:] == (0, None)
    with pytest.raises(SimaccelError):
        case.picked()


@pytest.mark.parametrize("dataflow", ["flat", pytest.param("flash", marks=pytest.mark.long)])
def test_one_block_of_one_head_has_nothing_to_run_early(dataflow: str) -> None:
    """Two tokens: pipelined they were a fork ahead without a loop outside, an internal error."""
    case = Case(dataflow, (1, 1, 2, 2), 144, 2, pipeline=True)
    assert case.picked() <= (simulated(case)[2] or 0)
