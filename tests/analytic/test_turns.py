"""Loads that meet a store in the closed form, against queues that are stepped by the cycle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simaccel.analytic.family import Floats, ints
from simaccel.analytic.timing.turns import Pace, after_loads, delay_of, meeting
from tests.machine.stepped import READ, WRITE, SteppedQueues

_CYCLES = st.integers(1, 60)


def _at(cycle: int) -> Floats:
    return np.array(float(cycle))


def _ends(pace: Pace, requests: list[tuple[int, int, int]], direction: int) -> list[int]:
    """Step until all is served; requests are cycle, direction and service, in order of arrival."""
    queues = SteppedQueues((pace.loads, pace.stores), pace.turn, direction=direction)
    ends, now, waiting = [0] * len(requests), 0, [*enumerate(requests)]
    while waiting or any(queues.queues):
        while waiting and waiting[0][1][0] == now:
            number, (_, direction, service) = waiting.pop(0)
            queues.arrive(service, direction, number)
        done, now = queues.step(), now + 1
        if done is not None:
            ends[done] = now
    return ends


@given(
    pace=st.builds(Pace, st.integers(1, 12), st.integers(1, 12), st.sampled_from([0, 0, 1, 3, 7])),
    first=st.integers(0, 60),
    asked=st.integers(0, 60),
    service=_CYCLES,
    idle=st.sampled_from([READ, WRITE]),
    gaps=st.lists(st.tuples(st.integers(1, 40), _CYCLES), min_size=1, max_size=4),
)
def test_loads_and_a_store_are_served_as_in_the_channel(
    pace: Pace, first: int, asked: int, service: int, idle: int, gaps: list[tuple[int, int]]
) -> None:
    """A store behind a load that is served, then loads one after the other that meet it."""
    direction = READ if first else idle
    requests = [(0, READ, first)] if first else []
    requests.append((asked, WRITE, service))
    number = len(requests) - 1
    store = after_loads(_at(asked), _at(first), ints(service), np.array(direction == WRITE), pace)
    free = first + (
        int(delay_of(_at(first), _at(asked), ints(service), pace)) if first > asked else 0
    )
    stepped = _ends(pace, requests, direction)
    assert int(store.end) == stepped[number]
    assert not first or free == stepped[0]
    for gap, load in gaps:
        asked += gap
        start = max(free, asked)
        if not (store.end > start and start + load > store.since):
            break  # they don't meet
        end, store = meeting(_at(asked), _at(start), ints(load), store, pace)
        requests.append((asked, READ, load))
        stepped = _ends(pace, requests, direction)
        assert (int(end), int(store.end)) == (stepped[-1], stepped[number])
        free = int(end)
