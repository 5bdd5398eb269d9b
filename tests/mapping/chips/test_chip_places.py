"""Groups on some chips of a pod: text, faults by name, time lines by hand, tiles, values."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from simaccel.analytic.prediction import predict
from simaccel.diagnosis.check_chips import check_chips
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Run
from simaccel.mapping.checks import faults
from simaccel.mapping.chips.sharding import pod_of
from simaccel.mapping.documents import mapping_document, parse_mapping
from simaccel.mapping.text import parse_text, tree_text
from simaccel.mapping.tree import Mapping
from simaccel.program.exchanges import lower_pod
from simaccel.program.text import parse_program, program_text
from simaccel.study.experiment import simulate
from tests.agreement import run_exactly
from tests.drawn_chips import DrawnPod, draw_pod_of_places
from tests.draws import seeds
from tests.mapping.chips.feed_forward import chain, feed_forward, free_chips, spread
from tests.program.tile_order import read_order, stored_order
from validation.pods.places import run_places


def _mapping(first: str, second: str, rows: int = 8, made: int | None = None) -> Mapping:
    """Return one group on each place; ``rows`` of a tile that is read, ``made`` of one made."""
    of = chain()
    lines = [f"mapping hand of {of.name} {of.fingerprint}"]
    for name, weight, place, inside, outside, tile in (
        ("one", "W", first, "X", "S", made or rows),
        ("two", "V", second, "S", "Y", rows),
    ):
        lines += [f"  group {name}{place and ' on '}{place}", f"    keep {weight} buffer"]
        lines += [f"    loop m {tile}"] * (tile < 8)
        lines += [f"    keep {inside} buffer, {outside} buffer", f"    do {name} array ws"]
    return parse_text("\n".join([*lines, ""]))


_pod = partial(free_chips, chunk_bytes=4096)


def _run(mapping: Mapping, on: Accelerator) -> Run:
    return simulate(chain(), on, mapping).run


def test_a_tensor_goes_to_another_chip_when_it_is_made() -> None:
    """18 cycles of a fold; 64 B in 16 cycles and 5 on their way; 18 cycles of a fold."""
    assert _run(_mapping("chip 0", "chip 1"), _pod()).cycles == 18 + 16 + 5 + 18


def test_each_link_on_the_way_takes_its_latency() -> None:
    """Two links from chip 0 to chip 2 of a ring of four; one to chip 3."""
    on = _pod(4)
    assert _run(_mapping("chip 0", "chip 2"), on).cycles == 18 + 16 + 2 * 5 + 18
    assert _run(_mapping("chip 0", "chip 3"), on).cycles == 18 + 16 + 5 + 18


def test_tiles_go_as_they_are_made() -> None:
    """A fold of 4 rows takes 14 cycles; tiles of 32 B are there at 14 + 8 + 5 and 28 + 13."""
    run = _run(_mapping("chip 0", "chip 1", rows=4), _pod())
    assert run.cycles == max(14 + 13 + 14, 28 + 13) + 14
    assert run.moved["link_write", "S"] == run.moved["link_read", "S.chip1"] == 64


def test_other_tiles_go_as_a_whole() -> None:
    """Two tiles are made in 28 cycles, four of 2 rows are read, of 12 cycles each."""
    run = _run(_mapping("chip 0", "chip 1", rows=2, made=4), _pod())
    assert run.cycles == 28 + 16 + 5 + 4 * 12


def test_groups_on_one_place_come_one_after_the_other() -> None:
    """Nothing is sent; all that the other chip does is nothing."""
    run = _run(_mapping("chip 1", "chip 1"), _pod())
    assert run.cycles == 18 + 18
    assert not any(level.startswith("link") for level, _ in run.moved)


def test_the_reader_waits_for_the_links() -> None:
    """Its array has nothing to do for 39 cycles, whose roots are the maker and the link."""
    stalls = _run(_mapping("chip 0", "chip 1"), _pod()).engines["chip1.array"].stalls
    assert stalls == {"array": 18, "link": 21}


def test_text_and_document() -> None:
    """A mapping with chips, and with cores of chips, is what it was after both."""
    mapping = _mapping("chips 0-3 core 1", "chips 4-7 cores 0-1")
    assert mapping.groups[0].chips == range(4)
    assert mapping.groups[0].place == range(1, 2)
    assert parse_text(tree_text(mapping)) == mapping
    assert parse_mapping(mapping_document(mapping), "here") == mapping


def _program_of(mapping: Mapping, on: Accelerator) -> str:
    return program_text(lower_pod(pod_of(chain(), mapping, on), on))


def test_the_program_says_who_sends_what_to_whom() -> None:
    """Its text can be read, and has the marks of tiles."""
    on = _pod()
    text = _program_of(_mapping("chip 0", "chip 1", rows=4), on)
    assert program_text(parse_program(text)) == text
    lines = [line.strip() for line in text.splitlines()]
    assert "link send S = S over 1 of 32B" in lines
    assert "link receive S.chip1 = S.chip1 over 1 of 32B" in lines
    assert lines.count("operator S.send on cores 1023-1023") == 1


_PLACES = [
    ("chips 0-1", "chips 1-2", 4, "groups[1].place", "chips 0-1 as groups[0] (one) has, or none"),
    ("chips 0-1", "chip 2", 4, "groups[1].place", "2 chips, like chips 0-1 as groups[0]"),
    ("chip 0", "chip 4", 4, "groups[1].place", "chips 0 to 3"),
    ("chip 0", "", 4, "groups[1].place", "chips, as groups[0] has"),
    ("chips 1-2", "chips 1-2", 4, "groups[0].place", "a multiple of their number, 2"),
    ("chips 0-2", "chips 0-2", 4, "groups[0].place", "a pod of their own: 1, 2, 4"),
    ("chip 0 core 1", "chip 1", 4, "groups[0].place", "cores 0 to 0, as cores.count is 1"),
]


@pytest.mark.parametrize(("first", "second", "count", "field", "allowed"), _PLACES)
def test_wrong_places(first: str, second: str, count: int, field: str, allowed: str) -> None:
    """What overlaps, differs in number, or isn't there is refused by name."""
    on = _pod(count, topology="switch")
    found = faults(chain(), _mapping(first, second), on)
    assert [fault.field for fault in found][:1] == [field]
    assert allowed in found[0].allowed


