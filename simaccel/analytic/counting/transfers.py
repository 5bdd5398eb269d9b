"""Bytes that one tensor moves between two neighbouring memories that keep it.

A transfer has two sides: the outer memory reads (for sums: writes) once for all inner instances
that need the data at the same time; each instance receives (sends) its own. Both are sums of the
volumes of all tiles, less the overlap that a sliding window keeps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from simaccel.analytic.family import (
    ONE,
    ZERO,
    Bools,
    FamilyLoops,
    Ints,
    all_true,
    any_true,
    choose,
    ints,
    maximum,
    minimum,
)
from simaccel.analytic.pieces import (
    Box,
    Mode,
    PathCuts,
    covered_size,
    extent,
    piece_count,
    tiles,
    total_extent,
    volume,
)
from simaccel.mapping.tree import Spread
from simaccel.mapping.view import TensorView
from simaccel.numbers import PACKED_BITS, in_bytes
from simaccel.workload.einsum import Terms


@dataclass(kw_only=True, eq=False)
class TileTransfer:
    """The transfers of a tensor's tiles to the memory at entry ``child`` of a path.

    The instances of fan-outs from entry ``shared`` to the child are served together (none if
    ``shared`` equals ``child``). If ``child`` is the path's length, the receivers are MACs, which
    access a tile in every iteration.
    """

    cuts: PathCuts
    view: TensorView
    child: int
    shared: int
    remaking: frozenset[str] = frozenset()
    """Ranks whose loops make sums again, as their maker lacks them."""
    anew: bool = False
    """Whether each iteration of the loops outside loads it again, even if it doesn't move."""
    _known: dict[str, list[Box]] = field(default_factory=dict)

    @property
    def dims(self) -> tuple[Terms, ...]:
        """The tensor's dimensions as sums of ranks that loops cut."""
        return self.cuts.space.dims(self.view)

    @property
    def ranks(self) -> frozenset[str]:
        """The ranks that move it."""
        return self.cuts.space.moves(self.view)

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Ranks of the group that the tensor lacks and that some entry cuts."""
        cut_ranks = {rank for at, rank, _ in self.cuts.tiles if at < self.child} - self.ranks
        return tuple(rank for rank in self.cuts.space.sizes if rank in cut_ranks)

    @cached_property
    def position(self) -> Ints:
        """The position of the innermost loop that brings another tile."""
        return self.cuts.position(self.movers, self.child)

    @property
    def movers(self) -> frozenset[str]:
        """The ranks whose loops bring another tile."""
        return frozenset(self.cuts.space.sizes) if self.anew else self.ranks

    def _fan_counts(self, at: int) -> bool | None:
        """Return whether all instances of a fan-out count; None if the entry is no fan-out."""
        return at < self.shared if isinstance(self.cuts.entries[at], Spread) else None

    def _repeats(self, rank: str) -> Ints:
        """Return how often loops of a rank that the tensor lacks bring the same tile again.

        Only loops outside the innermost loop that moves the tensor count.
        """

        def number_to(last: int) -> Ints:
            def counts(at: int) -> Mode:
                fan = self._fan_counts(at)
                if fan is not None:
                    return fan
                return not isinstance(self.cuts.entries[at], FamilyLoops) or at <= last

            return piece_count(self.cuts.pieces(rank, self.child, counts))

        if self.child == len(self.cuts.entries):
            return number_to(self.child)
        visits = number_to(-1)
        for (at, looped), place in self.cuts.places.items():
            if looped == rank and at < self.child:
                is_inside = (place >= 0) & (place <= self.position)
                visits = choose(is_inside, number_to(at), visits)
        return visits

    @cached_property
    def repeats(self) -> Ints:
        """Transfers of each element: the product over the ranks that the tensor lacks."""
        return math.prod((self._repeats(rank) for rank in self.others), start=ONE)

    def first_repeats(self) -> Ints:
        """Return the number of instances that receive each element a first time."""

        def counts(at: int) -> Mode:
            return bool(self._fan_counts(at))

        each = (
            self._repeats(rank)
            if rank in self.remaking
            else piece_count(self.cuts.pieces(rank, self.child, counts))
            for rank in self.others
        )
        return math.prod(each, start=ONE)

    @cached_property
    def volume(self) -> Ints:
        """The sum of the volumes of all distinct tiles, with overlaps counted each time."""
        return math.prod((self._volume(dim) for dim in self.dims), start=ONE)

    @cached_property
    def odd(self) -> Ints:
        """The number of distinct tiles with an odd number of elements (all their sides are odd)."""
        return math.prod((self._odd(dim) for dim in self.dims), start=ONE)

    def sums(self, bits: int) -> tuple[Ints, Ints]:
        """Return the bytes of an output that move outwards: in all, and of first residencies.

        ``bits``: of an element; an odd tile of 4-bit elements has half a byte more.
        """
        if bits == PACKED_BITS:
            n_bytes = (self.volume + self.odd) // 2
        else:
            n_bytes = in_bytes(self.volume, bits)
        return n_bytes * self.repeats, n_bytes * self.first_repeats()

    def n_bytes(self, bits: int) -> Ints:
        """Return the bytes of an input that move inwards; ``bits``: of an element."""
        elements = self.volume
        if any(len(dim) > 1 for dim in self.dims):
            elements = elements - self._over_dims(self._kept_overlap, self._volume)
        if bits == PACKED_BITS:
            odd = self.odd - self._over_dims(self._kept_odd, self._odd)
            return ints((elements + odd) // 2 * self.repeats)
        return ints(in_bytes(elements, bits) * self.repeats)

    def _over_dims(self, kept: Callable[[Terms], Ints], side: Callable[[Terms], Ints]) -> Ints:
        """Return the sum of ``kept`` over the dimensions along which windows may slide."""
        total = ZERO
        sides = [side(dim) for dim in self.dims]
        for at, dim in enumerate(self.dims):
            if len(dim) > 1 and self.child != len(self.cuts.entries):
                rest = math.prod(sides[:at] + sides[at + 1 :], start=ONE)
                total = total + kept(dim) * rest
        return total

    def _volume(self, dim: Terms) -> Ints:
        ((rank, factor), *rest) = dim
        if not rest and factor == 1:
            steps = [one for one in self.cuts.steps[rank] if one.restarts and one.at < self.child]
            return steps[-1].sizes[0] if steps else ints(self.cuts.space.sizes[rank])
        return total_extent(dim, {one: self._boxes(one) for one, _ in dim})

    def _odd(self, dim: Terms) -> Ints:
        """Return the number of combinations of pieces with an odd extent along a dimension."""
        total = ZERO
        for weight, sizes in _combinations({rank: self._boxes(rank) for rank, _ in dim}):
            total = total + weight * (extent(dim, sizes) % 2)
        return total

    def _boxes(self, rank: str) -> list[Box]:
        """Return the boxes along a rank.

        Instances that are served together share a box if their positions are adjacent: if no loop
        of the rank runs between their fan-out and the child.
        """
        if rank not in self._known:
            boxes = self.cuts.pieces(rank, self.shared)
            for step in self.cuts.steps[rank]:
                if self.shared <= step.at < self.child and (step.at, rank) in self.cuts.places:
                    real = self.cuts.places[step.at, rank] >= 0
                    boxes = _pick(real, self.cuts.pieces(rank, step.at + 1), boxes)
            self._known[rank] = boxes
        return self._known[rank]

    def _kept_overlap(self, dim: Terms) -> Ints:
        """Return the total overlap of sliding windows with their predecessors."""
        total = ZERO
        for slide in self._slides(dim):
            others = [(self._boxes(one), c) for one, c in dim if one != slide.rank]
            for n, _, skip in slide.moved:
                total = total + slide.where * n * _overlap(others, skip)
        return total

    def _kept_odd(self, dim: Terms) -> Ints:
        """Return how many fewer windows have an odd extent along a dimension as they slide."""
        total = ZERO
        for slide in self._slides(dim):
            boxes = {term: self._boxes(term) for term, _ in dim if term != slide.rank}
            for (weight, sizes), (n, size, skip) in itertools.product(
                list(_combinations(boxes)), slide.moved
            ):
                side = extent(dim, {**sizes, slide.rank: size})
                others = side - dict(dim)[slide.rank] * (size - 1)
                fresh = side - maximum(others - skip, 0)
                total = total + slide.where * weight * n * (side % 2 - fresh % 2)
        return total

    def _slides(self, dim: Terms) -> Iterator[_Slide]:
        """Yield the loops that slide windows along a dimension."""
        for (at, rank), place in self.cuts.places.items():
            if self.anew or at >= self.child or rank not in dict(dim):
                continue
            is_sliding = (place == self.position) & (place >= 0)
            if not any_true(is_sliding):
                continue
            tile = next(t for one, t in tiles(self.cuts.entries[at]) if one == rank)
            pieces = self._moved_pieces(rank, at, tile)
            c = dict(dim)[rank]
            yield _Slide(rank, is_sliding, [(n, s, c * (1 + tile - then)) for n, s, then in pieces])

    def _moved_pieces(self, rank: str, at: int, tile: Ints) -> list[tuple[Ints, Ints, Ints]]:
        """Return the pieces that a loop moves, as (number, size, size of the predecessor)."""

        def counts(place: int) -> Mode:
            return place != at

        every, first = self.cuts.pieces(rank, at + 1), self.cuts.pieces(rank, at + 1, counts)
        moved = [(n - m, size, tile) for (n, size), (m, _) in zip(every, first, strict=True)]
        for entry in self.cuts.entries[at + 1 : self.shared]:
            for looped, part in tiles(entry):
                if looped == rank:
                    moved = [piece for whole in moved for piece in _recut_piece(whole, part)]
        return [piece for piece in moved if any_true(piece[0])]


def _recut_piece(piece: tuple[Ints, Ints, Ints], tile: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield the pieces of a piece and of its predecessor, cut by a tile, as (number, size, size).

    Only the last one may be smaller than its predecessor.
    """
    n, size, then = piece
    full = size // tile
    yield n * full, tile, tile
    rest = size - full * tile
    yield n * (rest > 0), maximum(rest, 1), minimum(tile, then - full * tile)


