"""The lower bound of forks by the turns of their operators: of pipelined forks, and of others.

In a pipelined fork the first operator runs one iteration early, as L of a FLAT-tile. The array
executes L of the next tile before A of this one; softmax runs between the two. Only the full tiles
of one loop overlap so. Such a loop of n tiles is a *visit*; the next visit's L waits for the last
A, and a smaller last tile is a visit of its own. With the cycles L, S and A of a tile, and G for
data leaving the array before S and entering it after S, a visit takes at least

- L + n S + G + A, as the SFU executes all tiles after the first L and before the last A, and
- n (L + A) + S + G - min(L, A): only the next L runs between the first L and A, and only one A
  between the last L and A; nothing does in a visit of one tile.

In another fork an operator waits for those before it that run on its unit or make what
it reads, and for those of the iteration before on its unit, or that use the same tile with a single
slot. A *round* is a way through an iteration whose last operator the next iteration's round waits
for. All iterations' rounds follow one another; before the first of them are the fill and the
blocks that it waits for, behind the last the blocks that wait for it, and the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add, or_

from simaccel.analytic.block_fills import BlockFills
from simaccel.analytic.counting.work_counts import serial_cycles
from simaccel.analytic.family import (
    FALSE,
    TRUE,
    ZERO,
    Bools,
    Branch,
    Family,
    FamilyCut,
    Ints,
    TreePath,
    any_true,
    choose,
    ints,
    maximum,
    minimum,
)
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.analytic.lower_bound import Terms, share_slot
from simaccel.analytic.pieces import PathCuts
from simaccel.mapping.tree import Fork
from simaccel.units import ARRAY, MAC, SFU


def fork_bound(fork: Fork[Branch], fills: BlockFills, counts: FamilyCounts) -> Terms:
    """Return the least cycles of all iterations of a family's fork by term, per candidate.

    Terms as in `lower_bound`; empty if they are not known.
    """
    family = fills.units.family
    is_cut = any(isinstance(entry, FamilyCut) for entry in family.branch[:-1])
    if is_cut or len(family.paths) != len(fork.branches):
        return {}
    return _visits(fills, counts) if fork.ahead else _Rounds(fills, counts).longest()


def _visits(fills: BlockFills, counts: FamilyCounts) -> Terms:
    """Return the least cycles of all visits of a pipelined fork; empty if it is no FLAT-tile."""
    units = fills.units
    family = units.family
    paths = family.paths
    if not _is_pipelined(family, paths):
        return {}
    inside = len(family.branch) - 1
    first, *between, last = paths
    innermost = ints(-1)  # position of the innermost loop outside of the fork
    for (at, _), place in units.cuts(first).places.items():
        innermost = maximum(innermost, place) if at < inside else innermost

    def tile_cycles(path: TreePath, least: int = 1) -> Ints:
        """Return the cycles of one tile per visit, over all visits of at least ``least`` tiles."""
        return serial_cycles(units, path, PathCuts(family.space, path, innermost, least))

    def add_chains(operators: Sequence[TreePath]) -> Ints:
        return sum((counts.chains[path.leaf.operator] for path in operators), start=ZERO)

    vectors = sum(map(tile_cycles, between), start=ZERO)
    hidden = minimum(tile_cycles(first, 2), tile_cycles(last, 2)) * (innermost >= 0)
    ways = (
        (tile_cycles(first) + tile_cycles(last), add_chains(between)),
        (add_chains([first, last]) - hidden, vectors),
    )
    is_longer = ints(sum(ways[0])) >= ints(sum(ways[1]))
    array, sfu = (ints(choose(is_longer, *either)) for either in zip(*ways, strict=True))
    visits = PathCuts(family.space, first, innermost)
    handed = family.space.bound_operator(between[-1].leaf.operator).output.name
    return {
        "fill": fills.fill_cycles(),
        ARRAY: array,
        SFU: sfu,
        "between": fills.interval_cycles(first, last, handed, inside, visits),
        "drain": fills.drain_cycles,
    }


@dataclass(frozen=True)
class _ForkPath:
    """Cycles of one operator after the other, by term, per candidate."""

    fill: Ints = ZERO
    array: Ints = ZERO
    sfu: Ints = ZERO
    drain: Ints = ZERO

    @classmethod
    def of_operator(cls, path: TreePath, cycles: Ints) -> _ForkPath:
        """Return the cycles of an operator on its unit."""
        return cls(array=cycles) if path.leaf.unit == ARRAY else cls(sfu=cycles)

    @property
    def terms(self) -> tuple[Ints, ...]:
        """The cycles of each term."""
        return self.fill, self.array, self.sfu, self.drain

    def __add__(self, other: _ForkPath) -> _ForkPath:
        return _ForkPath(*map(add, self.terms, other.terms))

    def __or__(self, other: _ForkPath) -> _ForkPath:
        """Return the longer way of each candidate."""
        is_longer = sum(self.terms, start=ZERO) >= sum(other.terms, start=ZERO)
        pairs = zip(self.terms, other.terms, strict=True)
        return _ForkPath(*(choose(is_longer, *pair) for pair in pairs))

    def take_where(self, known: Bools) -> _ForkPath:
        """Return the way of some candidates, and no cycles of the others."""
        return self if known is TRUE else _ForkPath(*(ints(term * known) for term in self.terms))


@dataclass
class _Rounds:
    """The rounds of a fork whose operators run in order, one iteration after the other."""

    fills: BlockFills
    counts: FamilyCounts

    def __post_init__(self) -> None:
        """Find the operators."""
        self.family = self.fills.units.family
        self.paths = self.family.paths
        self.operators = [self.family.space.bound_operator(p.leaf.operator) for p in self.paths]

    def longest(self) -> Terms:
        """Return the longest way through all iterations by term.

        Empty if PEs have copies, and where `lower_bound` has it: the array waits for all operators.
        """
        units, count = [path.leaf.unit for path in self.paths], len(self.paths)
        is_chain = all(self._follows(at, at + 1) for at in range(count - 1))
        if MAC in units or (is_chain and units[0] == units[-1] == ARRAY):
            return {}
        before, behind = self._paths_before(), self._paths_behind()
        longest = _ForkPath()
        for first in range(count):
            reached = {first: self._add_iterations(first)}
            for at in range(first, count):
                waits = [reached[prior] for prior in reached if self._follows(prior, at)]
                if waits:
                    reached[at] = reduce(or_, waits) + self._add_iterations(at)
                is_round = self._repeats(at, first) if at in reached else FALSE
                if any_true(is_round):
                    whole = before[first] + reached[at] + behind[at]
                    longest = longest | whole.take_where(is_round)
        return dict(zip(("fill", ARRAY, SFU, "drain"), longest.terms, strict=True))

    def _add_iterations(self, at: int) -> _ForkPath:
        return _ForkPath.of_operator(self.paths[at], self.counts.chains[self.operators[at].name])

    def _block(self, at: int, *, last: bool) -> _ForkPath:
        """Return the cycles of an operator's last block, or of its first one, as far as known."""
        cycles = self.fills.block_cycles(self.paths[at], last=last)
        return _ForkPath() if cycles is None else _ForkPath.of_operator(self.paths[at], cycles)

    def _paths_before(self) -> list[_ForkPath]:
        """Return the cycles before each operator in the first iteration."""
        found = [_ForkPath(fill=self.fills.fill_cycles())]
        for at in range(1, len(self.paths)):
            ways = (
                found[one] + self._block(one, last=False)
                for one in range(at)
                if self._follows(one, at)
            )
            found.append(reduce(or_, ways, _ForkPath()))
        return found

    def _paths_behind(self) -> list[_ForkPath]:
        """Return the cycles behind each operator in the last iteration."""
        found: list[_ForkPath] = []
        for at, path in reversed(list(enumerate(self.paths))):
            ways = (
                self._block(at + 1 + other, last=True) + way
                for other, way in enumerate(found)
                if self._follows(at, at + 1 + other)
            )
            found.insert(0, reduce(or_, ways, _ForkPath(drain=self.fills.drain_after(path))))
        return found

    def _follows(self, one: int, other: int) -> bool:
        """Return whether an operator comes before another in the iteration and ends first."""
        is_unit = self.paths[one].leaf.unit == self.paths[other].leaf.unit
        made = self.operators[one].output.name
        is_read = made in {view.name for view in self.operators[other].inputs}
        return one < other and (is_unit or is_read)

    def _repeats(self, last: int, first: int) -> Bools:
        """Return where an operator waits for the end of one in the iteration before."""
        if self.paths[last].leaf.unit == self.paths[first].leaf.unit:
            return TRUE
        return share_slot(self.family, self.paths[last], self.paths[first])


def _is_pipelined(family: Family, paths: Sequence[TreePath]) -> bool:
    """Return whether the array's first operator runs early and feeds its last one by the SFU."""
    fork = family.branch[-1]
    if not isinstance(fork, Fork) or fork.ahead != 1 or family.space.derived:
        return False
    front, *between, rear = (path.leaf.unit for path in paths)
    if (front, set(between), rear) != (ARRAY, {SFU}, ARRAY):
        return False
    ops = [family.space.bound_operator(path.leaf.operator) for path in paths]
    return all(
        before.output.name in {view.name for view in after.inputs}
        for before, after in pairwise(ops)
    )
