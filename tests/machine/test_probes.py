"""What a listener hears of channels, pipes and tiles, by hand; and how far a period repeats."""

from collections.abc import Callable

import simpy

from simaccel.machine.arbiters import ReadWriteArbiter, RoundRobinArbiter
from simaccel.machine.channel import Channel
from simaccel.machine.clock import Clock
from simaccel.machine.probes import ChannelProbe, TileProbe
from simaccel.machine.stateful import FOREVER, NEVER, GaugeInterval, SkippedPeriods
from tests.properties.test_fast_forward import Heard, Told


def _told(heard: Heard) -> list[tuple[object, ...]]:
    """Start, end, what, cycles of service."""
    rows: list[Told] = [row.told for row in heard.expanded()]
    return [(start, end, what, served) for start, end, what, _, _, served in rows]


def _channel(turnaround: int = 0) -> tuple[Channel, ChannelProbe, Heard]:
    """Return a channel of turns of 4 cycles; with a turnaround, of batches of 4."""
    clock, heard = Clock(), Heard()
    batches = ReadWriteArbiter((4, 4), turnaround=turnaround)
    channel = Channel(clock, batches if turnaround else RoundRobinArbiter(4))
    return channel, ChannelProbe(clock, heard, ("c",), channel), heard


def _at(clock: Clock, cycle: int, call: Callable[[], object]) -> None:
    def then(_: simpy.Event) -> None:
        call()

    clock.call_in(cycle - clock.cycle, then)
    while clock.run_some(1):
        pass


def test_a_channel_is_in_use_until_nobody_is_left() -> None:
    channel, lane, heard = _channel()
    clock = channel.clock
    for start, cycles in ((3, 5), (10, 4), (12, 3)):
        _at(clock, start, lambda n=cycles: channel.request(n, 0, "a"))  # type: ignore[misc]
    _at(clock, 30, lambda: lane.flush(30))
    assert _told(heard) == [
        (0, 3, False, 0), (3, 8, True, 5), (8, 10, False, 0), (10, 17, True, 7),
        (17, 30, False, 0),
    ]  # fmt: skip


def test_turnaround_is_use_without_service() -> None:
    channel, lane, heard = _channel(turnaround=2)
    channel.request(5, 0, "reader")
    channel.request(3, 1, "writer")
    _at(channel.clock, 7, lambda: lane.flush(7))
    # reads 0-4, turns 4-6, writes 6-9, turns 9-11, reads 11-12
    assert _told(heard) == [(0, 7, True, 5)]
    _at(channel.clock, 20, lambda: lane.flush(20))
    assert _told(heard)[1:] == [(7, 12, True, 3), (12, 20, False, 0)]


def test_a_use_that_begins_at_a_flush_is_told_with_the_next() -> None:
    channel, lane, heard = _channel()
    channel.request(5, 0, "a")
    _at(channel.clock, 8, lambda: channel.request(4, 0, "b"))
    lane.flush(8)
    assert lane.reported == 5
    assert _told(heard) == [(0, 5, True, 5), (5, 8, False, 0)]
    _at(channel.clock, 12, lambda: lane.flush(12))
    assert _told(heard)[2:] == [(8, 12, True, 4)]


def _limit(channel: Channel, lane: ChannelProbe, period: int) -> int:
    """Look at a lane at two boundaries and give how often it can go on so."""
    start, before = channel.clock.cycle, lane.gauges()
    _at(channel.clock, start + period, lambda: lane.flush(channel.clock.cycle))
    return lane.limit(GaugeInterval(start, start + period, before, lane.gauges()))


def test_a_request_that_nobody_waits_for_ends_a_skip_before_it_ends() -> None:
    channel, lane, _ = _channel()
    channel.request(100, 0, "a")
    assert _limit(channel, lane, 10) == (100 - 10 - 1) // 10
    channel.request(50, 0, "b")
    assert _limit(channel, lane, 10) == (90 + 50 - 10 - 1) // 10


