"""Traffic and work of a case as the paper defines them: counted tile by tile, over outputs.

What the released tool counts otherwise are *corrections*, each of which can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from simaccel.papers.maestro.analysis.invocations import CaseCosts, InnerSizes
from simaccel.papers.maestro.analysis.states import (
    INIT,
    Bools,
    Cases,
    Ints,
    nominal_steps,
    steps_of,
)
from simaccel.papers.maestro.dataflows.dataflow import (
    OUTPUT_OF,
    ROLES,
    OutputLevel,
    Role,
    couplings,
)
from simaccel.papers.maestro.dataflows.described import SLIDING, DescribedLayer

Axis = tuple[str, str, int]
"""A dimension of a tensor: of plain dimensions the name; of rows outputs, filter and stride."""
Axes = Mapping[Role, tuple[Axis, ...]]
INPUTS: Final[tuple[Role, Role]] = ("input", "filter")


@dataclass(frozen=True, kw_only=True)
class DirectiveReading:
    """A way to make figures: rules, all of which are the paper's as they are by default.

    ``edge_tiles``: a smaller tile of the level above has smaller tiles inside. ``stride``:
    outputs of a tile follow from the stride. ``wrapped``: a tile that comes again after a dimension
    outside has moved is fetched again. ``sums``: outputs leave when they give way to others,
    and come back if they are not complete. ``fan_out``: L1 writes count every PE that takes an
    element. ``resident``: the L2 requirement is what has to stay so that nothing enters L2 twice,
    and L1 holds outputs, not their inputs. ``offchip``: the off-chip time is that of each tensor
    once. ``multicast``, ``reduction``: what several sub-clusters need is sent once; sums of several
    are added on their way; ``no_multicast``, ``no_reduction``: cluster levels (0 is the outermost)
    that can't.
    """

    edge_tiles: bool = True
    stride: bool = True
    wrapped: bool = True
    sums: bool = True
    fan_out: bool = True
    resident: bool = True
    offchip: bool = True
    multicast: bool = True
    reduction: bool = True
    no_multicast: frozenset[int] = frozenset()
    no_reduction: frozenset[int] = frozenset()

    def at_level(self, depth: int) -> DirectiveReading:
        """Return the rules of a cluster level."""
        multicast, reduction = depth not in self.no_multicast, depth not in self.no_reduction
        return replace(self, multicast=multicast, reduction=reduction)


PAPER: Final = DirectiveReading()


@dataclass(frozen=True)
class Correction:
    """A defect of the released tool that the default reading corrects.

    ``defect`` is its number in the list of docs/guide/directives.md.
    """

    defect: str
    says: str


CORRECTIONS: Final[Mapping[str, Correction]] = {
    "edge_tiles": Correction("6", "a smaller tile of a level has smaller tiles inside"),
    "stride": Correction("5", "outputs of a tile follow from the stride"),
    "wrapped": Correction(
        "9", "a tile that comes again after an outer dimension moved is fetched again"
    ),
    "fan_out": Correction("9", "L1 writes count every PE that takes an element"),
    "sums": Correction(
        "8", "sums leave when others take their place, and are read back if not complete"
    ),
    "resident": Correction(
        "10, 15", "L2 holds what is used again, L1 outputs and not their inputs"
    ),
    "offchip": Correction("2", "off chip, each tensor moves once"),
}
"""Corrections by the rule that is false without them. Energy (defect 1) and rows of outputs at
edges (7) have no switch: they follow from counts that are right."""


def dims_of(axes: Sequence[Axis]) -> frozenset[str]:
    """Return the loops that move a tensor's tile."""
    return frozenset(dim for axis in axes for dim in axis[:2] if dim)


def span(axis: Axis, sizes: Mapping[str, Ints]) -> Ints:
    """Return the positions of a tensor's dimension that a tile of these sizes covers."""
    dim, reach, stride = axis
    if not reach:
        return sizes[dim]
    return (sizes[dim] - 1) * np.minimum(stride, sizes[reach]) + sizes[reach]


