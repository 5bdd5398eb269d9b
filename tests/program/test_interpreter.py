"""What the interpreter refuses: each fault in a program that is right but for one line."""

import numpy as np
import pytest

from simaccel.program.interpreter import interpret
from simaccel.program.program import Operator, Program, ProgramError, ProgramLoop
from simaccel.program.text import parse_program
from simaccel.workload.vectors.kind import Array
from tests.data_files import data_beside

DATA = data_beside(__file__)

GEMM = """\
program p
  operator gemm
    loop m 2 from 0 step 2
      tile A 2x4 x2 of A[m=4,k=4] 2B
      tile C 2x3 x2 of C[m=4,n=3] 2B
      load A queue 0
      loop k 1 from 0 step 2
        tile B 2x3 x2 of B[k=4,n=3] 2B
        load B queue 1
        compute C = A B over g=1 m=2 k=2 n=3 folds ws
      loop k 1 from 2 step 2
        tile B 2x3 x2 of B[k=4,n=3] 2B
        load B queue 1
        compute C += A B over g=1 m=2 k=2 n=3 folds ws
      store C
"""

SOFTMAX = """\
program p
  operator softmax
    loop q 2 from 0 step 2
      tile X 2x5 x2 of X[q=4,c=5] 2B
      load X queue 0
      sfu softmax whole X = X over q=2 c=5 axis c scale 0.5 of softmax
      store X into Y[q=4,c=5] 2B
"""


def _tensors() -> dict[str, Array]:
    numbers = np.random.default_rng(3)
    return {
        "A": numbers.normal(size=(4, 4)),
        "B": numbers.normal(size=(4, 3)),
        "C": np.full((4, 3), np.nan),
        "X": numbers.normal(size=(4, 5)),
        "Y": np.full((4, 5), np.nan),
    }


def _without(text: str, line: str) -> str:
    assert line in text
    return "\n".join(one for one in text.splitlines() if one.strip() != line)


def test_the_gemm_is_computed() -> None:
    tensors = _tensors()
    result = interpret(parse_program(GEMM), tensors)
    np.testing.assert_allclose(result["C"], tensors["A"] @ tensors["B"])


@pytest.mark.parametrize("ahead", ["", " ahead 1"])
def test_the_softmax_is_computed(ahead: str) -> None:
    """Where loads run ahead two rows are alive at once; each softmax still gets its own."""
    tensors = _tensors()
    powers = np.exp(0.5 * tensors["X"])
    result = interpret(parse_program(SOFTMAX.replace("step 2", f"step 2{ahead}")), tensors)
    np.testing.assert_allclose(result["Y"], powers / powers.sum(axis=1, keepdims=True))


def test_large_logits_do_not_overflow() -> None:
    tensors = _tensors()
    tensors["X"] = tensors["X"] + 10_000.0
    assert np.isfinite(interpret(parse_program(SOFTMAX), tensors)["Y"]).all()


@pytest.mark.parametrize(("of", "old", "new", "message"), DATA["faults"])
def test_a_fault_is_refused(of: str, old: str, new: str, message: str) -> None:
    text = {"gemm": GEMM, "softmax": SOFTMAX}[of]
    assert old in text
    with pytest.raises(ProgramError, match=message):
        interpret(parse_program(text.replace(old, new, 1)), _tensors())


def test_an_output_that_was_never_stored_stays_unwritten() -> None:
    result = interpret(parse_program(_without(GEMM, "store C")), _tensors())
    assert np.isnan(result["C"]).all()


def test_a_tile_is_gone_after_its_body() -> None:
    good = parse_program(GEMM)
    (operator,) = good.body
    assert isinstance(operator, Operator)
    (loop,) = operator.body
    assert isinstance(loop, ProgramLoop)
    late = Operator(name="late", body=(loop, loop.body[-1]))
    with pytest.raises(ProgramError, match="tile C is used outside the body that declares it"):
        interpret(Program(name="late", body=(late,)), _tensors())


def test_a_tile_is_not_declared_twice() -> None:
    text = (
        GEMM.replace("tile B 2x3 x2 of B[k=4", "tile A 2x3 x2 of B[k=4")
        .replace("load B", "load A")
        .replace("= A B", "= A A")
    )
    with pytest.raises(ProgramError, match="tile A is declared while it is alive"):
        interpret(parse_program(text), _tensors())


def test_a_new_iteration_has_an_empty_tile() -> None:
    """What the last iteration left in the slot is no input of this one."""
    text = """\
program p
  operator late
    loop q 2 from 0 step 1
      tile X 1x5 x1 of X[q=4,c=5] 2B
      loop c 1 from 0 step 1
        sfu softmax whole X = X over q=1 c=5 axis c of softmax
      load X queue 0
"""
    with pytest.raises(ProgramError, match="tile X is read before it is written"):
        interpret(parse_program(text), _tensors())
