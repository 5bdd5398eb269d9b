"""The closed form of one nest on a spatial accelerator, resource by resource.

What moves between two levels is counted as in the search (``simaccel.analytic.nest``); here it is
told apart by where it passes, so that it can be held against the machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from simaccel.analytic.nest import busy_ranks, evaluate, shapes_of
from simaccel.analytic.nest_loops import Loops, Mode, make_loops
from simaccel.analytic.nest_moves import Shape, Tiling, Transfer
from simaccel.analytic.nest_pace import Pace, pace_of
from simaccel.analytic.nest_ways import Way
from simaccel.analytic.work import Level, Traffic, Work, ints
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Role
from simaccel.mapping.choices import NestMapping
from simaccel.mapping.nest import Nests
from simaccel.mapping.systolic import STATIONARY
from simaccel.workload import Einsum, Tensor

_PE: Final = "pe"


def nest_work(
    einsum: Einsum, tensors: Mapping[str, Tensor], mapping: NestMapping, accelerator: Accelerator
) -> Work:
    """Predict one einsum on a spatial accelerator.

    Raises:
        InputError: the mapping isn't for this einsum or accelerator.
        NotNestableError: the einsum is none that is counted.

    """
    hierarchy = levels(accelerator)
    nests = Nests.of(einsum, hierarchy, [mapping])
    costs = evaluate(einsum, tensors, hierarchy, nests)
    busy = busy_ranks(nests)
    shapes = {ROLES[at]: shape for at, shape in shapes_of(einsum, tensors, busy).items()}
    names = dict(zip(ROLES, einsum.inputs, strict=False)) | {"output": einsum.output}
    nest = _Nest(make_loops(hierarchy, nests, busy), mapping, shapes)
    ways = [way for role in shapes for way in nest.ways(role, names[role].tensor)]
    moved: Counter[Level] = Counter()
    for at, level in enumerate(hierarchy.memories):
        for role in shapes:
            place = f"{_PE}.{role}" if level.name == _PE else level.name
            index = ROLES.index(role)
            moved[f"{place}_read", names[role].tensor] += int(costs.reads[0, at, index])
            moved[f"{place}_write", names[role].tensor] += int(costs.writes[0, at, index])
    for way in ways:
        if way.target in (_PE, "mac") and way.source != _PE:
            down = way.outer[0] if accelerator.noc.distribution.multicasts else way.inner[0]
            moved["noc_distribution", way.tensor] += down
            moved["noc_collection", way.tensor] += way.outer[1]
    tiles = {
        way.tensor: (ints(costs.tile_bytes[0, 1, ROLES.index(way.role)]), ints(way.slots))
        for way in ways
        if way.target == "buffer"
    }
    cycles = _pass_cycles(nest, int(costs.steps[0]), accelerator)
    pace = pace_of(ways, cycles, nest.blocks(), accelerator)
    return _work(int(costs.macs[0]), cycles, moved, tiles, pace, accelerator)


def _pass_cycles(nest: _Nest, steps: int, accelerator: Accelerator) -> int:
    """Give the cycles of all passes, which in a systolic array depend on the PEs they use.

    A pass is full or last in each rank; all combinations are gone through.
    """
    array = accelerator.array
    if not isinstance(array, ArraySpec):
        return steps
    kept = next(level for level in nest.mapping.levels if level.level == _PE).keep[0]
    stationarity = next(one for one, role in STATIONARY.items() if role == kept)
    total = 0
    for shape in product(*(nest.passes(rank) for rank in range(len(nest.loops.sizes)))):
        times = math.prod(n for n, *_ in shape)
        rows, cols, inside = (math.prod(one[at] for one in shape) for at in (1, 2, 3))
        total += times * array.fold_cycles(rows, cols, inside, stationarity)
    return total


@dataclass(frozen=True)
class _Nest:
    loops: Loops
    mapping: NestMapping
    shapes: Mapping[Role, Shape]

    def ways(self, role: Role, tensor: str) -> Iterator[Way]:
        """Give the ways between neighbours that keep a role, from the outermost in."""
        hierarchy, shape = self.loops.hierarchy, self.shapes[role]
        kept = [at for at in hierarchy.temporal if role in self.mapping.levels[at].keep or at == 0]
        names = [*hierarchy.names, "mac"]
        for source, target in zip(kept, [*kept[1:], self.loops.depth], strict=True):
            to = Tiling(loops=self.loops, shape=shape, child=target)
            outer = Transfer(to=to, shared=source + 1)
            # of what MACs take from beyond their PE, each PE has its own
            pe = names.index(_PE)
            mine = pe + 1 if target == self.loops.depth and source < pe else target
            inner = Transfer(to=to, shared=mine)
            yield Way(
                role=role,
                tensor=tensor,
                source=names[source],
                target=names[target],
                outer=self._bytes(outer, role),
                inner=self._bytes(inner, role),
                times=self._times(to),
                slots=self._slots(role, target),
                position=int(to.position[0]),
            )

    def blocks(self) -> int:
        """Give the number of passes."""
        outside = self.loops.hierarchy.names.index("rows")
        return math.prod(
            int(self.loops.tiles(rank, outside, lambda _: True).count[0])
            for rank in range(len(self.loops.sizes))
        )

    def passes(self, rank: int) -> list[tuple[int, int, int, int]]:
        """Give the passes along a rank: how many, their rows, columns and steps."""
        loops, names = self.loops, self.loops.hierarchy.names
        rows, cols, pe = (loops.loops[names.index(n)][rank] for n in ("rows", "cols", _PE))
        blocks = -(-int(rows.pieces[0]) // int(rows.trips[0]))
        full = (blocks - 1, int(rows.trips[0]), int(cols.trips[0]), int(pe.trips[0]))
        last_rows = int(rows.last_trips[0])
        last_cols = int(cols.trips[0] if last_rows > 1 else cols.last_trips[0])
        alone = last_rows == 1 and last_cols == 1
        last = (1, last_rows, last_cols, int(pe.last_trips[0] if alone else pe.trips[0]))
        return [one for one in (full, last) if one[0]]

    def _bytes(self, transfer: Transfer, role: Role) -> tuple[int, int]:
        width = transfer.shape.width
        if role != "output":
            return int(transfer.elements()[0]) * width, 0
        every, first = (int(n[0]) for n in transfer.sums())
        return (every - first) * width, every * width

    def _times(self, to: Tiling) -> int:
        """How often a tile comes: the trips of all loops down to the one that changes it."""
        return math.prod(self._times_of(rank, to) for rank in range(len(self.loops.sizes)))

    def _times_of(self, rank: int, to: Tiling) -> int:
        def mode(level: int) -> Mode:
            if level not in self.loops.hierarchy.temporal:
                return False
            place = self.loops.places[self.loops.hierarchy.temporal.index(level)][rank]
            return place <= to.position

        return int(self.loops.tiles(rank, to.child, mode).count[0])

    def _slots(self, role: Role, target: int) -> int:
        """Slots of a tile: one if it comes once; of sums no more than come in one reduction."""
        if target == self.loops.depth:
            return 1
        given = self.mapping.levels[target].slots.get(role, 1)
        own = self._around(target, set(self.shapes[role].ranks))
        if not own:
            return 1
        others = self._around(target, set(self.shapes["output"].others))
        before = [place for place in others if place < max(own)] if role == "output" else []
        if not before:
            return given
        least = [n for place, n in own.items() if place > max(before)]
        return min(given, math.prod(least))

    def _around(self, level: int, ranks: set[int]) -> dict[int, int]:
        """Give the loops of some ranks outside a level: their fewest trips by place."""
        found = {}
        for at, outer in enumerate(self.loops.hierarchy.temporal):
            for rank in ranks if outer < level else ():
                loop = self.loops.loops[outer][rank]
                if loop.trips[0] > 1:
                    place = int(self.loops.places[at][rank][0])
                    found[place] = int(min(loop.trips[0], loop.last_trips[0]))
        return found


def _work(
    macs: int,
    steps: int,
    moved: Mapping[Level, int],
    tiles: dict[str, tuple[np.ndarray, np.ndarray]],
    pace: Pace,
    accelerator: Accelerator,
) -> Work:
    """Charge the resources with all that passes them."""
    traffic = Traffic(accelerator)

    def total(*names: str) -> int:
        return sum(n for (level, _), n in moved.items() if level in names)

    return Work(
        macs=ints(macs),
        elements=ints(0),
        moved={level: ints(n) for level, n in moved.items()},
        tiles=tiles,
        array=ints(steps),
        sfu=ints(0),
        dram=traffic.dram(ints(total("dram_read", "dram_write"))),
        read_port=traffic.read(ints(total("buffer_read"))),
        write_port=traffic.write(ints(total("buffer_write"))),
        noc=np.maximum(
            accelerator.distribution_rate.cycles(ints(total("noc_distribution"))),
            accelerator.collection_rate.cycles(ints(total("noc_collection"))),
        ),
        chain=ints(steps),
        pace=ints(math.ceil(pace.cycles)),
        fill=ints(math.ceil(pace.fill)),
        drain=ints(math.ceil(pace.drain)),
    )
