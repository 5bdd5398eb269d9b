"""What watches may spend: a part in advance that grows with the run, then what they earn."""

from simaccel.machine.detection_budget import DetectionBudget, SharedBudget


def test_nothing_is_spent_before_the_first_events() -> None:
    budget = DetectionBudget(SharedBudget())
    assert not budget.may_look(0)
    assert not budget.may_look(2)
    assert budget.may_look(3)


def test_points_do_not_depend_on_how_often_one_asks() -> None:
    often, once = DetectionBudget(SharedBudget()), DetectionBudget(SharedBudget())
    for events in range(101):
        often.may_look(events)
    once.may_look(100)
    assert often.points == once.points == 12


def test_what_one_watch_takes_in_advance_the_others_wait_for() -> None:
    """100 points are 300 events; at 6 there were 2, too few for a point of one's own."""
    pool = SharedBudget()
    first, second = DetectionBudget(pool), DetectionBudget(pool)
    assert first.may_look(6)
    first.spend(100)
    assert not second.may_look(6)
    assert pool.points_left(300) == 0
    assert pool.points_left(303) == 1


def test_a_rest_lasts_as_long_as_the_pool_needs() -> None:
    """Two events a boundary: 98 points are missing and one more is wanted, 297 events."""
    budget = DetectionBudget(SharedBudget())
    assert budget.may_look(6)
    budget.spend(100)
    assert budget.rest(6, 3) == 148


def test_without_advance_a_watch_saves_up_longer_each_time() -> None:
    budget = DetectionBudget(SharedBudget())
    budget.advance = 0
    pauses = []
    events = 0
    for _ in range(3):
        events += 100_000
        assert budget.may_look(events)
        budget.spend(budget.points + 100)
        pauses.append(budget.rest(events, 1))
        assert not budget.may_look(events + 800)
    assert budget.most == 8 * 1500
    assert pauses == sorted(pauses)


def test_a_skip_fills_pool_and_purse() -> None:
    budget = DetectionBudget(SharedBudget())
    assert budget.may_look(300)
    budget.spend(200 + budget.points)
    budget.reward(150)
    assert budget.pool.spent == 0
    assert budget.points == 1300
