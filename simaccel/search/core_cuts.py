"""Cuts of a group over cores: which rank, over how many cores, and a lower bound of each.

Fewer cores than there are may be faster if all wait for one memory, so these are cuts, too. The
candidate with the lowest bound of the most promising cut runs; cuts with a higher lower bound are
excluded. The candidates of the remaining cuts form one set, which is searched as for a single core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from itertools import chain

from simaccel.analytic.evaluation import memory_work
from simaccel.analytic.family import Family, Ints, ints
from simaccel.analytic.floor.compulsory import read_bytes, written_bytes
from simaccel.analytic.native import native_macs
from simaccel.hardware import Accelerator
from simaccel.mapping.cores import CORES, CoreCut, piece_faults
from simaccel.mapping.space import IterationSpace, space_of
from simaccel.mapping.tree import Group, Spread
from simaccel.search.candidate_set import CandidateSet
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.workload import Workload

Families = Callable[[IterationSpace], Iterable[Sequence[Family]]]
"""Makes the families of trees in the iteration space of a group, or of one core's piece, by set."""


@dataclass(frozen=True)
class PricedCut:
    """A cut (None: one core) with the ``space`` of a full piece and a lower bound of its cycles."""

    space: IterationSpace
    cut: CoreCut | None
    floor: int

    def families_around(self, families: Sequence[Family]) -> list[Family]:
        """Return a piece's families as parts of the cut."""
        return [replace(family, cut=self.cut) for family in families]


def grids_on_cores(
    group: Group, space: IterationSpace, goal: Goal, families: Families
) -> list[CandidateSet]:
    """Return the candidate sets of a group on one core; with several cores, one set of all cuts.

    Bounds of several cores, which wait for one another, are loose and seldom end a search early, so
    that several sets would gain nothing.
    """
    if not (goal.is_shared or goal.constraints.spreads):
        return [goal.grid(group, whole) for whole in families(space)]
    first, *others = cuts_of(group, space, goal)
    sets = [first.families_around(whole) for whole in families(first.space)]
    grids = [goal.grid(group, whole) for whole in sets]
    if not goal.is_shared or not grids:
        return grids
    more = [
        family
        for cut in competitive_cuts(others, grids, goal)
        for of_piece in families(cut.space)
        for family in cut.families_around(of_piece)
    ]
    if len(grids) == 1 and not more:
        return grids
    return [goal.grid(group, [*chain.from_iterable(sets), *more])]


def cuts_of(group: Group, space: IterationSpace, goal: Goal) -> list[PricedCut]:
    """Return the cuts of a group, the lowest bound first; of equals, the most cores first."""
    accelerator, spreads = goal.accelerator, goal.constraints.spreads
    cuts: list[CoreCut | None] = [None]
    if goal.is_spread:
        cuts += cuts_of_one_rank(space, accelerator)
    if spreads and goal.is_spread:
        own = list(_required_spreads(group, space, spreads))
        goal.constraints.spread.update(rank for rank, _ in own)
        if own:
            cuts = [CoreCut((spread,), space.sizes) for _, spread in own]
    floors = CutBounds(space, accelerator)
    priced = []
    for cut in cuts:
        tiles = {} if cut is None else {spread.rank: spread.tile for spread in cut.spreads}
        piece = replace(space, sizes={**space.sizes, **tiles}) if cut else space
        priced.append(PricedCut(piece, cut, floors.floor_of(cut)))
    return sorted(priced, key=lambda cut: (cut.floor, math.prod(cut.space.sizes.values())))


def competitive_cuts(
    cuts: Sequence[PricedCut], sets: Sequence[CandidateSet], goal: Goal
) -> list[PricedCut]:
    """Return the cuts whose bound is below what the likeliest candidates of the others take."""
    if not cuts or goal.objective != "cycles":
        return list(cuts)
    taken = min((_quick(candidates, goal) for candidates in sets), default=float("inf"))
    return [one for one in cuts if one.floor < taken * (1 + goal.tolerance)]


