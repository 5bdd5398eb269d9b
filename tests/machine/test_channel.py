"""Channels and DRAM: each finish is checked from both sides, not yet at t - 1, done at t."""

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import Accelerator, Rate
from simaccel.machine import shared_resources
from simaccel.machine.arbiters import (
    READ,
    WRITE,
    ReadWriteArbiter,
    RoundRobinArbiter,
    ServiceRequest,
)
from simaccel.machine.channel import Channel, DramChannels, DramTransfer
from simaccel.machine.clock import Clock
from simaccel.machine.machine import Machine
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator
from tests.machine.trees import cases


def _go_to(clock: Clock, cycle: int) -> None:
    """Let everything happen that happens up to and in ``cycle``."""
    clock.run(until=cycle + 0.5)  # simpy stops in front of the events of its limit
    clock._now = cycle


def _assert_done_at(channel: Channel, entry: ServiceRequest, cycle: int) -> None:
    _go_to(channel.clock, cycle - 1)
    assert not channel.is_done(entry)
    _go_to(channel.clock, cycle)
    assert channel.is_done(entry)


@pytest.mark.parametrize(
    ("rate", "n_bytes", "cycles"),
    [
        (Rate(8, 1), 1, 1),
        (Rate(8, 1), 8, 1),
        (Rate(8, 1), 9, 2),
        (Rate(8, 1), 800, 100),
        (Rate(625, 9), 8192, 118),  # 50 GB/s at 720 MHz: 117.96 cycles
        (Rate(1, 3), 5, 15),
    ],
)
def test_service_is_bytes_by_rate_rounded_up(rate: Rate, n_bytes: int, cycles: int) -> None:
    channel = Channel(Clock(), RoundRobinArbiter(64))
    entry = channel.request(rate.cycles(n_bytes), READ, "one")
    _assert_done_at(channel, entry, cycles)
    assert channel.served_cycles == cycles


def test_an_unlimited_channel_serves_at_once() -> None:
    channel = Channel(Clock(), RoundRobinArbiter(64))
    entry = channel.request(Rate(1, 0).cycles(10**9), READ, "one")
    assert channel.is_done(entry)
    assert channel.served_cycles == 0


def test_requesters_take_turns() -> None:
    """Turns of 4: aaaa bbbb aaaa b aa: b has 5 cycles and ends at 13, a has 10 and ends at 15."""
    channel = Channel(Clock(), RoundRobinArbiter(4))
    a = channel.request(10, READ, "a")
    b = channel.request(5, READ, "b")
    _assert_done_at(channel, b, 13)
    assert not channel.is_done(a)
    _assert_done_at(channel, a, 15)


def test_a_late_small_request_is_not_behind_all_of_a_large_one() -> None:
    """Turns of 4: a has 100 cycles; b comes at 5 and waits for the turn that ends at 8."""
    channel = Channel(Clock(), RoundRobinArbiter(4))
    a = channel.request(100, READ, "a")
    _go_to(channel.clock, 5)
    b = channel.request(2, READ, "b")
    _assert_done_at(channel, b, 10)
    _assert_done_at(channel, a, 102)


def test_a_change_of_direction_costs_the_turnaround() -> None:
    channel = Channel(Clock(), ReadWriteArbiter((64, 64), turnaround=7))
    read = channel.request(10, READ, "read")
    write = channel.request(10, WRITE, "write")
    _assert_done_at(channel, read, 10)
    _assert_done_at(channel, write, 27)
    again = channel.request(3, WRITE, "write")
    _assert_done_at(channel, again, 30)
    back = channel.request(3, READ, "read")
    _assert_done_at(channel, back, 40)


@dataclass
class _Requester:
    """A process that asks one channel after pauses, and notes when it was served."""

    channel: Channel
    jobs: Sequence[tuple[int, int]]
    name: str
    served: list[int] = field(default_factory=list)

    def run(self) -> Any:  # noqa: ANN401 - a simpy process
        for pause, cycles in self.jobs:
            yield self.channel.clock.timeout(pause)
            entry = self.channel.request(cycles, READ, self.name)
            if not self.channel.is_done(entry):
                yield self.channel.wait(entry)
            self.served.append(self.channel.clock.cycle)


