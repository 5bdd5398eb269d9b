"""Random nests: what the machine does is what the closed form and plain numpy say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simaccel.analytic.estimate import estimate
from simaccel.analytic.nest import evaluate
from simaccel.experiment.check import einsum_values
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES
from simaccel.machine.machine import Machine
from simaccel.mapping.nest import Nests
from simaccel.program.interpreter import interpret
from simaccel.program.lower import lower
from simaccel.program.program import reserved_bytes
from simaccel.program.text import parse_program, program_text
from tests.nests import NestCase, draw_nest, draw_systolic_nest, runs

BLOCKS = pytest.mark.parametrize("block", range(10))


def _cases(block: int) -> list[NestCase]:
    """Give cases of spatial and of systolic arrays."""
    seeds = range(block * 60, block * 60 + 60)
    drawn = [*map(draw_nest, seeds), *map(draw_systolic_nest, seeds[:20])]
    return [case for case in drawn if case is not None and runs(case)]


@BLOCKS
def test_machine_and_closed_form_agree_to_the_byte(block: int) -> None:
    for case in _cases(block):
        program = lower(case.workload, case.mapping)
        run = Machine(case.accelerator, program).run()
        predicted = estimate(case.workload, case.mapping, case.accelerator)
        assert predicted.moved == run.moved, case
        assert predicted.macs == run.macs
        assert predicted.buffer_bytes == reserved_bytes(program) >= run.peak_buffer_bytes
        assert predicted.resource_bound_cycles <= run.cycles


@BLOCKS
def test_the_machine_does_what_the_search_counted(block: int) -> None:
    """The search knows no NoC; everything else is the same in both."""
    for case in _cases(block):
        hierarchy = levels(case.accelerator)
        nests = Nests.of(case.einsum, hierarchy, [case.nest])
        costs = evaluate(case.einsum, case.workload.tensors, hierarchy, nests)
        run = Machine(case.accelerator, lower(case.workload, case.mapping)).run()
        tensors = dict(zip(ROLES, case.einsum.inputs, strict=False)) | {
            "output": case.einsum.output
        }
        for at, level in enumerate(hierarchy.memories):
            for role, operand in tensors.items():
                place = f"pe.{role}" if level.name == "pe" else level.name
                for way, counted in (("read", costs.reads), ("write", costs.writes)):
                    expected = int(counted[0, at, ROLES.index(role)])
                    assert run.moved.get((f"{place}_{way}", operand.tensor), 0) == expected
        if case.accelerator.array.kind == "spatial":
            assert run.engines["array"].busy == int(costs.steps[0])
        assert run.cycles >= int(costs.cycles[0])


@BLOCKS
def test_the_estimate_has_the_cycles_of_all_passes(block: int) -> None:
    for case in _cases(block):
        run = Machine(case.accelerator, lower(case.workload, case.mapping)).run()
        predicted = estimate(case.workload, case.mapping, case.accelerator)
        assert predicted.operators[0].resources["array"] == run.engines["array"].busy


@BLOCKS
def test_without_limits_a_run_takes_its_steps(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        case = draw_nest(seed, limited=False)
        if runs(case):
            run = Machine(case.accelerator, lower(case.workload, case.mapping)).run()
            assert run.cycles == run.engines["array"].busy


@BLOCKS
def test_programs_compute_the_einsum(block: int) -> None:
    for case in _cases(block):
        einsum, padded = case.einsum, case.nest.padded
        sizes = {rank: padded.get(rank, size) for rank, size in einsum.ranks.items()}
        numbers = np.random.default_rng(block)
        given = {one.tensor: numbers.normal(size=one.shape(einsum.ranks)) for one in einsum.inputs}
        dram = {einsum.output.tensor: np.full(einsum.output.shape(sizes), np.nan)}
        for one in einsum.inputs:
            dram[one.tensor] = np.zeros(one.shape(sizes))
            dram[one.tensor][tuple(slice(n) for n in given[one.tensor].shape)] = given[one.tensor]
        expected = einsum_values(einsum, given)
        made = interpret(lower(case.workload, case.mapping), dram)[einsum.output.tensor]
        np.testing.assert_allclose(made[tuple(slice(n) for n in expected.shape)], expected)
        assert not np.isnan(made).any()


@BLOCKS
def test_fast_forward_changes_nothing(block: int) -> None:
    for case in _cases(block):
        program = lower(case.workload, case.mapping)
        fast, slow = (
            Machine(case.accelerator, program, fast_forward=on).run() for on in (True, False)
        )
        assert replace(fast, events=0) == replace(slow, events=0), case


@BLOCKS
def test_programs_print_and_parse_back(block: int) -> None:
    for case in _cases(block):
        program = lower(case.workload, case.mapping)
        assert parse_program(program_text(program)) == program


def test_the_cases_have_what_can_go_wrong() -> None:
    texts = [program_text(lower(c.workload, c.mapping)) for b in range(10) for c in _cases(b)]
    said = ("slides", " back ", "reserve", "in stream", "in pe.output", "from tile", "into tile")
    for what in said:
        assert sum(what in text for text in texts) > 10, what
