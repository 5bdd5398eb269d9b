"""Which collectives bring a tensor from one layout to another, by hand."""

import pytest

from simaccel.hardware.chips import ChipAxis
from simaccel.mapping.chips.layout import ChipLayout, NoCommonDigitsError, moves, refine_digits

HIGH, LOW = ChipAxis(4, 2), ChipAxis(1, 4)
WHOLE = ChipLayout(((), ()))
ROWS, COLS = ChipLayout(((LOW,), ())), ChipLayout(((), (LOW,)))
SUMS = ChipLayout(((), ()), frozenset({LOW}))


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
        (ChipLayout(((HIGH,), ()), frozenset({LOW})), ChipLayout(((HIGH,), ())), ["all_reduce"]),
        (
            ChipLayout(((HIGH,), ()), frozenset({LOW})),
            ChipLayout(((HIGH, LOW), ())),
            ["reduce_scatter"],
        ),
        (ChipLayout(((HIGH,), ()), frozenset({LOW})), WHOLE, ["all_reduce", "all_gather"]),
        (ChipLayout(((HIGH, LOW), ())), ChipLayout(((HIGH,), ())), ["all_gather"]),
        (ChipLayout(((HIGH, LOW), ())), ChipLayout(((HIGH,), (LOW,))), ["all_to_all"]),
        (ChipLayout(((HIGH, LOW), ())), ChipLayout(((LOW,), ())), ["all_to_all", "all_gather"]),
        (ChipLayout(((), ()), frozenset({HIGH, LOW})), COLS, ["reduce_scatter", "all_reduce"]),
    ],
)
def test_collectives_between_layouts(
    made: ChipLayout, read: ChipLayout, expected: list[str]
) -> None:
    assert [one.kind for one in moves(made, read)] == expected


def test_digits_that_do_not_refine_one_another_are_refused() -> None:
    assert list(refine_digits(ChipAxis(1, 12), {4, 2})) == [
        ChipAxis(4, 3),
        ChipAxis(2, 2),
        ChipAxis(1, 2),
    ]
    with pytest.raises(NoCommonDigitsError):
        list(refine_digits(ChipAxis(1, 6), {3, 2}))


def test_boxes_of_chips_by_hand() -> None:
    both = ChipLayout(((HIGH, LOW), ()))  # eight chips, one piece each, the first digit first
    assert [both.box((16, 3), chip)[0].start for chip in range(8)] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [ROWS.box((16, 3), chip)[0].start for chip in range(8)] == [0, 4, 8, 12, 0, 4, 8, 12]
