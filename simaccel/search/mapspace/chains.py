"""Tile chains of one rank: how Ruby splits a rank over temporal and spatial levels.

Ruby (equation 5) writes a rank of size D as D - 1 = sum of (R_n - 1) * P_0 ... P_(n-1): at level n
a tile is split into P_n pieces, and into R_n <= P_n pieces the last time. R_n = P_n everywhere is a
perfect factorisation (equation 1). Given the P, the R are the digits of D - 1 in the mixed radix of
the P, each plus one; so a chain is its P, from the innermost level out, and the outermost level
takes what is left. With N_0 = D and N_(n+1) = ceil(N_n / P_n), N_n is the number of tiles that
level n gets, and R_n = P_n if and only if P_n divides N_n.

All tiles of a level but the last one have the same size, P_0 ... P_(n-1), so their number, the sum
of their sizes and the last size say all that accesses and cycles follow from.

All chains of a rank have numbers (`ChainTable`), for random access and for counting. The chains
that remain at a level depend only on the number of tiles that arrive there, and a rank of size D
arrives at few different numbers (less than 2 sqrt(D) where any remainder is allowed). So a table
has, per level, a row for each number of tiles and piece, and how many chains follow; the chain of a
number is found by descending through it, and its memory grows with D^(3/4), however many chains
there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Ints
from simaccel.analytic.sizes import divisors, even_pieces
from simaccel.errors import Fault, InputError

Factors = npt.NDArray[np.int64]
"""Chains by row: the P from the innermost level to the outermost."""
Mapspace = Literal["pfm", "ruby", "ruby-s", "ruby-t"]
MAPSPACES: Final[tuple[Mapspace, ...]] = ("pfm", "ruby", "ruby-s", "ruby-t")
_MOST_ROWS: Final = 30_000_000
_MOST_STATES: Final = 200_000
_MOST_CHAINS: Final = 2.0**61
_FEW_CHAINS: Final = 1 << 12
"""Chains that a table lists instead of finding them level by level."""


@dataclass(frozen=True, kw_only=True)
class SplitLimit:
    """The limits of a rank at a level: at most ``most`` pieces (None: any number).

    ``exactly``: that many pieces, and no chain where fewer tiles arrive. ``whole``: as many pieces
    as tiles arrive, so that one is left for the levels outside.
    """

    spatial: bool = False
    most: int | None = None
    exactly: int | None = None
    whole: bool = False

    def may_leave(self, mapspace: Mapspace) -> bool:
        """Return whether the last tile may be split into fewer pieces than the others.

        >>> SplitLimit(spatial=True).may_leave("ruby-s"), SplitLimit().may_leave("ruby-s")
        (True, False)
        """
        if mapspace == "ruby":
            return True
        return mapspace == ("ruby-s" if self.spatial else "ruby-t")


@lru_cache(1 << 16)
def choices(n: int, split: SplitLimit, mapspace: Mapspace) -> Factors:
    """Return the numbers of pieces that a level may make of ``n`` tiles.

    Where it may leave a remainder, of all P with the same ceil(n / P) the smallest: it makes as
    many groups, none larger. Every count of accesses and cycles depends on the number of groups and
    on the sum of their sizes, which are the same, and buffers and fan-out need no more.

    >>> choices(7, SplitLimit(spatial=True, most=5), "ruby-s").tolist()
    [1, 2, 3, 4]
    """
    if split.whole:
        pieces = np.array([n], dtype=np.int64)
    elif split.exactly is not None:
        # Taken as it is asked for, also where a smaller one makes as many groups.
        fits = split.exactly <= n and (n % split.exactly == 0 or split.may_leave(mapspace))
        pieces = np.array([split.exactly] if fits else [], dtype=np.int64)
    else:
        pieces = even_pieces(n, split.most) if split.may_leave(mapspace) else divisors(n)
    return pieces if split.most is None else pieces[pieces <= split.most]


@dataclass(frozen=True)
class _ChainLevel:
    """One level: its rows by the number of tiles that arrive (a state) and the pieces."""

    state: Ints
    pieces: Ints
    following: Ints
    """State at the next level."""
    before: Ints
    """Chains of all rows above this one."""
    first: Ints
    """Chains of the rows above those of a state."""
    row: Ints
    """The first row of a state."""
    keys: Ints
    """State and pieces as one number, which rises from row to row."""


class ChainTable:
    """The canonical chains of a rank, numbered from 0 by the pieces of the innermost level first.

    A chain is a row: the P from the innermost level to the outermost, which takes what is left.

    Raises:
        InputError: the rank is too large for a table in a mapspace with remainders.
    """

    def __init__(self, size: int, splits: Sequence[SplitLimit], mapspace: Mapspace) -> None:
        self.size = size
        self.splits = tuple(splits)
        self.mapspace: Mapspace = mapspace
        arriving, levels = _states(size, self.splits, mapspace)
        self._left = arriving[-1]
        follow = np.ones(len(self._left), dtype=np.int64)
        steps: list[_ChainLevel] = []
        for tiles, rows in zip(arriving[-2::-1], levels[::-1], strict=True):
            _require_countable(size, mapspace, float(follow[rows[2]].astype(np.float64).sum()))
            state, pieces, following = (column[follow[rows[2]] > 0] for column in rows)
            counts = follow[following]
            before = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            row = np.searchsorted(state, np.arange(len(tiles)))
            first, keys = before[row], state * (size + 1) + pieces
            steps.insert(0, _ChainLevel(state, pieces, following, before, first, row, keys))
            follow = np.diff(np.append(first, before[-1]))
        self._steps = steps
        self.count = int(follow[0])
        """Number of chains."""

    def chains_at(self, numbers: Ints) -> Factors:
        """Return the chains of some numbers (0 to ``count`` - 1), a row each."""
        if self.count <= _FEW_CHAINS:
            return self._every.take(numbers, axis=0)
        return self._descend(numbers)

    @cached_property
    def _every(self) -> Factors:
        """All chains, where they are few."""
        return self._descend(np.arange(self.count, dtype=np.int64))

    def _descend(self, numbers: Ints) -> Factors:
        rows = np.empty((len(numbers), len(self._steps) + 1), dtype=np.int64)
        state = np.zeros(len(numbers), dtype=np.int64)
        rest = np.asarray(numbers, dtype=np.int64)
        for level, step in enumerate(self._steps):
            wanted = step.first[state] + rest
            row = np.searchsorted(step.before, wanted, side="right") - 1
            rows[:, level] = step.pieces[row]
            rest = wanted - step.before[row]
            state = step.following[row]
        rows[:, -1] = self._left[state]
        return rows

    def numbers(self, rows: Factors) -> Ints:
        """Return the numbers of some chains; their last column is ignored.

        A chain that is not in the table gets the number of a similar one: level by level from the
        innermost, the most pieces that are no more than its own, else the fewest there are. Chains
        of a smaller mapspace are in the table of a larger one: of the numbers of pieces that make
        the same number of groups, one that leaves no remainder is the smallest.
        """
        numbers = np.zeros(len(rows), dtype=np.int64)
        state = np.zeros(len(rows), dtype=np.int64)
        for level, step in enumerate(self._steps):
            if np.array_equal(step.state, np.arange(len(step.row))):  # one number of pieces each
                state = step.following[state]
                continue
            wanted = state * (self.size + 1) + np.minimum(rows[:, level], self.size)
            row = np.searchsorted(step.keys, wanted, side="right") - 1
            row = np.maximum(row, step.row[state])
            numbers += step.before[row] - step.first[state]
            state = step.following[row]
        return numbers

    def by_loops(self, marks: Sequence[int]) -> dict[int, int]:
        """Count the chains by the levels at which they have loops of more than one trip.

        ``marks``: a bit for each level, innermost first (0: not counted); the result has the number
        of chains for each union of bits.
        """
        width = 1 + sum(set(marks))
        chains = np.zeros((len(self._left), width), dtype=np.int64)
        chains[np.arange(len(self._left)), np.where(self._left > 1, marks[-1], 0)] = 1
        for step, mark in zip(reversed(self._steps), reversed(marks[:-1]), strict=True):
            inner = np.zeros((len(step.first), width), dtype=np.int64)
            bits = np.where(step.pieces > 1, mark, 0)
            for union in np.flatnonzero(chains.any(axis=0)).tolist():
                to = bits | union
                np.add.at(inner, (step.state, to), chains[step.following, union])
            chains = inner
        return {int(union): int(chains[0, union]) for union in chains[0].nonzero()[0]}


@lru_cache(256)
def chain_table(size: int, splits: tuple[SplitLimit, ...], mapspace: Mapspace) -> ChainTable:
    """Return the table of a rank; equal tables are made once."""
    return ChainTable(size, splits, mapspace)


_Rows = tuple[Ints, Ints, Ints]


def _states(
    size: int, splits: Sequence[SplitLimit], mapspace: Mapspace
) -> tuple[list[Ints], list[_Rows]]:
    """Go through all levels: tiles that may arrive at each, and (state, pieces, next state)."""
    arriving = [np.array([size], dtype=np.int64)]
    levels: list[_Rows] = []
    total = 0
    for split in splits:
        _require_countable(size, mapspace, states=len(arriving[-1]))
        options = []
        if split.may_leave(mapspace) and split.exactly is None and not split.whole:
            most = np.minimum(2 * np.sqrt(arriving[-1]) - 2, split.most or np.inf)
            _require_countable(size, mapspace, rows=total + int(most.sum()))
        for n in arriving[-1].tolist():
            options.append(choices(n, split, mapspace))
            total += len(options[-1])
            _require_countable(size, mapspace, rows=total)
        state = np.repeat(np.arange(len(options)), [len(pieces) for pieces in options]).astype(
            np.int64
        )
        pieces = np.concatenate([np.zeros(0, dtype=np.int64), *options])
        onward, following = np.unique(-(-arriving[-1][state] // pieces), return_inverse=True)
        levels.append((state, pieces, following.reshape(-1)))
        arriving.append(onward)
    return arriving, levels


def _require_countable(
    size: int, mapspace: Mapspace, chains: float = 0, states: int = 0, rows: int = 0
) -> None:
    if chains > _MOST_CHAINS or states > _MOST_STATES or rows > _MOST_ROWS:
        allowed = "a rank with fewer chains; pfm and ruby-s have fewer"
        raise InputError([Fault("mapspace", f"{mapspace} of a rank", size, allowed)])
