"""Costs of the cases of one invocation of a cluster level, in either reading of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simaccel.papers.maestro.analysis.states import Bools, Ints
from simaccel.papers.maestro.dataflows.dataflow import Role


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
        found: Bools = np.asarray(self.critical > 0)
        return found

    @property
    def arriving(self) -> Ints:
        """Elements that come from above in each case, of all tensors."""
        found: Ints = self.fetched["input"] + self.fetched["filter"] + self.returning
        return found
