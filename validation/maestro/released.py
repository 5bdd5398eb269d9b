"""Traffic and work of a case as MAESTRO's public tool counts them (head 4eb08d1), defects and all.

Each function returns an array over the cases of an invocation, in elements or MACs. *First* is
the first active sub-cluster, *other* one of the rest, *partial* the last where its tile is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from simaccel.papers.maestro.analysis.analysis import (
    DataflowTimes,
    LayerAnalysis,
    analyse,
    analyse_layer,
)
from simaccel.papers.maestro.analysis.counts import (
    DOUBLE,
    Counts,
    counts_of_tensor,
    tensor_size,
    total_sizes,
)
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.invocations import (
    CaseCosts,
    InnerSizes,
    Invocation,
    Invocations,
    Known,
    exact_sum,
)
from simaccel.papers.maestro.analysis.paper import INPUTS, DirectiveReading
from simaccel.papers.maestro.analysis.prices import L1_ENERGY, L2_ENERGY
from simaccel.papers.maestro.analysis.states import EDGE, INIT, Bools, Ints
from simaccel.papers.maestro.analysis.times import InvocationTimes, points_of
from simaccel.papers.maestro.dataflows.dataflow import (
    ROLES,
    ClusterLevel,
    Dataflow,
    DimMap,
    Role,
    complete,
    couplings,
)
from simaccel.papers.maestro.dataflows.described import SLIDING, DescribedLayer
from simaccel.papers.maestro.dataflows.reading import DirectedLayer
from validation.maestro.released_states import ReleasedCases, quotient, states_of

_OUTPUT: Final = {"Y": "Y'", "X": "X'"}
_MAC_NANOJOULES: Final = 0.00023


@dataclass(frozen=True)
class Extent:
    """Positions of a dimension in a tile: all, new ones, and both at an edge."""

    mapped: int
    unique: int
    mapped_edge: int
    unique_edge: int


def extents(level: ClusterLevel, *, slides: bool) -> Mapping[str, Extent]:
    """Return the extents of all dimensions of a level, those of Y' and X' too.

    They are those of the level's nominal sizes, also where a tile of the level above is smaller.
    """
    found = {one.dim: _extent(one, level.sizes[one.dim]) for one in level.maps}
    if slides:
        offsets = {one.dim: one.offset for one in level.maps}
        for dim, filter_dim in SLIDING.items():
            if dim in found and filter_dim in found:
                found[_OUTPUT[dim]] = _of_output(found[dim], found[filter_dim], offsets[dim])
    return found


def _extent(one: DimMap, size: int) -> Extent:
    steady = max(quotient(size - one.size, one.offset), 0)
    has_edge = steady * one.offset + one.size < size or one.size > size
    edge = size - (steady + 1) * one.offset
    edge = size if edge < 0 else edge
    unique = 0 if not one.spatial and size <= one.size else min(one.size, one.offset)
    return Extent(
        mapped=one.size,
        unique=unique,
        mapped_edge=edge if has_edge else one.size,
        unique_edge=max(one.offset - (one.size - edge), 0),
    )


def _of_output(rows: Extent, reach: Extent, offset: int) -> Extent:
    edge = rows.mapped_edge - reach.mapped_edge + 1
    return Extent(
        mapped=rows.mapped - reach.mapped + 1,
        unique=min(offset, rows.mapped),
        mapped_edge=edge,
        unique_edge=min(offset, edge),
    )


def _first_spatial(level: ClusterLevel) -> DimMap:
    """Return the first map over sub-clusters, which decides how many are active."""
    return next(one for one in level.maps if one.spatial)


def edge_units(level: ClusterLevel) -> int:
    """Return the active sub-clusters of the first spatial map at its edge."""
    directive = _first_spatial(level)
    size, units = level.sizes[directive.dim], level.units
    covered = directive.offset * (units - 1) + directive.size
    if size > covered:
        steady = quotient(quotient(size - directive.size, directive.offset) + 1, units) - 1
        left = size - (steady + 1) * directive.offset * units
        return 1 if left < directive.size else quotient(left - directive.size, directive.offset) + 1
    if size > directive.size:
        active = quotient(size - directive.size, directive.offset) + 1
        return active + (directive.offset * (active - 1) + directive.size < size)
    return 1


class ReleasedTraffic:
    """Elements that the cases of one invocation move and compute."""

    def __init__(
        self,
        level: ClusterLevel,
        cases: ReleasedCases,
        coupled: Mapping[Role, Sequence[str]],
        *,
        slides: bool,
    ) -> None:
        """Hold the extents of the level and the places of the tensors' dimensions."""
        self.level, self.cases, self.coupled, self.slides = level, cases, coupled, slides
        self.extents = extents(level, slides=slides)
        self.edge_units = edge_units(level)
        self._ones: Ints = np.ones(cases.count, dtype=np.int64)

    def ingress(self, tensor: Role) -> Ints:
        """Return the elements of an input tensor that come from above."""
        places = self._places(tensor)
        spatial = [place for place in places if self.cases.maps[place].spatial]
        first = self._arriving(tensor, first=True, partial=False)
        if not spatial:
            return first
        is_edge = self.cases.edges[spatial].any(axis=0)
        has_partial = self.cases.partials[spatial[-1]]
        other = self._arriving(tensor, first=False, partial=False)
        full = first + (self.level.units - 1) * other
        if self.edge_units == 1:
            alone = self._arriving(tensor, first=True, partial=True)
            return np.where(is_edge, np.where(has_partial, alone, first), full)
        last = self._arriving(tensor, first=False, partial=True)
        return np.where(is_edge, first + self._rest(has_partial, other, last), full)

    def egress(self) -> Ints:
        """Return the elements of the output that go up."""
        places = self._places("output")
        spatial = [place for place in places if self.cases.maps[place].spatial]
        first = self._outputs(first=True, partial=False)
        if not spatial:
            return first
        is_edge = self.cases.edges[spatial].any(axis=0)
        has_partial = self.cases.partials[spatial[-1]]
        other = self._outputs(first=False, partial=False)
        full = first + (self.level.units - 1) * other
        if self.edge_units == 1:
            alone = self._outputs(first=True, partial=True)
            return np.where(is_edge, np.where(has_partial, alone, first), full)
        last = self._outputs(first=False, partial=True)
        return np.where(is_edge, first + self._rest(has_partial, other, last), full)

    def macs(self) -> Ints:
        """Return the MACs of all active sub-clusters."""
        spatial = [place for place, one in enumerate(self.cases.maps) if one.spatial]
        is_edge = self.cases.edges[spatial].any(axis=0)
        has_partial = self.cases.partials[spatial[-1]]
        first = self._outputs(first=True, partial=False, sums=True)
        full = self.level.units * first
        if self.edge_units == 1:
            alone = self._outputs(first=True, partial=True, sums=True)
            return np.where(is_edge, np.where(has_partial, alone, first), full)
        last = self._outputs(first=False, partial=True, sums=True, overlap=False)
        return np.where(is_edge, first + self._rest(has_partial, first, last), full)

    def critical(self) -> Ints:
        """Return the MACs of the first sub-cluster: the longest work, if it is a PE's."""
        places = self._places("output")
        spatial = [place for place in places if self.cases.maps[place].spatial]
        first = self._outputs(first=True, partial=False, sums=True)
        if not spatial or self.edge_units != 1:
            return first
        is_edge = self.cases.edges[spatial].any(axis=0) & self.cases.partials[spatial[-1]]
        return np.where(is_edge, self._outputs(first=True, partial=True, sums=True), first)

    def active(self) -> Ints:
        """Return the active sub-clusters."""
        place = self.cases.maps.index(_first_spatial(self.level))
        return np.where(self.cases.edges[place], self.edge_units, self.level.units)

    def tile_volume(self, tensor: Role) -> int:
        """Return the elements of a sub-cluster's tile; of the output Y and X count whole."""
        found = 1
        for dim in self.coupled[tensor]:
            found *= self.extents[dim].mapped
        return found

    def inside(self) -> tuple[InnerSizes, InnerSizes]:
        """Return the work of the last sub-cluster where it is smaller, and of the others."""
        place = self.cases.maps.index(_first_spatial(self.level))
        is_partial = self.cases.edges[place] & self.cases.partials[place]
        units = self.active() - is_partial
        return (
            InnerSizes(sizes=self._inside(partial=True), units=is_partial.astype(np.int64)),
            InnerSizes(sizes=self._inside(partial=False), units=units),
        )

    def _inside(self, *, partial: bool) -> Ints:
        found = []
        for place, one in enumerate(self.cases.maps):
            extent, is_edge = self.extents[one.dim], self.cases.edges[place]
            if one.spatial and self.edge_units != 1 and not partial:
                is_edge = np.zeros_like(is_edge)
            found.append(np.where(is_edge, extent.mapped_edge, extent.mapped))
        return np.array(found)

    def _places(self, tensor: Role) -> list[int]:
        return [self.cases.index[dim] for dim in self.coupled[tensor]]

    def _rest(self, has_partial: Bools, other: Ints, last: Ints) -> Ints:
        """Sum over all active sub-clusters but the first, where there are several."""
        full = np.maximum(self.edge_units - has_partial - 1, 0)
        found: Ints = full * other + has_partial * last
        return found

    def _arriving(self, tensor: Role, *, first: bool, partial: bool) -> Ints:
        """Volume that one sub-cluster takes in."""
        cases, places = self.cases, self._places(tensor)
        coupled = np.array(places)[:, None]
        resets = (cases.positions[places] == INIT) & (coupled > cases.changing)
        is_reset = (resets & ~cases.unrolled[places]).any(axis=0)
        arriving = self._ones
        for place in places:
            directive = cases.maps[place]
            factor = self._moved_in_space if directive.spatial else self._moved_in_time
            arriving = arriving * factor(place, is_reset, first=first, partial=partial)
        is_changing = (coupled == cases.changing).any(axis=0)
        start = self._resident(places, first=first, partial=partial)
        return np.where(cases.changing < 0, start, np.where(is_changing, arriving, 0))

    def _moved_in_time(self, place: int, is_reset: Bools, *, first: bool, partial: bool) -> Ints:  # noqa: ARG002 - one form
        extent, cases = self.extents[self.cases.maps[place].dim], self.cases
        at_start = np.where(cases.edges[place], extent.mapped_edge, extent.mapped)
        is_new = (cases.changing == place) & ~is_reset
        later = np.where(is_new, max(extent.unique, 1), extent.mapped)
        return np.where(cases.positions[place] == INIT, at_start, later)

    def _moved_in_space(self, place: int, is_reset: Bools, *, first: bool, partial: bool) -> Ints:
        extent, cases = self.extents[self.cases.maps[place].dim], self.cases
        mapped = extent.mapped_edge if partial else extent.mapped
        if first:
            return self._ones * mapped
        unique = extent.unique_edge if partial else extent.unique
        at_start = np.where(place > cases.changing, unique, mapped)
        later = np.where((cases.changing == place) & ~is_reset, unique, mapped)
        return np.where(cases.positions[place] == INIT, at_start, later)

    def _resident(self, places: Sequence[int], *, first: bool, partial: bool) -> Ints:
        """Volume of a sub-cluster's whole tile, at the very start."""
        resident = self._ones
        for place in places:
            directive, is_edge = self.cases.maps[place], self.cases.edges[place]
            extent = self.extents[directive.dim]
            edge = extent.mapped_edge
            if directive.spatial and self.edge_units > 1 and not partial:
                edge = extent.mapped
            if directive.spatial and self.edge_units == 1 and not (first or partial):
                edge = 1
            resident = resident * np.where(is_edge, edge, extent.mapped)
        return resident

    def _outputs(
        self, *, first: bool, partial: bool, sums: bool = False, overlap: bool = True
    ) -> Ints:
        """Outputs of one sub-cluster; with ``sums``, times the products that each adds up."""
        coupled, summed = set(self._places("output")), self._ones
        for place, directive in enumerate(self.cases.maps):
            if place in coupled:
                outer = _OUTPUT.get(directive.dim, directive.dim) if self.slides else directive.dim
                summed = summed * self._part(
                    place, outer, first=first, partial=partial, overlap=overlap
                )
            elif sums:
                summed = summed * self._summed(place, first=first, partial=partial)
        return summed

    def _part(self, place: int, outer: str, *, first: bool, partial: bool, overlap: bool) -> Ints:
        one, cases, extent = self.cases.maps[place], self.cases, self.extents[outer]
        if not one.spatial:
            return np.where(cases.edges[place], extent.mapped_edge, extent.mapped)
        usual = extent.mapped if first else extent.unique or 1
        at_edge = extent.unique_edge if partial else usual
        at_start = at_edge if overlap or not partial else extent.mapped_edge
        if self.edge_units == 1:
            alone = first or partial
            at_edge = self.extents[one.dim].mapped_edge if alone else 1
            at_start = extent.mapped_edge if partial else usual
        return self._by_position(place, at_start if partial else usual, usual, at_edge)

    def _summed(self, place: int, *, first: bool, partial: bool) -> Ints:
        one, cases = self.cases.maps[place], self.cases
        extent = self.extents[one.dim]
        if not one.spatial:
            return np.where(cases.edges[place], extent.mapped_edge, extent.mapped)
        usual = extent.mapped if first else extent.unique or 1
        if self.edge_units == 1:
            at_edge = extent.mapped_edge if first or partial else 1
        else:
            at_edge = extent.unique_edge if partial else usual
        return self._by_position(place, extent.mapped_edge if partial else usual, usual, at_edge)

    def _by_position(self, place: int, at_start: int, usual: int, at_edge: int) -> Ints:
        """Choose by position: at a first edge, anywhere else, at the last edge."""
        cases = self.cases
        positions = cases.positions[place]
        is_start = (positions == INIT) & cases.edges[place]
        return np.where(is_start, at_start, np.where(positions == EDGE, at_edge, usual))


