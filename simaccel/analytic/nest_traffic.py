"""What nests move at each level and on the pipes, in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.nest_loops import Loops
from simaccel.analytic.nest_moves import Shape, Tiling, Transfer
from simaccel.hardware.levels import ROLES, Pipes
from simaccel.mapping.nest import Bools, Ints


@dataclass(frozen=True)
class Traffic:
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


def count_traffic(
    loops: Loops, shapes: Mapping[int, Shape], kept: Bools, *, alone: bool
) -> Traffic:
    """Count the bytes at all levels; ``alone``: of their first instances."""
    pipes = (2, *kept.shape[1:])
    found = Traffic(*(np.zeros(n, dtype=np.int64) for n in (kept.shape, kept.shape, pipes)))
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
    found: Traffic,
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

    found: Traffic
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
