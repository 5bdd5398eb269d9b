"""The cheapest way of steps from a workload's first operator to its last."""

from simaccel.mapping.tree import Group
from simaccel.schedulers.schedule_steps import ScheduleStep, cheapest
from simaccel.search.candidate_set import ScoredTree
from simaccel.search.judge import Body

_ONE = (Group(operators=("one",), tree=()),)


def _step(start: int, stop: int, value: float, moved: int = 0, kept: int = 0) -> ScheduleStep:
    def search(_limit: float) -> tuple[Body, float]:
        return _ONE, value

    chosen = ScoredTree((), value, 0, moved, kept)
    return ScheduleStep(start, stop, value, search, body=_ONE, weigh=lambda _body: chosen)


def test_a_workload_keeps_what_its_largest_group_does() -> None:
    """A fused pair that needs 60 bytes is less than 40 and 40 together, and more than either."""
    alone, fused = [_step(0, 1, 40), _step(1, 2, 40)], _step(0, 2, 60)
    assert cheapest([*alone, fused], 2) == [fused]
    assert cheapest([*alone, fused], 2, max) == alone


def test_of_equals_the_one_that_moves_and_then_keeps_least_is_taken() -> None:
    first, less, least = _step(0, 1, 5, 9, 1), _step(0, 1, 5, 7, 3), _step(0, 1, 5, 7, 2)
    assert cheapest([first, less, least, _step(0, 1, 6)], 1) == [least]
