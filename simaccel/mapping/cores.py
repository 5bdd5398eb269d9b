"""Parts of a group that cores do: spreads over cores stand at its outside, as those over chips do.

Spreads are the digits of a core's number, the first one the most significant. The last piece of a
rank is what is left of it; cores for which nothing is left idle in the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from typing import Final

from simaccel.mapping.node_text import node_text, place_text
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group, Keep, Loop, Spread, nodes
from simaccel.workload import Vector

CORES: Final = "cores"
CoreSets = tuple[tuple[int, ...], ...]
"""Sets of cores."""
Finding = tuple[str, object, str]
"""(place in the group, value, what is allowed)."""


@dataclass(frozen=True)
class CorePieces:
    """Pieces of one size that a spread makes of a rank: from ``start`` on, ``count`` of them.

    ``core`` has the first one, counted from where its enclosing spread's piece begins, and each
    ``apart``-th core another.
    """

    spread: Spread
    start: int
    count: int
    size: int
    core: int
    apart: int


@dataclass(frozen=True)
class CoreCut:
    """Spreads over cores around what each does of its piece; ``sizes``: of all ranks, uncut."""

    spreads: tuple[Spread, ...]
    sizes: Map[str, int]


@dataclass(frozen=True)
class CoreShare:
    """The part of a group that each of some cores does: pieces of the same ``sizes`` of ranks."""

    cores: tuple[int, ...]
    sizes: Map[str, int]
    digits: tuple[tuple[int, ...], ...]
    """Of each core the number of its piece by spread."""

    def readers(self, spreads: Sequence[Spread], ranks: Collection[str]) -> CoreSets:
        """Return the cores that each read serves where what cores load alike is read once.

        ``ranks``: those that move it.
        """
        own = [at for at, spread in enumerate(spreads) if spread.rank in ranks]
        alike: dict[tuple[int, ...], list[int]] = {}
        for core, digits in zip(self.cores, self.digits, strict=True):
            alike.setdefault(tuple(digits[at] for at in own), []).append(core)
        return tuple(map(tuple, alike.values()))


def core_spreads(group: Group) -> tuple[Spread, ...]:
    """Return the spreads over cores at the outside of a group."""
    found: list[Spread] = []
    for node in group.tree:
        if not isinstance(node, Spread) or node.level != CORES:
            break
        found.append(node)
    return tuple(found)


def in_turn(group: Group) -> Group:
    """Return a group whose pieces one core does one after the other."""
    spreads = core_spreads(group)
    if not spreads:
        return group
    loops = tuple(Loop(one.rank, one.tile) for one in spreads)
    return replace(group, tree=(*loops, *group.tree[len(spreads) :]))


def piece_of(group: Group, sizes: Map[str, int]) -> Group:
    """Return what a core does of a group whose piece has these sizes of the group's ranks."""
    spreads = core_spreads(group)
    if not spreads:
        return group
    piece = {one.rank: sizes[one.rank] for one in spreads}
    full = {rank: min(one.tile for one in spreads if one.rank == rank) for rank in piece}
    return replace(group, tree=group.tree[len(spreads) :], piece=piece, full_piece=full)


def pieces(
    spreads: Sequence[Spread], sizes: Map[str, int]
) -> Iterator[tuple[CorePieces, dict[str, int]]]:
    """Yield what the first of some spreads makes of its rank, with the sizes of ranks inside.

    >>> [(one.core, one.count, one.size) for one, _ in pieces([Spread("m", 4, "cores")], {"m": 10})]
    [(0, 2, 4), (2, 1, 2)]
    """
    spread, *inner = spreads
    whole = sizes[spread.rank]
    full, rest = divmod(whole, spread.tile)
    apart = cores_of(inner, {**sizes, spread.rank: min(whole, spread.tile)})
    if full:
        inside = {**sizes, spread.rank: spread.tile}
        yield CorePieces(spread, 0, full, spread.tile, 0, apart), inside
    if rest:
        start = full * spread.tile
        yield CorePieces(spread, start, 1, rest, full * apart, apart), {**sizes, spread.rank: rest}


def cores_of(spreads: Sequence[Spread], sizes: Map[str, int]) -> int:
    """Return how many cores some spreads take: the product of their pieces.

    >>> cores_of([Spread("m", 4, "cores"), Spread("n", 2, "cores")], {"m": 10, "n": 4})
    6
    """
    left, found = dict(sizes), 1
    for one in spreads:
        found *= -(-left[one.rank] // one.tile)
        left[one.rank] = min(left[one.rank], one.tile)
    return found


def shares(cut: CoreCut) -> tuple[CoreShare, ...]:
    """Return the pieces that cores have, that of core 0 first."""
    by_place: dict[_Place, list[tuple[int, tuple[int, ...]]]] = {}

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
                there = core + piece.core + number * piece.apart
                collect_below(spreads[1:], inside, (*place, piece.start), there, (*digits, number))

    collect_below(cut.spreads, dict(cut.sizes), (), 0, ())
    return tuple(
        CoreShare(
            tuple(core for core, _ in cores), dict(piece), tuple(digits for _, digits in cores)
        )
        for (_, piece), cores in by_place.items()
    )


_Place = tuple[tuple[int, ...], tuple[tuple[str, int], ...]]
"""Where pieces of one size begin, by spread, and the sizes of ranks."""


def spread_faults(
    group: Group, space: IterationSpace, count: int | None, around: Sequence[Keep]
) -> list[Finding]:
    """Return what is wrong with a group's spreads over ``count`` cores (None: as many as it takes).

    Names and sizes of ranks are known to be right.
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
    """Yield why cores can't have pieces of a rank each."""
    for seen in space.operators:
        ranks = {r for own in seen.ranks for r, _ in space.derived.get(own, ((own, 1),))}
        if rank not in ranks:
            continue
        if rank in space.axis_ranks(seen.name):
            yield f"another rank: {seen.name} needs {rank} whole"
        elif rank not in space.moves(seen.output):
            if isinstance(seen.operator, Vector):
                yield f"another rank: nobody adds what {seen.name} makes of parts of {rank}"
            else:
                yield f"another rank: {seen.name} sums over {rank}, and nobody adds sums of cores"
