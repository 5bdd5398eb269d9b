"""The target of a search: an einsum on an accelerator, and the scores of candidate mappings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from simaccel.analytic.evaluation import FamilyTotals, Floats, evaluate
from simaccel.analytic.family import Bools, Family, Ints, family_of, ints, take
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, ArraySpec, Stationarity
from simaccel.hardware.dataflow import Constraints
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Hierarchy, Level, TemporalLevel
from simaccel.mapping.space import IterationSpace as Ranks
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import BUFFER, Do, Group
from simaccel.numbers import in_bytes
from simaccel.search.effort import Objective, Strategy
from simaccel.search.mapspace.space import EinsumMapspace, spaces
from simaccel.search.mapspace.tiling_batch import (
    INPUTS,
    TilingBatch,
    family_of_candidates,
    roles_of,
    tree_of_one,
)
from simaccel.units import ARRAY, MAC
from simaccel.workload import Einsum, Tensor, Workload

MOST_MACS: Final = 2**50
"""Beyond this, accesses could overflow 64-bit integers."""
_BLOCK: Final = 1 << 13


class NotNestableError(SimaccelError):
    """An einsum that mapspaces can't express; the message has the reason."""


def score(
    objective: Objective, totals: FamilyTotals, buffer_bytes: Ints | None = None
) -> tuple[Floats, Floats]:
    """Return the objective of each candidate, and the figure that decides between equals.

    Cycles are those of the busiest resource. ``buffer_bytes``: of the tiles, if the counts don't
    have them.
    """
    bound = totals.resource_bound()
    cycles = np.asarray(bound, dtype=np.float64)
    energy = np.asarray(sum(totals.energy_pj(bound).values()))
    if objective == "cycles":
        return cycles, energy
    if objective == "energy":
        value = energy
    elif objective == "dram-bytes":
        value = totals.counts.total("dram_read") + totals.counts.total("dram_write")
    elif objective == "footprint":
        value = totals.buffer_bytes() if buffer_bytes is None else buffer_bytes
    else:
        value = energy * cycles
    return np.asarray(value, dtype=np.float64), cycles


