import pytest
from hypothesis import given

from simaccel.mapping.view import TensorView
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.program import (
    Load,
    Operator,
    Program,
    ProgramError,
    ProgramLoop,
    Reserve,
    Sfu,
    Store,
    Tile,
    commands,
    tiles_of,
)
from simaccel.program.text import parse_program, program_text
from tests.data_files import data_beside
from tests.program.programs import Case, cases
from tests.program.tree import softmax_of

DATA = data_beside(__file__)

SMALL = """\
program small
  operator scale
    loop q 3 from 1 step 2 ahead 1
      tile X 2x5 x2 at 0,1 of X[q=7,c=6] 4B
      load X queue 1 from Y[q=7,c=6] 2B
      sfu softmax whole X = X over q=2 c=5 axis c scale 0.5 of softmax
      store X into Z[q=7,c=6] 2B
"""


@given(cases())
def test_a_lowered_program_parses_back(case: Case) -> None:
    text = program_text(case.program)
    assert parse_program(text) == case.program
    assert program_text(parse_program(text)) == text


def test_text_says_every_field() -> None:
    x = TensorView(name="X", ranks=("q", "c"), shape=(7, 6), bytes_per_element=4)
    y = TensorView(name="Y", ranks=("q", "c"), shape=(7, 6), bytes_per_element=2)
    z = TensorView(name="Z", ranks=("q", "c"), shape=(7, 6), bytes_per_element=2)
    tile = Tile(name="X", view=x, shape=(2, 5), slots=2, origin=(0, 1))
    loop = ProgramLoop(
        rank="q",
        trips=3,
        start=1,
        step=2,
        ahead=1,
        tiles=(tile,),
        body=(
            Load(tile=tile, queue=1, view=y),
            softmax_of(tile, (2, 5), 0.5),
            Store(tile=tile, view=z),
        ),
    )
    program = Program(name="small", body=(Operator(name="scale", body=(loop,)),))
    assert program_text(program) == SMALL
    assert parse_program(SMALL) == program


def test_sfu_lines_say_every_field() -> None:
    text = """\
program p
  operator norm
    tile X 2x3 x1 of X[q=2,c=3] 2B
    tile G 3 x1 of G[c=3] 2B
    tile Y 2x3 x1 of Y[q=2,c=3] 2B
    sfu rms_norm whole Y = X G over q=2 c=3 axis c of ffn norm
    sfu softmax rescale Y = Y over q=2 c=3 of softmax
    sfu scale whole Y = Y over q=2 c=3 scale 0.25 of scale
"""
    program = parse_program(text)
    (operator,) = program.body
    assert isinstance(operator, Operator)
    x, g, y = operator.tiles
    assert operator.body[0] == Sfu(
        operator="ffn norm",
        work="rms_norm",
        step="whole",
        out=y,
        inputs=(x, g),
        ranks=("q", "c"),
        shape=(2, 3),
        axis="c",
    )
    assert [len(tiles_of(command)) for command in commands(operator.body)] == [3, 1, 1]
    assert program_text(program) == text


def test_reserve_and_compute_lines() -> None:
    text = """\
program p
  operator gemm
    tile C 1x2x3 x1 of C[g=1,m=2,n=3] 2B
    tile A 1x2x4 x1 of A[g=1,m=2,k=4] 2B
    tile B 1x4x3 x1 of B[g=1,k=4,n=3] 2B
    reserve C queue 2
    compute C = A B over g=1 m=2 k=4 n=3 folds os
    compute C += A B over g=1 m=2 k=4 n=3 folds is
    compute C += A B over m=2 k=4 n=3 folds ws 32x16
    compute C += A B over m=2 k=4 n=3 folds ws -x16
    compute C += A B over m=2 k=4 n=3 steps 6 on 2x2 reads 8/16 0/24 0/0 writes 12/12
"""
    program = parse_program(text)
    (operator,) = program.body
    assert isinstance(operator, Operator)
    assert operator.body[0] == Reserve(tile=operator.tiles[0], queue=2)
    assert program_text(program) == text


def test_lines_of_loops_and_operators_on_cores_say_every_field() -> None:
    text = """\
program p
  operator L on cores 2-3
    loop m 4 from 0 step 8 on core 0 step 2
    loop m 4 from 0 step 8 hands on S,T awaits Q 5 for 4, R 2 for 1 ahead 3
"""
    program = parse_program(text)
    (operator,) = program.body
    assert isinstance(operator, Operator)
    spread, awaiting = operator.body
    assert operator.cores == range(2, 4)
    assert spread == ProgramLoop(rank="m", trips=4, step=8, core=0, cores_apart=2)
    assert awaiting == ProgramLoop(
        rank="m",
        trips=4,
        step=8,
        hands_on=("S", "T"),
        awaits=(AwaitedTiles("Q", 5, 4), AwaitedTiles("R", 2, 1, 3)),
    )
    assert program_text(program) == text


@pytest.mark.parametrize("scale", [1 / 3, 0.1, 1e-300, 5.0e22])
def test_a_scale_keeps_every_bit(scale: float) -> None:
    text = SMALL.replace("scale 0.5", f"scale {scale!r}")
    assert program_text(parse_program(text)) == text


def test_blank_lines_and_trailing_spaces_are_nothing() -> None:
    spaced = SMALL.replace("\n", "  \n\n")
    assert program_text(parse_program(spaced)) == SMALL


@pytest.mark.parametrize(("old", "new", "message"), DATA["errors"])
def test_a_faulty_line_is_named(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(ProgramError, match=message):
        parse_program(SMALL.replace(old, new, 1))


def test_an_unknown_stationarity_is_refused_with_what_is_allowed() -> None:
    text = """\
program p
  operator gemm
    tile A 1x1x1 x1 of A[g=1,m=1,k=1] 2B
    compute A = A A over g=1 m=1 k=1 n=1 folds rs
"""
    with pytest.raises(ProgramError, match=r"line 4: .*: rs: one of ws, os, is"):
        parse_program(text)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(ProgramError, match="line 1"):
        parse_program(text)
