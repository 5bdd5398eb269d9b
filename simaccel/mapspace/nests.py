"""Mapping one einsum on a hierarchy: mapspace, search, and what is wrong if nothing is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from simaccel.analytic.nest import Costs, evaluate, require_nestable
from simaccel.errors import SimaccelError
from simaccel.hardware.dataflow import Constraints, merged, single
from simaccel.hardware.levels import UNLIMITED, Hierarchy, Temporal
from simaccel.mapping.choices import NestMapping
from simaccel.mapping.nest import Nests
from simaccel.mapspace.blocks import Problem, Task, run_block
from simaccel.mapspace.search import Each, Effort, Found, Watch, search
from simaccel.mapspace.space import Space, Strategy, spaces
from simaccel.workload import Einsum, Tensor

_TRIES = 8
"""Blocks drawn to see whether a mapspace has any valid mapping."""


class EmptyMapspaceError(SimaccelError):
    """No mapping is left; the message says which constraint leaves none."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is mapped on what, and within which constraints.

    ``known``: mappings to start from; none that is in the mapspace is better than what is found.
    """

    einsum: Einsum
    tensors: Mapping[str, Tensor]
    hierarchy: Hierarchy
    strategy: Strategy
    dataflow: Constraints
    asked: Constraints
    known: tuple[NestMapping, ...] = ()

    def problem(self) -> Problem:
        """Give the mapspaces of this.

        Raises:
            InputError: constraints that can't be, a known mapping of something else.
            NotNestableError: an einsum that the closed form doesn't count.

        """
        einsum, hierarchy = self.einsum, self.hierarchy
        require_nestable(einsum)
        found = spaces(einsum, hierarchy, self.strategy, self.dataflow, self.asked)
        needed = [operand.tensor for operand in (*einsum.inputs, einsum.output)]
        tensors = {name: self.tensors[name] for name in needed}
        known = Nests.of(einsum, hierarchy, self.known) if self.known else None
        return Problem(einsum, tensors, found, known)

    def evaluate(self, space: Space, found: Found, hierarchy: Hierarchy | None = None) -> Costs:
        """Give all figures of the best mapping."""
        assert found.nests is not None  # noqa: S101 - narrows the type
        return evaluate(self.einsum, self.tensors, hierarchy or space.hierarchy, found.nests)


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """The best mapping, its figures, and how it was found."""

    target: Target
    mapping: NestMapping
    costs: Costs
    """Of one candidate."""
    found: Found
    bounds: tuple[str, ...]
    """What limits the cycles: ``compute``, or a level's bandwidth such as ``dram read``."""

    @property
    def utilisation(self) -> float:
        """Effectual MACs over those that all PEs could do in these cycles."""
        macs = int(self.costs.macs[0] - self.costs.ineffectual[0])
        return macs / (int(self.costs.cycles[0]) * self.target.hierarchy.macs_per_cycle)


def map_einsum(
    target: Target,
    effort: Effort,
    each: Each = map,
    watch: Watch = lambda _done, _note: None,
) -> Mapped:
    """Find the best mapping of an einsum.

    Raises:
        InputError: constraints that can't be.
        EmptyMapspaceError: no mapping satisfies them, or none fits.

    """
    problem = target.problem()
    problem = replace(problem, spaces=tuple(s for s in problem.spaces if s.combinations))
    if not problem.spaces:
        raise EmptyMapspaceError(_why(target))
    found = search(problem, effort, each, watch)
    if found.nests is None:
        raise EmptyMapspaceError(_why(target))
    return mapped_as(target, found)


def mapped_as(target: Target, found: Found) -> Mapped:
    """Give all figures of a mapping that was found."""
    assert found.nests is not None  # noqa: S101 - narrows the type
    costs = target.evaluate(found.space, found)
    return Mapped(
        target=target,
        mapping=found.nests.mapping(target.einsum, target.hierarchy, 0),
        costs=costs,
        found=found,
        bounds=tuple(_bounds(target, found, costs)),
    )


def _bounds(target: Target, found: Found, costs: Costs) -> Iterator[str]:
    """Say what limits the cycles: what, if it were no limit, would leave fewer."""
    cycles = int(costs.cycles[0])
    if int(costs.steps[0]) == cycles:
        yield "compute"
    levels = found.space.hierarchy.levels
    for at, level in enumerate(levels):
        if not isinstance(level, Temporal):
            continue
        freed = {
            "read": replace(level, read=UNLIMITED),
            "write": replace(level, write=UNLIMITED),
            "bandwidth": replace(level, both=UNLIMITED),
        }
        for way, free in freed.items():
            other = replace(found.space.hierarchy, levels=(*levels[:at], free, *levels[at + 1 :]))
            if int(target.evaluate(found.space, found, other).cycles[0]) < cycles:
                yield f"{level.name} {way}"


def _why(target: Target) -> str:
    """Find the constraints without which there are mappings, one at a time."""
    every = merged(target.dataflow, target.asked)
    parts = single(every)
    guilty = []
    for text, _, _ in parts:
        rest: Constraints = {}
        for other, level, part in parts:
            if other != text:
                rest = merged(rest, {level: part})
        if _has_mappings(replace(target, dataflow=rest, asked={})):
            guilty.append(text)
    what = f"{target.einsum.name}: no {target.strategy} mapping"
    if guilty:
        return f"{what} within the constraints; without {' or without '.join(guilty)} there are"
    if parts and _has_mappings(replace(target, dataflow={}, asked={})):
        texts = ", ".join(text for text, _, _ in parts)
        return (
            f"{what} within the constraints {texts}; without any one of them there is none either"
        )
    return f"{what} fits the memories and fan-outs"


def _has_mappings(target: Target) -> bool:
    problem = target.problem()
    for at, space in enumerate(problem.spaces):
        if not space.combinations:
            continue
        for block in range(_TRIES):
            seed = (0, block)
            if run_block(Task(problem, "edp", at, seed=seed)).valid:
                return True
    return False