@dataclass(frozen=True)
class _Slide:
    """A loop over ``rank`` that slides windows, for the candidates ``where``.

    ``moved``: pieces as (number, size, skip); a window shares ``skip`` fewer positions with its
    predecessor than the other ranks span.
    """

    rank: str
    where: Bools
    moved: list[tuple[Ints, Ints, Ints]]


def _combinations(boxes: dict[str, list[Box]]) -> Iterator[tuple[Ints, dict[str, Ints]]]:
    for one in itertools.product(*boxes.values()):
        weight = math.prod((n for n, _ in one), start=ONE)
        yield weight, {rank: size for rank, (_, size) in zip(boxes, one, strict=True)}


def _pick(where: Bools, new: list[Box], old: list[Box]) -> list[Box]:
    """Return ``new`` boxes for the candidates ``where``, else ``old`` ones."""
    if all_true(where):
        return new
    nothing = (ZERO, ZERO)
    pairs = itertools.zip_longest(new, old, fillvalue=nothing)
    return [(choose(where, n, m), choose(where, s, t)) for (n, s), (m, t) in pairs]


def _overlap(others: list[tuple[list[Box], int]], skip: Ints) -> Ints:
    """Return the overlap of windows with their predecessors, over pieces of the other ranks."""
    total = ZERO
    for combination in itertools.product(*(boxes for boxes, _ in others)):
        reach, weight = 1 - skip, ONE
        for (count, size), (_, c) in zip(combination, others, strict=True):
            reach = reach + c * (size - 1)
            weight = weight * count
        total = total + weight * maximum(reach, 0)
    return total


