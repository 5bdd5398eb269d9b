"""Pieces of a rank along a path: the number of each size, remainders included.

Cutting pieces of a few sizes by a tile makes full pieces of the tile's size, and remainders. So
the pieces at any depth are a short list of (count, size), exact for each chain of tiles. Counts and
sizes are arrays over the candidates of a family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from simaccel.analytic.family import (
    ONE,
    ZERO,
    Bools,
    Entry,
    FamilyCut,
    FamilyLoops,
    Ints,
    TreePath,
    any_true,
    choose,
    ints,
    maximum,
    minimum,
)
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Spread
from simaccel.numbers import Amount
from simaccel.workload.einsum import Terms

Box = tuple[Ints, Ints]
"""(number of pieces, their size)."""
Mode = bool | Bools
"""Whether all pieces of a cut count, or only the first; for all candidates, or for each."""
PLACES: Final = 16
"""Positions of loops reserved for each entry: more than there are ranks."""
_HUGE = 1 << 62


def piece_count(boxes: Sequence[Box]) -> Ints:
    """Return the number of pieces in all boxes."""
    return boxes[0][0] if len(boxes) == 1 else ints(sum(n for n, _ in boxes))


@dataclass(frozen=True, eq=False)
class CutStep:
    """One cut of a rank, by entry ``at`` of the path, applied to a list of boxes.

    For each incoming box: ``full``, its number of pieces of the tile's size; ``rest``, whether it
    leaves a remainder; ``rest_box``, the outgoing box of the remainder (-1: no candidate has one).
    The first outgoing box has the tile's size. ``sizes``: of the outgoing boxes; ``counts``: their
    numbers of pieces if those of all cuts count. ``restarts``: the cut is a part of the rank, of
    which one piece enters.
    """

    at: int
    full: tuple[Ints, ...]
    rest_box: tuple[int, ...]
    rest: tuple[Ints, ...]
    sizes: tuple[Ints, ...]
    counts: tuple[Ints, ...]
    restarts: bool = False

    def count(self, counts: Sequence[Ints], mode: Mode) -> list[Ints]:
        """Return the numbers of outgoing pieces; if ``mode`` is False, only first pieces count."""
        outgoing: list[Ints] = [ZERO] * len(self.sizes)
        for n, all_full, box, any_rest in zip(
            counts, self.full, self.rest_box, self.rest, strict=True
        ):
            full, rest = all_full, any_rest
            if mode is not True:
                full = minimum(all_full, 1)
                rest = 1 - full
                if mode is not False:
                    full, rest = full + mode * (all_full - full), rest + mode * (any_rest - rest)
            outgoing[0] = outgoing[0] + n * full
            if box >= 0:
                outgoing[box] = outgoing[box] + n * rest
        return outgoing

    def take_one(self, where: Bools, counts: Sequence[Ints], least: int) -> CutStep:
        """Return the cut in which, where ``where``, one full piece counts, if there are ``least``.

        The smaller last piece also counts if ``least`` is 1.
        """
        full = tuple(ints(choose(where, pieces >= least, pieces)) for pieces in self.full)
        rest = tuple(ints(choose(where & (least > 1), 0, rest)) for rest in self.rest)
        cut = replace(self, full=full, rest=rest)
        return replace(cut, counts=tuple(cut.count(counts, mode=True)))


def _step(at: int, tile: Ints, counts: Sequence[Ints], sizes: Sequence[Ints]) -> CutStep:
    """Return the cut of boxes by a tile; remainders that never coexist share a box."""
    fulls: list[Ints] = []
    rest_boxes: list[int] = []
    has_rests: list[Ints] = []
    rests: list[Ints] = []
    used_by: list[Ints] = []
    for n, size in zip(counts, sizes, strict=True):
        full = size // tile
        rest = size - full * tile
        has_rest = ints((rest > 0) & (n > 0))
        box = -1
        if any_true(has_rest):
            for place, others in enumerate(used_by):
                if not any_true(others & has_rest):
                    box = place
                    used_by[place] = ints(others | has_rest)
                    rests[place] = ints(rests[place] + rest * has_rest)
                    break
            else:
                box = len(used_by)
                used_by.append(has_rest)
                rests.append(rest * has_rest)
        fulls.append(full)
        rest_boxes.append(box + 1 if box >= 0 else -1)
        has_rests.append(has_rest)
    cut = CutStep(at, tuple(fulls), tuple(rest_boxes), tuple(has_rests), (tile, *rests), ())
    return replace(cut, counts=tuple(cut.count(counts, mode=True)))


def covered_size(boxes: Sequence[Box]) -> Ints:
    """Return the sum of the sizes of all pieces."""
    return ints(sum(n * size for n, size in boxes))


class PathCuts:
    """The cuts of every rank along a path."""

    def __init__(
        self, space: IterationSpace, path: TreePath, single: Ints | None = None, least: int = 1
    ) -> None:
        """Cut along a path; of the loop at position ``single``, only one full piece counts.

        And only if it has ``least``; its smaller last piece also counts if ``least`` is 1.
        """
        self.space = space
        self.entries, self.cutting = path.entries, path.cutting
        self.tiles = [(at, rank, tile) for at, cut in path.cutting for rank, tile in tiles(cut)]
        """The ranks that entries cut, by the entries' numbers, with the size of their pieces."""
        self.parts = [(at, cut.rank) for at, cut in path.cutting if isinstance(cut, FamilyCut)]
        """The entries that are parts of a rank, with this rank."""
        self._single, self._least = single, least
        self._known: dict[object, list[Box]] = {}
        self._whole = {rank: [(ONE, ints(size))] for rank, size in space.sizes.items()}
        self.blocks: dict[object, list[tuple[Ints, dict[str, Ints]]]] = {}
        """Blocks that enter an entry, of a single candidate (`blocks_of`)."""

    @cached_property
    def is_single(self) -> bool:
        """Whether these are the cuts of a single candidate, so that all figures are scalars."""
        return self._single is None and np.ndarray not in map(type, self.full[-1].values())

    @cached_property
    def steps(self) -> dict[str, tuple[CutStep, ...]]:
        """The cuts of each rank: those into several pieces for any candidate, and parts."""
        by_rank: dict[str, list[CutStep]] = {rank: [] for rank in self.space.sizes}
        for at, rank, tile in self.tiles:
            before = by_rank[rank]
            if isinstance(self.entries[at], FamilyCut):
                before.append(CutStep(at, (), (), (), (tile,), (ONE,), restarts=True))
            elif any_true(self.full[at][rank] > tile):
                counts = before[-1].counts if before else (ONE,)
                sizes = before[-1].sizes if before else (ints(self.space.sizes[rank]),)
                step = _step(at, self.full[at + 1][rank], counts, sizes)
                if self._single is not None:
                    where = self.places[at, rank] == self._single
                    step = step.take_one(where, counts, self._least)
                before.append(step)
        return {rank: tuple(steps) for rank, steps in by_rank.items()}

    @cached_property
    def full(self) -> list[dict[str, Ints]]:
        """The size of a full piece of each rank at the beginning of each entry, and at the leaf."""
        sizes = {rank: ints(size) for rank, size in self.space.full_sizes.items()}
        at_entries = [sizes] * (len(self.entries) + 1)
        for at, rank, tile in self.tiles:
            sizes = {**sizes, rank: minimum(sizes[rank], tile)}
            at_entries[at + 1 :] = [sizes] * (len(self.entries) - at)
        return at_entries

    @cached_property
    def places(self) -> dict[tuple[int, str], Ints]:
        """The position of each loop among all, outermost first; -1 if it makes a single piece."""
        places = {}
        for at, entry in self.cutting:
            if isinstance(entry, FamilyLoops):
                for rank, tile, place in zip(entry.ranks, entry.tiles, entry.places, strict=True):
                    iterates = self.full[at][rank] > tile
                    if any_true(iterates):
                        places[at, rank] = choose(iterates, at * PLACES + place, -1)
        return places

    def position(self, ranks: frozenset[str], upto: int) -> Ints:
        """Return the position of the innermost loop before an entry that moves one of the ranks.

        A part of such a rank is loaded again in each iteration of all loops outside it: its
        position is directly inside them.
        """
        innermost, last = ints(-1), -1
        if self.parts:
            last = max((at for at, rank in self.parts if at < upto and rank in ranks), default=-1)
        for (at, rank), place in self.places.items():
            if at < upto and rank in ranks:
                innermost = maximum(innermost, place)
            if at < last:
                innermost = maximum(innermost, choose(place >= 0, place + 1, -1))
        return innermost

    @cached_property
    def fold_sides(self) -> tuple[Ints | None, Ints | None]:
        """Rows and columns of a full fold, None where the tree has no spread for them."""
        found: dict[str, Ints] = {}
        for at, entry in self.cutting:
            if isinstance(entry, Spread) and entry.level in ("rows", "cols"):
                pieces = -(-self.full[at][entry.rank] // entry.tile)
                found[entry.level] = found.get(entry.level, ONE) * pieces
        return found.get("rows"), found.get("cols")

    def innermost_loop(self, ranks: Collection[str], position: Ints, upto: int) -> Ints:
        """Return the position of the innermost loop over the ranks before ``position``; or -1."""
        innermost = ints(-1)
        for (at, rank), place in self.places.items():
            if at < upto and rank in ranks:
                innermost = maximum(innermost, (place < position) * (place + 1) - 1)
        return innermost

    def slots_of_sums(self, slots: Ints, ranks: frozenset[str], last: Ints, upto: int) -> Ints:
        """Return the usable slots of spilled sums.

        A free slot means that the sums to be loaded into it were stored. So there are at most as
        many slots as the fewest tiles in an iteration of the innermost reducing loop, which is at
        position ``last`` (-1: none).
        """
        most = ONE
        for (at, rank), place in self.places.items():
            if at < upto and rank in ranks:
                tile = next(size for r, size in tiles(self.entries[at]) if r == rank)
                least: Ints = ints(_HUGE)
                for n, size in self.pieces(rank, at):
                    least = minimum(least, choose(n > 0, -(-size // tile), _HUGE))
                most = most * choose(place > last, least, 1)
        return choose(last >= 0, minimum(slots, most), slots)

    def pieces(
        self, rank: str, upto: int, counts: Callable[[int], Mode] | None = None
    ) -> list[Box]:
        """Return the pieces of a rank that enter an entry; ``counts``: mode of each entry's cut."""
        steps = [step for step in self.steps[rank] if step.at < upto]
        if not steps:
            return self._whole[rank]
        if counts is None:
            return list(zip(steps[-1].counts, steps[-1].sizes, strict=True))
        modes = [step.restarts or counts(step.at) for step in steps]
        start = max((at for at, step in enumerate(steps) if step.restarts), default=-1)
        while start + 1 < len(steps) and modes[start + 1] is True:
            start += 1
        if start < 0:
            numbers: list[Ints] = [ONE]
            sizes: tuple[Ints, ...] = (ints(self.space.sizes[rank]),)
        else:
            numbers, sizes = list(steps[start].counts), steps[start].sizes
        simple = all(isinstance(mode, bool) for mode in modes)
        key = (rank, len(steps), *modes[start + 1 :]) if simple else None
        if key in self._known:
            return self._known[key]
        for step, mode in zip(steps[start + 1 :], modes[start + 1 :], strict=True):
            numbers, sizes = step.count(numbers, mode), step.sizes
        boxes = list(zip(numbers, sizes, strict=True))
        if key is not None:
            self._known[key] = boxes
        return boxes


def tiles(entry: Entry) -> Iterator[tuple[str, Ints]]:
    """Yield the ranks that an entry cuts, with the size of their pieces."""
    if isinstance(entry, FamilyLoops):
        yield from zip(entry.ranks, entry.tiles, strict=True)
    elif isinstance(entry, Spread):
        yield entry.rank, entry.tile
    elif isinstance(entry, FamilyCut):
        yield entry.rank, ints(entry.size)


def volume(sizes: dict[str, Ints], ranks: Iterable[str]) -> Ints:
    """Return the elements of a block with these ``ranks``."""
    return math.prod((sizes[rank] for rank in ranks), start=ONE)


def extent(dim: Terms, sizes: dict[str, Amount]) -> Amount:
    """Return the extent of a dimension for these rank sizes."""
    ((rank, factor), *rest) = dim
    side = sizes[rank] if factor == 1 else factor * (sizes[rank] - 1) + 1
    for other, stride in rest:
        side = side + stride * (sizes[other] - 1)
    return side


def total_extent(dim: Terms, boxes: dict[str, list[Box]]) -> Ints:
    """Return the sum of a dimension's extents over all combinations of its ranks' pieces."""
    counts = [piece_count(boxes[rank]) for rank, _ in dim]
    total = math.prod(counts, start=ints(1 - sum(c for _, c in dim)))
    for at, (rank, c) in enumerate(dim):
        total = total + math.prod(
            counts[:at] + counts[at + 1 :], start=c * covered_size(boxes[rank])
        )
    return total


def begins_sums(cuts: PathCuts, op: BoundOperator) -> bool:
    """Return whether a path begins sums: it has no later part of a reduced rank."""
    return not any(
        isinstance(entry, FamilyCut) and entry.start and entry.rank in op.reduced
        for _, entry in cuts.cutting
    )
