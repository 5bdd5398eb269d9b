"""Batches, which skip whole rounds in closed form, against queues that are stepped by the cycle."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.machine.read_write_arbiter import ReadWriteArbiter
from simaccel.machine.round_robin_arbiter import ServiceRequest
from tests.machine.stepped import READ, WRITE, SteppedQueues


def _stepped_until_first(queues: SteppedQueues) -> tuple[int, int]:
    """Count the cycles until a request leaves, and tell which."""
    stepped, passed = deepcopy(queues), 0
    while True:
        done = stepped.step()
        passed += 1
        if done is not None:
            return passed, done


_PAUSES = st.one_of(st.integers(0, 9), st.integers(0, 90))


@given(
    batch=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    turnaround=st.sampled_from([0, 0, 1, 3, 11]),
    moves=st.lists(
        st.tuples(_PAUSES, _PAUSES, st.integers(1, 60), st.sampled_from([READ, WRITE])),
        min_size=1,
        max_size=8,
    ),
)
def test_at_any_time_the_queues_and_the_next_finish_are_those_of_the_stepped_ones(
    batch: tuple[int, int], turnaround: int, moves: list[tuple[int, int, int, int]]
) -> None:
    batches, stepped = ReadWriteArbiter(batch, turnaround), SteppedQueues(batch, turnaround)
    for number, (before, after, cycles, direction) in enumerate(moves):
        batches.add(ServiceRequest(cycles, direction, str(number)))
        stepped.arrive(cycles, direction, number)
        for pause in (0, before, after):
            batches.advance(pause)
            for _ in range(pause):
                stepped.step()
            _require_same(batches, stepped)


def _require_same(batches: ReadWriteArbiter, stepped: SteppedQueues) -> None:
    found = [[[e.remaining, int(e.owner)] for e in queue] for queue in batches.queues]
    assert found == list(stepped.queues)
    assert (batches.gap, batches.direction) == (stepped.lost, stepped.direction)
    if all(found):
        assert batches.left == stepped.left
    if any(found):
        until, first = _stepped_until_first(stepped)
        assert batches.next_finish() == until
        later = deepcopy(batches)
        later.advance(until)
        assert {e.owner for e in batches.ring} - {e.owner for e in later.ring} == {str(first)}


def _finish_of(batches: ReadWriteArbiter, entry: ServiceRequest) -> int:
    """Advance by single cycles until an entry has left."""
    now = 0
    while not entry.finished:
        batches.advance(1)
        now += 1
    return now


def test_the_oldest_is_served_first() -> None:
    """Aaaaaaaaaa bb: b comes later and ends at 12; in turns it would be sooner."""
    batches = ReadWriteArbiter((4, 4))
    a, b = ServiceRequest(10, READ, "a"), ServiceRequest(2, READ, "b")
    batches.add(a)
    batches.add(b)
    assert batches.next_finish() == 10
    assert _finish_of(batches, b) == 12


def test_the_direction_stays_while_there_is_work_and_nobody_waits() -> None:
    """Reads of 3 batches one after the other: no turnaround is paid."""
    batches = ReadWriteArbiter((4, 4), 5)
    read = ServiceRequest(12, READ, "read")
    batches.add(read)
    assert _finish_of(batches, read) == 12


def test_a_batch_is_counted_from_when_the_other_direction_waits() -> None:
    """A write that comes at 6 waits for 4 more cycles of reads: rrrrrrrrrr ..ww ..rrrr."""
    batches = ReadWriteArbiter((4, 4), 2)
    read, write = ServiceRequest(14, READ, "read"), ServiceRequest(2, WRITE, "write")
    batches.add(read)
    batches.advance(6)
    batches.add(write)
    assert batches.next_finish() == 4 + 2 + 2
    batches.advance(7)
    assert not write.finished
    batches.advance(1)
    assert write.finished
    assert batches.next_finish() == 2 + 4


def test_writes_are_drained_in_batches() -> None:
    """Batches of 4, turnaround 1: rrrr .wwww .rrrr .ww: a write of 6 ends at 17."""
    batches = ReadWriteArbiter((4, 4), 1)
    read, write = ServiceRequest(8, READ, "read"), ServiceRequest(6, WRITE, "write")
    batches.add(read)
    batches.add(write)
    assert batches.next_finish() == 4 + 1 + 4 + 1 + 4
    assert _finish_of(batches, write) == 17


@pytest.mark.parametrize(("first", "gap"), [(READ, 0), (WRITE, 5)])
def test_a_channel_starts_in_the_direction_of_reading(first: int, gap: int) -> None:
    batches = ReadWriteArbiter((4, 4), 5)
    batches.add(ServiceRequest(1, first, "first"))
    assert batches.next_finish() == gap + 1


def test_a_large_request_costs_few_steps() -> None:
    """10^12 cycles each in batches of 64: only a closed form comes to an end."""
    batches = ReadWriteArbiter((64, 64), 2)
    batches.add(ServiceRequest(10**12, READ, "read"))
    batches.add(ServiceRequest(10**12 + 5, WRITE, "write"))
    until = batches.next_finish()
    assert until == 10**12 + (10**12 // 64 - 1) * (64 + 2 * 2)
    batches.advance(until - 1)
    assert len(batches.ring) == 2
    batches.advance(1)
    assert [entry.owner for entry in batches.ring] == ["write"]
