"""All tile sizes and orders of an einsum on an array that may be faster than the best known.

Each rank has all tile sizes. The loops of the roles m, k and n come in each order, those of one
role from its outer rank to its inner one. Of two roles the tiles alone decide the number of folds,
past which the third role streams, so most tilings leave before anything else is known of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, permutations, product
from typing import Final

import numpy as np

from simaccel.analytic.block_fills import BlockFills
from simaccel.analytic.family import Bools, Branch, Family, FamilyLoops, Ints, ints, maximum
from simaccel.analytic.nest_bound import NestBound
from simaccel.analytic.pieces import extent
from simaccel.analytic.units import UnitCosts
from simaccel.hardware import PLACES, STATIONARITIES, Accelerator, ArraySpec, Stationarity
from simaccel.mapping.space import BoundOperator
from simaccel.mapping.tree import Do, Keep, nodes
from simaccel.mapping.view import TensorView
from simaccel.search.candidate_set import CandidateSet, capacity
from simaccel.units import ARRAY

_ROLES: Final = ("m", "k", "n")
_SLOTS: Final = (3, 2, 1)
"""Slots of all tensors; more are never slower by these bounds."""
_QUICK: Final = 100
"""Tilings that are sorted out by folds and first loads in the time of one bound."""
_AT_ONCE: Final = 2**20
"""Tilings that are sorted out at once, for their memory."""
Tiles = Mapping[str, Ints]
"""Tiles by rank, or numbers of combinations of tiles by role, an entry per tiling."""


@dataclass(frozen=True)
class AllSizes:
    """The candidates of all tile sizes whose bounds are below a limit; ``size``: of the space.

    ``is_whole``: whether they are those of all operands that the array may hold; of one that leaves
    too many tilings there are none.
    """

    candidates: CandidateSet | None
    size: int
    is_whole: bool = True


def all_sizes(grid: CandidateSet, below: float, most: int, least: float = 0.0) -> AllSizes | None:
    """Return all candidates of a grid's operator whose bounds are from ``least`` to ``below``.

    None if the grid is not of an einsum with free orders and slots whose tensors live in DRAM, or
    if more than ``most`` tilings remain by their folds and first loads, whatever the array holds.
    """
    (family, *others), accelerator = grid.families, grid.accelerator
    slots = {np.size(node.slots) for node in nodes(family.branch) if isinstance(node, Keep)}
    is_free = not others and slots == {len(_SLOTS)} and not (family.around or family.cut)
    array, tensors = accelerator.array, family.space.workload.tensors.values()
    outside = {accelerator.memory(tensor.lives) for tensor in tensors}
    if not (is_free and len(family.held) == 1 and outside == {"dram"}):
        return None
    ((name, held),) = family.held.items()
    operator = family.space.bound_operator(name)
    space = _TileSpace(family, operator, accelerator, below, least)
    is_known = isinstance(array, ArraySpec) and not (array.diagonal and space.ranks["g"])
    if not is_known or not 1 < max(space.counts.values()) <= most:
        return None
    kinds = [STATIONARITIES[index] for index in sorted(set(np.ravel(held).tolist()))]
    families: list[Family] = []
    bounds: list[Ints] = []
    tilings_of = [(kind, space.tilings(kind, most)) for kind in kinds]
    few = [(kind, tilings) for kind, tilings in tilings_of if tilings is not None]
    if not few:
        return None
    for kind, tilings in few:
        for nest, bound in space.nests(kind, tilings):
            families.append(nest)
            bounds.append(bound)
    orders = math.factorial(len(_ROLES))
    size = math.prod(space.counts.values()) * orders * len(_SLOTS) * len(kinds)
    candidates = None
    if families:
        candidates = CandidateSet(grid.group, families, grid.judge, least=bounds)
    return AllSizes(candidates, size, is_whole=len(few) == len(kinds))


@dataclass(frozen=True)
class _TileSpace:
    """The tile sizes of an einsum, by role."""

    family: Family
    operator: BoundOperator
    accelerator: Accelerator
    below: float
    least: float

    @cached_property
    def ranks(self) -> dict[str, tuple[str, ...]]:
        """The ranks of each role, and the batch's, without those of one position."""
        sizes, parts = self.family.space.sizes, self.operator.parts.items()
        return {
            role: tuple(rank for rank, part in parts if part == role and sizes[rank] > 1)
            for role in ("g", *_ROLES)
        }

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of combinations of tiles of each role's ranks."""
        sizes = self.family.space.sizes
        return {role: math.prod(sizes[rank] for rank in self.ranks[role]) for role in _ROLES}

    @cached_property
    def options(self) -> dict[str, dict[str, Ints]]:
        """The combinations of tiles of each role's ranks, as a column for each rank."""
        sizes, columns = self.family.space.sizes, dict[str, dict[str, Ints]]()
        for role in _ROLES:
            ranks = self.ranks[role]
            tiles = np.indices([sizes[rank] for rank in ranks]).reshape(
                len(ranks), self.counts[role]
            )
            columns[role] = dict(zip(ranks, map(ints, tiles + 1), strict=True))
        return columns

    def _tiles(self, numbers: Tiles) -> dict[str, Ints]:
        """Return the tiles by rank of combinations, given by number for each role."""
        ones = np.ones(np.broadcast_shapes(*map(np.shape, numbers.values())), dtype=np.int64)
        tiles = dict.fromkeys(self.family.space.sizes, ones)
        for role, columns in self.options.items():
            tiles |= {rank: column[numbers[role]] for rank, column in columns.items()}
        return tiles

    def _folds(self, role: str, side: int) -> Ints:
        """Return the folds of a role's pieces along a side of the array, by combination."""
        columns, sizes = self.options[role], self.family.space.sizes
        total = np.zeros(self.counts[role], dtype=np.int64)
        for ends in product((False, True), repeat=len(columns)):
            count, piece = np.ones_like(total), np.ones_like(total)
            for (rank, tile), is_end in zip(columns.items(), ends, strict=True):
                last = sizes[rank] % tile
                count *= last > 0 if is_end else sizes[rank] // tile
                piece *= last if is_end else tile
            total += count * -(-piece // side)
        return total

    def _fold_cycles(self, kind: Stationarity) -> Ints:
        """Return the least cycles of all folds, by combinations of tiles on rows and on columns."""
        array, space = self.accelerator.systolic, self.family.space
        high, wide, stream = PLACES[kind]
        repeats = math.prod(space.sizes[rank] for rank in (*self.ranks[stream], *self.ranks["g"]))
        operands = (space.workload.tensors[view.name] for view in self.operator.inputs)
        pace = array.pace((tensor.bits, tensor.number) for tensor in operands)
        folds = self._folds(high, array.rows)[:, None] * self._folds(wide, array.cols)
        return ints(folds * repeats * pace.numerator // (pace.denominator * array.count))

    def tilings(self, kind: Stationarity, most: int) -> Tiles | None:
        """Return the combinations of each role that may be fast enough; None if too many.

        All folds stream between the loads for the first block and the store of the last one's
        results, and a block fits the buffer.
        """
        high, wide, stream = PLACES[kind]
        if self.counts[high] * self.counts[wide] > most * _QUICK:
            return None
        work = self._fold_cycles(kind)
        rows, cols = np.nonzero(work < self.below)
        count, batches = self.counts[stream], [(ints([]), ints([]))]
        if rows.size * count > most * _QUICK:
            return None
        at_once = max(1, _AT_ONCE // count)
        for start in range(0, rows.size, at_once):
            row, col = (numbers[start : start + at_once, None] for numbers in (rows, cols))
            numbers = {high: row, wide: col, stream: np.arange(count)[None, :]}
            pair, streamed = np.nonzero(self._is_fast(numbers, work[row, col]))
            batches.append((pair + start, streamed))
            if sum(pair.size for pair, _ in batches) > most:
                return None
        pairs, streams = map(np.concatenate, zip(*batches, strict=True))
        return {high: rows[pairs], wide: cols[pairs], stream: streams}

    def _is_fast(self, numbers: Tiles, work: Ints) -> Bools:
        """Return which tilings fit, and may end in time between first loads and last store."""
        accelerator, dram = self.accelerator, self.accelerator.dram
        sizes, full = self._tiles(numbers), self.family.space.sizes
        trips = {rank: -(-full[rank] // tile) for rank, tile in sizes.items()}
        ends = {rank: ints(full[rank] - (trips[rank] - 1) * tile) for rank, tile in sizes.items()}
        tiles = [self._block_bytes(view, sizes) for view in self.operator.inputs]
        room = sum(tiles, start=self._block_bytes(self.operator.output, sizes))
        reads, writes = accelerator.channel_read_rate, accelerator.channel_rate
        moves = sum(reads.cycles(dram.channel_bytes(tile, 0)) for tile in tiles)
        last = self._block_bytes(self.operator.output, ends)
        moves = moves + writes.cycles(dram.channel_bytes(last, 0)) + dram.latency_cycles
        return np.asarray((room <= capacity(accelerator)) & (work + moves < self.below))

    def _block_bytes(self, view: TensorView, sizes: dict[str, Ints]) -> Ints:
        """Return the bytes of a block of a tensor."""
        sides = (extent(dim, sizes) for dim in self.family.space.dims(view))
        return ints(math.prod(sides, start=ints(1)) * view.bits // 8)

    def nests(self, kind: Stationarity, tilings: Tiles) -> Iterator[tuple[Family, Ints]]:
        """Yield families of the tilings, each with its bounds, in all orders of their loops."""
        tiles, space = self._tiles(tilings), self.family.space
        cuts = [rank for role in _ROLES for rank in self.ranks[role]]
        cut = np.stack([tiles[rank] < space.sizes[rank] for rank in cuts])
        for moving in np.unique(cut, axis=1).T if cut.size else ():
            alike = np.flatnonzero((cut == moving[:, None]).all(axis=0))
            own = {rank: tiles[rank][alike] for rank in (*cuts, *self.ranks["g"])}
            real = [rank for rank, is_cut in zip(cuts, moving, strict=True) if is_cut]
            known: dict[object, Ints] = {}
            roles = [[rank for rank in self.ranks[role] if rank in real] for role in _ROLES]
            for order in permutations(filter(None, roles)):
                loops = (*self.ranks["g"], *chain.from_iterable(order))
                keeps = np.flatnonzero(self._traffic(loops, own, known) < self.below)
                if keeps.size:
                    of_these = {rank: tile[keeps] for rank, tile in own.items()}
                    yield from self._nest(kind, loops, of_these)

    def _traffic(self, loops: Sequence[str], tiles: Tiles, known: dict[object, Ints]) -> Ints:
        """Return the least cycles of DRAM in an order of loops; ``known``: bytes by tensor."""
        space, n_bytes = self.family.space, []
        for view in (*self.operator.inputs, self.operator.output):
            ranks = space.moves(view)
            innermost = max((at for at, rank in enumerate(loops) if rank in ranks), default=-1)
            key = view.name, frozenset(loops[:innermost]), loops[innermost : innermost + 1]
            if key not in known:
                outside = [rank for rank in loops[: innermost + 1] if rank not in ranks]
                known[key] = self._bytes_of(view, tiles, outside, key[-1])
            n_bytes.append(known[key])
        *inputs, written = n_bytes
        sums = written - (self._bytes_of(self.operator.output, tiles, (), ()))
        accelerator = self.accelerator
        parts, latency = accelerator.dram.channels, accelerator.dram.latency_cycles
        loads = accelerator.channel_read_rate.cycles((sum(inputs, start=ints(0)) + sums) // parts)
        return ints(latency + loads + accelerator.channel_rate.cycles(written // parts) - 1)

    def _bytes_of(
        self, view: TensorView, tiles: Tiles, outside: Sequence[str], inner: Sequence[str]
    ) -> Ints:
        """Return the least bytes that a tensor moves in one direction.

        Loops over ranks ``outside`` bring it again; ``inner`` is the innermost loop that moves it.
        """
        sizes = self.family.space.sizes
        trips = {rank: -(-sizes[rank] // tile) for rank, tile in tiles.items()}
        elements = math.prod((trips[rank] for rank in outside), start=ints(1))
        for dim in self.family.space.dims(view):
            sides = {
                rank: sizes[rank]
                * math.prod((trips.get(other, 1) for other, _ in dim if other != rank))
                for rank, _ in dim
            }
            side = ints(0)
            for rank in sides.keys() & set(inner) or sides:  # windows that slide are no overlap
                side = maximum(side, sides[rank])
            elements = elements * side
        return ints(elements * np.ones_like(next(iter(tiles.values()))) * view.bits // 8)

    def _nest(
        self, kind: Stationarity, loops: Sequence[str], tiles: Tiles
    ) -> Iterator[tuple[Family, Ints]]:
        """Yield the candidates of one order of loops, by slots, whose bounds are low enough."""
        for slots in _SLOTS:
            count = len(next(iter(tiles.values())))
            nest = self._family(kind, loops, tiles, slots, count)
            cut = [(rank, tiles[rank]) for rank in loops]
            bound = NestBound(BlockFills(UnitCosts(nest, self.accelerator)), cut, slots).cycles()
            bound = np.broadcast_to(bound, count)
            new = np.flatnonzero((bound < self.below) & (bound >= self.least))
            if new.size:
                of_new = {rank: tile[new] for rank, tile in tiles.items()}
                yield self._family(kind, loops, of_new, slots, new.size), ints(bound[new])
            keeps = np.flatnonzero(bound < self.below)
            if not keeps.size:
                return
            tiles = {rank: tile[keeps] for rank, tile in tiles.items()}

    def _family(
        self, kind: Stationarity, loops: Sequence[str], tiles: Tiles, slots: int, count: int
    ) -> Family:
        cut, places = tuple(tiles[rank] for rank in loops), tuple(map(ints, range(len(loops))))
        nest = FamilyLoops(tuple(loops), cut, places)
        keeps = (node for node in nodes(self.family.branch) if isinstance(node, Keep))
        branch: Branch = (
            *((nest,) if loops else ()),
            *(replace(keep, slots=ints(np.full(count, slots))) for keep in keeps),
            Do(self.operator.name, ARRAY, kind),
        )
        held = {self.operator.name: ints(STATIONARITIES.index(kind))}
        return replace(self.family, branch=branch, held=held)