@dataclass(frozen=True, kw_only=True)
class MappingTarget:
    """An einsum on an accelerator, with the constraints on its mappings.

    ``dataflow``: constraints of the dataflow. ``constraints``: the user's. ``stationarity``: the
    operand that a systolic array holds. ``room``: levels of which mappings may use less than their
    capacity.
    """

    einsum: Einsum
    tensors: Mapping[str, Tensor]
    accelerator: Accelerator
    strategy: Strategy
    dataflow: Constraints = field(default_factory=dict)
    constraints: Constraints = field(default_factory=dict)
    stationarity: Stationarity | None = None
    room: Hierarchy | None = None

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The levels of the accelerator, with the room that mappings may use."""
        return self.room or levels(self.accelerator)

    def spaces(self) -> tuple[EinsumMapspace, ...]:
        """Return the mapspaces of the target.

        Raises:
            InputError: impossible constraints.
            NotNestableError: an einsum that mapspaces don't take.
        """
        self._require_nestable()
        return spaces(self.einsum, self.hierarchy, self.strategy, self.dataflow, self.constraints)

    @cached_property
    def workload(self) -> Workload:
        """The einsum alone."""
        einsum, out, own = self.einsum, self.einsum.output.tensor, self.tensors
        kinds = {one.tensor: own[one.tensor].kind for one in einsum.inputs}
        tensors = {
            name: replace(own[name], kind="weight" if kind == "weight" else "input")
            for name, kind in kinds.items()
        }
        return Workload("einsum", (einsum,), {**tensors, out: replace(own[out], kind="output")})

    @property
    def leaf(self) -> Do:
        """The leaf of the trees, which does the work."""
        systolic = isinstance(self.accelerator.array, ArraySpec)
        return Do(self.einsum.name, ARRAY if systolic else MAC, self.stationarity)

    def empty(self, space: EinsumMapspace) -> Group:
        """Return the group of a mapspace without a tree."""
        ranks = self.einsum.ranks
        padded = {rank: size for rank, size in space.einsum.ranks.items() if size != ranks[rank]}
        return Group(operators=(self.einsum.name,), tree=(), padded=padded)

    def ranks(self, space: EinsumMapspace) -> Ranks:
        """Return the ranks as a group sees them."""
        key = tuple(space.einsum.ranks.values())
        if key not in self._ranks:
            self._ranks[key] = space_of(self.workload, self.empty(space))
        return self._ranks[key]

    @cached_property
    def _ranks(self) -> dict[tuple[int, ...], Ranks]:
        return {}

    def tile_bytes(self, space: EinsumMapspace, candidates: TilingBatch) -> Floats:
        """Return the bytes of full tiles by (temporal level, role, candidate), 0 if not kept."""
        own, keeps = self.ranks(space), np.moveaxis(candidates.keeps, 0, -1)
        tiles = candidates.tiles(list(space.einsum.ranks.values())).astype(np.float64)
        names, n_bytes = list(own.sizes), np.zeros(keeps.shape)
        for role, (_, view) in roles_of(own.operators[0]):
            for index, level in enumerate(self.hierarchy.temporal):
                kept = keeps[index, role]
                if not np.any(kept):
                    continue
                elements = np.ones(1)
                for dim in view.terms:
                    sides = (c * (tiles[level, names.index(rank)] - 1) for rank, c in dim)
                    elements = elements * (1 + sum(sides))
                n_bytes[index, role] = kept * in_bytes(elements, view.bits)
        return n_bytes

    def fits(self, space: EinsumMapspace, candidates: TilingBatch) -> Bools:
        """Return which candidates fit the memories and their staging, with one slot for a tile."""
        tiles = self.tile_bytes(space, candidates)
        found = np.ones(tiles.shape[-1], dtype=np.bool_)
        for at, roles, most in (*self._memories, *self._staging):
            found &= tiles[at, roles].sum(axis=0) <= most
        return found

    @cached_property
    def _memories(self) -> list[tuple[int, list[int], float]]:
        """The level, roles (inputs first) and bytes of each memory."""
        return [
            (
                at,
                [n for n, role in enumerate(ROLES) if role in memory.roles],
                np.inf if memory.capacity_bytes is None else float(memory.capacity_bytes),
            )
            for at, level in enumerate(self.hierarchy.memories)
            for memory in level.memories
        ]

    @cached_property
    def _staging(self) -> list[tuple[int, list[int], int]]:
        """The buffer's level, roles of a memory beside the DRAM, and bytes that they may take."""
        at = next((n for n, one in enumerate(self.hierarchy.memories) if one.name == BUFFER), None)
        operands = [*self.einsum.inputs, self.einsum.output]
        names = [one.tensor for one in operands]
        found: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            role = position if position < len(names) - 1 else INPUTS
            found.setdefault(self.workload.tensors[name].kind, []).append(role)
        limits = self.accelerator.staging
        pairs = ((roles, limits.get(kind)) for kind, roles in found.items())
        return [(at, roles, most) for roles, most in pairs if at is not None and most is not None]

    def family(
        self, space: EinsumMapspace, candidates: TilingBatch, *, double: bool = False
    ) -> Family:
        """Return candidates as a family of trees; ``double``: two slots where there is room."""
        slots = self._two_slots(space, candidates) if double else None
        return family_of_candidates(self.ranks(space), self.leaf, self.hierarchy, candidates, slots)

    def _two_slots(self, space: EinsumMapspace, candidates: TilingBatch) -> Ints:
        """Return the slots of tiles (temporal level, role, candidate): two where there is room."""
        tiles, keeps = self.tile_bytes(space, candidates), candidates.keeps
        slots = np.ones(tiles.shape, dtype=np.int64)
        for at, roles, most in self._memories:
            left = most - tiles[at, roles].sum(axis=0)
            for role in roles:
                fits = keeps[:, at, role] & (tiles[at, role] <= left)
                slots[at, role] += fits
                left = left - tiles[at, role] * fits
        for at, roles, most in self._staging:
            taken = (tiles[at, roles] * slots[at, roles]).sum(axis=0)
            slots[at, roles] = np.where(taken <= most, slots[at, roles], 1)
        return slots

    def group(
        self, space: EinsumMapspace, candidates: TilingBatch, *, double: bool = False
    ) -> Group:
        """Return the first candidate as a group of a mapping."""
        first = candidates.take(slice(0, 1))
        one = take(self.family(space, first, double=double), ints(0))
        empty = self.empty(space)
        return Group(operators=empty.operators, tree=tree_of_one(one), padded=empty.padded)

    def totals(self, group: Group) -> FamilyTotals:
        """Count one mapping with the closed form."""
        return evaluate(family_of(space_of(self.workload, group), group), self.accelerator)

    def score(
        self, space: EinsumMapspace, candidates: TilingBatch, objective: Objective
    ) -> tuple[Floats, Floats]:
        """Return the scores of candidates, as `score` does."""
        values, ties = np.empty((2, len(candidates)))
        for start in range(0, len(candidates), _BLOCK):
            part = slice(start, start + _BLOCK)
            totals = evaluate(self.family(space, candidates.take(part)), self.accelerator)
            values[part], ties[part] = score(objective, totals)
        return values, ties

    def _require_nestable(self) -> None:
        """Refuse an einsum that mapspaces don't take, or that is too large to count.

        Raises:
            NotNestableError: says what it is that they don't take.
        """
        einsum = self.einsum
        if len(einsum.inputs) > INPUTS:
            raise NotNestableError(f"{einsum}: {len(einsum.inputs)} inputs; allowed: 1 or 2")
        for operand in (*einsum.inputs, einsum.output):
            terms = [rank for dim in operand.projection for rank, _ in dim.terms]
            if len(set(terms)) < len(terms):
                raise NotNestableError(f"{einsum}: a rank twice in {operand}; allowed: once")
        if not einsum.output.is_unit:
            raise NotNestableError(f"{einsum}: index of {einsum.output}; allowed: single ranks")
        macs = math.prod(einsum.ranks.values())
        if macs > MOST_MACS:
            raise NotNestableError(f"{einsum.name}: {macs} MACs; allowed: at most 2^50")


def rooms_of(hierarchy: Hierarchy) -> list[Hierarchy]:
    """Return the hierarchies to search: the given one, and those with halved memories.

    A mapping that fits half of a memory can have two slots for each tile there (double buffering),
    which only gains anything if the memory is filled at a limited bandwidth.
    """
    rooms = [hierarchy]
    halved: set[str] = set()
    for is_filled_slowly, level in zip(
        hierarchy.limited_rates, hierarchy.memories[1:][-2:], strict=False
    ):
        limited = any(memory.capacity_bytes for memory in level.memories)
        if is_filled_slowly and limited:
            halved.add(level.name)
            rooms.append(_halve_memories(hierarchy, halved))
    return rooms


def _halve_memories(hierarchy: Hierarchy, names: set[str]) -> Hierarchy:
    def halve(level: Level) -> Level:
        if level.name not in names or not isinstance(level, TemporalLevel):
            return level
        sizes = ((one, one.capacity_bytes) for one in level.memories)
        halves = (replace(one, capacity_bytes=size and size // 2) for one, size in sizes)
        return replace(level, memories=tuple(halves))

    return replace(hierarchy, levels=tuple(map(halve, hierarchy.levels)))
