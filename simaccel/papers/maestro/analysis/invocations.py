"""Invocations of the cluster levels of a dataflow, with the costs of each of their cases.

An invocation of a level is what one sub-cluster of the level above does in one step. Its actual
sizes decide all; invocations of equal sizes are one object, made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np

from simaccel.errors import SimaccelError
from simaccel.papers.maestro.analysis.states import Bools, Ints
from simaccel.papers.maestro.dataflows.dataflow import DimMap, Role


@dataclass(frozen=True, kw_only=True)
class InnerSizes:
    """Sizes that sub-clusters of a case work on: of the dimensions (rows, in map order), by case.

    ``units`` is how many of them there are; 0 where a case has none of this kind.
    """

    sizes: Ints
    units: Ints


@dataclass(frozen=True, kw_only=True)
class CaseCosts:
    """Arrays over the cases of an invocation; elements, MACs and sub-clusters.

    ``fetched``: what comes from above; ``delivered``: what all sub-clusters together take in;
    ``held``: what their tiles have together, each tile for itself;
    ``leaving`` and ``returning``: outputs that go up, and partial sums that come back;
    ``merged``: sums read above to be added to what leaves; ``distinct``: new elements of what is
    fetched, each once; ``sums``: how many sums of an output leave side by side;
    ``critical``: MACs of the first sub-cluster; ``inside``: the work of the sub-clusters, the
    smaller last one first. ``tiles``: elements of a sub-cluster's tile.
    """

    occurrences: Ints
    is_start: Bools
    fetched: Mapping[Role, Ints]
    delivered: Mapping[Role, Ints]
    held: Mapping[Role, Ints]
    leaving: Ints
    returning: Ints
    merged: Ints
    distinct: Mapping[Role, Ints]
    sums: Ints
    macs: Ints
    critical: Ints
    active: Ints
    inside: tuple[InnerSizes, InnerSizes]
    tiles: Mapping[Role, int]

    @property
    def is_valid(self) -> Bools:
        """Whether each case computes anything; those that don't take no time."""
        return np.asarray(self.critical > 0)

    @property
    def arriving(self) -> Ints:
        """Elements that come from above in each case, of all tensors."""
        return self.fetched["input"] + self.fetched["filter"] + self.returning


