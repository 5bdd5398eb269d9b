"""Turns, which skip whole rounds in closed form, against a ring that is stepped cycle by cycle."""

from copy import deepcopy
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.machine.round_robin_arbiter import RoundRobinArbiter, ServiceRequest
from tests.machine.stepped import READ, WRITE, SteppedRing, Use, finishes


@dataclass(frozen=True)
class Arrival:
    """A request of ``cycles`` that arrives at cycle ``at``."""

    at: int
    cycles: int
    direction: int
    name: str


def _stepped_finishes(quantum: int, turnaround: int, arrivals: list[Arrival]) -> dict[str, int]:
    uses = [Use(one.at, one.name, one.cycles, one.direction) for one in arrivals]
    ends = finishes(SteppedRing(quantum, turnaround), uses)
    return {use.engine: end for use, end in zip(uses, ends, strict=True)}


def _finishes(
    turns: RoundRobinArbiter, arrivals: list[Arrival], pauses: list[int]
) -> dict[str, int]:
    """Advance from event to event, with stops at ``pauses``; check both sides of each finish."""
    now, waiting, live, finishes = 0, list(arrivals), list[ServiceRequest](), dict[str, int]()
    while waiting or live:
        due = now + turns.next_finish() if turns.ring else None
        stops = [p for p in (*pauses, *(a.at for a in waiting)) if p > now]
        if due is not None:
            stops += [due, due - 1]
        if waiting and waiting[0].at <= now:
            arrival = waiting.pop(0)
            live.append(ServiceRequest(arrival.cycles, arrival.direction, arrival.name))
            turns.add(live[-1])
            continue
        then = min(stop for stop in stops if stop > now)
        turns.advance(then - now)
        now = then
        done = [entry for entry in live if entry.finished]
        assert (due == now) == bool(done)
        finishes |= {entry.owner: now for entry in done}
        live = [entry for entry in live if not entry.finished]
    return finishes


@st.composite
def _arrivals(draw: st.DrawFn) -> list[Arrival]:
    longest = draw(st.sampled_from([3, 40, 200]))
    drawn = draw(
        st.lists(
            st.tuples(st.integers(0, 60), st.integers(1, longest), st.sampled_from([READ, WRITE])),
            min_size=1,
            max_size=6,
        )
    )
    return [Arrival(at, n, d, f"r{i}") for i, (at, n, d) in enumerate(sorted(drawn))]


@given(
    quantum=st.integers(1, 9),
    turnaround=st.sampled_from([0, 0, 1, 3, 11]),
    arrivals=_arrivals(),
    pauses=st.lists(st.integers(0, 300), max_size=8),
)
def test_finishes_are_those_of_the_stepped_ring(
    quantum: int, turnaround: int, arrivals: list[Arrival], pauses: list[int]
) -> None:
    found = _finishes(RoundRobinArbiter(quantum, turnaround), arrivals, pauses)
    assert found == _stepped_finishes(quantum, turnaround, arrivals)


_PAUSES = st.one_of(st.integers(0, 9), st.integers(0, 90))


def _stepped_until_first(ring: SteppedRing) -> tuple[int, int]:
    """Count the cycles until a request leaves, and tell which."""
    stepped, passed = deepcopy(ring), 0
    while True:
        done = stepped.step()
        passed += 1
        if done is not None:
            return passed, done


@given(
    quantum=st.integers(1, 9),
    turnaround=st.sampled_from([0, 0, 1, 3, 11]),
    moves=st.lists(
        st.tuples(_PAUSES, _PAUSES, st.integers(1, 60), st.sampled_from([READ, WRITE])),
        min_size=1,
        max_size=8,
    ),
)
def test_at_any_time_the_ring_and_its_next_finish_are_those_of_the_stepped_ring(
    quantum: int, turnaround: int, moves: list[tuple[int, int, int, int]]
) -> None:
    turns, ring = RoundRobinArbiter(quantum, turnaround), SteppedRing(quantum, turnaround)
    for number, (before, after, cycles, direction) in enumerate(moves):
        turns.add(ServiceRequest(cycles, direction, str(number)))
        ring.arrive(cycles, direction, number)
        for pause in (0, before, after):
            turns.advance(pause)
            for _ in range(pause):
                ring.step()
            _require_same(turns, ring)


def _require_same(turns: RoundRobinArbiter, ring: SteppedRing) -> None:
    found = [[e.remaining, e.direction, int(e.owner)] for e in turns.ring]
    assert found == ring.ring
    assert (turns.left, turns.gap) == (ring.left, ring.lost)
    if ring.ring:
        until, first = _stepped_until_first(ring)
        assert turns.next_finish() == until
        later = deepcopy(turns)
        later.advance(until)
        assert {e.owner for e in turns.ring} - {e.owner for e in later.ring} == {str(first)}


