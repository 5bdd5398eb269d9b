"""Sums of objectives over groups, against figures worked out by hand."""

import math

import pytest

from simaccel import load_accelerator
from simaccel.schedulers.sequences import additive_value
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge


def test_energy_times_delay_adds_up_by_roots() -> None:
    """Groups of 2 J and 3 s, 4 J and 6 s: together 6 J and 9 s, which is 54 Js, not 6 + 24."""
    goal = Goal(Judge(load_accelerator("edge")), "edp")
    total = additive_value(2 * 3, goal) + additive_value(4 * 6, goal)
    assert total**2 == pytest.approx(6 * 9)


def test_groups_of_unequal_power_take_more_than_the_sum_says() -> None:
    """1 J and 4 s, 4 J and 1 s: 25 Js, of which the roots give 16."""
    goal = Goal(Judge(load_accelerator("edge")), "edp")
    assert 2 * additive_value(4, goal) == math.sqrt(16)


def test_other_objectives_are_sums_already() -> None:
    goal = Goal(Judge(load_accelerator("edge")), "energy")
    assert additive_value(7.0, goal) == 7.0
