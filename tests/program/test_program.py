import pytest

from simaccel.program.fit import require_fit, reserved_bytes, reserved_slots
from simaccel.program.program import (
    DoesNotFitError,
    Load,
    Program,
    TransferTraffic,
    commands,
    size,
    transfer_of,
)
from simaccel.program.text import parse_program
from simaccel.workload import gemm
from tests.program.programs import gemm_case

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
    with pytest.raises(DoesNotFitError) as refusal:
        require_fit(program, {("buffer",): 35})
    assert str(refusal.value) == (
        "second: tiles need 36 B, the buffer has 35 B, 1 B too many: X 3 x 12 B"
    )


def test_a_refusal_lists_every_tile() -> None:
    with pytest.raises(DoesNotFitError) as refusal:
        require_fit(parse_program(TWO), {("buffer",): 10})
    assert str(refusal.value) == (
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
