"""Which collectives bring a tensor from one layout to another, by hand."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from simaccel.hardware.chips import ChipAxis
from simaccel.mapping.chips.layout import (
    ChipLayout,
    ChipWindow,
    NoCommonDigitsError,
    moves,
    refine_digits,
)
from tests.draws import DRAWS

HIGH, LOW = ChipAxis(4, 2), ChipAxis(1, 4)
WHOLE = ChipLayout(((), ()))
THIRD, HALF = ChipAxis(2, 3), ChipAxis(1, 2)
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
        # chip 4 h + l is to have parts 2 l and 2 l + 1 of eight: chips of one h have half of those
        (ChipLayout(((HIGH, LOW), ())), ChipLayout(((LOW,), ())), ["all_gather"]),
        (ChipLayout(((HIGH, LOW), ())), ChipLayout(((), (LOW,))), ["all_to_all", "all_gather"]),
        (ROWS, ChipLayout(((HIGH, LOW), ())), ["all_gather"]),
        (ChipLayout(((), ()), frozenset({HIGH, LOW})), COLS, ["reduce_scatter", "all_reduce"]),
    ],
)
def test_collectives_between_layouts(
    made: ChipLayout, read: ChipLayout, expected: list[str]
) -> None:
    assert [one.kind for one in moves(made, read)] == expected


@pytest.mark.parametrize("seed", range(40 * DRAWS))
def test_collectives_bring_what_the_reader_needs(seed: int) -> None:
    """Element by element: chips hand on what they have within a collective, and nothing else."""
    draw, shape = Random(seed), (24, 12)  # noqa: S311 - reproducible, not secret
    digits = draw.choice([[THIRD, HALF], [ChipAxis(6, 2), THIRD, HALF]])
    made, read = _layout(draw, digits, sums=True), _layout(draw, digits, sums=False)
    chips = range(math.prod(one.size for one in digits))
    layout, has = made, [_elements(made, shape, chip) for chip in chips]
    for step in moves(made, read):
        group = [
            chip - sum(d.stride * (chip // d.stride % d.size) for d in step.digits)
            for chip in chips
        ]
        joined = {one: set().union(*(has[c] for c in chips if group[c] == one)) for one in group}
        layout = step.layout
        has = [joined[group[chip]] & _elements(layout, shape, chip) for chip in chips]
        assert all(has[chip] == _elements(layout, shape, chip) for chip in chips)
    assert not layout.partial
    assert all(has[chip] >= _elements(read, shape, chip) for chip in chips)


def test_groups_that_are_alike_are_looked_at_once() -> None:
    """256 groups of 16 chips, in each of which parts of rows become parts of columns."""
    groups, rows, columns = ChipAxis(16, 256), ChipAxis(4, 4), ChipAxis(1, 4)
    made = ChipLayout(((groups, rows), (columns,)))
    read = ChipLayout(((groups, columns), (rows,)))
    (step,) = moves(made, read)
    assert (step.kind, step.digits) == ("all_to_all", (columns, rows))


@pytest.mark.parametrize(
    ("made", "read", "expected"),
    [  # 16 rows in 4 parts
        ((0, 4, 4), (0, 4, 6), [("shift", 2, 4)]),  # 2 rows of the next one
        ((1, 4, 4), (0, 4, 6), [("halo", 2, 4)]),  # one row above, one below
        ((2, 4, 4), (0, 4, 7), [("halo", 4, 4)]),  # two above, one below: padded to two
        ((1, 4, 4), (0, 4, 5), [("shift", 1, 4)]),  # a stride of 2
        ((0, 4, 4), (0, 4, 3), []),  # each has what it needs
        ((4, 4, 4), (0, 4, 12), [("halo", 8, 4)]),  # all of both neighbours
        ((5, 4, 4), (0, 4, 13), [("all_gather", 0, 1)]),  # and more
        ((0, 4, 4), (0, 3, 5), [("all_gather", 0, 1)]),  # not those of the neighbours
    ],
)
def test_halos_by_hand(
    made: tuple[int, int, int], read: tuple[int, int, int], expected: list[tuple[str, int, int]]
) -> None:
    mine, its = (replace(ROWS, windows=(ChipWindow(0, *one),)) for one in (made, read))
    steps = list(moves(mine, its, (21, 3)))
    found = [(one.kind, one.halo or 0) for one in steps]
    assert found == [(kind, Fraction(rows, of)) for kind, rows, of in expected]


@pytest.mark.parametrize("seed", range(40 * DRAWS))
def test_neighbours_send_no_more_than_is_counted(seed: int) -> None:
    """Row by row: a chip has its own, and as many of each neighbour's edge as the step says."""
    draw = Random(seed)  # noqa: S311 - reproducible, not secret
    count, stride, reach = draw.randint(2, 6), draw.randint(1, 3), draw.randint(1, 5)
    rows, border = draw.randint(1, 4), draw.randint(0, 4)
    digits, made_rows = (ChipAxis(1, count),), stride * rows
    size = max(border + count * made_rows, (count * rows - 1) * stride + reach)
    made = ChipLayout((digits,), windows=(ChipWindow(0, border, made_rows, made_rows),))
    reads = ChipWindow(0, 0, made_rows, (rows - 1) * stride + reach)
    steps = list(moves(made, ChipLayout((digits,), windows=(reads,)), (size,)))
    made_by = {border + n: n // made_rows for n in range(count * made_rows)}
    for chip in range(count):
        needed = {reads.start + chip * reads.step + n for n in range(reads.size)} & {*made_by}
        others = {row for row in needed if made_by[row] != chip}
        if [step.kind for step in steps] == ["all_gather"]:
            continue
        sides = 2 if steps and steps[0].kind == "halo" else 1
        edge = int((steps[0].halo or 0) * made_rows) // sides if steps else 0
        for row in others:
            part = row - border - made_by[row] * made_rows
            near = part if made_by[row] > chip else made_rows - 1 - part
            assert abs(made_by[row] - chip) == 1
            assert near < edge
    far = max(border, reads.size - made_rows - border)
    assert far <= made_rows or [step.kind for step in steps] == ["all_gather"]


def _layout(draw: Random, digits: list[ChipAxis], *, sums: bool) -> ChipLayout:
    """Draw which dimension each digit cuts, in which order; 2 and 3: none, or sums lie over it."""
    dims: dict[int, list[ChipAxis]] = {0: [], 1: [], 2: [], 3: []}
    for digit in draw.sample(digits, len(digits)):
        dims[draw.randrange(3 + sums)].append(digit)
    return ChipLayout((tuple(dims[0]), tuple(dims[1])), frozenset(dims[3]))


def _elements(layout: ChipLayout, shape: tuple[int, int], chip: int) -> set[tuple[int, int]]:
    rows, cols = layout.box(shape, chip)
    return set(product(range(rows.start, rows.stop), range(cols.start, cols.stop)))


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