class _PaperTraffic:
    """Elements that the cases of one invocation move and compute."""

    def __init__(
        self, axes: Axes, level: OutputLevel, sizes: Mapping[str, int], rules: DirectiveReading
    ) -> None:
        """Find the steps of each map, and the tiles that each case has."""
        self.axes, self.level, self.rules = axes, level, rules
        steps = [
            steps_of(dim_map, sizes[dim_map.dim], level.units)
            if rules.edge_tiles
            else nominal_steps(dim_map, sizes[dim_map.dim], level.sizes[dim_map.dim], level.units)
            for dim_map in level.maps
        ]
        self.cases = Cases(level.maps, steps)
        self.place = level.maps.index(level.spatial)
        self.active = self.cases.field_of(self.place, "active")
        places = range(len(level.maps))
        self.own = {level.maps[at].dim: self.cases.field_of(at, "size") for at in places}
        spatial = level.spatial
        self.last = self.own | {spatial.dim: self.cases.field_of(self.place, "last")}
        step = min(spatial.offset, spatial.size)
        self.union = self.own | {spatial.dim: (self.active - 1) * step + self.last[spatial.dim]}
        self.has_last = (self.last[spatial.dim] != self.own[spatial.dim]) & (self.active > 1)

    def costs(self) -> CaseCosts:
        """Return the costs of all cases."""
        leaving, returning, merged = self._outputs()
        distinct = {role: self._new(role, self.union, is_union=True) for role in INPUTS}
        delivered = {role: self._sum_over_units(partial(self._new, role)) for role in INPUTS}
        dims = [dim_map.dim for dim_map in self.cases.maps]
        last, own = (np.array([sizes[dim] for dim in dims]) for sizes in (self.last, self.own))
        return CaseCosts(
            occurrences=self.cases.occurrences,
            is_start=self.cases.changing < 0,
            fetched=distinct if self.rules.multicast else delivered,
            delivered=delivered,
            held={role: self._sum_over_units(partial(self._volume, role)) for role in INPUTS},
            leaving=leaving,
            returning=returning,
            merged=merged,
            distinct=distinct,
            sums=self._copies(),
            macs=self._sum_over_units(self._work),
            critical=self._work(self.own),
            active=self.active,
            inside=(
                InnerSizes(sizes=last, units=self.has_last.astype(np.int64)),
                InnerSizes(sizes=own, units=self.active - self.has_last),
            ),
            tiles={role: int(self._volume(role, self.own)[0]) for role in ROLES},
        )

    def _sum_over_units(self, count: Callable[[Mapping[str, Ints]], Ints]) -> Ints:
        """Return the sum over all active sub-clusters, the last of which may have less."""
        usual, last = count(self.own), count(self.last)
        found: Ints = (self.active - self.has_last) * usual + self.has_last * last
        return found

    def _copies(self) -> Ints:
        """Return the number of sums of an output that leave: one, or one of each sub-cluster."""
        is_apart = self.level.spatial.dim in dims_of(self.axes["output"]) or self.rules.reduction
        return np.ones_like(self.active) if is_apart else self.active

    def _outputs(self) -> tuple[Ints, Ints, Ints]:
        """Return (outputs that leave, sums that return, sums read above to be added to)."""
        dims = dims_of(self.axes["output"])
        volume = self._volume("output", self.union)
        copies = self._copies()
        places = [self.cases.index[dim] for dim in dims if dim in self.cases.index]
        is_moved = (np.array(places)[:, None] == self.cases.changing).any(axis=0)
        is_new: Bools = (self.cases.changing < 0) | is_moved | self._wraps(places)
        sums = [
            place for place, directive in enumerate(self.cases.maps) if directive.dim not in dims
        ]
        is_begun = (self.cases.positions[sums] != INIT).any(axis=0) & is_new
        if not self.rules.sums:
            is_new, is_begun = np.ones_like(is_new), np.zeros_like(is_begun)
        begun: Ints = np.where(is_begun, volume, 0)
        leaving: Ints = np.where(is_new, volume, 0)
        if self.rules.reduction:
            return leaving, begun, np.zeros_like(leaving)
        return leaving * copies, begun * 0, leaving * (copies - 1) + begun

    def _work(self, sizes: Mapping[str, Ints]) -> Ints:
        found: Ints = np.ones(self.cases.count, dtype=np.int64)
        for one in self.cases.maps:
            found = found * self._count_positions(one.dim, sizes)
        return found

    def _volume(self, role: Role, sizes: Mapping[str, Ints]) -> Ints:
        found: Ints = np.ones(self.cases.count, dtype=np.int64)
        for axis in self.axes[role]:
            if role == "output":
                found = found * self._count_positions(axis[0], sizes)
            else:
                found = found * span(axis, sizes)
        return found

    def _count_positions(self, dim: str, sizes: Mapping[str, Ints]) -> Ints:
        """Return positions of a dimension; without the stride, outputs are rows less the filter."""
        axis = next((one for one in self.axes["input"] if one[0] == dim and one[1]), None)
        if self.rules.stride or axis is None:
            return sizes[dim]
        return span(axis, sizes) - sizes[axis[1]] + 1

    def _wraps(self, places: Sequence[int]) -> Bools:
        """Return whether one of these maps begins again, as one outside of it has moved."""
        cases = self.cases
        inside = np.array(places)[:, None] > cases.changing
        begins = inside & (cases.positions[places] == INIT) & ~cases.unrolled[places]
        found: Bools = begins.any(axis=0) & (cases.changing >= 0)
        return found

    def _new(self, role: Role, sizes: Mapping[str, Ints], *, is_union: bool = False) -> Ints:
        """Return the elements of a tile that weren't in it in the step before."""
        cases, dims = self.cases, dims_of(self.axes[role])
        places = [cases.index[dim] for dim in sorted(dims)]
        wraps, whole = self._wraps(places), self._volume(role, sizes)
        new: Ints = np.zeros_like(whole)
        for place in places:
            moved = self._new_elements(role, place, sizes, is_union=is_union)
            new = np.where(cases.changing == place, np.where(wraps, whole, moved), new)
        if self.rules.wrapped:
            is_outside = (np.array(places)[:, None] != cases.changing).all(axis=0)
            new = np.where(is_outside & wraps, whole, new)
        return np.where(cases.changing < 0, whole, new)

    def _new_elements(
        self, role: Role, place: int, sizes: Mapping[str, Ints], *, is_union: bool
    ) -> Ints:
        """Return the new elements where one map alone has moved: all but the overlap."""
        directive = self.cases.maps[place]
        units = self.level.units if directive.spatial else 1
        step = directive.offset * units
        size = directive.size
        if directive.spatial and is_union:
            size += (units - 1) * min(directive.offset, directive.size)
        before = {**sizes, directive.dim: np.full(self.cases.count, size)}
        moved: Ints = np.ones(self.cases.count, dtype=np.int64)
        for axis in self.axes[role]:
            new = span(axis, sizes)
            shift = step * np.minimum(axis[2], sizes[axis[1]]) if axis[1] else step
            if directive.dim == axis[1]:
                new = new - _reused_rows(axis, before, sizes, step)
            elif directive.dim == axis[0]:
                new = np.maximum(new - np.maximum(span(axis, before) - shift, 0), 0)
            moved = moved * new
        return moved