Cost = Callable[[dict[str, Ints]], Ints]


def over_pieces(
    cuts: PathCuts, ranks: tuple[str, ...], cost: Cost, first: frozenset[str] = frozenset()
) -> Ints:
    """Return the sum of a cost over all blocks of the leaf; ``cost``: of the sizes of ``ranks``.

    Loops over other ranks repeat the blocks. Of ranks in ``first`` only the first piece counts.
    """
    total = ZERO
    for count, sizes in blocks_of(cuts, ranks, first):
        total = total + count * cost(sizes)
    return ints(total)


def blocks_of(
    cuts: PathCuts,
    ranks: tuple[str, ...],
    first: frozenset[str] = frozenset(),
    upto: int | None = None,
) -> Iterator[tuple[Ints, dict[str, Ints]]]:
    """Return (number, sizes) of the blocks that enter the leaf, or an entry before it (``upto``).

    Those of a single candidate are found once.
    """
    upto = len(cuts.entries) if upto is None else upto
    if not cuts.is_single:
        return _find_blocks(cuts, ranks, first, upto)
    key = ranks, first, upto
    if key not in cuts.blocks:
        cuts.blocks[key] = list(_find_blocks(cuts, ranks, first, upto))
    return iter(cuts.blocks[key])


def _find_blocks(
    cuts: PathCuts, ranks: tuple[str, ...], first: frozenset[str], upto: int
) -> Iterator[tuple[Ints, dict[str, Ints]]]:
    needed = cuts.space.plain_ranks(dict.fromkeys(ranks))
    repeats = ONE
    boxes: dict[str, list[Box]] = {}
    for rank in cuts.space.sizes:
        pieces = cuts.pieces(rank, upto, (lambda _: False) if rank in first else None)
        if rank in needed:
            boxes[rank] = [(n, size) for n, size in pieces if any_true(n)]
        else:
            repeats = repeats * piece_count(pieces)
    for combination in itertools.product(*(boxes[rank] for rank in needed)):
        count = math.prod((n for n, _ in combination), start=repeats)
        if not any_true(count):
            continue
        sizes = {rank: size for rank, (_, size) in zip(needed, combination, strict=True)}
        for rank in ranks:
            if rank not in sizes:
                sizes[rank] = extent(cuts.space.terms(rank), sizes)
        yield ints(count), sizes


def elements_of(cuts: PathCuts, ranks: tuple[str, ...]) -> Ints:
    """Return the elements of all blocks of the leaf, over its ``ranks``."""
    if cuts.space.derived.keys() & set(ranks):
        return over_pieces(cuts, ranks, lambda sizes: volume(sizes, ranks))
    upto = len(cuts.entries)
    return math.prod(
        (
            covered_size(cuts.pieces(rank, upto))
            if rank in ranks
            else piece_count(cuts.pieces(rank, upto))
            for rank in cuts.space.sizes
        ),
        start=ONE,
    )
