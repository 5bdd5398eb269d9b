"""What mapspaces give runs on the machine, which moves the bytes that the closed form counts."""

import numpy as np
import pytest

from simaccel.analytic.evaluation import evaluate
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.search.judge import mapping_of
from simaccel.search.mapspace.limits import dataflows
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.space import EinsumMapspace, spaces
from simaccel.workload import Conv, Tensor
from tests.analytic.nest_cases import draw_case
from tests.draws import DRAWS, seeds


def _runs(target: MappingTarget, space: EinsumMapspace, seed: int) -> int:
    genes, factors = space.fitting(space.random(np.random.default_rng(seed), 60))
    every = space.candidates(genes, factors)
    fitting = every.take(target.fits(space, every))
    family = evaluate(target.family(space, fitting), target.accelerator).counts.moved
    for at in range(min(len(fitting), 3)):
        group = target.group(space, fitting.take(slice(at, at + 1)))
        mapping = mapping_of(target.workload, "drawn", [group])
        run = Machine(target.accelerator, lower(target.workload, mapping)).run()
        totals = target.totals(group)
        counted = {level: int(n) for level, n in totals.counts.moved.items() if int(n)}
        assert counted == {level: n for level, n in run.moved.items() if n}
        for level, n in counted.items():
            assert np.broadcast_to(family[level], len(fitting))[at] == n
        assert int(totals.bound()) <= run.cycles
    return min(len(fitting), 3)


def test_on_spatial_arrays() -> None:
    ran = 0
    for seed in seeds(12):
        case = draw_case(seed)
        if not any("output" in level.roles for level in case.hierarchy.memories[1:]):
            continue  # sums have to be kept somewhere on chip
        names = [one.tensor for one in (*case.einsum.inputs, case.einsum.output)]
        target = MappingTarget(
            einsum=case.einsum,
            tensors={name: Tensor(name, 1 + at % 2) for at, name in enumerate(names)},
            accelerator=case.accelerator,
            strategy="ruby",
            room=case.hierarchy,
        )
        (space,) = spaces(case.einsum, case.hierarchy, "ruby")
        ran += _runs(target, space, seed)
    assert ran > 25 * DRAWS


@pytest.mark.parametrize("strategy", ["pfm", "ruby-s", "ruby"])
def test_on_systolic_arrays(strategy: str) -> None:
    accelerator = load_accelerator("edge", ["array.rows=6", "array.cols=5"])
    einsum = Conv(c=6, m=7, p=5, q=4, r=3, s=2, n=1).einsum("conv")
    names = [one.tensor for one in (*einsum.inputs, einsum.output)]
    for stationarity, dataflow in dataflows(einsum, {}).items():
        target = MappingTarget(
            einsum=einsum,
            tensors={name: Tensor(name) for name in names},
            accelerator=accelerator,
            strategy=strategy,  # type: ignore[arg-type]
            dataflow=dataflow,
            constraints={},
            stationarity=stationarity,
        )
        (space,) = target.spaces()
        assert _runs(target, space, 1) == 3
