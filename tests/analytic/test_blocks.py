"""What a block shares of a port with others, calculated by hand."""

from simaccel.analytic.blocks import Share
from simaccel.analytic.family import ints


def _share(cycles: int, mine: int, turns: int, *, at_once: bool) -> Share:
    return Share(ints(cycles), ints(mine), ints(turns), at_once)


def _beside(share: Share, *times: int) -> list[int]:
    begin, given, other, left = map(ints, times)
    return [int(one) for one in share.beside(begin, given, other, left)]


def test_a_fold_that_asks_at_once_waits_for_no_more_than_its_own_turns() -> None:
    """3 of 5 cycles: 1 of another's fits in the other 2, 3 make it 3 + 3 = 6 long."""
    fold = _share(5, 3, 6, at_once=True)
    assert _beside(fold, 10, 0, 10, 1) == [10, 2, 1]
    assert int(fold.longer(ints(1))) == 0
    assert _beside(fold, 10, 0, 8, 9) == [10, 6, 3]
    assert int(fold.longer(ints(3))) == 1


def test_who_asks_when_its_turns_are_over_does_not_make_it_longer() -> None:
    fold = _share(5, 3, 6, at_once=True)
    assert _beside(fold, 10, 0, 13, 9)[2] == 0
    assert _beside(fold, 10, 1, 13, 9) == [13, 2, 1]


def test_three_at_a_port_take_turns() -> None:
    """6 of 8 cycles from 10 on, another's 5 beside them, a third one's 9 from 14 on.

    By 14 it has had 2 of its own and the first other 2; so the third gets 4 in its last 4 turns,
    3 of which have one of the first, too. It is 6 + 5 + 4 = 15 long.
    """
    fold = _share(8, 6, 12, at_once=True)
    assert _beside(fold, 10, 5, 14, 9) == [14, 11, 4]
    assert int(fold.longer(ints(9))) == 7


def test_a_fold_waits_for_two_others_that_waits_for_none_alone() -> None:
    """3 of 6 cycles are not longer beside one other, whoever that is, but beside two."""
    fold = _share(6, 3, 6, at_once=True)
    assert bool(fold.waits)
    assert int(fold.longer(ints(3))) == 0
    assert int(fold.longer(ints(6))) == 3
    assert not bool(_share(6, 3, 6, at_once=False).waits)


def test_many_folds_are_longer_evenly() -> None:
    """100 cycles, 60 of them at the port: shared all the time 120, of which others get 60."""
    folds = _share(100, 60, 120, at_once=False)
    assert _beside(folds, 0, 0, 0, 30) == [0, 60, 30]
    assert int(folds.longer(ints(30))) == 10
    assert _beside(folds, 0, 0, 50, 90) == [50, 60, 30]
