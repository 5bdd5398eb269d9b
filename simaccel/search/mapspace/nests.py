"""The search of one einsum's mapping in its mapspace, and the reason if there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from simaccel.analytic.evaluation import FamilyTotals
from simaccel.errors import SimaccelError
from simaccel.hardware.area.parts import edp_js
from simaccel.hardware.dataflow import Constraints, merge_constraints, single
from simaccel.mapping.tree import Group
from simaccel.search.effort import Effort, Watch
from simaccel.search.mapspace.blocks import BlockTask, MapspaceProblem, run_block
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.mapspace_search import MapspaceResult, search_mapspace
from simaccel.units import ARRAY

_TRIES = 8
"""Random blocks that test whether a mapspace has any valid mapping."""


class EmptyMapspaceError(SimaccelError):
    """A mapspace without a valid mapping; the message names the constraint that excludes all."""


@dataclass(frozen=True, kw_only=True)
class NestResult:
    """The best mapping of an einsum, its counts, and how it was found."""

    target: MappingTarget
    found: MapspaceResult

    @cached_property
    def group(self) -> Group:
        """The mapping, with one slot for each tile."""
        assert self.found.best is not None  # noqa: S101 - narrows the type
        return self.target.group(self.found.space, self.found.best)

    @cached_property
    def totals(self) -> FamilyTotals:
        """Totals of the mapping."""
        return self.target.totals(self.group)

    @property
    def cycles(self) -> int:
        """Cycles of the busiest resource, by which the search compares."""
        return int(self.totals.resource_bound())

    @property
    def steps(self) -> int:
        """Cycles of the array."""
        return int(self.totals.resources[ARRAY])

    @property
    def energy_pj(self) -> float:
        """Energy of all levels in pJ."""
        if self.target.accelerator.unknown_energies:
            return math.nan
        by_level = self.totals.energy_pj(self.totals.resource_bound())
        return sum(float(energy) for energy in by_level.values())

    @property
    def edp_js(self) -> float:
        """Energy times delay in joule seconds."""
        return edp_js(self.energy_pj, self.target.accelerator.seconds(self.cycles))

    @property
    def macs(self) -> int:
        """Multiply-accumulates, including those of padding."""
        return int(self.totals.counts.macs)

    @property
    def ineffectual(self) -> int:
        """Multiply-accumulates of padding."""
        return self.macs - self.target.einsum.macs

    @property
    def utilisation(self) -> float:
        """Effectual MACs divided by the MACs that all PEs could do in these cycles."""
        return self.target.einsum.macs / (self.cycles * self.target.hierarchy.macs_per_cycle)

    @property
    def bounds(self) -> tuple[str, ...]:
        """Limits of the cycles: ``compute``, or a resource such as ``dram``."""
        cycles = self.cycles
        return tuple(
            "compute" if name == ARRAY else name
            for name, work in self.totals.resources.items()
            if int(work) == cycles
        )


def map_einsum(
    target: MappingTarget, effort: Effort, watch: Watch = lambda _done, _note: None
) -> NestResult:
    """Search the best mapping of an einsum.

    Raises:
        InputError: impossible constraints.
        EmptyMapspaceError: no mapping satisfies them, or none fits.
    """
    spaces = tuple(space for space in target.spaces() if space.combinations)
    if not spaces:
        raise EmptyMapspaceError(_conflicting_constraints(target))
    result = search_mapspace(MapspaceProblem(target, spaces), effort, watch)
    if result.best is None and result.ended == "budget":
        what = f"{target.einsum.name}: no {target.strategy} mapping was found"
        raise EmptyMapspaceError(f"{what} in {effort.budget_seconds:.3g} s; give more time")
    if result.best is None:
        raise EmptyMapspaceError(_conflicting_constraints(target))
    return NestResult(target=target, found=result)


def _conflicting_constraints(target: MappingTarget) -> str:
    """Return the reason for no mapping: constraints without any one of which there are mappings."""
    every = merge_constraints(target.dataflow, target.constraints)
    parts = single(every)
    guilty = []
    for text, _, _ in parts:
        rest: Constraints = {}
        for other, level, part in parts:
            if other != text:
                rest = merge_constraints(rest, {level: part})
        if _has_mappings(replace(target, dataflow=rest, constraints={})):
            guilty.append(text)
    what = f"{target.einsum.name}: no {target.strategy} mapping"
    if guilty:
        return f"{what} within the constraints; without {' or without '.join(guilty)} there are"
    if parts and _has_mappings(replace(target, dataflow={}, constraints={})):
        texts = ", ".join(text for text, _, _ in parts)
        return (
            f"{what} within the constraints {texts}; without any one of them there is none either"
        )
    return f"{what} fits the memories and fan-outs"


def _has_mappings(target: MappingTarget) -> bool:
    problem = MapspaceProblem(target, target.spaces())
    for at, space in enumerate(problem.spaces):
        if not space.combinations:
            continue
        for block in range(_TRIES):
            if run_block(BlockTask(problem, "edp", at, seeds=((0, block),))).valid:
                return True
    return False
