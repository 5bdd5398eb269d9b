"""Searches whose time is up at once, and choices where memory or NoC take time."""

import time
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from simaccel.hardware.dataflow import parse_constraints
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.spatial import choices, double_buffered, mapping_from, search_all
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import Effort
from simaccel.search.front import FrontFigures
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import NestResult, map_einsum
from simaccel.study.fronts import pareto
from simaccel.workload import Einsum, build, conv2d, gemm, network
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
    assert not short["proved"]
    assert 1 <= len(short["points"]) < len(whole["points"])


LIMITS = [
    "dram.bandwidth_bytes_per_second=2 GB/s",
    "noc.distribution.topology=bus",
    "noc.distribution.link_bytes_per_cycle=16",
    "noc.collection.topology=bus",
    "noc.collection.link_bytes_per_cycle=8",
]
EFFORT = Effort(objective="cycles", patience=2_000)
WORKLOAD = network("resnet50", layer="res2a_branch1")


@cache
def _searched(*limits: str) -> NestResult:
    """Search the whole mapspace alone, once for all tests."""
    return map_einsum(_target([*limits]), EFFORT)


def _target(limits: list[str]) -> MappingTarget:
    accelerator = load_accelerator("eyeriss_like", limits)
    operator = WORKLOAD.operators[0]
    assert isinstance(operator, Einsum)
    assert isinstance(accelerator.array, SpatialArraySpec)
    return MappingTarget(
        einsum=operator,
        tensors=WORKLOAD.tensors,
        accelerator=accelerator,
        strategy="ruby-s",
        dataflow=parse_constraints(accelerator.array.dataflow),
        constraints={},
    )


def test_a_search_gives_good_mappings_that_spread_the_work_differently() -> None:
    found = _searched(*LIMITS).found
    assert found.best is not None
    assert found.good is not None
    assert len(found.good) == 128
    assert (found.good.factors[:1] == found.best.factors).all()
    # rows and columns, the levels after DRAM and buffer
    spread = {tuple(one[2:4].ravel().tolist()) for one in found.good.factors}
    assert len(spread) > 4


def test_the_choice_takes_fewer_cycles_than_what_the_search_alone_finds() -> None:
    accelerator = load_accelerator("eyeriss_like", LIMITS)
    alone = _searched(*LIMITS)
    mapped = choices(WORKLOAD, accelerator, "ruby-s", {})
    (chosen,) = search_all(mapped, Options(effort=EFFORT))
    assert double_buffered(chosen) != double_buffered(alone)

    def cycles(mapping: Mapping) -> int:
        return Machine(accelerator, lower(WORKLOAD, mapping)).run().cycles

    first, best = (mapping_from(WORKLOAD, accelerator, "ruby-s", [one]) for one in (alone, chosen))
    assert cycles(best) < cycles(first)


def test_without_limits_the_best_of_the_search_is_taken() -> None:
    accelerator = load_accelerator("eyeriss_like")
    (chosen,) = search_all(choices(WORKLOAD, accelerator, "ruby-s", {}), Options(effort=EFFORT))
    alone = _searched()
    assert chosen.group == alone.group
    assert chosen.found.score == alone.found.score == pytest.approx(chosen.cycles)
