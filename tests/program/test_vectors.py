"""Vector operators in programs: blocks, cut axes and faults, against plain numpy."""

import numpy as np
import pytest

from simaccel.program.interpreter import interpret
from simaccel.program.program import ProgramError
from simaccel.program.text import parse_program
from simaccel.workload.vectors.kind import Array

NORM = """\
program p
  operator norm
    loop q 2 from 0 step 2
      tile Y 2x7 x1 of Y[q=4,c=7] 2B
      tile G 7 x1 of G[c=7] 4B
      load G queue 1
      loop c 2 from 0 step 3
        tile X 2x3 x1 of X[q=4,c=7] 2B
        load X queue 0
        sfu rms_norm statistics X = X over q=2 c=3 axis c of norm
      loop c 1 from 6 step 1
        tile X 2x1 x1 of X[q=4,c=7] 2B
        load X queue 0
        sfu rms_norm statistics X = X over q=2 c=1 axis c of norm
      loop c 1 from 0 step 1
        tile X 2x5 x1 of X[q=4,c=7] 2B
        load X queue 0
        sfu rms_norm normalise Y = X G over q=2 c=5 axis c of norm
      loop c 1 from 5 step 1
        tile X 2x2 x1 of X[q=4,c=7] 2B
        load X queue 0
        sfu rms_norm normalise Y = X G over q=2 c=2 axis c of norm
      store Y
"""

MASK = """\
program p
  operator mask
    loop q 2 from 0 step 2
      tile M 2x3 x1 of M[q=4,c=3] 2B
      load M queue 1
      loop h 2 from 0 step 1
        tile S 1x2x3 x1 of S[h=2,q=4,c=3] 2B
        load S queue 0
        sfu mask whole S = S M over h=1 q=2 c=3 scale 0.5 of mask
        store S into P[h=2,q=4,c=3] 2B
"""

POOL = """\
program p
  operator pool
    loop p 2 from 0 step 2
      tile I 5x2 x1 of I[2*p+r=9,c=2] 2B
      tile O 2x2 x1 of O[c=2,p=4] 2B
      load I queue 0
      sfu pooling whole O = I over c=2 p=2 r=3 of pool
      store O
"""


def _random(*shape: int) -> Array:
    return np.random.default_rng(5).normal(size=shape)


def test_a_norm_in_unequal_pieces() -> None:
    x, gain = _random(4, 7), _random(7)
    found = interpret(parse_program(NORM), {"X": x, "G": gain, "Y": np.full((4, 7), np.nan)})
    expected = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * gain
    np.testing.assert_allclose(found["Y"], expected)


def test_a_mask_that_heads_share_is_added_in_place() -> None:
    s, mask = _random(2, 4, 3), np.where(_random(4, 3) > 0, 0.0, -np.inf)
    made = np.full(s.shape, np.nan)
    found = interpret(parse_program(MASK), {"S": s, "M": mask, "P": made})
    assert np.array_equal(found["P"], 0.5 * s + mask)


def test_windows_overlap_and_the_output_has_other_ranks() -> None:
    x = _random(9, 2)
    found = interpret(parse_program(POOL), {"I": x, "O": np.full((2, 4), np.nan)})
    expected = [[max(x[2 * p : 2 * p + 3, c]) for p in range(4)] for c in range(2)]
    assert found["O"].tolist() == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("loop c 2 from 0 step 3", "loop c 2 from 1 step 3", "rows .0,. of X have no statistics"),
        ("loop c 1 from 5 step 1", "loop c 1 from 4 step 1", "tile Y is overwritten"),
        ("q=2 c=5", "q=1 c=5", "tile Y is read before it is written"),
        (
            "normalise Y = X G over q=2 c=5",
            "normalise Y = X G over q=2 c=6",
            "rank c 0..6 is outside tile X 0..5",
        ),
        ("load G queue 1", "reserve G queue 1", "tile G is read before it is written"),
        ("from 5 step 1", "from 6 step 1", "reaches beyond X"),
    ],
)
def test_a_fault_is_refused(old: str, new: str, message: str) -> None:
    tensors = {"X": _random(4, 7), "G": _random(7), "Y": np.full((4, 7), np.nan)}
    assert old in NORM
    with pytest.raises(ProgramError, match=message):
        interpret(parse_program(NORM.replace(old, new)), tensors)
