"""The pace of nests: rules by hand on one or two stages, and small nests on the machine."""

from __future__ import annotations

import numpy as np
import pytest

from simaccel.analytic.estimate import estimate
from simaccel.analytic.nest_pace import Passes, Stage
from simaccel.analytic.nest_ways import Moving
from simaccel.machine.machine import Machine
from simaccel.program.lower import lower
from tests.nests import draw_nest, runs

PASSES = Passes(10.0, {})


def _input(down: dict[str, float], slots: int, latency: int = 0) -> Moving:
    return Moving(role="input", slots=slots, down=down, up={}, arrives=latency, leaves=0)


def _sums(down: dict[str, float], up: dict[str, float], slots: int) -> Moving:
    return Moving(role="output", slots=slots, down=down, up=up, arrives=0, leaves=0)


def _cycles(*tiles: Moving) -> float:
    return Stage(tiles, 1, PASSES).cycles[""]


def test_a_tile_of_one_slot_comes_between_passes() -> None:
    assert _cycles(_input({"dram": 4}, 1, latency=3)) == 10 + 4 + 3


@pytest.mark.parametrize(
    ("down", "latency", "cycles"),
    [
        (4, 3, 10),  # behind the pass
        (15, 3, 15),  # the DRAM is the slowest
        (4, 25, (4 + 25 + 10) / 2),  # two tiles on their way
    ],
)
def test_a_tile_of_two_slots_comes_behind_the_pass(
    down: float, latency: int, cycles: float
) -> None:
    assert _cycles(_input({"dram": down}, 2, latency)) == cycles


def test_what_comes_at_once_takes_turns() -> None:
    # both are asked for when the pass has ended; the shorter one delays the other once
    assert _cycles(_input({"dram": 4}, 1), _input({"dram": 7}, 1)) == 10 + 4 + 7
    assert _cycles(_input({"dram": 4}, 1), _input({"dram": 7}, 2)) == 10 + 4 + 4
    assert _cycles(_input({"dram": 4}, 1), _input({"read_port": 7}, 1)) == 10 + 7


def test_sums_come_back_after_those_that_go() -> None:
    assert _cycles(_sums({"distribution": 5}, {"collection": 3}, 1)) == 10 + 3 + 5
    # the input's 6 cycles start with the 3 of the sums; 3 of them are left when these come back
    shares = _input({"distribution": 6}, 1), _sums({"distribution": 5}, {"collection": 3}, 1)
    assert _cycles(*shares) == 10 + (3 + 5) + 3


def test_sums_of_two_slots_take_their_way_in_two_iterations() -> None:
    assert _cycles(_sums({"distribution": 14}, {"collection": 20}, 2)) == (14 + 10 + 20) / 2


def test_sums_of_two_slots_meet_the_inputs_of_the_iteration_after() -> None:
    inputs = _input({"distribution": 14}, 2)
    # sums go until 56 and come back until 84; the pass after may end then, and asks for 14
    slow = _sums({"distribution": 28}, {"collection": 56}, 2)
    assert Stage((inputs, slow), 1, Passes(32.0, {})).cycles[""] == (28 + 14 + 32 + 56) / 2
    # sums are back after 20, before the pass after can have ended
    fast = _sums({"distribution": 12}, {"collection": 8}, 2)
    assert Stage((inputs, fast), 1, Passes(32.0, {})).cycles[""] == 32


def test_what_an_outer_stage_loads_ahead_slows_those_inside() -> None:
    inner = Stage((_input({"distribution": 6}, 2),), 1, PASSES)
    assert inner.cycles == dict.fromkeys(inner.cycles, 10) | {"distribution": 12}
    # 12 beside a rival leave 6 for it, so its 12 are there after two iterations of 12
    outer = Stage((_input({"distribution": 12}, 2),), 20, inner)
    assert outer.cycles[""] == 2 * 12 + 18 * 10
    # the last one of all loads nothing ahead
    assert outer.last == 20 * 10


def test_tiles_of_one_slot_at_two_stages_come_at_once_the_first_time() -> None:
    inner = Stage((_input({"read_port": 5}, 1),), 1, PASSES)
    weights = Moving(role="weight", slots=1, down={"dram": 8}, up={}, arrives=0, leaves=0)
    assert Stage((weights,), 4, inner).cycles[""] == 4 * 15 + (8 - 5)
    # a tile in PEs can't come from one in the buffer that isn't there yet
    assert Stage((_input({"dram": 8}, 1),), 4, inner).cycles[""] == 4 * 15 + 8


def test_small_nests_are_near_the_machine() -> None:
    errors = []
    for case in map(draw_nest, range(200)):
        if runs(case):
            cycles = Machine(case.accelerator, lower(case.workload, case.mapping)).run().cycles
            predicted = estimate(case.workload, case.mapping, case.accelerator).cycles
            errors.append(abs(predicted - cycles) / cycles)
    assert len(errors) > 50
    assert np.median(errors) < 0.12