@given(quantum=st.integers(1, 9), arrivals=_arrivals())
def test_without_turnaround_no_cycle_is_lost_while_somebody_waits(
    quantum: int, arrivals: list[Arrival]
) -> None:
    together = [Arrival(0, a.cycles, a.direction, a.name) for a in arrivals]
    finishes = _finishes(RoundRobinArbiter(quantum), together, [])
    assert max(finishes.values()) == sum(a.cycles for a in together)


@given(
    quantum=st.integers(1, 9),
    turnaround=st.sampled_from([0, 2]),
    cycles=st.integers(1, 300),
    pauses=st.lists(st.integers(1, 299), max_size=6),
)
def test_alone_a_request_takes_its_cycles(
    quantum: int, turnaround: int, cycles: int, pauses: list[int]
) -> None:
    arrival = Arrival(0, cycles, READ, "alone")
    assert _finishes(RoundRobinArbiter(quantum, turnaround), [arrival], pauses) == {"alone": cycles}


def test_two_requests_by_hand() -> None:
    """Quantum 4: a a a a b b b b a a a a b b a a: b has 6 cycles, a 10."""
    turns = RoundRobinArbiter(4)
    a, b = ServiceRequest(10, READ, "a"), ServiceRequest(6, READ, "b")
    turns.add(a)
    turns.add(b)
    assert turns.next_finish() == 14
    turns.advance(13)
    assert not b.finished
    turns.advance(1)
    assert b.finished
    assert not a.finished
    assert turns.next_finish() == 2
    turns.advance(1)
    assert not a.finished
    turns.advance(1)
    assert a.finished
    assert turns.ring == []


def test_a_turnaround_is_paid_at_each_change_of_direction() -> None:
    """Quantum 2, turnaround 3: rr ...ww ...rr: the second read ends at 2 + 3 + 2 + 3 + 2."""
    turns = RoundRobinArbiter(2, 3)
    read, write = ServiceRequest(4, READ, "read"), ServiceRequest(2, WRITE, "write")
    turns.add(read)
    turns.add(write)
    assert turns.next_finish() == 7
    turns.advance(6)
    assert not write.finished
    turns.advance(1)
    assert write.finished
    assert turns.next_finish() == 5
    turns.advance(4)
    assert not read.finished
    turns.advance(1)
    assert read.finished


@pytest.mark.parametrize(("first", "gap"), [(READ, 0), (WRITE, 5)])
def test_a_channel_starts_in_the_direction_of_reading(first: int, gap: int) -> None:
    turns = RoundRobinArbiter(4, 5)
    turns.add(ServiceRequest(1, first, "first"))
    assert turns.next_finish() == gap + 1


def test_an_arrival_waits_for_the_turn_that_has_begun() -> None:
    """Quantum 4: b arrives after 5 cycles of a, in its second turn, and starts at 8."""
    turns = RoundRobinArbiter(4)
    a, b = ServiceRequest(100, READ, "a"), ServiceRequest(1, READ, "b")
    turns.add(a)
    turns.advance(5)
    turns.add(b)
    assert turns.next_finish() == 4
    turns.advance(3)
    assert not b.finished
    turns.advance(1)
    assert b.finished


def test_three_requests_by_hand() -> None:
    """Quantum 4, turnaround 1: aaaa bbbb .cccc .aaaa bb: b needs two turns and stands before c."""
    turns = RoundRobinArbiter(4, 1)
    for cycles, direction, owner in ((20, READ, "a"), (6, READ, "b"), (7, WRITE, "c")):
        turns.add(ServiceRequest(cycles, direction, owner))
    assert turns.next_finish() == 20
    turns.advance(3)
    assert turns.next_finish() == 17
    turns.advance(17)
    assert [(e.owner, e.remaining) for e in turns.ring] == [("c", 3), ("a", 12)]
    assert turns.next_finish() == 1 + 3


def test_what_joins_is_seen_by_the_next_finish() -> None:
    """Quantum 4: the finish of a, known to be at 10, moves on when b joins, which is the first."""
    turns = RoundRobinArbiter(4)
    turns.add(ServiceRequest(10, READ, "a"))
    turns.add(ServiceRequest(9, READ, "b"))
    assert turns.next_finish() == 8 + 8 + 2
    turns.add(ServiceRequest(1, READ, "c"))
    assert turns.next_finish() == 4 + 4 + 1


def test_a_large_request_costs_few_steps() -> None:
    """10^12 cycles each in turns of 64: only a closed form comes to an end."""
    turns = RoundRobinArbiter(64, 2)
    first, second = (
        ServiceRequest(10**12, READ, "first"),
        ServiceRequest(10**12 + 5, WRITE, "second"),
    )
    turns.add(first)
    turns.add(second)
    until = turns.next_finish()
    rounds = 10**12 // 64
    # between two turns of the first lie a turn of the second and two turnarounds
    assert until == 10**12 + (rounds - 1) * (64 + 2 * 2)
    turns.advance(until - 1)
    assert not first.finished
    turns.advance(1)
    assert first.finished