def _reused_rows(
    axis: Axis, before: Mapping[str, Ints], now: Mapping[str, Ints], step: int
) -> Ints:
    """Return the positions of a row that a tile had before its filter moved on by ``step``.

    Each output reads a window of the filter's size, a stride after the one before. Windows of a
    stride or more are one stretch together; smaller ones have gaps, which others may fill.
    """
    outputs, stride = now[axis[0]], axis[2]
    was, size = before[axis[1]], now[axis[1]]
    # windows that lie in one stretch of those before: whole ones, and one in part
    room = np.maximum((outputs - 1) * stride + was - step, 0)
    whole = np.clip((room - size) // stride + 1, 0, outputs)
    part = np.where(whole < outputs, np.clip(room - whole * stride, 0, size), 0)
    in_stretch = np.where(
        size < stride, whole * size + part, np.minimum(room, (outputs - 1) * stride + size)
    )
    # windows before with gaps: each lies over one of them, and over the next
    later, into = divmod(step, stride)
    over = np.clip(was - into, 0, size) * np.maximum(outputs - later, 0)
    over_next = np.clip(into + size - stride, 0, was) * np.maximum(outputs - later - 1, 0)
    return np.where(was >= stride, in_stretch, over + over_next)


def paper_couplings(layer: DescribedLayer) -> Mapping[Role, tuple[str, ...]]:
    """Return the dimensions of each tensor; a grouped convolution sums over its own channels."""
    found = dict(couplings(layer))
    if layer.kind == "NGCONV":
        found["output"] = tuple(dim for dim in found["output"] if dim != "C")
    return found


def layer_axes(layer: DescribedLayer) -> Axes:
    """Return the dimensions of a layer's tensors over outputs."""
    by_role: dict[Role, tuple[Axis, ...]] = {}
    for role, dims in paper_couplings(layer).items():
        axes: list[Axis] = []
        for dim in dims:
            if layer.slides and dim in SLIDING:
                reach = SLIDING[dim] if role == "input" else ""
                axes.append((OUTPUT_OF[dim], reach, layer.stride_of(dim)))
            else:
                axes.append((dim, "", 1))
        by_role[role] = tuple(axes)
    return by_role


def paper_costs(
    axes: Axes, level: OutputLevel, sizes: Mapping[str, int], rules: DirectiveReading
) -> CaseCosts:
    """Return what an invocation costs whose dimensions, over outputs, have these sizes."""
    return _PaperTraffic(axes, level, sizes, rules).costs()
