"""What near-ties give up, in words, for hand-made figures."""

from simaccel import simulate
from simaccel.report.objective_losses import given_up_lines
from simaccel.search.accounts import ObjectiveLosses
from simaccel.workload import gemm


def test_what_is_faster_than_the_fastest_is_compared_with_each_group_alone() -> None:
    """A group that is no slower but cheaper may let another hold its tensor."""
    result = simulate(gemm(m=9, k=7, n=5), "toy", "naive")
    cycles = result.run.cycles
    slower = ObjectiveLosses(cycles=cycles / 101)
    faster = ObjectiveLosses(cycles=-cycles / 99)
    assert given_up_lines([slower], result, "cycles", 0.01) == [
        "chosen within 1%: +1.0% cycles against the fastest"
    ]
    assert given_up_lines([faster], result, "cycles", 0.01) == [
        "chosen within 1%: -1.0% cycles against the fastest of each group alone"
    ]
