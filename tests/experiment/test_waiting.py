"""Waiting is what a run has beyond its bound: by cause, and all of it."""

import pytest

from simaccel.experiment.limits import computing_unit, waiting_by_cause
from simaccel.experiment.run import simulate
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.accounts import EngineCycles
from simaccel.machine.machine import OperatorRun
from simaccel.workload import gemm


def _run(busy: int, idle: int = 0, **stalls: int) -> OperatorRun:
    """Return a run of one engine that computes."""
    account = EngineCycles(busy, idle, stalls)
    cycles = busy + idle + sum(stalls.values())
    return OperatorRun("a", cycles, 0, 0, {}, 0, {"array": account})


@pytest.mark.parametrize(
    ("terms", "left"),
    [
        ({"array": 60}, {"dram_bandwidth": 25, "idle": 10, "dram_latency": 5}),
        ({"array": 60, "drain": 4}, {"dram_bandwidth": 25, "idle": 6, "dram_latency": 5}),
        ({"fill": 7, "array": 60}, {"dram_bandwidth": 23, "idle": 10}),
        ({"dram": 82}, {"idle": 10, "dram_latency": 5, "busy": 3}),
        ({"array": 58}, {"dram_bandwidth": 25, "idle": 10, "dram_latency": 5, "busy": 2}),
        ({"array": 60, "dram": 40}, {}),
    ],
)
def test_terms_of_the_bound_take_their_own_causes(
    terms: dict[str, int], left: dict[str, int]
) -> None:
    """60 of 100 cycles busy, 25 for bandwidth, 5 for latency, 10 idle."""
    run = _run(60, idle=10, dram_bandwidth=25, dram_latency=5)
    found = waiting_by_cause(run, terms)
    assert found == left
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_a_bound_above_the_cycles_of_a_group_leaves_nothing() -> None:
    assert waiting_by_cause(_run(60), {"array": 61}) == {}


def test_one_tile_waits_for_what_the_bound_has_not() -> None:
    """4 x 4 x 4 on a toy: the array has 4 + 4 + 2 cycles of a fold; fill and drain surround it.

    Whatever is left beside them is a stall of the array, or it is idle behind its last fold.
    """
    found = simulate(gemm(m=4, k=4, n=4), load_accelerator("toy"), "naive")
    assert computing_unit(found.run) == "array"
    waiting = waiting_by_cause(found.run, found.prediction.bound_terms)
    assert sum(waiting.values()) == found.run.cycles - found.prediction.bound_cycles
    account = found.run.engines["array"]
    for cause, n in waiting.items():
        assert n <= {"busy": account.busy, "idle": account.idle, **account.stalls}[cause]
