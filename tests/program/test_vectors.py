"""Vector operators in programs, and what operators wait for on other cores."""

import numpy as np
import pytest

from simaccel.mapping.view import TensorView
from simaccel.program.dependences import CoreDependence, dependences
from simaccel.program.interpreter import interpret
from simaccel.program.program import (
    Load,
    Node,
    Operator,
    Program,
    ProgramError,
    ProgramLoop,
    Store,
    Tile,
)
from simaccel.program.text import parse_program
from simaccel.workload.vectors.kind import Array
from tests.data_files import data_beside

DATA = data_beside(__file__)

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


@pytest.mark.parametrize(("old", "new", "message"), DATA["faults"])
def test_a_fault_is_refused(old: str, new: str, message: str) -> None:
    tensors = {"X": _random(4, 7), "G": _random(7), "Y": np.full((4, 7), np.nan)}
    assert old in NORM
    with pytest.raises(ProgramError, match=message):
        interpret(parse_program(NORM.replace(old, new)), tensors)


def _operator(name: str, reads: str, makes: str, cores: range | None, kind: str = "") -> Operator:
    def tile(tensor: str) -> Tile:
        view = TensorView(
            name=tensor,
            ranks=("m",),
            shape=(4,),
            bytes_per_element=2,
            kind=kind if tensor == reads else "",
        )
        return Tile(name=tensor, view=view, shape=(4,))

    body = (Load(tile=tile(reads)), Store(tile=tile(makes)))
    return Operator(name=name, body=body, cores=cores)


def _found(*body: Node) -> dict[str, tuple[CoreDependence, ...]]:
    return dependences(Program(name="test", body=body))


ONE, TWO = range(1), range(1, 2)


def test_who_reads_what_another_core_makes_waits_for_it() -> None:
    found = _found(_operator("a", "X", "T", ONE), _operator("b", "T", "U", TWO))
    assert found == {"a": (), "b": (CoreDependence("a", now=True),)}


def test_who_writes_what_another_core_reads_or_writes_waits_for_it() -> None:
    found = _found(
        _operator("a", "T", "U", ONE), _operator("b", "X", "T", TWO), _operator("c", "X", "U", TWO)
    )
    assert found["b"] == (CoreDependence("a", now=True),)
    assert found["c"] == (CoreDependence("a", now=True),)


def test_nobody_waits_for_who_is_on_all_of_its_cores() -> None:
    """Engines come to the ends of operators one after the other."""
    a = _operator("a", "X", "T", None)
    assert _found(a, _operator("b", "T", "U", TWO))["b"] == ()
    a = _operator("a", "X", "T", TWO)
    assert _found(a, _operator("b", "T", "U", None))["b"] == (CoreDependence("a", now=True),)


def test_without_places_nobody_waits() -> None:
    found = _found(_operator("a", "X", "T", None), _operator("b", "T", "U", None))
    assert found == {"a": (), "b": ()}


def _layers(*body: Node) -> ProgramLoop:
    return ProgramLoop(rank="layer", trips=3, body=body)


def test_who_reads_what_nobody_in_its_layer_makes_waits_for_the_layer_before() -> None:
    """But for weights; and who writes waits for those that read it in the layer before."""
    found = _found(_layers(_operator("a", "X", "T", ONE), _operator("b", "T", "Y", TWO)))
    before = CoreDependence("b", now=False, common=True)
    assert found == {"a": (before,), "b": (CoreDependence("a", now=True, common=True),)}
    found = _found(_layers(_operator("a", "X", "T", ONE, "weight"), _operator("b", "T", "Y", TWO)))
    assert found["a"] == (before,)  # it reads what a writes again
    found = _found(_layers(_operator("a", "X", "T", ONE, "weight"), _operator("b", "Z", "Y", TWO)))
    assert found["a"] == ()


def test_who_is_behind_layers_waits_for_all_of_them() -> None:
    last = _operator("c", "T", "Z", TWO)
    found = _found(_layers(_operator("a", "X", "T", ONE)), last)
    (one,) = found["c"]
    assert (one, one.needed_rounds(0)) == (CoreDependence("a", now=True, trips=3), 3)
    found = _found(last, _layers(_operator("a", "Z", "T", ONE)))
    (one,) = found["a"]
    assert [one.needed_rounds(ended) for ended in range(3)] == [1, 1, 1]