class AnyLevel(Protocol):
    """A cluster level, as the paper or MAESTRO's code reads it: its maps and sub-clusters."""

    @property
    def maps(self) -> tuple[DimMap, ...]:
        """The maps from the outermost."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """Nominal sizes of the dimensions."""
        ...

    @property
    def units(self) -> int:
        """Sub-clusters."""
        ...


Level = TypeVar("Level", bound=AnyLevel)


def _pass_up(costs: CaseCosts, shares: Sequence[InvocationShare], valid: Ints) -> CaseCosts:
    """Return a level's costs with the traffic of the levels inside, which have no memory.

    Data that a cluster doesn't multicast are fetched once for each receiver inside; partial sums
    that it doesn't add leave side by side.
    """
    sums: Ints = np.ones(len(costs.occurrences), dtype=np.int64)
    fetches: dict[Role, Ints] = {role: sums.copy() for role in costs.fetched}
    distinct: dict[Role, Ints] = {role: sums.copy() for role in costs.fetched}
    for share in shares:
        has = share.units > 0
        for at, inner in enumerate(share.invocations):
            at_cases = valid[has & (share.at == at)]
            sums[at_cases] = np.maximum(sums[at_cases], inner.costs.sums[0])
            for role, sent in inner.costs.fetched.items():
                fetches[role][at_cases] = max(sent[0], 1)
                distinct[role][at_cases] = max(inner.costs.distinct[role][0], 1)
    if (sums == 1).all() and all((fetches[role] == distinct[role]).all() for role in fetches):
        return costs
    fetched = {
        role: values * fetches[role] // distinct[role] for role, values in costs.fetched.items()
    }
    return replace(
        costs,
        fetched=fetched,
        leaving=costs.leaving * sums,
        merged=costs.merged + costs.leaving * (sums - 1),
        sums=costs.sums * sums,
    )


class TooManyError(SimaccelError):
    """Counts of a dataflow are too large to be exact."""


def exact_sum(occurrences: Ints, values: Ints) -> int:
    """Return the sum of products.

    Raises:
        TooManyError: it is not below 2**62.
    """
    if float(np.abs(occurrences.astype(float) * values).sum()) >= _MOST:
        raise TooManyError("a dataflow that moves or computes more than 2**62 elements")
    return int((occurrences * values).sum())


@dataclass(frozen=True, eq=False)
class InvocationShare:
    """The work of some sub-clusters of each case: which invocation it is, and how many do it.

    By case, ``at`` is an index into ``invocations``, and ``units`` the number of sub-clusters.
    """

    invocations: tuple[Invocation, ...]
    at: Ints
    units: Ints


@dataclass(frozen=True, eq=False)
class Invocation:
    """One invocation: the costs of its cases, and what its sub-clusters do in each valid case.

    ``cases``: indices of the valid cases; ``sizes``: actual sizes of its dimensions.
    """

    depth: int
    sizes: Mapping[str, int]
    costs: CaseCosts
    shares: tuple[InvocationShare, ...]
    cases: Ints

    @cached_property
    def total(self) -> int:
        """Steps of the invocation: occurrences of all valid cases."""
        return int(self.costs.occurrences[self.cases].sum())

    def valid_values(self, values: Ints) -> Ints:
        """Return the values of the valid cases."""
        return values[self.cases]

    @cached_property
    def starts(self) -> Bools:
        """Whether each valid case is the first step of all."""
        return self.costs.is_start[self.cases]

    def sum_valid(self, values: Ints) -> int:
        """Return the sum of values over the valid cases."""
        return exact_sum(self.valid_values(self.costs.occurrences), self.valid_values(values))

    @property
    def first_leaf(self) -> Invocation:
        """The innermost invocation that runs first; itself if no level is inside."""
        for share in self.shares:
            if len(self.cases) and share.units[0] > 0:
                return share.invocations[int(share.at[0])].first_leaf
        return self


_MOST = 2.0**62

Known = dict[tuple[int, int, tuple[int, ...]], Invocation]
"""Invocations made before, by depth, number of sub-clusters and sizes."""


@dataclass
class Invocations(Generic[Level]):
    """The invocations of a dataflow's levels, each made once.

    ``costs_of(depth, level, sizes)``: the costs of an invocation.
    """

    levels: Sequence[Level]
    costs_of: Callable[[int, Level, Mapping[str, int]], CaseCosts]
    known: Known

    def top(self) -> Invocation:
        """Return the single invocation of the outermost level."""
        return self.make(0, self.levels[0].sizes)

    def make(self, depth: int, sizes: Mapping[str, int]) -> Invocation:
        """Return the invocation of a level with these actual sizes of its dimensions."""
        level = self.levels[depth]
        key = (depth, level.units, tuple(sizes[directive.dim] for directive in level.maps))
        invocation: Invocation | None = self.known.get(key)
        if invocation is None:
            costs = self.costs_of(depth, level, sizes)
            valid = np.flatnonzero(costs.is_valid)
            shares: tuple[InvocationShare, ...] = ()
            if depth + 1 < len(self.levels):
                shares = tuple(self._share(depth, inner, valid) for inner in costs.inside)
                costs = _pass_up(costs, shares, valid)
            invocation = self.known[key] = Invocation(depth, dict(sizes), costs, shares, valid)
        return invocation

    def _share(self, depth: int, inside: InnerSizes, valid: Ints) -> InvocationShare:
        dims = [directive.dim for directive in self.levels[depth].maps]
        units = inside.units[valid]
        has = np.flatnonzero(units > 0)
        at = np.zeros(len(valid), dtype=np.int64)
        kinds, places = np.unique(inside.sizes[:, valid[has]], axis=1, return_inverse=True)
        at[has] = places.ravel()
        found = tuple(
            self.make(depth + 1, dict(zip(dims, map(int, kind), strict=True))) for kind in kinds.T
        )
        return InvocationShare(found, at, units)
