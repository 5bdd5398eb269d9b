import numpy as np
import pytest

from simaccel.machine.folds import folded_shape
from simaccel.mapping.checks import faults
from simaccel.mapping.view import TensorView
from simaccel.program.fit import require_fit, reserved_slots
from simaccel.program.interpreter import interpret
from simaccel.program.program import (
    Compute,
    DoesNotFitError,
    Folds,
    Load,
    Program,
    ProgramError,
    Tile,
    TransferTraffic,
    commands,
    size,
    transfer_of,
)
from simaccel.program.text import parse_program
from simaccel.workload import gemm
from tests.program.programs import gemm_case, reserved_bytes
from tests.program.tree_cases import CASES
from tests.refusals import refusal_of
from tests.trees import assert_computes

# 2 x 8 B for X, 1 x 16 B for Y; in the second operator, 3 x 12 B for the larger X
TWO = """\
program two
  loop layer 2 from 0 step 1
    operator first
      tile Y 8 x1 of Y[c=8] 2B
      load Y queue 0
      loop c 4 from 0 step 4
        tile X 4 x2 of X[c=16] 2B
        load X queue 1
      store Y
    operator second
      loop c 1 from 0 step 4
        tile X 4 x3 of X[c=16] 2B
        load X queue 0
      loop c 1 from 4 step 6
        tile X 6 x1 of X[c=16] 2B
        load X queue 0
"""

RESIDENT = """\
program resident
  loop kept 1 from 0 step 1
    tile S 10 x1 of S[c=10] 2B
    operator produce
      sfu softmax whole S = S over c=10 axis c of softmax
    operator consume
      loop c 5 from 0 step 1
        tile Z 1 x2 of Z[c=5] 4B
        load Z queue 0
        sfu softmax whole S = S over c=2 axis c of softmax
        store Z
"""


def test_reserved_is_the_slots_of_each_operator_times_its_largest_tile() -> None:
    program = parse_program(TWO)
    assert reserved_slots(program) == {
        "first": {"Y": (16, 1), "X": (8, 2)},
        "second": {"X": (12, 3)},
    }
    assert reserved_bytes(program) == 36


def test_a_resident_tile_counts_for_every_operator_inside() -> None:
    program = parse_program(RESIDENT)
    assert reserved_slots(program) == {
        "produce": {"S": (20, 1)},
        "consume": {"S": (20, 1), "Z": (4, 2)},
    }
    assert reserved_bytes(program) == 28


def test_an_empty_program_reserves_nothing() -> None:
    assert reserved_bytes(Program(name="empty", body=())) == 0


def test_a_double_buffered_gemm_reserves_two_slots_a_tile() -> None:
    whole = gemm(m=12, k=10, n=8)
    tiled = gemm_case(whole, m=5, k=4, n=3, a_slots=2, b_slots=3, out_slots=1)
    assert reserved_slots(tiled.program)["gemm"] == {
        "A": (2 * 5 * 4, 2),
        "B": (2 * 4 * 3, 3),
        "C": (2 * 5 * 3, 1),
    }


def test_what_is_loaded_once_has_one_slot() -> None:
    tiled = gemm_case(gemm(m=12, k=10, n=8), m=5, order="mnk", a_slots=2, b_slots=2, out_slots=2)
    assert reserved_slots(tiled.program)["gemm"]["B"] == (2 * 10 * 8, 1)
    assert reserved_slots(tiled.program)["gemm"]["A"] == (2 * 5 * 10, 2)


def test_a_program_fits_to_the_byte() -> None:
    program = parse_program(TWO)
    require_fit(program, {("buffer",): 36})
    require_fit(program, {("buffer",): None})
    said = refusal_of(require_fit, program, {("buffer",): 35}, error=DoesNotFitError)
    assert said == ("second: tiles need 36 B, the buffer has 35 B, 1 B too many: X 3 x 12 B")


def test_a_refusal_lists_every_tile() -> None:
    said = refusal_of(require_fit, parse_program(TWO), {("buffer",): 10}, error=DoesNotFitError)
    assert said == (
        "first: tiles need 32 B, the buffer has 10 B, 22 B too many: Y 1 x 16 B, X 2 x 8 B"
    )


def test_a_transfer_moves_the_elements_of_the_tile_in_the_width_of_its_tensor() -> None:
    text = TWO.replace("load Y queue 0", "load Y queue 0 from W[c=8] 4B")
    first = next(commands(parse_program(text).body))
    assert isinstance(first, Load)
    view, moved = transfer_of(first)
    assert (view.name, moved) == ("W", TransferTraffic(32, 32))