def released_costs(
    layer: DescribedLayer, level: ClusterLevel, sizes: Mapping[str, int]
) -> CaseCosts:
    """Return what the tool says of an invocation whose dimensions have these actual sizes."""
    states = [states_of(directive, sizes[directive.dim], level.units) for directive in level.maps]
    cases = ReleasedCases(level.maps, states)
    coupled = couplings(layer)
    traffic = ReleasedTraffic(level, cases, coupled, slides=layer.slides)
    fetched: dict[Role, Ints] = {role: traffic.ingress(role) for role in ("input", "filter")}
    nothing: Ints = np.zeros(cases.count, dtype=np.int64)
    return CaseCosts(
        occurrences=cases.occurrences,
        is_start=cases.changing < 0,
        fetched=fetched,
        delivered=fetched,
        held=fetched,
        leaving=traffic.egress(),
        returning=nothing,
        merged=nothing,
        distinct=fetched,
        sums=nothing + 1,
        macs=traffic.macs(),
        critical=traffic.critical(),
        active=traffic.active(),
        inside=traffic.inside(),
        tiles={role: traffic.tile_volume(role) for role in ROLES},
    )


def released_counts(layer: DescribedLayer, top: Invocation) -> Counts:
    """Return what the released tool counts."""
    costs, leaf = top.costs, top.first_leaf
    macs = top.sum_valid(costs.macs)
    counts = {"macs_counted": macs}
    for role in INPUTS:
        read = top.sum_valid(costs.fetched[role])
        counts |= counts_of_tensor(
            role,
            l2_size=DOUBLE * int(costs.fetched[role][: _tried(top)].sum()),
            l1_size=DOUBLE * leaf.costs.tiles[role] * _tried(leaf),
            accesses=(tensor_size(layer, role), read, read, macs),
        )
    sums = exact_sum(costs.occurrences, costs.macs)
    counts |= counts_of_tensor(
        "output",
        l2_size=DOUBLE * int(costs.leaving[_tried(top) - 1]),
        l1_size=DOUBLE * leaf.costs.tiles["output"],
        accesses=(
            exact_sum(costs.occurrences, costs.leaving),
            tensor_size(layer, "output"),
            sums,
            sums,
        ),
    )
    return counts | total_sizes(counts)


