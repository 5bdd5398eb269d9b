"""Which collectives bring a tensor from one layout to another, by hand."""

import pytest

from simaccel.hardware.chips import Axis
from simaccel.mapping.chips.layout import Layout, NoCommonDigitsError, moves, refined

HIGH, LOW = Axis(4, 2), Axis(1, 4)
WHOLE = Layout(((), ()))
ROWS, COLS = Layout(((LOW,), ())), Layout(((), (LOW,)))
SUMS = Layout(((), ()), frozenset({LOW}))


@pytest.mark.parametrize(
    ("made", "read", "expected"),
    [
        (WHOLE, WHOLE, []),
        (ROWS, ROWS, []),
        (WHOLE, ROWS, []),  # each chip has what it wants
        (ROWS, WHOLE, ["all_gather"]),
        (ROWS, COLS, ["all_to_all"]),
        (SUMS, WHOLE, ["all_reduce"]),
        (SUMS, COLS, ["reduce_scatter"]),
        (Layout(((HIGH,), ()), frozenset({LOW})), Layout(((HIGH,), ())), ["all_reduce"]),
        (Layout(((HIGH,), ()), frozenset({LOW})), Layout(((HIGH, LOW), ())), ["reduce_scatter"]),
        (Layout(((HIGH,), ()), frozenset({LOW})), WHOLE, ["all_reduce", "all_gather"]),
        (Layout(((HIGH, LOW), ())), Layout(((HIGH,), ())), ["all_gather"]),
        (Layout(((HIGH, LOW), ())), Layout(((HIGH,), (LOW,))), ["all_to_all"]),
        (Layout(((HIGH, LOW), ())), Layout(((LOW,), ())), ["all_to_all", "all_gather"]),
        (Layout(((), ()), frozenset({HIGH, LOW})), COLS, ["reduce_scatter", "all_reduce"]),
    ],
)
def test_collectives_between_layouts(made: Layout, read: Layout, expected: list[str]) -> None:
    assert [one.kind for one in moves(made, read)] == expected


def test_digits_that_do_not_refine_one_another_are_refused() -> None:
    assert list(refined(Axis(1, 12), {4, 2})) == [Axis(4, 3), Axis(2, 2), Axis(1, 2)]
    with pytest.raises(NoCommonDigitsError):
        list(refined(Axis(1, 6), {3, 2}))


def test_boxes_of_chips_by_hand() -> None:
    both = Layout(((HIGH, LOW), ()))  # eight chips, one piece each, the first digit first
    assert [both.box((16, 3), chip)[0].start for chip in range(8)] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [ROWS.box((16, 3), chip)[0].start for chip in range(8)] == [0, 4, 8, 12, 0, 4, 8, 12]