def test_a_group_of_a_ring_is_one_chip_or_all() -> None:
    """Two of four chips of a ring are no ring."""
    found = faults(chain(), _mapping("chips 0-1", "chips 2-3"), _pod(4))
    assert "1, 4" in found[0].allowed


def test_a_layer_goes_on_where_the_next_one_begins() -> None:
    """What a repeated layer makes on other chips than it reads from is refused."""
    ff = replace(feed_forward(m=4, e=4, f=4), repeat=2)
    plain = spread(ff)
    groups = tuple(
        replace(group, chips=range(at, at + 1))
        for group, at in zip(plain.groups, (0, 0, 0, 1), strict=True)
    )
    found = faults(ff, replace(plain, body=groups), _pod(2))
    assert "which it is in the next layer" in found[0].allowed


def _each(check: Callable[[DrawnPod], int]) -> int:
    drawn = map(draw_pod_of_places, seeds(7))
    return sum(check(case) for case in drawn if case is not None)


def test_counts_bound_fast_forward_and_values() -> None:
    """No run is below its bound, moves other bytes than are counted, or makes other values."""

    def check(case: DrawnPod) -> int:
        on, pod = case.on, case.pod
        program = lower_pod(pod, on)
        run = run_exactly(on, program)
        predicted = predict(pod.workload, pod.mapping, on, pod.exchanges, pod.parts)
        assert predicted.bound_cycles <= run.cycles
        assert predicted.moved == {key: n for key, n in run.moved.items() if n}
        for name in predicted.resources.keys() & run.engines.keys():
            assert predicted.resources[name] == run.engines[name].busy
        check_chips(case.of, pod)
        return sum(one.is_message for one in pod.exchanges)

    assert _each(check) > 0


def test_all_chips_do_what_one_of_each_place_does() -> None:
    """Each chip on a machine of its own, with messages between: the same figures."""

    def check(case: DrawnPod) -> int:
        assert list(run_places(case.pod, case.on)) == []
        return len(case.pod.places)

    assert _each(check) > 0


def test_nothing_is_sent_before_it_is_made_or_read_before_it_has_come() -> None:
    """Tile n as it is sent and read has the elements that are stored with it, and no others."""

    def check(case: DrawnPod) -> int:
        program, handed = lower_pod(case.pod, case.on), 0
        for exchange in case.pod.exchanges:
            if exchange.streamed is not None:
                stream, handed = exchange.streamed.stream, handed + 1
                stored = stored_order(program, stream.maker, exchange.source)
                read = read_order(program, stream.reader, exchange.target)
                sent = read_order(program, exchange.name, exchange.source)
                sizes = [len(tile) for tile in sent.tiles[1:]]
                assert stored.count == read.count == sent.count
                assert sizes == [len(tile) for tile in stored.tiles[:-1]]
                assert read.tiles[0] == set()
                assert read.tiles[1:] == stored.tiles[:-1]
        return handed

    assert _each(check) > 0
