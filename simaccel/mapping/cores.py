"""Division of a group over cores by its outermost spreads.

A core's number has a digit per spread: its piece number, the first spread's being the most
significant. The last piece of a rank may be smaller; cores without a piece idle in the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from simaccel.mapping.node_text import Finding, node_text, place_text
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group, Keep, Spread, nodes
from simaccel.numbers import blocks
from simaccel.workload import Vector

CORES: Final = "cores"
CoreSets = tuple[tuple[int, ...], ...]
"""Sets of core numbers."""


@dataclass(frozen=True)
class CorePieces:
    """Pieces of equal size that a spread makes of a rank: ``count`` of them, from ``start`` on.

    Piece i is on core ``core + i * stride``, counted from the first core of the enclosing spread's
    piece.
    """

    spread: Spread
    start: int
    count: int
    size: int
    core: int
    stride: int


@dataclass(frozen=True)
class CoreCut:
    """The spreads over cores of a group, and the sizes of its ranks before they are cut."""

    spreads: tuple[Spread, ...]
    sizes: Map[str, int]


@dataclass(frozen=True)
class CoreShare:
    """The cores whose pieces of a group have the same sizes of ranks and the same start."""

    cores: tuple[int, ...]
    sizes: Map[str, int]
    digits: tuple[tuple[int, ...], ...]
    """Each core's piece numbers, one per spread."""

    def readers(self, spreads: Sequence[Spread], ranks: Collection[str]) -> CoreSets:
        """Return the sets of cores that load the same data, so that one read can serve each set.

        ``ranks``: those that index the data.
        """
        own = [at for at, spread in enumerate(spreads) if spread.rank in ranks]
        alike: dict[tuple[int, ...], list[int]] = {}
        for core, digits in zip(self.cores, self.digits, strict=True):
            alike.setdefault(tuple(digits[at] for at in own), []).append(core)
        return tuple(map(tuple, alike.values()))


def core_spreads(group: Group) -> tuple[Spread, ...]:
    """Return the spreads over cores of a group: its outermost nodes."""
    outer = takewhile(lambda node: isinstance(node, Spread) and node.level == CORES, group.tree)
    return tuple(node for node in outer if isinstance(node, Spread))


def piece_of(group: Group, sizes: Map[str, int]) -> Group:
    """Return the group of one core, whose piece has these sizes of ranks."""
    spreads = core_spreads(group)
    if not spreads:
        return group
    piece = {spread.rank: sizes[spread.rank] for spread in spreads}
    full = {rank: min(spread.tile for spread in spreads if spread.rank == rank) for rank in piece}
    return replace(group, tree=group.tree[len(spreads) :], piece=piece, full_piece=full)


def pieces(
    spreads: Sequence[Spread], sizes: Map[str, int]
) -> Iterator[tuple[CorePieces, dict[str, int]]]:
    """Yield the full and the remaining pieces of the first spread, with the sizes of ranks in each.

    >>> [(one.core, one.count, one.size) for one, _ in pieces([Spread("m", 4, "cores")], {"m": 10})]
    [(0, 2, 4), (2, 1, 2)]
    """
    spread, *inner = spreads
    whole = sizes[spread.rank]
    stride = cores_of(inner, {**sizes, spread.rank: min(whole, spread.tile)})
    for start, count, size in blocks(whole, spread.tile):
        core = start // spread.tile * stride
        piece = CorePieces(spread, start, count, size, core, stride)
        yield piece, {**sizes, spread.rank: size}


def cores_of(spreads: Sequence[Spread], sizes: Map[str, int]) -> int:
    """Return the number of cores that some spreads use: the product of their piece counts.

    >>> cores_of([Spread("m", 4, "cores"), Spread("n", 2, "cores")], {"m": 10, "n": 4})
    6
    """
    left, found = dict(sizes), 1
    for spread in spreads:
        found *= -(-left[spread.rank] // spread.tile)
        left[spread.rank] = min(left[spread.rank], spread.tile)
    return found


def shares(cut: CoreCut) -> tuple[CoreShare, ...]:
    """Return the cores grouped by start and sizes of their pieces, core 0 first."""
    if not cut.spreads:
        return (CoreShare((0,), cut.sizes, ((),)),)
    by_place: dict[_StartAndSizes, list[tuple[int, tuple[int, ...]]]] = {}

    def collect_below(
        spreads: Sequence[Spread],
        sizes: Map[str, int],
        place: tuple[int, ...],
        core: int,
        digits: tuple[int, ...],
    ) -> None:
        if not spreads:
            by_place.setdefault((place, tuple(sizes.items())), []).append((core, digits))
            return
        for piece, inside in pieces(spreads, sizes):
            for number in range(piece.count):
                first = core + piece.core + number * piece.stride
                collect_below(spreads[1:], inside, (*place, piece.start), first, (*digits, number))

    collect_below(cut.spreads, dict(cut.sizes), (), 0, ())
    return tuple(
        CoreShare(
            tuple(core for core, _ in cores), dict(piece), tuple(digits for _, digits in cores)
        )
        for (_, piece), cores in by_place.items()
    )


_StartAndSizes = tuple[tuple[int, ...], tuple[tuple[str, int], ...]]
"""(start of a piece by spread, sizes of ranks in it)."""


def spread_faults(
    group: Group, space: IterationSpace, count: int | None, around: Sequence[Keep]
) -> list[Finding]:
    """Return the faults of a group's spreads over ``count`` cores (None: any number).

    Names and sizes of ranks have been checked (`structure_faults`).
    """
    spreads = core_spreads(group)
    findings: list[Finding] = [
        (f"tree[{at}]", node_text(inner), "a place before all nodes but spreads over chips")
        for at, node in enumerate(group.tree[len(spreads) :], len(spreads))
        for inner in nodes((node,))
        if isinstance(inner, Spread) and inner.level == CORES
    ]
    if not spreads or findings:
        return findings
    for at, spread in enumerate(spreads):
        findings += [
            (f"tree[{at}]", node_text(spread), why) for why in piece_faults(spread.rank, space)
        ]
    taken = cores_of(spreads, space.sizes)
    count = count if group.place is None else len(group.place)
    if count is not None and taken > count:
        last = len(spreads) - 1
        text = f"{node_text(spreads[last])}: {taken} pieces"
        own = "cores.count" if group.place is None else f"its cores ({place_text(group.place)})"
        allowed = f"at most {own}, {count}, pieces of {' and '.join(s.rank for s in spreads)}"
        findings.append((f"tree[{last}]", text, allowed))
    if around:
        names = ", ".join(dict.fromkeys(keep.tensor for keep in around))
        allowed = f"no spread over cores where {names} stays in the buffer of one core"
        findings.append(("tree[0]", node_text(spreads[0]), allowed))
    return findings


def piece_faults(rank: str, space: IterationSpace) -> Iterator[str]:
    """Yield why a rank can't be divided over cores: an operator needs it whole, or sums over it."""
    for op in space.operators:
        if rank not in space.plain_ranks(op.ranks):
            continue
        if rank in space.axis_ranks(op.name):
            yield f"another rank: {op.name} needs {rank} whole"
        elif rank not in space.moves(op.output):
            if isinstance(op.operator, Vector):
                yield f"another rank: nobody adds what {op.name} makes of parts of {rank}"
            else:
                yield f"another rank: {op.name} sums over {rank}, and nobody adds sums of cores"
