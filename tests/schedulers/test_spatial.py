"""The choice among good mappings where memory or NoC take time."""

from __future__ import annotations

from functools import cache

import pytest

from simaccel.hardware.dataflow import parse_constraints
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers import Options
from simaccel.schedulers.spatial import choices, double_buffered, mapping_from, search_all
from simaccel.search.effort import Effort
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import NestResult, map_einsum
from simaccel.workload import Einsum, network

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
