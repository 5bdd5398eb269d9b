"""The default reading counted step by step, in plain loops over sets: slow, and independent.

Maps are over outputs: P and Q stand for Y' and X'. A step is one position of all loops of a
level; each unit has a tile of its own. What a unit keeps from the step before is what it still
needs, if one of the tensor's loops alone has moved on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil

Range = tuple[int, int]
Tile = Mapping[str, Range]
LOOPS = {"input": "CPQRS", "filter": "KCRS", "output": "KPQ"}


@dataclass(frozen=True)
class Loop:
    """A map over outputs: tiles of ``size``, one after the other or side by side."""

    dim: str
    size: int
    spatial: bool = False


@dataclass
class Totals:
    """What a level moves and how long it takes."""

    fetched: dict[str, int] = field(default_factory=lambda: {"input": 0, "filter": 0})
    delivered: dict[str, int] = field(default_factory=lambda: {"input": 0, "filter": 0})
    leaving: int = 0
    returning: int = 0
    macs: int = 0
    cycles: int = 0


@dataclass(frozen=True)
class Machine:
    """Cluster levels with their units, the stride, the NoC (elements per cycle, latency).

    ``multicast`` is that of the outermost level; the others have it.
    """

    levels: Sequence[Sequence[Loop]]
    units: Sequence[int]
    stride: int
    bandwidth: int
    latency: int
    multicast: bool = True

    def cycles(self, elements: int) -> int:
        """Cycles of a transfer through the NoC."""
        return self.latency + ceil(elements / self.bandwidth) - 1 if elements else 0


def count(machine: Machine, sizes: Mapping[str, int], depth: int = 0) -> Totals:
    """Go through all steps of a level on a tile of these sizes."""
    found, before, last = Totals(), None, list[Tile]()
    seen: set[tuple[int, ...]] = set()
    for step, units in enumerate(_steps(machine, sizes, depth)):
        arriving = 0
        for tensor in ("input", "filter"):
            each = _new(machine, tensor, units, last, 0 if before is None else len(before))
            union = _new_together(machine, tensor, units, before)
            found.delivered[tensor] += each
            sent = union if machine.multicast or depth else each
            found.fetched[tensor] += sent
            arriving += sent
        outputs = _union(machine, "output", units)
        is_new = before is None or outputs != _union(machine, "output", before)
        back = len(outputs & seen) if is_new else 0
        leaving = len(outputs) if is_new else 0
        seen |= outputs
        found.leaving += leaving
        found.returning += back
        found.cycles += _cycles(machine, units, depth, arriving + back, leaving, is_first=step == 0)
        found.macs += sum(_work(tile) for tile in units)
        before, last = units, [*units, *last[len(units) :]]  # who idles keeps what it has
    return found


def _work(tile: Tile) -> int:
    total = 1
    for start, stop in tile.values():
        total *= stop - start
    return total


def _cycles(
    machine: Machine,
    units: Sequence[Tile],
    depth: int,
    arriving: int,
    leaving: int,
    *,
    is_first: bool,
) -> int:
    if depth + 1 < len(machine.levels):
        compute = max(count(machine, _sizes(tile), depth + 1).cycles for tile in units)
    else:
        compute = _work(units[0])
    ways = machine.cycles(arriving), machine.cycles(leaving)
    return compute + sum(ways) if is_first else max(compute, *ways)


def _sizes(tile: Tile) -> dict[str, int]:
    return {dim: stop - start for dim, (start, stop) in tile.items()}


def _steps(machine: Machine, sizes: Mapping[str, int], depth: int) -> Iterator[list[Tile]]:
    loops, units = machine.levels[depth], machine.units[depth]
    positions = []
    for loop in loops:
        tiles = [
            (at, min(at + loop.size, sizes[loop.dim]))
            for at in range(0, sizes[loop.dim], loop.size)
        ]
        at_once = units if loop.spatial else 1
        positions.append([tiles[at : at + at_once] for at in range(0, len(tiles), at_once)])
    for chosen in product(*positions):
        most = max(len(one) for one in chosen)
        yield [
            {loop.dim: one[min(at, len(one) - 1)] for loop, one in zip(loops, chosen, strict=True)}
            for at in range(most)
        ]


def _elements(machine: Machine, tensor: str, tile: Tile) -> set[tuple[int, ...]]:
    if tensor == "input":
        rows = _reach(machine, tile["P"], tile["R"])
        columns = _reach(machine, tile["Q"], tile["S"])
        return set(product(range(*tile["C"]), rows, columns))
    return set(product(*(range(*tile[dim]) for dim in LOOPS[tensor])))


def _reach(machine: Machine, outputs: Range, rows: Range) -> set[int]:
    return {out * machine.stride + row for out in range(*outputs) for row in range(*rows)}


def _union(machine: Machine, tensor: str, units: Sequence[Tile]) -> set[tuple[int, ...]]:
    return set().union(*(_elements(machine, tensor, tile) for tile in units))


def _moved(tensor: str, now: Tile, before: Tile) -> str:
    """Say how a tile stands to the one before: the same, on by one loop, or elsewhere."""
    moved = [dim for dim in LOOPS[tensor] if now[dim] != before[dim]]
    if not moved:
        return "same"
    is_on = len(moved) == 1 and now[moved[0]][0] > before[moved[0]][0]
    return "on" if is_on else "elsewhere"


def _new(
    machine: Machine, tensor: str, units: Sequence[Tile], last: Sequence[Tile], worked: int
) -> int:
    """Count what is new to each unit; of ``last`` the first ``worked`` in the step before.

    Who has idled still has what it had, unless the first unit begins elsewhere.
    """
    total = 0
    for at, tile in enumerate(units):
        own = _elements(machine, tensor, tile)
        how = _moved(tensor, tile, last[at]) if at < len(last) else ""
        if at >= worked and last and _moved(tensor, units[0], last[0]) == "elsewhere":
            how = ""
        if how == "same":
            continue
        if how == "on":
            own -= _elements(machine, tensor, last[at])
        total += len(own)
    return total


def _new_together(
    machine: Machine, tensor: str, units: Sequence[Tile], before: Sequence[Tile] | None
) -> int:
    union = _union(machine, tensor, units)
    if before is None:
        return len(union)
    how = _moved(tensor, units[0], before[0])
    if how == "same":
        return 0
    return len(union - _union(machine, tensor, before)) if how == "on" else len(union)
