"""The closed form of nests: accesses, cycles and energy of 100,000s of mappings in one call.

docs/decisions/0007-nests.md has the rules of counting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from simaccel.analytic.nest_loops import Loops, make_loops
from simaccel.analytic.nest_moves import Shape
from simaccel.analytic.nest_tiles import held, tile_bytes
from simaccel.analytic.nest_traffic import Traffic, count_traffic
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
    _require_countable(einsum, math.prod(nests.sizes.max(axis=0, initial=1).tolist()))
    busy = busy_ranks(nests)
    shapes = shapes_of(einsum, tensors, busy)
    blocks = [
        _evaluate(einsum, shapes, hierarchy, nests.take(slice(start, start + _BLOCK)), busy)
        for start in range(0, max(len(nests), 1), _BLOCK)
    ]
    joined = {f.name: np.concatenate([getattr(b, f.name) for b in blocks]) for f in fields(Costs)}
    return Costs(**joined)


def fit_memories(
    einsum: Einsum, tensors: Mapping[str, Tensor], hierarchy: Hierarchy, nests: Nests
) -> Bools:
    """Say which candidates fit the memories, as `Costs.valid` does, but quickly."""
    busy = busy_ranks(nests)
    sizes = nests.sizes.T.astype(np.float64)
    extents = np.ones((len(hierarchy.levels) + 1, len(busy), len(nests)))
    for index, rank in enumerate(busy):
        for level in range(len(hierarchy.levels) - 1, -1, -1):
            inside = extents[level + 1, index] * nests.factors[:, level, rank]
            extents[level, index] = np.minimum(inside, sizes[rank]) if level else sizes[rank]
    kept = nests.keeps.transpose(1, 2, 0)
    shapes = shapes_of(einsum, tensors, busy)
    tiles = tile_bytes(hierarchy, shapes, kept, lambda level, rank: extents[level, rank])
    return held(hierarchy, tiles)


def require_nestable(einsum: Einsum) -> None:
    """Refuse an einsum that the rules of counting don't cover, or that is too large to count.

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
    _require_countable(einsum, einsum.macs)


def _require_countable(einsum: Einsum, macs: int) -> None:
    if macs > MOST_MACS:
        raise NotNestableError(f"{einsum.name}: {macs} MACs; allowed: at most 2^50")


def _operands(einsum: Einsum) -> dict[int, Operand]:
    """Give the operands by the index of their role; one input alone is no weight."""
    return {**dict(enumerate(einsum.inputs)), ROLES.index("output"): einsum.output}


def busy_ranks(nests: Nests) -> list[int]:
    """Give the ranks with more than one element; of a rank with one nothing depends."""
    return np.flatnonzero((nests.sizes != 1).any(axis=0)).tolist() or [0]


def shapes_of(
    einsum: Einsum, tensors: Mapping[str, Tensor], busy: Sequence[int]
) -> dict[int, Shape]:
    """Give the shape of each operand by the index of its role, over the ranks of these numbers."""
    ranks = [list(einsum.ranks)[at] for at in busy]
    return {role: _shape(ranks, given, tensors) for role, given in _operands(einsum).items()}


def _shape(ranks: list[str], operand: Operand, tensors: Mapping[str, Tensor]) -> Shape:
    dims = (
        tuple((ranks.index(rank), c) for rank, c in dim.terms if rank in ranks)
        for dim in operand.projection
    )
    return Shape(
        dims=tuple(dim for dim in dims if dim),
        others=tuple(i for i, rank in enumerate(ranks) if rank not in operand.ranks),
        width=tensors[operand.tensor].bytes_per_element,
    )


