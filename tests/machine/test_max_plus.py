"""The machine against max-plus recurrences, where nobody shares a resource."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.program.program import Program
from simaccel.program.text import program_text
from tests.drawn_trees import draw_case
from tests.draws import DRAWS, seeds
from tests.machine.accelerators import DRAM, PIPES, PORTS, accelerator, accelerators, alone
from tests.machine.max_plus import cycles_alone
from tests.machine.random_programs import programs
from tests.program.changed import changed, unstored
from tests.program.programs import (
    Case,
    FlatTiles,
    attention_workload,
    case,
    flat_group,
    fused_cases,
    gemm_cases,
    separate_cases,
    staged_cases,
)

ALONE = accelerators(dram=DRAM, buffer=PORTS, noc=PIPES, memories={})
ONE_QUEUE = accelerators(
    dram={"in_flight_bytes": "unlimited"},
    buffer=PORTS,
    noc=PIPES,
    dma={"in_queues": "single"},
    memories={},
)


def _assert_equal(on: Accelerator, program: Program) -> None:
    assert Machine(on, program).run().cycles == cycles_alone(on, program), program_text(program)


def _programs(lowered: st.SearchStrategy[Case]) -> st.SearchStrategy[Program]:
    """Draw as many programs of mappings as others."""
    return lowered.map(lambda one: one.program) | programs()


LOWERED = gemm_cases() | separate_cases() | fused_cases(online=False)


@settings(max_examples=8 * DRAWS)
@given(_programs(LOWERED | staged_cases()), ALONE)
def test_programs_take_the_cycles_of_the_recurrence(program: Program, on: Accelerator) -> None:
    _assert_equal(on, program)


@pytest.mark.parametrize("block", range(10))
def test_drawn_trees_take_the_cycles_of_the_recurrence(block: int) -> None:
    for seed in seeds(10 * 2, block, 10):
        drawn = draw_case(seed, spatial=True)
        _assert_equal(alone(drawn.on, latency_cycles=seed % 7), lower(drawn.of, drawn.mapping))


@settings(max_examples=8 * DRAWS)
@given(_programs(LOWERED), ONE_QUEUE)
def test_one_requester_of_the_dram_takes_the_cycles_of_the_recurrence(
    program: Program, on: Accelerator
) -> None:
    _assert_equal(on, changed(program, unstored))


@given(fused_cases(online=True), ALONE)
def test_online_softmax_is_never_faster_than_the_recurrence(case: Case, on: Accelerator) -> None:
    """An engine claims, or waits for, an outer tile before the loop that touches it begins."""
    assert Machine(on, case.program).run().cycles >= cycles_alone(on, case.program)


@pytest.mark.parametrize("pipelined", [False, True])
def test_online_softmax_takes_the_cycles_of_the_recurrence(*, pipelined: bool) -> None:
    tiles = FlatTiles(rows=4, keys=4, online=True, pipelined=pipelined, tile_slots=2)
    workload = attention_workload(1, 1, 16, 4)
    _assert_equal(accelerator(), case(workload, flat_group(workload, tiles)).program)