def test_a_small_request_is_woken_before_the_large_one_that_waited_first() -> None:
    """As above, but both wait: the alarm that was set for a at 100 has to ring for b at 10."""
    channel = Channel(Clock(), RoundRobinArbiter(4))
    a, b = _Requester(channel, [(0, 100)], "a"), _Requester(channel, [(5, 2)], "b")
    for requester in (a, b):
        channel.clock.process(requester.run())
    channel.clock.run()
    assert (b.served, a.served) == ([10], [102])


_JOBS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), max_size=5)


def _batches(cycles: int) -> ReadWriteArbiter:
    return ReadWriteArbiter((cycles, cycles), turnaround=3)


@given(
    arbiter=st.sampled_from([RoundRobinArbiter, _batches]),
    turn=st.integers(1, 9),
    jobs=st.lists(_JOBS, min_size=1, max_size=4),
)
def test_waiting_and_looking_agree(
    arbiter: Callable[[int], RoundRobinArbiter | ReadWriteArbiter],
    turn: int,
    jobs: list[list[tuple[int, int]]],
) -> None:
    """Looking at a channel every cycle changes nothing; who waits is woken in the right cycle."""

    def served(*, look: bool) -> list[list[int]]:
        channel = Channel(Clock(), arbiter(turn))
        processes = [_Requester(channel, own, f"r{i}") for i, own in enumerate(jobs)]
        for process in processes:
            channel.clock.process(process.run())

        def looker() -> Any:  # noqa: ANN401 - a simpy process
            for _ in range(1000):
                yield channel.clock.timeout(1)
                channel.catch_up()

        if look:
            channel.clock.process(looker())
        channel.clock.run()
        return [process.served for process in processes]

    alone = served(look=False)
    assert alone == served(look=True)
    total = sum(cycles for own in jobs for _, cycles in own)
    last = max((s[-1] for s in alone if s), default=0)
    assert total <= last or total == 0


Pieces = list[tuple[Channel, ServiceRequest]]


@dataclass
class _Dram:
    clock: Clock
    dram: DramChannels

    def request(self, n_bytes: int, direction: int = READ) -> Pieces:
        """Ask for a transfer; give the part of each channel that there is."""
        parts = self.dram.parts[DramTransfer(n_bytes, direction)]
        asked = {one: one.request(cycles, direction, "a") for one, cycles in parts}
        return [(channel, asked[channel]) for channel in self.dram.by_number]

    def assert_moved_at(self, pieces: Pieces, cycle: int) -> None:
        """Check both sides of the finish."""
        _go_to(self.clock, cycle - 1)
        assert not all(channel.is_done(piece) for channel, piece in pieces)
        _go_to(self.clock, cycle)
        assert all(channel.is_done(piece) for channel, piece in pieces)


def _dram(*transfers: int | DramTransfer, **fields: Any) -> _Dram:  # noqa: ANN401 - any of the spec
    """Give a DRAM of a byte per cycle and channel, and the bytes (or more) of its transfers."""
    bandwidth = {"bandwidth_bytes_per_second": fields.get("channels", 1) * 10**9}
    clock = Clock()
    known = [one if isinstance(one, DramTransfer) else DramTransfer(one, READ) for one in transfers]
    return _Dram(clock, DramChannels(clock, accelerator(dram=bandwidth | fields), known))


def test_a_transfer_is_as_slow_as_its_largest_share() -> None:
    """3 channels, stripes of 16 B: 100 B are 48 + 48 + 4, so 36, 32 and 32 bytes each."""
    dram = _dram(100, channels=3, interleave_bytes=16)
    pieces = dram.request(100)
    assert [channel.served_cycles for channel, _ in pieces] == [36, 32, 32]
    dram.assert_moved_at(pieces, 36)


def test_a_small_transfer_uses_only_the_first_channel() -> None:
    """The second channel is free for nobody: every transfer starts at channel 0."""
    dram = _dram(16, channels=2, interleave_bytes=16)
    first, second = dram.request(16), dram.request(16)
    assert [channel.served_cycles for channel, _ in first] == [32, 0]
    dram.assert_moved_at(first, 16)
    dram.assert_moved_at(second, 32)


