"""Tiles that go from core to core: which loops hand them on, and that nothing is read too early."""

import pytest

from simaccel.experiment.check import check
from simaccel.mapping.text import parse_text
from simaccel.mapping.tile_streams import tile_streams
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.workload import Workload
from tests.drawn_places import draw_placed
from tests.draws import DRAWS
from tests.program.tile_order import read_order, stored_order
from tests.trees import einsum, workload


def _two_products() -> Workload:
    """S = X W, then Y = S V: 10 x 4 x 6 and 10 x 6 x 3."""
    return workload(
        einsum("one", "S m n", "X m k", "W k n", m=10, k=4, n=6),
        einsum("two", "Y m n", "S m k", "V k n", m=10, k=6, n=3),
        weights=["W", "V"],
    )


_Places = tuple[str, str]
_APART = "0-0", "1-1"


def _mapping(of: Workload, first: str, second: str, places: _Places = _APART) -> Mapping:
    lines = [f"mapping hand of {of.name} {of.fingerprint}"]
    for name, tree, place in zip(("one", "two"), (first, second), places, strict=True):
        group = f"  group {name} on cores {place}" if place else f"  group {name}"
        lines += [group.replace("cores 0-0", "core 0").replace("cores 1-1", "core 1")]
        lines += [f"    {node.strip()}" for node in tree.split(";")]
    return parse_text("\n".join([*lines, ""]))


_ROWS = "loop m 4; keep X buffer, W buffer, S buffer; do one array ws"
_READ = "loop m 4; keep S buffer x2, V buffer, Y buffer; do two array ws"


def _streams(first: str, second: str, places: _Places = _APART) -> list[tuple[object, ...]]:
    of = _two_products()
    found = tile_streams(of, _mapping(of, first, second, places))
    return [(one.tensor, one.maker_ranks, one.reader_ranks) for one in found]


def test_equal_outer_loops_hand_on_tiles() -> None:
    assert _streams(_ROWS, _READ) == [("S", ("m",), ("m",))]


def test_columns_that_the_reader_sums_over_are_tiles_too() -> None:
    made = "loop n 4; loop m 5; keep X buffer, W buffer, S buffer; do one array ws"
    read = "loop k 4; loop m 5; keep S buffer, V buffer, Y buffer; do two array ws"
    assert _streams(made, read) == [("S", ("n", "m"), ("k", "m"))]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (_ROWS, _READ.replace("m 4", "m 5"), "tiles of another size"),
        (_ROWS, "loop n 2; " + _READ, "the reader comes to a tile again"),
        ("loop k 2; " + _ROWS, _READ, "sums that are not done"),
        ("keep S buffer; loop m 4; keep X buffer, W buffer; do one array ws", _READ, "kept whole"),
        (_ROWS, "keep S buffer; loop m 4; keep V buffer, Y buffer; do two array ws", "read whole"),
        (_ROWS.replace("m 4", "m 10"), _READ.replace("m 4", "m 10"), "one piece"),
    ],
)
def test_what_hands_on_nothing(first: str, second: str, why: str) -> None:
    assert _streams(first, second) == [], why


@pytest.mark.parametrize("places", [("0-1", "1-1"), ("", "1-1"), ("0-0", "")])
def test_groups_with_a_core_in_common_wait_for_the_end(places: _Places) -> None:
    assert _streams(_ROWS, _READ, places) == []


def test_a_loop_of_one_piece_is_none() -> None:
    read = "loop k 6; " + _READ
    assert _streams(_ROWS, read) == [("S", ("m",), ("m",))]


def test_the_program_says_what_is_handed_on() -> None:
    """10 rows in tiles of 4: two full ones in a loop, and one of two rows beside it."""
    of = _two_products()
    program = lower(of, _mapping(of, _ROWS, _READ))
    check(of, _mapping(of, _ROWS, _READ), program)
    made, read = stored_order(program, "one", "S"), read_order(program, "two", "S")
    assert [len(tile) for tile in made.tiles] == [24, 24, 12, 0]
    assert read.tiles == [set(), *made.tiles[:3]]


def test_drawn_programs_read_nothing_before_it_is_handed_on() -> None:
    """On one core each, as cores of one group do the same to other parts."""
    seen = 0
    for seed in range(60 * DRAWS):
        case = draw_placed(seed)
        if case is None:
            continue
        for stream in tile_streams(case.of, case.mapping):
            groups = {group.name: group for group in case.mapping.groups}
            both = groups[stream.maker], groups[stream.reader]
            if any(len(group.place or ()) != 1 for group in both):
                continue
            program = lower(case.of, case.mapping)
            made = stored_order(program, stream.maker, stream.tensor)
            read = read_order(program, stream.reader, stream.tensor)
            assert made.count == read.count > 1
            for number in range(1, read.count + 1):
                stored = set[tuple[int, ...]]().union(*made.tiles[:number])
                assert read.tiles[number] <= stored, (seed, stream, number)
            assert not read.tiles[0]
            seen += 1
    assert seen > 0
