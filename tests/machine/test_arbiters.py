"""Arbiters, which skip whole rounds in closed form, against ones that are stepped by the cycle."""

from collections.abc import Callable
from copy import deepcopy
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.machine.arbiters import ReadWriteArbiter, RoundRobinArbiter, ServiceRequest
from tests.machine.stepped import READ, WRITE, SteppedQueues, SteppedRing, Use, finishes

Arbiter = RoundRobinArbiter | ReadWriteArbiter
Stepped = SteppedRing | SteppedQueues
Pair = tuple[Arbiter, Stepped]


def _turns(quantum: int) -> Pair:
    return RoundRobinArbiter(quantum), SteppedRing(quantum)


def _batches(cycles: int, turnaround: int = 0, *, writes: int = 0) -> Pair:
    batch = cycles, writes or cycles
    return ReadWriteArbiter(batch, turnaround=turnaround), SteppedQueues(batch, turnaround)


BOTH: Final = pytest.mark.parametrize("kind", [_turns, _batches])
CYCLES = st.integers(1, 9)
TURNAROUNDS = st.sampled_from([0, 0, 1, 3, 11])
PAUSES = st.one_of(st.integers(0, 9), st.integers(0, 90))
DIRECTIONS = st.sampled_from([READ, WRITE])
PAIRS = st.one_of(
    st.builds(_turns, CYCLES), st.builds(_batches, CYCLES, TURNAROUNDS, writes=CYCLES)
)


@st.composite
def _arrivals(draw: st.DrawFn) -> list[Use]:
    longest = draw(st.sampled_from([3, 40, 200]))
    one = st.tuples(st.integers(0, 60), st.integers(1, longest), DIRECTIONS)
    drawn = sorted(draw(st.lists(one, min_size=1, max_size=6)))
    return [Use(at, f"r{i}", cycles, direction) for i, (at, cycles, direction) in enumerate(drawn)]


def _finishes(arbiter: Arbiter, arrivals: list[Use], pauses: list[int]) -> dict[str, int]:
    """Advance from event to event, with stops at ``pauses``; check both sides of each finish."""
    now, waiting, live, found = 0, list(arrivals), list[ServiceRequest](), dict[str, int]()
    while waiting or live:
        due = now + arbiter.next_finish() if arbiter.ring else None
        stops = [p for p in (*pauses, *(use.at for use in waiting)) if p > now]
        if due is not None:
            stops += [due, due - 1]
        if waiting and waiting[0].at <= now:
            arrival = waiting.pop(0)
            live.append(ServiceRequest(arrival.cycles, arrival.direction, arrival.engine))
            arbiter.add(live[-1])
            continue
        then = min(stop for stop in stops if stop > now)
        arbiter.advance(then - now)
        now = then
        done = [entry for entry in live if entry.finished]
        assert (due == now) == bool(done)
        found |= {entry.owner: now for entry in done}
        live = [entry for entry in live if not entry.finished]
    return found


@given(pair=PAIRS, arrivals=_arrivals(), pauses=st.lists(st.integers(0, 300), max_size=8))
def test_finishes_are_those_of_the_stepped_channel(
    pair: Pair, arrivals: list[Use], pauses: list[int]
) -> None:
    arbiter, stepped = pair
    ends = finishes(stepped, arrivals)
    expected = {use.engine: end for use, end in zip(arrivals, ends, strict=True)}
    assert _finishes(arbiter, arrivals, pauses) == expected


@given(
    pair=PAIRS,
    moves=st.lists(
        st.tuples(PAUSES, PAUSES, st.integers(1, 60), DIRECTIONS), min_size=1, max_size=8
    ),
)
def test_at_any_time_state_and_next_finish_are_those_of_the_stepped_channel(
    pair: Pair, moves: list[tuple[int, int, int, int]]
) -> None:
    arbiter, stepped = pair
    for number, (before, after, cycles, direction) in enumerate(moves):
        arbiter.add(ServiceRequest(cycles, direction, str(number)))
        stepped.arrive(cycles, direction, number)
        for pause in (0, before, after):
            arbiter.advance(pause)
            for _ in range(pause):
                stepped.step()
            _require_same(arbiter, stepped)


