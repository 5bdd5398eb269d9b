"""The closed form of nests: accesses, cycles and energy of 100,000s of mappings in one call.

docs/decisions/0007-nests.md has the rules of counting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from simaccel.analytic.nest_loops import Loops, make_loops
from simaccel.analytic.nest_moves import Shape, Tiling, Transfer
from simaccel.errors import SimaccelError
from simaccel.hardware.levels import ROLES, Hierarchy
from simaccel.mapping.nest import Bools, Ints, Nests
from simaccel.workload import Einsum, Operand, Tensor

MOST_MACS: Final = 2**50
"""Beyond, accesses in 64-bit integers could wrap."""
_BLOCK: Final = 1 << 13


class NotNestableError(SimaccelError):
    """The closed form doesn't count nests of this einsum; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What each candidate costs; the first index of each array is the candidate.

    - ``valid``: it fits memories and fan-outs, and adds only where the hardware can;
    - ``macs``: multiply-accumulates, ``ineffectual`` ones (of padding) among them;
    - ``steps``: compute cycles; ``cycles``: the most of steps and of the bytes at each bandwidth;
    - ``reads``, ``writes`` (temporal level, role): bytes, of all instances of the level;
    - ``tile_bytes`` (temporal level, role): bytes that one instance keeps, 0 where it keeps none;
    - ``instances`` (spatial level): how many work at the same time at most;
    - ``energy_pj``.
    """

    valid: Bools
    macs: Ints
    ineffectual: Ints
    steps: Ints
    cycles: Ints
    reads: Ints
    writes: Ints
    tile_bytes: Ints
    instances: Ints
    energy_pj: npt.NDArray[np.float64]

    @property
    def edp(self) -> npt.NDArray[np.float64]:
        """Energy times delay in pJ cycles."""
        return self.energy_pj * self.cycles


def evaluate(
    einsum: Einsum, tensors: Mapping[str, Tensor], hierarchy: Hierarchy, nests: Nests
) -> Costs:
    """Evaluate all candidates; ``tensors`` give the bytes per element (``workload.tensors``).

    Raises:
        NotNestableError: the einsum has more than two inputs, a rank twice in an operand, or an
            output with a sum of ranks as index; or it is too large to count.

    """
    require_nestable(einsum)
    most = math.prod(nests.sizes.max(axis=0, initial=1).tolist())
    if most > MOST_MACS:
        raise NotNestableError(f"{einsum.name}: {most} MACs; allowed: at most 2^50")
    shapes = shapes_of(einsum, tensors)
    blocks = [
        _evaluate(einsum, shapes, hierarchy, nests.take(slice(start, start + _BLOCK)))
        for start in range(0, max(len(nests), 1), _BLOCK)
    ]
    joined = {f.name: np.concatenate([getattr(b, f.name) for b in blocks]) for f in fields(Costs)}
    return Costs(**joined)


def shapes_of(einsum: Einsum, tensors: Mapping[str, Tensor]) -> dict[int, Shape]:
    """Give the shape of each operand by the index of its role."""
    return {role: _shape(einsum, given, tensors) for role, given in _operands(einsum).items()}


def require_nestable(einsum: Einsum) -> None:
    """Refuse an einsum that the rules of counting don't cover.

    Raises:
        NotNestableError: says what it is that they don't cover.

    """
    if len(einsum.inputs) > len(ROLES) - 1:
        raise NotNestableError(f"{einsum}: {len(einsum.inputs)} inputs; allowed: 1 or 2")
    for operand in _operands(einsum).values():
        terms = [rank for dim in operand.projection for rank, _ in dim.terms]
        if len(set(terms)) < len(terms):
            raise NotNestableError(f"{einsum}: a rank twice in {operand}; allowed: once")
    if not einsum.output.is_unit:
        raise NotNestableError(f"{einsum}: index of {einsum.output}; allowed: single ranks")


def _operands(einsum: Einsum) -> dict[int, Operand]:
    """Give the operands by the index of their role; one input alone is no weight."""
    return {**dict(enumerate(einsum.inputs)), ROLES.index("output"): einsum.output}


def _shape(einsum: Einsum, operand: Operand, tensors: Mapping[str, Tensor]) -> Shape:
    ranks = list(einsum.ranks)
    return Shape(
        dims=tuple(
            tuple((ranks.index(rank), c) for rank, c in dim.terms) for dim in operand.projection
        ),
        others=tuple(i for i, rank in enumerate(ranks) if rank not in operand.ranks),
        width=tensors[operand.tensor].bytes_per_element,
    )


def _evaluate(
    einsum: Einsum, shapes: Mapping[int, Shape], hierarchy: Hierarchy, nests: Nests
) -> Costs:
    loops = make_loops(hierarchy, nests)
    kept = np.ascontiguousarray(nests.keeps.transpose(1, 2, 0))
    traffic = _traffic(loops, shapes, kept, alone=False)
    tiles = _tile_bytes(loops, shapes, kept)
    trips = np.array([[loop.trips for loop in loops.loops[i]] for i in hierarchy.spatial])
    trips = trips.reshape(len(hierarchy.spatial), len(einsum.ranks), len(nests))
    instances = trips.prod(axis=1)
    steps = _steps(loops)
    macs = nests.sizes.prod(axis=1)
    return Costs(
        valid=_valid(hierarchy, tiles, trips, instances, shapes[ROLES.index("output")]),
        macs=macs,
        ineffectual=macs - einsum.macs,
        steps=steps,
        cycles=np.maximum(steps, _bandwidth_cycles(loops, shapes, kept, traffic)),
        reads=traffic.reads.transpose(2, 0, 1),
        writes=traffic.writes.transpose(2, 0, 1),
        tile_bytes=tiles.transpose(2, 0, 1),
        instances=instances.T,
        energy_pj=_energy(hierarchy, macs, traffic),
    )


@dataclass(frozen=True)
class _Traffic:
    """Bytes by (temporal level, role, candidate)."""

    reads: Ints
    writes: Ints

    def down(self, level: int, role: int, moved: Ints, *, into: bool) -> None:
        """Add what an input brings into a level, or what is read there for the levels inside."""
        target = self.writes if into else self.reads
        target[level, role] += moved

    def sums(self, level: int, role: int, moved: tuple[Ints, Ints], *, into: bool) -> None:
        """Add what sums move: all go up at the end, all but the first come down at the start."""
        up, down = (self.reads, self.writes) if into else (self.writes, self.reads)
        every, first = moved
        up[level, role] += every
        down[level, role] += every - first


def _traffic(loops: Loops, shapes: Mapping[int, Shape], kept: Bools, *, alone: bool) -> _Traffic:
    """Count the bytes at all levels; ``alone``: of their first instances."""
    found = _Traffic(np.zeros(kept.shape, dtype=np.int64), np.zeros(kept.shape, dtype=np.int64))
    for role, shape in shapes.items():
        for inner in range(1, len(kept) + 1):
            here = kept[inner, role] if inner < len(kept) else np.ones_like(kept[0, role])
            if here.any():
                _count(found, (inner, role), loops, shape, kept, here, alone=alone)
        found.reads[:, role] *= shape.width
        found.writes[:, role] *= shape.width
    return found


def _count(
    found: _Traffic,
    place: tuple[int, int],
    loops: Loops,
    shape: Shape,
    kept: Bools,
    here: Bools,
    *,
    alone: bool,
) -> None:
    """Count what one level (or the MACs) takes from the next one outside that keeps the role."""
    inner, role = place
    temporal = loops.hierarchy.temporal
    child = temporal[inner] if inner < len(temporal) else loops.depth
    to = Tiling(loops=loops, shape=shape, child=child)

    def add(level: int, shared: int, where: Bools, *, into: bool) -> None:
        transfer = Transfer(to=to, shared=shared, alone=alone)
        if ROLES[role] == "output":
            every, first = transfer.sums()
            found.sums(level, role, (every * where, first * where), into=into)
        else:
            found.down(level, role, transfer.elements() * where, into=into)

    if inner < len(temporal):
        add(inner, child, here, into=True)
    for outer in range(inner - 1, -1, -1):
        served = here & kept[outer, role]
        if served.any():
            add(outer, temporal[outer] + 1, served, into=False)
        here = here & ~kept[outer, role]


def _tile_bytes(loops: Loops, shapes: Mapping[int, Shape], kept: Bools) -> Ints:
    """Give the bytes of full tiles by (temporal level, role, candidate)."""
    found = np.zeros(kept.shape, dtype=np.int64)
    for index, level in enumerate(loops.hierarchy.temporal):
        for role, shape in shapes.items():
            volume = np.full_like(found[index, role], shape.width)
            for dim in shape.dims:
                sides = [
                    c * (np.minimum(loops.entering(rank, level)[0], loops.sizes[rank]) - 1)
                    for rank, c in dim
                ]
                volume = volume * sum(sides, np.ones_like(volume))
            found[index, role] = volume * kept[index, role]
    return found


def _steps(loops: Loops) -> Ints:
    """Count the compute cycles: all temporal trips; a spatial tile lasts as its first instance."""
    total = np.ones_like(loops.sizes[0])
    temporal = set(loops.hierarchy.temporal)
    for rank in range(len(loops.sizes)):
        total = total * loops.tiles(rank, loops.depth, lambda level: level in temporal).count
    return total


def _valid(hierarchy: Hierarchy, tiles: Ints, trips: Ints, instances: Ints, output: Shape) -> Bools:
    """Say which candidates fit memories and fan-outs, and add only where the hardware can."""
    valid = np.ones(tiles.shape[-1], dtype=np.bool_)
    for index, level in enumerate(hierarchy.memories):
        for memory in level.memories:
            if memory.capacity_bytes is not None:
                held = tiles[index, [ROLES.index(role) for role in memory.roles]].sum(axis=0)
                valid &= held <= memory.capacity_bytes
    for index, fan in enumerate(hierarchy.fanouts):
        valid &= instances[index] <= fan.fanout
        if not fan.reduces:
            valid &= (trips[index, list(output.others)] == 1).all(axis=0)
    return valid


def _bandwidth_cycles(
    loops: Loops, shapes: Mapping[int, Shape], kept: Bools, traffic: _Traffic
) -> Ints:
    """Give the cycles that the slowest port takes for what passes the first instance's."""
    hierarchy = loops.hierarchy
    inside = min(hierarchy.spatial, default=loops.depth)
    limited = [
        not all(port.unlimited for port in (memory.read, memory.write, memory.both))
        for memory in hierarchy.memories
    ]
    if any(is_ and i > inside for is_, i in zip(limited, hierarchy.temporal, strict=True)):
        traffic = _traffic(loops, shapes, kept, alone=True)
    cycles = np.zeros(kept.shape[-1], dtype=np.int64)
    for index, memory in enumerate(hierarchy.memories):
        read, write = (moved[index].sum(axis=0) for moved in (traffic.reads, traffic.writes))
        for port, n_bytes in (
            (memory.read, read),
            (memory.write, write),
            (memory.both, read + write),
        ):
            if not port.unlimited:
                cycles = np.maximum(cycles, port.cycles(n_bytes))
    return cycles


def _energy(hierarchy: Hierarchy, macs: Ints, traffic: _Traffic) -> npt.NDArray[np.float64]:
    """Add up the energy of MACs and accesses in pJ."""
    total = macs.astype(np.float64) * hierarchy.mac_pj
    for index, level in enumerate(hierarchy.memories):
        for role, name in enumerate(ROLES):
            memory = level.memory(name)
            if memory is not None:
                total = total + traffic.reads[index, role] * memory.read_pj_per_byte
                total = total + traffic.writes[index, role] * memory.write_pj_per_byte
    return total