def _tried(one: Invocation) -> int:
    """Count the cases up to the first that computes anything: the tool adds up until then."""
    return int(one.cases[0]) + 1 if len(one.cases) else len(one.costs.occurrences)


def last_intensity(top: Invocation) -> float:
    """Return MACs per element of the last case, which the tool calls arithmetic intensity."""
    costs = top.costs
    if not len(top.cases):
        return 0.0
    at = int(top.cases[-1])
    ingress = int(costs.arriving[at])
    return int(costs.macs[at]) / ingress if ingress else float("inf")


def counts_energy_of_csv(counts: Counts, *, levels: int) -> float:
    """Return the energy in nJ that the tool's CSV says of a layer alone in its file (defect 1).

    It lacks MACs and reads of outputs in L2, and L1 wherever there are clusters.
    """
    l2 = sum(counts[f"{role}_l2_write"] for role in ROLES)
    l2 += counts["input_l2_read"] + counts["filter_l2_read"]
    l1 = sum(counts[f"{role}_l1_{way}"] for role in ROLES for way in ("write", "read"))
    energy = L2_ENERGY * l2 + (L1_ENERGY * l1 if levels == 1 else 0)
    return energy * _MAC_NANOJOULES


class ReleasedTimes(InvocationTimes):
    """Times by the tool's rules.

    Moving nothing takes the latency less a cycle, and the first step does not wait for its outputs.
    """

    def delays(self, one: Invocation) -> Ints:
        """Return the cycles of a step of each valid case (rows) at each point (columns)."""
        step = self.steps(one)
        steady = np.maximum(step.compute, np.maximum(step.ingress, step.egress))
        return np.where(one.starts[:, None], step.compute + step.ingress, steady)

    def transfer(self, one: Invocation, elements: Ints) -> Ints:
        """Return the cycles of elements through the NoC of a level."""
        bandwidth = self.points.noc_bandwidth[:, one.depth]
        volume = elements[:, None]
        sends = np.sign(volume) * (np.abs(volume) // bandwidth) + (volume % bandwidth != 0)
        late: Ints = self.points.noc_latency[:, one.depth] + sends - 1
        return late


class ReleasedRun(DataflowTimes):
    """A run whose arithmetic intensity is that of its last case."""

    @property
    def intensity(self) -> float:
        """MACs per element that arrives."""
        return last_intensity(self.top)


def released_run(
    layer: DescribedLayer,
    dataflow: Dataflow,
    hardware: Sequence[DirectiveHardware],
    _reading: DirectiveReading,
    known: Known,
) -> DataflowTimes:
    """Return the invocations of a dataflow as the tool counts and times them."""
    levels = complete(layer, dataflow, hardware[0].pes)
    top = Invocations(
        levels, lambda _, level, sizes: released_costs(layer, level, sizes), known
    ).top()
    times = ReleasedTimes(points_of(hardware, len(levels)))
    return ReleasedRun(top, times, released_counts(layer, top))


RELEASED: Final = DirectiveReading(offchip=False)
"""Off-chip time is that of the buffer requirements, as the tool has it."""


def analyse_layer_released(
    layer: DescribedLayer,
    dataflow: Dataflow,
    hardware: Sequence[DirectiveHardware],
    reading: DirectiveReading,
) -> LayerAnalysis:
    """Return the analysis of a layer as the tool prints it, with the energy of its CSV."""
    analysis = analyse_layer(layer, dataflow, hardware, reading, released_run)
    energy = np.zeros(len(hardware))
    for at, point in enumerate(hardware):
        counts = {
            name: int(column[at]) for name, column in analysis.columns.items() if "_l" in name
        }
        levels = analysis.runs[point.pes].times.points.noc_bandwidth.shape[1]
        energy[at] = counts_energy_of_csv(counts, levels=levels)
    return replace(analysis, columns={**analysis.columns, "csv_energy_nj_buggy": energy})


def analyse_released(
    directed: Sequence[DirectedLayer], hardware: Sequence[DirectiveHardware]
) -> list[LayerAnalysis]:
    """Return the analyses of layers as the tool prints them; raises as ``analyse``."""
    return analyse(directed, hardware, RELEASED, analyse_layer_released)
