"""Groups at once as searches write them: small products, which pieces leave an array half empty."""

import pytest

from simaccel.experiment.check import check
from simaccel.hardware.load import with_values
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, choice, make_mapping
from simaccel.schedulers.concurrent_groups import divide
from simaccel.search.judge import Body
from simaccel.workload import Workload
from tests.trees import einsum, vector, workload

QUICK = Options(patience=2)
EDGE = load_accelerator("edge", ["cores.count=2", "dram.bandwidth_bytes_per_second=200 GB/s"])


def branches(k: int) -> Workload:
    """Return two products of 4 rows and 4 columns, and their sum."""
    return workload(
        einsum("left", "L m n", "X m k", "V k n", m=4, k=k, n=4),
        einsum("right", "R m n", "Y m k", "W k n", m=4, k=k, n=4),
        vector("sum", "residual", "Z m n", "L m n", "R m n", m=4, n=4),
        bits=dict.fromkeys("XYVWLRZ", 16),
        weights=["V", "W"],
    )


def _apart(_workload: Workload, bodies: list[Body], _search: object) -> Body:
    return bodies[0]


def _cycles(of: Workload, mapping: Mapping) -> int:
    program = lower(of, mapping)
    check(of, mapping, program)
    return Machine(EDGE, program).run().cycles


def test_small_products_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 columns are one strip of the array, so that a piece of the rows takes as many folds."""
    of = branches(k=64)
    together = [make_mapping(of, EDGE, dataflow, QUICK) for dataflow in ("flex", "best")]
    for mapping in together:
        places = {group.name: group.place for group in mapping.groups}
        assert places == {"left": range(1), "right": range(1, 2), "sum": None}
    monkeypatch.setattr(choice, "parallelise_groups", _apart)
    apart = _cycles(of, make_mapping(of, EDGE, "flex", QUICK))
    assert all(_cycles(of, mapping) < 0.8 * apart for mapping in together)


def test_what_is_fused_is_no_slower_than_what_runs_at_once() -> None:
    """Three products and their sum, which fused were slower than apart and at once."""
    of = workload(
        *(
            einsum(f"product{i}", f"S{i} m n", f"X{i} m k", f"W{i} k n", m=20, k=129, n=24)
            for i in range(3)
        ),
        vector("first", "residual", "T m n", "S0 m n", "S1 m n", m=20, n=24),
        vector("second", "residual", "Z m n", "T m n", "S2 m n", m=20, n=24),
    )
    apart, fused = (
        _cycles(of, make_mapping(of, EDGE, dataflow, QUICK)) for dataflow in ("flex", "best")
    )
    assert fused <= apart


def test_what_is_not_faster_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little to do for each core all waits for the DRAM."""
    of, slow = branches(k=32), with_values(EDGE, {"dram.bandwidth_bytes_per_second": 10**9}, "test")
    found = make_mapping(of, slow, "flex", QUICK)
    assert not faults(of, found, slow)
    monkeypatch.setattr(choice, "parallelise_groups", _apart)
    apart = make_mapping(of, slow, "flex", QUICK)
    cycles = [Machine(slow, lower(of, one)).run().cycles for one in (found, apart)]
    assert cycles[0] <= cycles[1]


def test_cores_by_hand() -> None:
    """Each strand has one; more go where cores have most to do. Too many strands share cores."""
    assert divide([900, 200, 100], 5) == [range(3), range(3, 4), range(4, 5)]
    assert divide([7, 5, 4], 2) == [range(1), range(1, 2), range(1, 2)]
