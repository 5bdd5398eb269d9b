from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel import load_accelerator, simulate
from simaccel.errors import InputError
from simaccel.hardware import SfuSpec
from simaccel.hardware.sfu import OperationsSpec
from simaccel.workload.vectors import VECTORS
from simaccel.workload.vectors.kind import Passes
from tests.trees import mapping, vector, workload

EACH: dict[str, Any] = {
    "exp": 13,
    "erf": 9,
    "tanh": 7,
    "sigmoid": 15,
    "rsqrt": 5,
    "divide": 3,
    "reduce": 8,
    "deviation": 2,
    "affine": 4,
}


def _passes(passes: int, row_passes: int = 0) -> Passes:
    return Passes(passes=passes, reads=(1,), writes=1, row_passes=row_passes)


def test_work_is_merged_where_it_can_be_and_the_unit_does() -> None:
    separate, merged = _passes(3), _passes(2)
    assert SfuSpec(lanes=4, passes=3).choose_form(separate, merged) == separate
    assert SfuSpec(lanes=4, passes=2).choose_form(separate, merged) == merged
    assert SfuSpec(lanes=4, passes=2).choose_form(separate, None) == separate


@pytest.mark.parametrize(
    ("kind", "step", "passes", "row_passes"),
    [
        # maximum; exponential and sum; division: 1 + 13 + 3; two reductions of a row
        ("softmax", "whole", 17, 14),
        ("softmax", "statistics", 13, 14),
        ("softmax", "normalise", 15, 0),
        ("softmax", "online", 14, 14),
        ("softmax", "rescale", 1, 0),
        ("softmax", "divide", 3, 0),
        ("layer_norm", "whole", 3 + 1 + 3, 7 + 7 + 4),
        ("layer_norm", "statistics", 1 + 1, 14),
        ("layer_norm", "normalise", 1 + 3, 4),
        ("rms_norm", "whole", 2 + 3, 7 + 4),
        ("gelu", "whole", 9, 0),
        ("silu", "whole", 15, 0),
        ("soft_cap", "whole", 7, 0),
        ("exp", "whole", 13, 0),
        ("sqrt", "whole", 5, 0),
        ("reciprocal", "whole", 3, 0),
        ("divide", "whole", 3, 0),
        ("residual", "whole", 1, 0),
    ],
)
def test_functions_take_as_many_operations_as_the_unit_says(
    kind: str, step: str, passes: int, row_passes: int
) -> None:
    found = VECTORS[kind].steps[step]
    costs = SfuSpec(lanes=4, operations=OperationsSpec(**EACH)).choose_form(found, found.merged)
    assert (costs.passes, costs.row_passes) == (passes, row_passes)
    plain = SfuSpec(lanes=4).choose_form(found, found.merged)
    assert (plain.passes, plain.row_passes) == (found.passes, 0)


def test_norms_of_a_run_take_their_reductions() -> None:
    """8 blocks of 4 rows of half of their axis on 4 lanes; 3 cycles of pipeline each time.

    Statistics: 2 x 16 cycles and 2 x 7 of reductions; normalisation: 4 x 16 and 4 of roots.
    """
    of = workload(vector("norm", "layer_norm", "y m d", "x m d", axis="d", m=16, d=32))
    settings = [f"sfu.operations.{name}={count}" for name, count in EACH.items()]
    body = """
        group norm
          loop m 4
          loop d 16
          keep x buffer, y buffer
          do norm sfu
    """
    run = simulate(of, load_accelerator("toy", settings), mapping(of, body)).run
    assert run.engines["sfu"].busy == 8 * (32 + 14 + 3 + 64 + 4 + 3)
    assert run.elements == 8 * (128 + 4 * 14 + 256 + 4 * 4)


def test_the_field_of_before_says_what_stands_in_its_place() -> None:
    with pytest.raises(InputError, match=r"exponential_passes.*operations: \{exp: N"):
        load_accelerator("toy", ["sfu.exponential_passes=13"])


def test_an_element_more_than_the_lanes_takes_a_cycle_per_pass() -> None:
    """9 rows of 5: 2 passes of ceil(45 / 4) and 3 of ceil(9 / 4) for rows, and the pipeline."""
    sfu = SfuSpec(lanes=4, latency_cycles=10)
    assert [sfu.cycles(_passes(3), n, 1) for n in (1, 4, 5, 8, 9)] == [13, 13, 16, 16, 19]
    assert sfu.cycles(_passes(2, 3), 45, 9) == 10 + 2 * 12 + 3 * 3


@given(st.integers(1, 64), st.integers(1, 3), st.integers(1, 500), st.integers(0, 9))
def test_cycles_equal_a_walk_over_the_elements(
    lanes: int, passes: int, elements: int, latency: int
) -> None:
    sfu = SfuSpec(lanes=lanes, latency_cycles=latency)
    walked = latency
    for _ in range(passes):
        walked += len(range(0, elements, lanes))
    work, some = _passes(passes), np.array([elements])
    assert sfu.cycles(work, elements, 1) == walked
    assert sfu.cycles(work, some, some).tolist() == [walked]
