"""Figures that no bandwidth changes: accesses, buffer requirements, MACs; elements by name."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np

from simaccel.papers.maestro.analysis.invocations import Invocation, exact_sum
from simaccel.papers.maestro.analysis.paper import (
    INPUTS,
    DirectiveReading,
    dims_of,
    layer_axes,
    paper_couplings,
    span,
)
from simaccel.papers.maestro.analysis.states import Bools, Ints
from simaccel.papers.maestro.dataflows.dataflow import ROLES, OutputLevel, Role, couplings
from simaccel.papers.maestro.dataflows.described import SLIDING, DescribedLayer

Counts = dict[str, int]
DOUBLE: Final = 2
"""Slots of a tile: one is used while the other is filled."""


def paper_counts(
    layer: DescribedLayer, level: OutputLevel, top: Invocation, reading: DirectiveReading
) -> Counts:
    """Return the counts of the default reading, by figure."""
    costs, leaf = top.costs, top.first_leaf
    macs = top.sum_valid(costs.macs)
    first = {**costs.fetched, "output": costs.leaving}  # two steps of which are in L2, if no more
    tiles = {role: DOUBLE * int(moved[0]) for role, moved in first.items()}
    if reading.resident:
        tiles = resident_tiles(layer, level)
    counts = {"macs_counted": macs}
    for role in INPUTS:
        read = top.sum_valid(costs.fetched[role])
        written = l1_writes(top, role, {}) if reading.fan_out else read
        counts |= counts_of_tensor(
            role,
            l2_size=tiles[role],
            l1_size=DOUBLE * leaf.costs.tiles[role],
            accesses=(tensor_size(layer, role), read, written, macs),
        )
    back = top.sum_valid(costs.returning) + top.sum_valid(costs.merged)
    outputs = output_elements(layer)
    tile = leaf.costs.tiles["output" if reading.resident else "input"]
    counts |= counts_of_tensor(
        "output",
        l2_size=tiles["output"],
        l1_size=DOUBLE * tile,
        accesses=(top.sum_valid(costs.leaving), outputs + back, macs, macs),
    )
    return counts | total_sizes(counts)


def l1_writes(invocation: Invocation, role: Role, known: dict[int, int]) -> int:
    """Return the elements of an input that all PEs of an invocation together write to their L1.

    A tile stays in L1 from one step to the next as far as it is the same, unless the
    sub-cluster inside goes through several tiles and so holds another one at its end.
    """
    if id(invocation) not in known:
        delivered = invocation.valid_values(invocation.costs.delivered[role])
        if invocation.shares:
            inside, is_cycled = _inner_writes(invocation, role, known)
            held = np.maximum(invocation.valid_values(invocation.costs.held[role]), 1)
            # inside * delivered / held, whose product may be large
            part = inside // held * delivered + inside % held * delivered // held
            delivered = np.where(is_cycled, inside, part)
        known[id(invocation)] = exact_sum(
            invocation.valid_values(invocation.costs.occurrences), delivered
        )
    return known[id(invocation)]


def _inner_writes(one: Invocation, role: Role, known: dict[int, int]) -> tuple[Ints, Bools]:
    """Return the elements that sub-clusters write if all are new, and whether they change tiles."""
    written: Ints = np.zeros(len(one.cases), dtype=np.int64)
    is_cycled: Bools = np.zeros(len(one.cases), dtype=bool)
    for share in one.shares:
        if share.invocations:
            inner = np.array([l1_writes(each, role, known) for each in share.invocations])
            cycles = np.array([_cycles(each, role) for each in share.invocations])
            written = written + share.units * inner[share.at]
            is_cycled |= (share.units > 0) & cycles[share.at]
    return written, is_cycled


def _cycles(one: Invocation, role: Role) -> bool:
    """Return whether an invocation goes through several tiles of an input."""
    later = ~one.starts
    if (one.valid_values(one.costs.delivered[role])[later] > 0).any():
        return True
    return any(_cycles(each, role) for share in one.shares for each in share.invocations)


def tensor_size(layer: DescribedLayer, role: Role) -> int:
    """Return the elements of a tensor as the tool counts them: outputs without stride."""
    found = 1
    for dim in couplings(layer)[role]:
        size = layer.sizes[dim]
        is_row = role == "output" and layer.slides and dim in SLIDING
        found *= size - layer.sizes[SLIDING[dim]] + 1 if is_row else size
    return found


def resident_tiles(layer: DescribedLayer, level: OutputLevel) -> dict[Role, int]:
    """Return the elements of each tensor that L2 has to hold so that none enters it twice.

    A tensor is used again by the outermost loop that doesn't move it but has loops inside that do:
    all that those go through stays. Without such a loop a tile is enough. Two slots where
    loops outside bring the next part.
    """
    tiles: dict[Role, int] = {}
    whole = {directive.dim: level.sizes[directive.dim] for directive in level.maps}
    dims_mapped = [directive.dim for directive in level.maps]
    covered = {dim: _covered_positions(level, at) for at, dim in enumerate(dims_mapped)}
    moving = [at for at, dim in enumerate(dims_mapped) if covered[dim] < whole[dim]]
    for role, axes in layer_axes(layer).items():
        dims = dims_of(axes)
        inner = max((at for at in moving if level.maps[at].dim in dims), default=-1)
        reusing = [at for at in moving if level.maps[at].dim not in dims and at < inner]
        border = reusing[0] if reusing else len(level.maps)
        sizes = {
            dim: np.asarray((whole if at > border else covered)[dim])
            for at, dim in enumerate(dims_mapped)
        }
        is_cut = any(at < border and level.maps[at].dim in dims for at in moving)
        tiles[role] = prod(int(span(axis, sizes)) for axis in axes) * (DOUBLE if is_cut else 1)
    return tiles


def counts_of_tensor(
    role: Role, *, l2_size: int, l1_size: int, accesses: tuple[int, int, int, int]
) -> Counts:
    """Return a tensor's figures by name; ``accesses``: L2 writes and reads, L1 writes and reads."""
    l2_write, l2_read, l1_write, l1_read = accesses
    return {
        f"{role}_l2_size_req": l2_size,
        f"{role}_l1_size_req": l1_size,
        f"{role}_l2_write": l2_write,
        f"{role}_l2_read": l2_read,
        f"{role}_l1_write": l1_write,
        f"{role}_l1_read": l1_read,
    }


def total_sizes(found: Mapping[str, int]) -> Counts:
    """Return the elements of all tensors that L2 and L1 have to hold."""
    return {
        f"{level}_size_req_total": sum(found[f"{role}_{level}_size_req"] for role in ROLES)
        for level in ("l2", "l1")
    }


def output_elements(layer: DescribedLayer) -> int:
    """Return the outputs of a layer, with its stride."""
    dims = paper_couplings(layer)["output"]
    rows = dict(zip(SLIDING, layer.outputs, strict=True)) if layer.slides else {}
    return prod(rows.get(dim, layer.sizes[dim]) for dim in dims)


def _covered_positions(level: OutputLevel, at: int) -> int:
    """Return the positions of a dimension that one step of all sub-clusters covers."""
    one = level.maps[at]
    units = level.units if one.spatial else 1
    return min(one.size + (units - 1) * min(one.offset, one.size), level.sizes[one.dim])


def mean(occurrences: Ints, values: Ints) -> Ints:
    """Return the mean over all steps (rows are cases), rounded down."""
    total = max(int(occurrences.sum()), 1)
    found: Ints = np.trunc((occurrences[:, None] * values).sum(axis=0) / total).astype(np.int64)
    return found