def test_batches_in_two_directions_repeat_in_whole_rounds_only() -> None:
    # a round: 4 cycles of each, 2 of turnaround after each
    channel, lane, _ = _channel(turnaround=2)
    channel.request(100, 0, "reader")
    channel.request(100, 1, "writer")
    assert _limit(channel, lane, 5) == NEVER
    channel, lane, _ = _channel(turnaround=2)
    _at(channel.clock, 1, lambda: channel.request(100, 0, "reader"))
    channel.request(100, 1, "writer")
    _at(channel.clock, 25, lambda: None)
    assert 0 < _limit(channel, lane, 12) <= 100 // 4


def test_a_lane_sees_how_far_a_channel_is_that_nobody_else_looks_at() -> None:
    channel, lane, _ = _channel(turnaround=2)
    channel.request(100, 0, "reader")
    channel.request(100, 1, "writer")
    before = lane.gauges()
    _at(channel.clock, 5, lambda: None)
    assert lane.limit(GaugeInterval(0, 5, before, lane.gauges())) == NEVER


def test_an_idle_channel_and_one_that_is_asked_leave_the_limit_to_others() -> None:
    channel, lane, _ = _channel()
    assert _limit(channel, lane, 10) == FOREVER
    before = lane.gauges()
    channel.request(3, 0, "a")
    assert lane.limit(GaugeInterval(10, 20, before, lane.gauges())) == FOREVER


def test_who_is_served_alone_is_told_as_everybody() -> None:
    channel, lane, heard = _channel()
    clock = channel.clock
    _at(clock, 3, lambda: channel.serve_alone(5))
    _at(clock, 6, lambda: lane.flush(6))
    assert _told(heard) == [(0, 3, False, 0), (3, 6, True, 3)]
    _at(clock, 10, lambda: channel.serve_alone(4))
    _at(clock, 20, lambda: lane.flush(20))
    assert _told(heard)[2:] == [
        (6, 8, True, 2), (8, 10, False, 0), (10, 14, True, 4), (14, 20, False, 0),
    ]  # fmt: skip


def test_a_use_alone_ends_a_skip_before_it_ends() -> None:
    channel, lane, _ = _channel()
    channel.serve_alone(100)
    assert _limit(channel, lane, 10) == (100 - 10 - 1) // 10
    assert _limit(channel, lane, 85) == 0
    assert _limit(channel, lane, 10) == NEVER  # it ends on the way
    assert _limit(channel, lane, 10) == FOREVER


def test_channels_that_do_the_same_have_one_lane() -> None:
    clock, heard = Clock(), Heard()
    channel = Channel(clock, RoundRobinArbiter(4))
    lane = ChannelProbe(clock, heard, ("c", "d"), channel)
    channel.request(5, 0, "a")
    _at(clock, 7, lambda: lane.flush(7))
    assert [(row.engine, row.told[:2]) for row in heard.expanded()] == [
        ("c", (0, 5)), ("c", (5, 7)), ("d", (0, 5)), ("d", (5, 7)),
    ]  # fmt: skip


def test_a_skip_is_taken_as_told() -> None:
    channel, lane, heard = _channel()
    channel.request(100, 0, "a")
    _at(channel.clock, 10, lambda: lane.flush(10))
    before = lane.counters()
    _at(channel.clock, 20, lambda: lane.flush(20))
    lane.skip(SkippedPeriods(GaugeInterval(10, 20, (), ()), 3, before, lane.counters()))
    _at(channel.clock, 60, lambda: lane.flush(60))
    assert _told(heard) == [(0, 10, True, 10), (10, 20, True, 10), (50, 60, True, 10)]


def test_a_tile_holds_what_was_claimed() -> None:
    clock, heard = Clock(), Heard()
    lane = TileProbe(clock, heard, "tile K")
    lane.hold(5)
    _at(clock, 4, lambda: lane.hold(7))
    _at(clock, 6, lambda: lane.hold(0))
    _at(clock, 9, lambda: lane.hold(-12))
    _at(clock, 11, lambda: lane.flush(11))
    assert _told(heard) == [(0, 4, 5, 0), (4, 9, 12, 0), (9, 11, 0, 0)]