def _quick(candidates: CandidateSet, goal: Goal) -> float:
    """Return the cycles of the candidate that is likely the fastest; infinite if none fits."""
    fits = candidates.fitting(goal.room)
    if not fits.size:
        return float("inf")
    likely = fits[candidates.columns.likely[fits].argmin()]
    return float(candidates.run(ints([likely]))[0])


def parallel_ranks(space: IterationSpace) -> Iterator[str]:
    """Yield the ranks that all operators of a group have and that can be cut over cores."""
    for rank, size in space.sizes.items():
        every = all(rank in space.plain_ranks(op.ranks) for op in space.operators)
        if every and size > 1 and not any(piece_faults(rank, space)):
            yield rank


def core_counts(count: int) -> list[int]:
    """Return the numbers of cores that are tried, the most first.

    >>> core_counts(4), core_counts(20)
    ([4, 3, 2], [20, 10, 5, 2])
    """
    if count <= EFFORT.every_core:
        return list(range(count, 1, -1))
    return [count >> at for at in range(count.bit_length() - 1)]


def cuts_of_one_rank(space: IterationSpace, accelerator: Accelerator) -> Iterator[CoreCut]:
    """Yield the cuts along a single rank, over several numbers of cores."""
    for rank in parallel_ranks(space):
        size = space.sizes[rank]
        tiles = dict.fromkeys(-(-size // count) for count in core_counts(accelerator.cores.count))
        spreads = (Spread(rank, tile, CORES) for tile in tiles if tile < size)
        yield from (CoreCut((spread,), space.sizes) for spread in spreads)


def _required_spreads(
    group: Group, space: IterationSpace, spreads: Map[str, int]
) -> Iterator[tuple[str, Spread]]:
    """Yield the given ranks that may be cut over cores, with the spread.

    What is merged with others is cut where it is the outermost of them.
    """
    rank_names = set(parallel_ranks(space))
    plain = space_of(space.workload, replace(group, merged={})).sizes
    for spread_rank, count in spreads.items():
        for name in rank_names:
            ranks = group.merged.get(name, (name,))
            if spread_rank not in ranks:
                continue
            at = ranks.index(spread_rank)
            if math.prod(plain[rank] for rank in ranks[:at]) == 1:
                inner = math.prod(plain[rank] for rank in ranks[at + 1 :])
                yield spread_rank, Spread(name, -(-plain[spread_rank] // count) * inner, CORES)


class CutBounds:
    """Lower bounds of the cycles of a cut: by the MACs of a piece, or by the bytes of all."""

    def __init__(self, space: IterationSpace, accelerator: Accelerator) -> None:
        names = [op.name for op in space.operators]
        self.space, self.accelerator = space, accelerator
        self.alone: Workload = space.workload.select_operators(names)
        self.macs = native_macs(self.alone, accelerator)
        self.read, self.written = read_bytes(space), written_bytes(space)
        self.moving = {
            view.name: space.moves(view) for op in space.operators for _, view in op.uses
        }

    def floor_of(self, cut: CoreCut | None) -> int:
        """Return the lower bound of a cut."""
        times, macs = dict.fromkeys(self.read, 1), self.macs
        for spread in cut.spreads if cut else ():
            size = self.space.sizes[spread.rank]
            macs = macs * spread.tile // size
            if not self.accelerator.cores.noc.multicast:
                pieces = -(-size // spread.tile)
                times = {
                    name: n if spread.rank in self.moving[name] else n * pieces
                    for name, n in times.items()
                }
        moved: dict[tuple[str, str], Ints] = {
            ("dram_read", name): ints(n * times[name]) for name, n in self.read.items()
        }
        moved |= {("dram_write", name): ints(n) for name, n in self.written.items()}
        work = memory_work(self.accelerator, self.alone, moved)
        return max(
            -(-macs // self.accelerator.array.pes), *(int(cycles) for cycles in work.values())
        )