def _evaluate(
    einsum: Einsum,
    shapes: Mapping[int, Shape],
    hierarchy: Hierarchy,
    nests: Nests,
    busy: Sequence[int],
) -> Costs:
    loops = make_loops(hierarchy, nests, busy)
    kept = np.ascontiguousarray(nests.keeps.transpose(1, 2, 0))
    traffic = count_traffic(loops, shapes, kept, alone=False)
    extents = [
        [np.minimum(loops.entering(rank, level)[0], size) for rank, size in enumerate(loops.sizes)]
        for level in range(loops.depth)
    ]
    tiles = tile_bytes(hierarchy, shapes, kept, lambda level, rank: extents[level][rank])
    trips = np.array([[loop.trips for loop in loops.loops[i]] for i in hierarchy.spatial])
    trips = trips.reshape(len(hierarchy.spatial), len(busy), len(nests))
    instances = trips.prod(axis=1)
    steps = _steps(loops)
    worked = np.maximum(_array_cycles(loops, steps), _pipe_cycles(hierarchy, traffic))
    macs = nests.sizes.prod(axis=1)
    return Costs(
        valid=_valid(hierarchy, tiles, trips, instances, shapes[ROLES.index("output")]),
        macs=macs,
        ineffectual=macs - einsum.macs,
        steps=steps,
        cycles=np.maximum(worked, _bandwidth_cycles(loops, shapes, kept, traffic)),
        reads=traffic.reads.transpose(2, 0, 1),
        writes=traffic.writes.transpose(2, 0, 1),
        tile_bytes=tiles.transpose(2, 0, 1),
        instances=instances.T,
        energy_pj=_energy(hierarchy, macs, traffic),
    )


def _steps(loops: Loops) -> Ints:
    """Count the compute cycles: all temporal trips; a spatial tile lasts as its first instance."""
    total = np.ones_like(loops.sizes[0])
    temporal = set(loops.hierarchy.temporal)
    for rank in range(len(loops.sizes)):
        total = total * loops.tiles(rank, loops.depth, lambda level: level in temporal).count
    return total


def _array_cycles(loops: Loops, steps: Ints) -> Ints:
    """Add what a pass takes at least, and beyond its steps, to those of all passes."""
    pace = loops.hierarchy.pace
    if not (pace.least or pace.beyond):
        return steps
    passes = np.ones_like(steps)
    for rank in range(len(loops.sizes)):
        passes = passes * loops.tiles(rank, loops.hierarchy.inside, lambda _: True).count
    return np.maximum(steps, passes * pace.least) + passes * pace.beyond


def _pipe_cycles(hierarchy: Hierarchy, traffic: Traffic) -> Ints:
    """Give the cycles of the busier pipe."""
    down, up = traffic.piped.sum(axis=1)
    if hierarchy.pipes is None:
        return np.zeros_like(down)
    cycles: Ints = np.maximum(hierarchy.pipes.down.cycles(down), hierarchy.pipes.up.cycles(up))
    return cycles


def _valid(hierarchy: Hierarchy, tiles: Ints, trips: Ints, instances: Ints, output: Shape) -> Bools:
    """Say which candidates fit memories and fan-outs, and add only where the hardware can."""
    valid = held(hierarchy, tiles)
    for index, fan in enumerate(hierarchy.fanouts):
        valid &= instances[index] <= fan.fanout
        if not fan.reduces:
            valid &= (trips[index, list(output.others)] == 1).all(axis=0)
    return valid


def _bandwidth_cycles(
    loops: Loops, shapes: Mapping[int, Shape], kept: Bools, traffic: Traffic
) -> Ints:
    """Give the cycles that the slowest port takes for what passes the first instance's."""
    hierarchy = loops.hierarchy
    inside = min(hierarchy.spatial, default=loops.depth)
    limited = [
        not all(port.unlimited for port in (memory.read, memory.write, memory.both))
        for memory in hierarchy.memories
    ]
    if any(is_ and i > inside for is_, i in zip(limited, hierarchy.temporal, strict=True)):
        traffic = count_traffic(loops, shapes, kept, alone=True)
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


def _energy(hierarchy: Hierarchy, macs: Ints, traffic: Traffic) -> npt.NDArray[np.float64]:
    """Add up the energy of MACs and accesses in pJ."""
    total = macs.astype(np.float64) * hierarchy.mac_pj
    if hierarchy.pipes is not None:
        total = total + traffic.piped.sum(axis=(0, 1)) * hierarchy.pipes.pj_per_byte
    for index, level in enumerate(hierarchy.memories):
        for role, name in enumerate(ROLES):
            memory = level.memory(name)
            if memory is not None:
                total = total + traffic.reads[index, role] * memory.read_pj_per_byte
                total = total + traffic.writes[index, role] * memory.write_pj_per_byte
    return total