@given(
    n_bytes=st.integers(1, 5000),
    channels=st.integers(1, 7),
    interleave=st.sampled_from([1, 3, 16, 64]),
)
def test_stripes_go_round_the_channels(n_bytes: int, channels: int, interleave: int) -> None:
    pieces = _dram(n_bytes, channels=channels, interleave_bytes=interleave).request(n_bytes)
    shares = [0] * channels
    for position in range(0, n_bytes, interleave):
        shares[position // interleave % channels] += min(interleave, n_bytes - position)
    assert [channel.served_cycles for channel, _ in pieces] == shares


def test_channels_with_the_same_part_of_every_transfer_are_one() -> None:
    """4 channels, stripes of 16 B: of 128 B each has 32, of 40 B they have 16, 16, 8 and none."""
    dram = _dram(128, 40, channels=4, interleave_bytes=16).dram
    assert [dram.channels.index(one) for one in dram.by_number] == [0, 0, 1, 2]
    assert [cycles for _, cycles in dram.parts[DramTransfer(40, READ)]] == [16, 8, 0]
    assert len(_dram(128, channels=4, interleave_bytes=16).dram.channels) == 1


def test_a_channel_of_its_own_for_each_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither cycles nor the order of events depend on channels that do the same being one."""

    class Apart(DramChannels):
        """Channels that are all simulated."""

        def __init__(
            self, clock: Clock, accelerator: Accelerator, transfers: Collection[DramTransfer]
        ) -> None:
            super().__init__(clock, accelerator, transfers)
            stands = self.by_number
            self.by_number = [copy.deepcopy(one, {id(clock): clock}) for one in stands]
            self.channels = tuple(self.by_number)
            of = {
                transfer: [dict(parts)[one] for one in stands]
                for transfer, parts in self.parts.items()
            }
            self.parts = {
                one: list(zip(self.channels, cycles, strict=True)) for one, cycles in of.items()
            }

    found = [case for case in cases(range(50 * DRAWS)) if case.on.dram.channels > 1]
    runs = [Machine(case.on, case.program, fast_forward=False).run() for case in found]
    merged = [
        len(dram.channels) < len(dram.by_number)
        for case in found
        for dram in Machine(case.on, case.program).memories.values()
    ]
    assert len(merged) > 5 * DRAWS
    assert any(merged)
    assert not all(merged)
    monkeypatch.setattr(shared_resources, "DramChannels", Apart)
    assert [Machine(case.on, case.program, fast_forward=False).run() for case in found] == runs


def test_a_batch_is_given_in_bytes() -> None:
    """Batches of 8 B, a turnaround of 2: rrrrrrrr ..wwwwwwww ..rrrrrrrr: 16 read bytes at 28."""
    dram = _dram(16, DramTransfer(8, WRITE), batch_bytes=8, turnaround_cycles=2)
    read, write = dram.request(16), dram.request(8, WRITE)
    dram.assert_moved_at(write, 18)
    dram.assert_moved_at(read, 28)


@pytest.mark.parametrize(
    ("in_flight", "cycles"),
    [(20, 100), (10, 100), (9, 112), (5, 200), (1, 1000), ("unlimited", 100)],
)
def test_loads_get_the_bytes_in_flight_in_each_latency(in_flight: int | str, cycles: int) -> None:
    """Latency 10 at a byte per cycle: 10 bytes in flight are enough, 5 give half of it."""
    dram = _dram(100, latency_cycles=10, in_flight_bytes=in_flight)
    dram.assert_moved_at(dram.request(100), cycles)


def test_stores_are_posted_and_each_channel_has_its_share_of_the_bytes_in_flight() -> None:
    dram = _dram(DramTransfer(100, WRITE), latency_cycles=10, in_flight_bytes=1)
    dram.assert_moved_at(dram.request(100, WRITE), 100)
    dram = _dram(100, channels=2, interleave_bytes=1, latency_cycles=10, in_flight_bytes=10)
    dram.assert_moved_at(dram.request(100), 100)
