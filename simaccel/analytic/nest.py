"""The closed form of nests: accesses, cycles and energy of 100,000s of mappings in one call.

docs/decisions/0007-nests.md has the rules of counting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from simaccel.analytic.nest_loops import Loops, make_loops
from simaccel.analytic.nest_moves import Shape, Term, Tiling, Transfer
from simaccel.errors import SimaccelError
from simaccel.hardware.levels import ROLES, Hierarchy, Pipes
from simaccel.mapping.nest import Bools, Ints, Nests
from simaccel.workload import Einsum, Operand, Tensor

MOST_MACS: Final = 2**50
"""Beyond, accesses in 64-bit integers could wrap."""
_BLOCK: Final = 1 << 13
Sizes = npt.NDArray[np.int64] | npt.NDArray[np.float64]


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
    tiles = _tile_bytes(hierarchy, shapes, kept, lambda level, rank: extents[level, rank])
    return _held(hierarchy, tiles)


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
    traffic = _traffic(loops, shapes, kept, alone=False)
    extents = [
        [np.minimum(loops.entering(rank, level)[0], size) for rank, size in enumerate(loops.sizes)]
        for level in range(loops.depth)
    ]
    tiles = _tile_bytes(hierarchy, shapes, kept, lambda level, rank: extents[level][rank])
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


@dataclass(frozen=True)
class _Traffic:
    """Bytes by (temporal level, role, candidate), and of pipes by (down or up, role, candidate)."""

    reads: Ints
    writes: Ints
    piped: Ints

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

    def pipe(self, role: int, down: Ints, up: Ints | int = 0) -> None:
        """Add what goes to and comes from the instances behind the pipes."""
        self.piped[0, role] += down
        self.piped[1, role] += up


def _traffic(loops: Loops, shapes: Mapping[int, Shape], kept: Bools, *, alone: bool) -> _Traffic:
    """Count the bytes at all levels; ``alone``: of their first instances."""
    pipes = (2, *kept.shape[1:])
    found = _Traffic(*(np.zeros(n, dtype=np.int64) for n in (kept.shape, kept.shape, pipes)))
    for role, shape in shapes.items():
        for inner in range(1, len(kept) + 1):
            here = kept[inner, role] if inner < len(kept) else np.ones_like(kept[0, role])
            if here.any():
                _count(found, (inner, role), loops, shape, kept, here, alone=alone)
        found.reads[:, role] *= shape.width
        found.writes[:, role] *= shape.width
        found.piped[:, role] *= shape.width
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
    hierarchy = loops.hierarchy
    temporal = hierarchy.temporal
    child = temporal[inner] if inner < len(temporal) else loops.depth
    flow = _Flow(found, role, Tiling(loops=loops, shape=shape, child=child), alone)
    if inner < len(temporal):
        flow.add(inner, child, here, into=True)
    for outer in range(inner - 1, -1, -1):
        served = here & kept[outer, role]
        if served.any():
            flow.add(outer, temporal[outer] + 1, served, into=False)
            if hierarchy.pipes is not None and temporal[outer] < hierarchy.inside < child:
                flow.pipe(temporal[outer] + 1, served, hierarchy.pipes)
        here = here & ~kept[outer, role]


@dataclass(frozen=True)
class _Flow:
    """What one role moves to a level, counted once for each number of levels that share it."""

    found: _Traffic
    role: int
    to: Tiling
    alone: bool
    known: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    def moved(self, shared: int) -> tuple[Ints, Ints]:
        """Elements: of sums all and the first, of inputs those that move and none."""
        if shared not in self.known:
            transfer = Transfer(to=self.to, shared=shared, alone=self.alone)
            if ROLES[self.role] == "output":
                self.known[shared] = transfer.sums()
            else:
                elements = transfer.elements()
                self.known[shared] = (elements, np.zeros_like(elements))
        return self.known[shared]

    def add(self, level: int, shared: int, where: Bools, *, into: bool) -> None:
        """Count at one of the two memories."""
        every, first = self.moved(shared)
        if ROLES[self.role] == "output":
            self.found.sums(level, self.role, (every * where, first * where), into=into)
        else:
            self.found.down(level, self.role, every * where, into=into)

    def pipe(self, shared: int, where: Bools, pipes: Pipes) -> None:
        """Count on the pipes between them."""
        every, first = self.moved(shared)
        if ROLES[self.role] == "output":
            self.found.pipe(self.role, (every - first) * where, every * where)
            return
        if not pipes.multicast:  # MACs that share the memory of an instance share what it gets
            hierarchy = self.to.loops.hierarchy
            every, _ = self.moved(min(self.to.child, hierarchy.temporal[-1] + 1))
        self.found.pipe(self.role, every * where)


def _tile_bytes(
    hierarchy: Hierarchy,
    shapes: Mapping[int, Shape],
    kept: Bools,
    extent: Callable[[int, int], Sizes],
) -> Sizes:
    """Give the bytes of full tiles by (temporal level, role, candidate).

    ``extent`` gives the size of full tiles that enter a level, by level and rank.
    """
    found = np.zeros(kept.shape, dtype=extent(0, 0).dtype)
    for index, level in enumerate(hierarchy.temporal):
        for role, shape in shapes.items():
            if kept[index, role].any():
                sides = [_side(dim, level, extent) for dim in shape.dims]
                found[index, role] = math.prod(sides, start=shape.width * kept[index, role])
    return found


def _side(dim: Sequence[Term], level: int, extent: Callable[[int, int], Sizes]) -> Sizes:
    """Give the extent of an index, which is a sum of ranks."""
    ((rank, first), *rest) = dim
    side = extent(level, rank) if first == 1 else first * (extent(level, rank) - 1) + 1
    for other, coefficient in rest:
        side = side + coefficient * (extent(level, other) - 1)
    return side


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


def _pipe_cycles(hierarchy: Hierarchy, traffic: _Traffic) -> Ints:
    """Give the cycles of the busier pipe."""
    down, up = traffic.piped.sum(axis=1)
    if hierarchy.pipes is None:
        return np.zeros_like(down)
    return np.maximum(hierarchy.pipes.down.cycles(down), hierarchy.pipes.up.cycles(up))


def _valid(hierarchy: Hierarchy, tiles: Ints, trips: Ints, instances: Ints, output: Shape) -> Bools:
    """Say which candidates fit memories and fan-outs, and add only where the hardware can."""
    valid = _held(hierarchy, tiles)
    for index, fan in enumerate(hierarchy.fanouts):
        valid &= instances[index] <= fan.fanout
        if not fan.reduces:
            valid &= (trips[index, list(output.others)] == 1).all(axis=0)
    return valid


def _held(hierarchy: Hierarchy, tiles: Sizes) -> Bools:
    """Say which candidates' tiles fit the memories."""
    fits = np.ones(tiles.shape[-1], dtype=np.bool_)
    for index, level in enumerate(hierarchy.memories):
        for memory in level.memories:
            if memory.capacity_bytes is not None:
                held = tiles[index, [ROLES.index(role) for role in memory.roles]].sum(axis=0)
                fits &= held <= memory.capacity_bytes
    return fits


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
    if hierarchy.pipes is not None:
        total = total + traffic.piped.sum(axis=(0, 1)) * hierarchy.pipes.pj_per_byte
    for index, level in enumerate(hierarchy.memories):
        for role, name in enumerate(ROLES):
            memory = level.memory(name)
            if memory is not None:
                total = total + traffic.reads[index, role] * memory.read_pj_per_byte
                total = total + traffic.writes[index, role] * memory.write_pj_per_byte
    return total
