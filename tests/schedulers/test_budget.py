"""A budget of time that is used up at once: every search ends with what it sees first."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product

import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.schedulers import Options, make_mapping
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import Effort
from simaccel.search.front import FrontFigures
from simaccel.study.pareto import pareto
from simaccel.workload import build, conv2d, gemm
from tests.draws import DRAWS, some
from tests.program.programs import attention_workload
from tests.trees import einsum, workload

_DATAFLOWS = ("flex", "flash", *("flat", "best") * (DRAWS > 1))
_NONE = Effort(budget_seconds=1e-9)


def _ran(dataflow: str, effort: Effort, **options: object) -> list[SearchAccount]:
    accounts: list[SearchAccount] = []
    asked = Options(effort=effort, on_account=accounts.append, **options)  # type: ignore[arg-type]
    block = build("bert", seq_len=128, batch=1) if DRAWS > 1 else attention_workload(1, 1, 4, 4)
    make_mapping(block, load_accelerator("edge"), dataflow, asked)
    return accounts


@pytest.mark.parametrize(
    ("objective", "dataflow"),
    [*product(["cycles"], _DATAFLOWS), *some(product(["edp"], _DATAFLOWS[1:]))],
)
def test_dataflows_run_a_candidate_of_each_group(dataflow: str, objective: str) -> None:
    hurried = _ran(dataflow, _NONE, objective=objective)
    patient = _ran(dataflow, Effort(), objective=objective)
    assert sum(one.ran for one in hurried) < sum(one.ran for one in patient)
    fastest = _ran(dataflow, _NONE, objective=objective, tolerance=0.0)
    assert all(one.ran <= 4 for one in fastest)  # resident rows: L, softmax, A and all together
    assert all(one.ran <= 12 for one in hurried)  # and what is about as fast


def test_nothing_more_is_held_between_groups_once_it_is_over() -> None:
    """Two products, the second of what the first made, on a chip that holds it by default."""
    chain = workload(
        einsum("one", "T m n", "X m k", "A k n", m=64, k=64, n=64),
        einsum("two", "Y m p", "T m n", "B n p", m=64, n=64, p=64),
    )
    edge = load_accelerator("edge")
    hurried, patient = (
        make_mapping(chain, edge, "flex", Options(effort=effort)) for effort in (_NONE, Effort())
    )
    assert len(hurried.body) == 2
    assert len(patient.body) == 1


def test_operators_of_a_mapspace_share_it() -> None:
    accounts: list[SearchAccount] = []
    options = Options(effort=_NONE, on_account=accounts.append)
    on = load_accelerator("eyeriss_like", ["dram.bandwidth_bytes_per_second=1 GB/s"])
    make_mapping(conv2d(m=16, c=16, p=14, q=14, r=3, s=3), on, "ruby-s", options)
    assert {one.ended for one in accounts} == {"budget"}


def test_shares_of_what_is_left() -> None:
    now = time.monotonic()
    options = Options(effort=Effort(budget_seconds=8000), ends=now + 8000)
    first = options.share(4)
    assert first.effort.budget_seconds == pytest.approx(2000, abs=100)
    assert first.ends == pytest.approx(now + 2000, abs=100)
    assert replace(options, ends=now - 1).share(2).effort.budget_seconds == 0.5e-9
    assert Options().share(3) == Options()


def test_a_front_has_what_was_run_until_then() -> None:
    on, workload = load_accelerator("toy"), gemm(m=9, k=8, n=7)
    asked = FrontFigures("cycles", "energy")
    whole = pareto(workload, on, "flex", Options(), asked)
    short = pareto(workload, on, "flex", Options(effort=_NONE), asked)
    assert not short.proved
    assert 1 <= len(short.points) < len(whole.points)
