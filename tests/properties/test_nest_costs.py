"""What nests cost: energy as in the search, accounts that add up, programs that stay small."""

from __future__ import annotations

from random import Random

import pytest

from simaccel.analytic.nest import evaluate
from simaccel.experiment.recording import accelerator_document
from simaccel.hardware import Accelerator
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES
from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.choices import Mapping, NestGroup, NestLevel, NestMapping, WorkloadReference
from simaccel.mapping.nest import Nests
from simaccel.program.lower import lower
from simaccel.program.program import Loop, Node, Operator, Program, size
from simaccel.workload import Conv, Tensor, Workload
from tests.nests import draw_accelerator, draw_long_nest, draw_sums, runs


def _without_price_of_noc(drawn: Accelerator) -> Accelerator:
    document = accelerator_document(drawn)
    document["energy"] = {**document["energy"], "noc_pj_per_byte": 0.0}
    return Accelerator.model_validate(document)


@pytest.mark.parametrize("block", range(4))
def test_energy_is_that_of_the_search_and_accounts_add_up(block: int) -> None:
    compared = 0
    for seed in range(block * 25, block * 25 + 25):
        draw = Random(seed)  # noqa: S311 - not a secret
        on = _without_price_of_noc(draw_accelerator(draw))
        for case in (draw_long_nest(draw, on), draw_sums(draw, on)):
            if not runs(case):
                continue
            hierarchy = levels(on)
            nests = Nests.of(case.einsum, hierarchy, [case.nest])
            costs = evaluate(case.einsum, case.workload.tensors, hierarchy, nests)
            run = Machine(on, lower(case.workload, case.mapping)).run()
            energy = on.energy_by_level(run.macs, run.elements, run.moved)
            assert sum(energy.values()) == pytest.approx(float(costs.energy_pj[0]), rel=1e-12)
            for engine in run.engines.values():
                assert engine.busy + sum(engine.stalls.values()) + engine.idle == run.cycles
            compared += 1
    assert compared > 10


def _remainders_everywhere(conv: Conv, factor: int) -> Program:
    """Lower a convolution whose ranks are split by 3 in buffer and PEs, and leave remainders."""
    einsum = conv.einsum("conv")
    roles = dict(zip(ROLES, (*einsum.inputs, einsum.output), strict=True))
    tensors = {one.tensor: Tensor(one.tensor, 1, role) for role, one in roles.items()}
    workload = Workload("conv", (einsum,), tensors)
    made = []
    for level in levels(load_accelerator("simba_like")).levels:
        kept = tuple(role for role in ROLES if role in getattr(level, "roles", ()))
        splits = level.name in ("buffer", "pe")
        factors = dict.fromkeys(einsum.ranks, factor) if splits else {}
        order = tuple(einsum.ranks) if kept else ()
        made.append(NestLevel(level=level.name, factors=factors, order=order, keep=kept))
    group = NestGroup(operator="conv", mapping=NestMapping(levels=tuple(made)))
    reference = WorkloadReference(name="conv", fingerprint=workload.fingerprint)
    return lower(workload, Mapping(workload=reference, dataflow="drawn", groups=(group,)))


def _objects(body: tuple[Node, ...], known: set[int]) -> int:
    for node in body:
        if id(node) not in known:
            known.add(id(node))
            if isinstance(node, Loop | Operator):
                _objects(node.body, known)
    return len(known)


def test_a_program_does_not_grow_with_trips() -> None:
    small, large = (
        _remainders_everywhere(Conv(m=n, c=n, p=n, r=n, q=1, s=1), 3) for n in (23, 9 * 10**6 + 14)
    )
    assert size(small) == size(large) < 2_000


def test_remainders_of_seven_ranks_on_two_levels_stay_within_bounds() -> None:
    """Each rank has three bodies (full, last, last of the last), whatever its size: 3 ** 7 passes.

    First sums and first windows come on top; equal bodies are one object.
    """
    program = _remainders_everywhere(Conv(n=23, m=23, c=23, p=23, q=23, r=23, s=23), 3)
    assert 3**7 < size(program) < 20 * 3**7
    assert _objects(program.body, set()) < size(program) / 2