def _require_same(arbiter: Arbiter, stepped: Stepped) -> None:
    if isinstance(arbiter, RoundRobinArbiter):
        assert isinstance(stepped, SteppedRing)
        assert [[e.remaining, e.direction, int(e.owner)] for e in arbiter.ring] == stepped.ring
        assert (arbiter.left, arbiter.gap) == (stepped.left, 0)
    else:
        assert isinstance(stepped, SteppedQueues)
        queues = [[[e.remaining, int(e.owner)] for e in queue] for queue in arbiter.queues]
        assert queues == list(stepped.queues)
        assert (arbiter.gap, arbiter.direction) == (stepped.lost, stepped.direction)
        assert not all(queues) or arbiter.left == stepped.left
    if arbiter.ring:
        until, first = _stepped_until_first(stepped)
        assert arbiter.next_finish() == until
        later = deepcopy(arbiter)
        later.advance(until)
        assert {e.owner for e in arbiter.ring} - {e.owner for e in later.ring} == {str(first)}


def _stepped_until_first(channel: Stepped) -> tuple[int, int]:
    """Count the cycles until a request leaves, and tell which."""
    stepped, passed = deepcopy(channel), 0
    while True:
        done = stepped.step()
        passed += 1
        if done is not None:
            return passed, done


@BOTH
@given(cycles=CYCLES, arrivals=_arrivals())
def test_without_turnaround_no_cycle_is_lost_while_somebody_waits(
    kind: Callable[..., Pair], cycles: int, arrivals: list[Use]
) -> None:
    together = [use._replace(at=0) for use in arrivals]
    ends = _finishes(kind(cycles)[0], together, [])
    assert max(ends.values()) == sum(use.cycles for use in together)


@given(pair=PAIRS, service=st.integers(1, 300), pauses=st.lists(st.integers(1, 299), max_size=6))
def test_alone_a_request_takes_its_cycles(pair: Pair, service: int, pauses: list[int]) -> None:
    assert _finishes(pair[0], [Use(0, "alone", service, READ)], pauses) == {"alone": service}


def _of(*uses: tuple[int, int, int]) -> list[Use]:
    """Return uses a, b, ... of (at, cycles, direction)."""
    return [Use(at, "abc"[i], cycles, direction) for i, (at, cycles, direction) in enumerate(uses)]


LARGE = 10**12
LARGE_END = LARGE + (LARGE // 64 - 1) * (64 + 2 * 2)
"""Between two batches of the first lie one of the second and two turnarounds."""
BY_HAND: Final[dict[str, tuple[Pair, list[Use], list[int]]]] = {
    # a a a a b b b b a a a a b b a a
    "turns of 4": (_turns(4), _of((0, 10, READ), (0, 6, READ)), [16, 14]),
    # b comes after 5 cycles of a, in its second turn, and starts at 8
    "a turn that has begun": (_turns(4), _of((0, 100, READ), (5, 1, READ)), [101, 9]),
    # aaaa bbbb cccc aaaa bb ccc aaaaaaaaaaaa: b needs two turns and stands before c
    "three": (_turns(4), _of((0, 20, READ), (0, 6, READ), (0, 7, WRITE)), [33, 18, 21]),
    # aaaa bbbb c aaaa bbbb aa b: the first to finish was a at 18 before c joined
    "one that joins": (_turns(4), _of((0, 10, READ), (0, 9, READ), (0, 1, READ)), [19, 20, 9]),
    # aaaaaaaaaa bb
    "the oldest first": (_batches(4), _of((0, 10, READ), (0, 2, READ)), [10, 12]),
    # three batches of reads one after the other: no turnaround is paid
    "nobody waits": (_batches(4, 5), _of((0, 12, READ)), [12]),
    # a write that comes at 6 waits for 4 more cycles of reads: rrrrrrrrrr ..ww ..rrrr
    "a batch since it waits": (_batches(4, 2), _of((0, 14, READ), (6, 2, WRITE)), [20, 14]),
    # rrrr .wwww .rrrr .ww
    "writes in batches": (_batches(4, 1), _of((0, 8, READ), (0, 6, WRITE)), [14, 17]),
    "batches begin with reads": (_batches(4, 5), _of((0, 1, READ)), [1]),
    "batches, a write first": (_batches(4, 5), _of((0, 1, WRITE)), [6]),
    # only a closed form comes to an end; then (a turnaround, and) what the second has left
    "large in turns": (
        _turns(64),
        _of((0, LARGE, READ), (0, LARGE + 5, WRITE)),
        [2 * LARGE - 64, 2 * LARGE + 5],
    ),
    "large in batches": (
        _batches(64, 2),
        _of((0, LARGE, READ), (0, LARGE + 5, WRITE)),
        [LARGE_END, LARGE_END + 2 + 64 + 5],
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_finishes_by_hand(name: str) -> None:
    (arbiter, _), arrivals, ends = BY_HAND[name]
    expected = {use.engine: end for use, end in zip(arrivals, ends, strict=True)}
    assert _finishes(deepcopy(arbiter), arrivals, []) == expected
