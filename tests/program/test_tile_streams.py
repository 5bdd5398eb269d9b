"""Tiles that go from core to core: which loops hand them on, and that nothing is read too early."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from simaccel.diagnosis.check import check
from simaccel.mapping.text import parse_text
from simaccel.mapping.tile_streams import tile_streams
from simaccel.mapping.tree import Mapping
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.lowering import lower
from simaccel.workload import Workload, build
from tests.drawn_places import draw_placed, draw_windows
from tests.drawn_trees import Drawn
from tests.draws import seeds
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
    names = [operator.name for operator in of.operators]
    for name, tree, place in zip(names, (first, second), places, strict=True):
        group = f"  group {name} on cores {place}" if place else f"  group {name}"
        lines += [group.replace("cores 0-0", "core 0").replace("cores 1-1", "core 1")]
        lines += [f"    {node.strip()}" for node in tree.split(";")]
    return parse_text("\n".join([*lines, ""]))


_ROWS = "loop m 4; keep X buffer, W buffer, S buffer; do one array ws"
_READ = "loop m 4; keep S buffer x2, V buffer, Y buffer; do two array ws"


def _two_filters(filter_rows: int, stride: int) -> Workload:
    """S = X * V, then Y = S * W with five rows."""
    rows = 4 * stride + filter_rows
    return workload(
        einsum("one", "S m p", "X c p", "V m c", m=3, c=2, p=rows),
        einsum("two", "Y n p", f"S m {stride}*p+r", "W n m r", n=2, m=3, p=5, r=filter_rows),
        weights=["V", "W"],
    )


def _filters(of: Workload, made: int, read: int) -> Mapping:
    first = f"loop p {made}; keep X buffer, V buffer, S buffer; do one array ws"
    second = f"loop p {read}; keep S buffer, W buffer, Y buffer; do two array ws"
    return _mapping(of, first, second)


@pytest.mark.parametrize(
    ("filter_rows", "stride", "made", "read", "expected"),
    [
        (3, 1, 2, 2, (4, 3, 1)),  # rows 0-1, 2-3, ...; the first two read rows 0-3
        (3, 1, 1, 1, (7, 5, 2)),
        (3, 2, 2, 1, (6, 5, 1)),  # row 2p + 2 is in the next tile
        (2, 2, 4, 2, (3, 3, 0)),  # windows that do not overlap
        (1, 2, 4, 2, (3, 3, 0)),  # windows with gaps
    ],
)
def test_windows_need_tiles_ahead(
    filter_rows: int, stride: int, made: int, read: int, expected: tuple[int, int, int]
) -> None:
    of = _two_filters(filter_rows, stride)
    mapping = _filters(of, made, read)
    (stream,) = tile_streams(of, mapping)
    assert (stream.made, stream.read, stream.ahead) == expected
    _require_in_time(of, mapping)


@pytest.mark.parametrize(("stride", "made", "read"), [(1, 2, 1), (1, 1, 2), (2, 2, 2)])
def test_windows_that_move_by_other_steps_hand_on_nothing(
    stride: int, made: int, read: int
) -> None:
    of = _two_filters(3, stride)
    assert tile_streams(of, _filters(of, made, read)) == ()


def test_rows_of_zeros_are_not_waited_for() -> None:
    """Of 58 rows that a 3 x 3 filter reads, 56 are made: 7 tiles of 8, of which each needs two."""
    of = build("resnet50").select_operators(["res2a_branch2a", "res2a_branch2b"])
    first, second = (
        f"loop p 8; keep {given} buffer, {name}.W buffer, {name}.O buffer; do {name} array ws"
        for given, name in (("pool1.O", "res2a_branch2a"), ("res2a_branch2a.O", "res2a_branch2b"))
    )
    mapping = _mapping(of, first, second)
    (stream,) = tile_streams(of, mapping)
    assert (stream.made, stream.read, stream.ahead) == (7, 7, 1)
    assert _require_in_time(of, mapping) == 1


def _require_in_time(of: Workload, mapping: Mapping) -> int:
    """Require that nothing is read before it is handed on; return the number of streams.

    Of groups on one core each, as cores of one group do the same to other parts.
    """
    groups = {group.name: group for group in mapping.groups}
    program, seen = lower(of, mapping), 0
    for stream in tile_streams(of, mapping):
        if any(len(groups[name].place or ()) != 1 for name in (stream.maker, stream.reader)):
            continue
        made = stored_order(program, stream.maker, stream.tensor)
        read = read_order(program, stream.reader, stream.tensor)
        assert made.count % stream.made == read.count % stream.read == 0
        assert made.count // stream.made == read.count // stream.read
        whole = set[tuple[int, ...]]().union(*made.tiles)
        tiles = AwaitedTiles(stream.tensor, stream.made, stream.read, stream.ahead)
        for number in range(read.count):
            stored = set[tuple[int, ...]]().union(*made.tiles[: tiles.needed_count(number)])
            assert read.tiles[number + 1] & whole <= stored, (stream, number)
        assert not read.tiles[0]
        seen += 1
    return seen


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


def test_layers_that_run_once_hand_nothing_on_to_those_that_are_repeated() -> None:
    """S is made once, before the first of three layers: no tile of it for each."""
    of = _two_products()
    assert len(tile_streams(of, _mapping(of, _ROWS, _READ))) == 1
    repeated = replace(of, repeat=3)
    assert len(tile_streams(repeated, _mapping(repeated, _ROWS, _READ))) == 1
    apart = replace(repeated, once=frozenset({"one"}))
    assert tile_streams(apart, _mapping(apart, _ROWS, _READ)) == ()


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


@pytest.mark.parametrize("draw", [draw_placed, draw_windows])
def test_drawn_programs_read_nothing_before_it_is_handed_on(
    draw: Callable[[int], Drawn | None],
) -> None:
    cases = filter(None, map(draw, seeds(24)))
    assert sum(_require_in_time(case.of, case.mapping) for case in cases) > 0