def test_commands_and_size_count_places_not_trips() -> None:
    program = parse_program(TWO)
    assert [type(c).__name__ for c in commands(program.body)] == [
        "Load",
        "Load",
        "Store",
        "Load",
        "Load",
    ]
    assert size(program) == 11


def _tile(name: str, *ranks: str) -> Tile:
    shape = (1,) * len(ranks)
    return Tile(
        name=name,
        view=TensorView(name=name, ranks=ranks, shape=shape, bytes_per_element=1),
        shape=shape,
    )


def _command(inputs: tuple[Tile, ...], out: Tile, **sizes: int) -> Compute:
    return Compute(
        out=out, inputs=inputs, ranks=tuple(sizes), shape=tuple(sizes.values()), on=Folds("ws")
    )


def test_ranks_play_by_the_tensors_that_they_are_in() -> None:
    q, k = _tile("Q", "b", "h", "q", "d"), _tile("K", "b", "h", "d", "c")
    s = _tile("S", "b", "h", "q", "c")
    command = _command((q, k), s, b=2, h=3, q=5, d=7, c=11)
    assert folded_shape(command) == (6, 5, 7, 11)
    swapped = _command((k, q), s, b=2, h=3, q=5, d=7, c=11)
    assert folded_shape(swapped) == (6, 11, 7, 5)
    assert command.macs == 6 * 5 * 7 * 11


def test_the_reduction_of_a_convolution_is_all_its_ranks_multiplied() -> None:
    image, weight = _tile("I", "n", "c", "2*p+r", "2*q+s"), _tile("W", "m", "c", "r", "s")
    out = _tile("O", "n", "m", "p", "q")
    command = _command((image, weight), out, n=2, m=16, c=3, p=5, q=7, r=3, s=2)
    assert folded_shape(command) == (1, 2 * 5 * 7, 3 * 3 * 2, 16)


def test_a_rank_of_one_may_be_anywhere() -> None:
    a, b, c = _tile("A", "m", "k", "x"), _tile("B", "k", "n"), _tile("C", "m", "n")
    assert folded_shape(_command((a, b), c, m=2, k=3, n=4, x=1, y=1)) == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"m": 2, "k": 3, "n": 4, "x": 2}, "rank x of size 2 can't be folded: it has to be in two"),
        ({"m": 2, "z": 3}, "rank z of size 3 can't be folded: .* of A, B, C, or in all three"),
    ],
)
def test_a_rank_that_plays_nothing_is_refused(sizes: dict[str, int], message: str) -> None:
    a, b, c = _tile("A", "m", "k", "x"), _tile("B", "k", "n"), _tile("C", "m", "n")
    with pytest.raises(ProgramError, match=message):
        folded_shape(_command((a, b), c, **sizes))


def test_folds_multiply_two_inputs() -> None:
    a, c = _tile("A", "m", "k"), _tile("C", "m")
    with pytest.raises(ProgramError, match="C: folds multiply two inputs, this command has 1"):
        folded_shape(_command((a,), c, m=2, k=3))


CONVOLUTION = """\
program conv
  operator O
    tile I 3x9 x1 of I[c=3,2*p+r=9] 2B
    tile W 4x3x3 x1 of W[m=4,c=3,r=3] 2B
    load I queue 0
    load W queue 1
    loop p 2 from 0 step 2
      tile O 4x2 x1 of O[m=4,p=4] 2B
      compute O = I W over m=4 p=2 c=3 r=3 folds ws 4x2
      store O
"""


def test_a_folded_convolution_is_executed_by_rank() -> None:
    random = np.random.default_rng(0)
    image, weight = random.integers(0, 9, (3, 9)), random.integers(0, 9, (4, 3, 3))
    tensors = {"I": image.astype(float), "W": weight.astype(float), "O": np.full((4, 4), np.nan)}
    made = interpret(parse_program(CONVOLUTION), tensors)["O"]
    windows = np.stack([image[:, 2 * p : 2 * p + 3] for p in range(4)])
    np.testing.assert_array_equal(made, np.einsum("pcr,mcr->mp", windows, weight))


@pytest.mark.parametrize("name", CASES)
def test_a_tree_computes_what_numpy_does(name: str) -> None:
    of, one = CASES[name]
    assert faults(of, one) == []
    assert_computes(of, one)
