"""Choosing among families: the candidate that fits and takes the fewest estimated cycles.

Each candidate has a bound that its estimate can't go below. Estimates are made from the lowest
bound on until no bound is left below the best estimate, so the choice is that of estimating all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.estimate import Totals, evaluate
from simaccel.analytic.family import (
    Bools,
    Family,
    Ints,
    Kept,
    Loops,
    branches_of,
    ints,
    shape_of,
    take,
    tree_of,
)
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Tree

UNLIMITED = 2**62
_FIRST = 32
_MOST = 1024
"""Candidates that are estimated in one go: few at first, to find a good one soon."""


class NothingFitsError(SimaccelError):
    """No mapping of a scheduler fits the buffer; the message says what the smallest needs."""


def capacity(accelerator: Accelerator) -> int:
    """Return the buffer's capacity in bytes; a very large number if unlimited."""
    size = accelerator.buffer.capacity_bytes
    return UNLIMITED if size is None else size


@dataclass(frozen=True)
class Chosen:
    """The best candidate: its tree, estimated cycles, bytes to and from DRAM, buffer bytes."""

    tree: Tree
    cycles: int
    dram_bytes: int
    buffer_bytes: int


@dataclass
class Candidates:
    """All candidates of some families of one group, in one row; estimates are made when needed."""

    families: Sequence[Family]
    accelerator: Accelerator
    totals: list[Totals] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Count all candidates."""
        columns: list[list[Ints]] = []
        again: list[Bools] = []
        for number, family in enumerate(self.families):
            totals = evaluate(family, self.accelerator)
            shape = shape_of(family.branch)
            self.totals.append(totals)
            counts = totals.counts
            dram = counts.total("dram_read") + counts.total("dram_write")
            space = np.where(totals.sums_fit(), totals.buffer_bytes(), UNLIMITED + 1)
            figures = (totals.least(), dram, space)
            rows = [np.broadcast_to(one, shape).ravel() for one in figures]
            size = rows[0].size
            columns.append([*rows, np.full(size, number), np.arange(size)])
            again.append(_again(family, shape))
        self.least, self.dram, self.space, self.family, self.place = (
            np.concatenate(column) for column in zip(*columns, strict=True)
        )
        self.cycles = np.full(self.least.size, -1, dtype=np.int64)
        self.first = np.flatnonzero(~np.concatenate(again))

    def best(self, room: int) -> int | None:
        """Return the number of the fastest that fits; then fewest DRAM bytes, least buffer."""
        fits = self.first[self.space[self.first] <= room]
        if not fits.size:
            return None
        fits = fits[np.lexsort((self.space[fits], self.dram[fits], self.least[fits]))]
        found, at, step = UNLIMITED, 0, _FIRST
        while at < fits.size and self.least[fits[at]] <= found:
            chunk = fits[at : at + step]
            chunk = chunk[self.least[chunk] <= found]
            self._estimate(chunk[self.cycles[chunk] < 0])
            found = min(found, int(self.cycles[chunk].min()))
            at, step = at + step, min(step * 2, _MOST)
        known = fits[self.cycles[fits] >= 0]
        keys = (self.space[known], self.dram[known], self.cycles[known])
        return int(known[np.lexsort(keys)[0]])

    def _estimate(self, which: Ints) -> None:
        for number, family in enumerate(self.families):
            mine = which[self.family[which] == number]
            if not mine.size:
                continue
            shape = shape_of(family.branch)
            places = self.place[mine]
            for part in of_one_order(family, shape, places):
                index = np.unravel_index(places[part], shape)
                one = Totals(take(family, index), self.accelerator, self.totals[number].counts)
                bound = self.least[mine[part]]
                self.cycles[mine[part]] = np.maximum(one.timed(), bound)

    def chosen(self, number: int) -> Chosen:
        """Return a candidate by its number."""
        family = self.families[int(self.family[number])]
        index = np.unravel_index(self.place[number : number + 1], shape_of(family.branch))
        one = take(family, tuple(at[0] for at in index))
        return Chosen(
            tree=tree_of(one),
            cycles=int(self.cycles[number]),
            dram_bytes=int(self.dram[number]),
            buffer_bytes=int(self.space[number]),
        )

    @property
    def smallest(self) -> int:
        """Buffer bytes of the smallest candidate.

        Raises:
            NothingFitsError: no candidate's sums fit the array's accumulator.

        """
        found = int(self.space.min())
        if found > UNLIMITED:
            raise NothingFitsError(
                f"{self.accelerator.name}: array.accumulator.capacity_bytes takes the sums of no "
                "tile; allowed: a larger one, or none"
            )
        return found


def _again(family: Family, shape: tuple[int, ...]) -> Bools:
    """Say which candidates are others again: the same but for the order of loops of one trip."""
    columns: list[Ints] = []

    def note(array: Ints) -> None:
        columns.append(np.broadcast_to(array, shape).ravel())

    sizes = dict(family.space.sizes)
    for node in branches_of(family.branch):
        if isinstance(node, Kept):
            note(node.slots)
        if not isinstance(node, Loops):
            continue
        real = [tile < sizes[rank] for rank, tile in zip(node.ranks, node.tiles, strict=True)]
        for tile in node.tiles:
            note(tile)
        for place, is_real in zip(node.places, real, strict=True):
            before = [
                other_real & (other < place)
                for other, other_real in zip(node.places, real, strict=True)
            ]
            note(is_real * (1 + sum((ints(one) for one in before), start=ints(0))))
    return _seen_before(columns) if columns else np.zeros(1, dtype=np.bool_)


def _seen_before(columns: list[Ints]) -> Bools:
    """Say which rows of a table, given by its columns, are those of an earlier row again."""
    code = np.zeros(columns[0].size, dtype=np.int64)
    for one in columns:
        _, values = np.unique(one, return_inverse=True)
        _, code = np.unique(code * (int(values.max()) + 1) + np.ravel(values), return_inverse=True)
        code = np.ravel(code)
    _, first = np.unique(code, return_index=True)
    found = np.ones(code.size, dtype=np.bool_)
    found[first] = False
    return found


def of_one_order(family: Family, shape: tuple[int, ...], places: Ints) -> Iterator[Bools]:
    """Yield the candidates, as masks, that have their loops in one order."""
    keys = [np.zeros(places.size, dtype=np.int64)]
    for node in branches_of(family.branch):
        if isinstance(node, Loops):
            keys += [np.broadcast_to(one, shape).ravel()[places] for one in node.places]
    _, group = np.unique(np.stack(keys), axis=1, return_inverse=True)
    group = np.ravel(group)
    for number in range(int(group.max()) + 1):
        yield group == number


def tile_sizes(extent: int, side: int) -> list[int]:
    """Return candidate tile sizes of a rank: the rank, even cuts, and doublings of an array side.

    Cuts are even, or rounded up to whole array sides so that only the last tile has part folds.

    >>> tile_sizes(512, 32)
    [32, 64, 96, 128, 171, 192, 256, 512]
    >>> tile_sizes(7, 32)
    [1, 2, 3, 4, 7]
    """
    found = {extent}
    for pieces in (2, 3, 4, 6, 8, 12, 16):
        size = -(-extent // pieces)
        if pieces <= _EVEN_PIECES:
            found.add(size)
        found.add(min(extent, -(-size // side) * side) if extent > side else size)
    size = side
    while size < extent:
        found.add(size)
        size *= 2
    if extent <= side:
        found |= {s for s in (1, 2, 4, 8, 16) if s < extent}
    return sorted(s for s in found if s <= extent)


_EVEN_PIECES = 4
"""Into how many even pieces ranks are cut at most; more pieces differ little from rounded ones."""


def column(values: Sequence[int]) -> Ints:
    """Return values as an array."""
    return ints(np.array(values, dtype=np.int64))
