"""The lower bound of an einsum's loop nest in a given order, tighter than that of its sums.

Blocks run one after the other, and an operand's tile comes after the use of its predecessor in the
slot. So each instance of a loop takes at least its blocks, or the loads that can't come before it:
a smaller last piece, which waits for DRAM, makes up for no other piece. Bounds of instances add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from simaccel.analytic.array import select_figures
from simaccel.analytic.block_fills import BlockFills, Sizes
from simaccel.analytic.family import Ints, TreePath, ints, maximum, minimum
from simaccel.analytic.pieces import PathCuts, extent
from simaccel.hardware import STATIONARITIES
from simaccel.workload.einsum import Terms


@dataclass(frozen=True)
class _NestTile:
    """A tensor's tile: its dimensions, the ranks that move it, and bits per element."""

    dims: tuple[Terms, ...]
    ranks: frozenset[str]
    bits: int


@dataclass(frozen=True)
class _Instance:
    """Least cycles of an instance of some inner loops until its last block ends.

    ``whole``: from cycle 0, if it is the first one. ``start``: from the start of its first block.
    ``after``: from the end of the block before. ``blocks``: number of its blocks, which take
    ``work`` cycles. ``loads``: least cycles of a DRAM channel for its tiles, by operand;
    ``stores``: of those for its sums.
    """

    whole: Ints
    start: Ints
    after: Ints
    blocks: Ints
    work: Ints
    first: Ints
    last: Ints
    loads: tuple[Ints, ...]
    stores: Ints


@dataclass(frozen=True)
class NestBound:
    """The bound of candidates that run ``loops`` (rank, tile), outermost first, around one block.

    Each loop has several trips. All tensors live in DRAM, with tiles inside all loops, and equally
    many slots each. All candidates hold the same operand.
    """

    fills: BlockFills
    loops: Sequence[tuple[str, Ints]]
    slots: int
    known: dict[tuple[object, ...], tuple[Ints, Sizes]] = field(default_factory=dict)
    """Cycles of tiles by what they are and the identities of their sizes, which are kept alive."""

    def cycles(self) -> Ints:
        """Return the lower bound of each candidate's cycles."""
        units, sizes = self.fills.units, self._whole
        start = units.accelerator.compiler.kernel_start_cycles
        nest = self._instance(0, sizes)
        in_turn = self._fill + self._sums_in_turn(nest, sizes)
        return ints(start + maximum(nest.whole, in_turn) + self.fills.drain_cycles)

    @cached_property
    def _whole(self) -> Sizes:
        return {rank: ints(size) for rank, size in self.fills.units.family.space.sizes.items()}

    @cached_property
    def _path(self) -> TreePath:
        (path,) = self.fills.units.family.paths
        return path

    @cached_property
    def _cuts(self) -> PathCuts:
        return self.fills.units.cuts(self._path)

    @cached_property
    def _latency(self) -> int:
        """Cycles from the end of a load on its channel until the array may begin."""
        accelerator = self.fills.units.accelerator
        return accelerator.dram.latency_cycles + accelerator.lead_latency_cycles

    @cached_property
    def _held(self) -> int:
        """Number of the operand that the array holds; -1 for sums."""
        which = self.fills.units.stationarity_index(self._path)
        return {"ws": 1, "is": 0, "os": -1}[STATIONARITIES[int(which)]]

    @cached_property
    def _lead(self) -> Ints:
        """Least cycles in which the held operand of any block shifts in, after it has arrived."""
        last = self._last_sizes(self._whole, 0)
        return self.fills.units.edges(self._path, self._cuts, last)["lead"]

    @cached_property
    def _fill(self) -> Ints:
        """Cycles until the first block may begin.

        Its tiles are loaded in the operands' order; in one queue those of outer loops come first.
        """
        first = dict(self.loops)
        sizes = {rank: first.get(rank, ints(size)) for rank, size in self._whole.items()}
        arrival, fill = ints(self._latency), self.fills.fill_cycles()
        accelerator, order = self.fills.units.accelerator, list(enumerate(self._operands))
        if accelerator.dma.in_queues == "single":
            order.sort(key=lambda pair: self._depth(pair[1]))
        for number, operand in order:
            arrival = arrival + self._tile_cycles(replace(operand, ranks=frozenset()), sizes)
            if number == self._held:
                lead = self.fills.units.edges(self._path, self._cuts, sizes)["lead"]
                fill = maximum(fill, arrival + lead)
        return ints(fill)

    @cached_property
    def _operands(self) -> list[_NestTile]:
        space = self.fills.units.family.space
        views = [view for _, view in space.bound_operator(self._path.leaf.operator).uses[:-1]]
        return [_NestTile(space.dims(view), space.moves(view), view.bits) for view in views]

    @cached_property
    def _sums(self) -> _NestTile:
        space = self.fills.units.family.space
        view = space.bound_operator(self._path.leaf.operator).output
        return _NestTile(space.dims(view), space.moves(view), view.bits)

    def _depth(self, tile: _NestTile) -> int:
        """Return the number of loops around the load or store of a tile."""
        own = [at for at, (rank, _) in enumerate(self.loops) if rank in tile.ranks]
        return max(own, default=-1) + 1

    @cached_property
    def _row(self) -> int:
        """The first of the innermost loops that finish one tile of sums."""
        return self._depth(self._sums)

    def _tile_cycles(self, tile: _NestTile, sizes: Sizes, *, write: bool = False) -> Ints:
        """Return the cycles of a memory's first channel for a tile, or for what is new in it."""
        ranks = {rank for dim in tile.dims for rank, _ in dim}
        key = tile, write, *(id(sizes[rank]) for rank in ranks)
        if key not in self.known:
            self.known[key] = self._tile_load(tile, sizes, write=write), sizes
        return self.known[key][0]

    def _tile_load(self, tile: _NestTile, sizes: Sizes, *, write: bool) -> Ints:
        movers = [rank for rank, _ in self.loops if rank in tile.ranks][-1:]
        elements = ints(1)
        for dim in tile.dims:
            side = extent(dim, sizes)
            for rank, step in dim:
                if rank in movers:  # a window that slides brings only what is new
                    side = minimum(side, step * sizes[rank])
            elements = elements * side
        accelerator = self.fills.units.accelerator
        rate = accelerator.channel_rate if write else accelerator.channel_read_rate
        return ints(rate.cycles(accelerator.dram.channel_bytes(elements * tile.bits // 8, 0)))

    @cached_property
    def _cut(self) -> list[tuple[Ints, Ints]]:
        """By loop, its trips, and the size of its last piece."""
        pieces = ((self._whole[rank], tile) for rank, tile in self.loops)
        trips = ((size, -(-size // tile), tile) for size, tile in pieces)
        return [(count, ints(size - (count - 1) * tile)) for size, count, tile in trips]

    def _instance(self, level: int, sizes: Sizes) -> _Instance:
        """Return an instance of the loops from ``level`` on that cut ``sizes``."""
        if level == len(self.loops):
            return self._block(sizes)
        (rank, tile), (trips, end) = self.loops[level], self._cut[level]
        edge = {**sizes, rank: end}
        full, last = (self._instance(level + 1, each) for each in ({**sizes, rank: tile}, edge))
        fulls, inside = trips - 1, {name for name, _ in self.loops[level:]}
        moved = [bool(operand.ranks & inside) for operand in self._operands]
        loads = tuple(
            fulls * n + m if moves else m
            for n, m, moves in zip(full.loads, last.loads, moved, strict=True)
        )
        after = [full.after, last.after]
        if level + 1 == self._row < len(self.loops):
            sums = self._tile_cycles(self._sums, {**sizes, rank: tile}, write=True)
            tail = self._tail({**sizes, rank: tile})
            after = [
                self._beside_store(row, self._late(row, cut, self._row, 1), sums, tail)
                for row, cut in ((full, {**sizes, rank: tile}), (last, edge))
            ]
        if level >= self._row and self._held < 0:  # sums have left before they enter again
            tail = self._tail({**sizes, rank: tile})
            tail = tail + self.fills.units.accelerator.lead_latency_cycles
            after = [maximum(row.after, tail + row.start) for row in (full, last)]
        rest = (fulls - 1) * after[0] + after[1]
        work, blocks = fulls * full.work + last.work, fulls * full.blocks + last.blocks
        instance = _Instance(
            whole=maximum(full.whole + rest, self._latency + sum(loads) + last.last),
            start=full.start + rest,
            after=full.after + rest,
            blocks=blocks,
            work=work,
            first=full.first,
            last=last.last,
            loads=loads,
            stores=fulls * full.stores * bool(self._sums.ranks & inside) + last.stores,
        )
        return self._with_loads(instance, sizes, level)

    def _block(self, sizes: Sizes) -> _Instance:
        units = self.fills.units
        every = units.widen_sizes(sizes)
        options = units.folds(self._path, self._cuts, every, accumulate=False)
        which = units.stationarity_index(self._path)
        work = ints(select_figures(which, options).by_name()["cycles"])
        loads = tuple(self._tile_cycles(operand, sizes) for operand in self._operands)
        whole = ints(self._fill + work)
        stores = self._tile_cycles(self._sums, sizes, write=True)
        return _Instance(whole, work, work, ints(1), work, work, work, loads, stores)

    def _late(self, instance: _Instance, sizes: Sizes, level: int, early: int) -> list[Ints]:
        """Return the cycles of an instance's loads without those that may come before it.

        Of each operand as many tiles as it has slots may come before, or ``early`` fewer.
        """
        inside = {rank for rank, _ in self.loops[level:]}
        block = {**sizes, **dict(self.loops[level:])}
        return [
            ints(maximum(load - (self.slots - early) * self._tile_cycles(operand, block), 0))
            if operand.ranks & inside
            else ints(0)
            for operand, load in zip(self._operands, instance.loads, strict=True)
        ]

    def _with_loads(self, instance: _Instance, sizes: Sizes, level: int) -> _Instance:
        """Return an instance with bounds by its loads, and by the slots of each block's tiles."""
        late, later = (self._late(instance, sizes, level, early) for early in (0, 1))
        loading, longer = (sum(each, start=ints(0)) for each in (late, later))
        waits = (loading > 0) * (instance.first + self._latency + loading + instance.last)
        start = maximum(maximum(instance.start, waits), self._in_turn(instance, late))
        after = maximum(start, (longer > 0) * (self._latency + longer + instance.last))
        return replace(
            instance,
            whole=ints(maximum(instance.whole, self._fill + start)),
            start=ints(start),
            after=ints(maximum(instance.after, after)),
        )

    def _in_turn(self, instance: _Instance, late: Sequence[Ints]) -> Ints:
        """Return the cycles of blocks in turn in the slots of the tiles that each of them loads.

        These are requested after the last use of the slots: all together, and what is held alone.
        """
        innermost = self.loops[-1][0]
        moving = [at for at, tile in enumerate(self._operands) if innermost in tile.ranks]
        turns = ints(0)
        for numbers in (moving, [at for at in moving if at == self._held]):
            wait = self._latency + (self._lead if numbers == [self._held] else 0)
            waits = maximum(instance.blocks - self.slots, 0) * wait * bool(numbers)
            loading = sum((late[at] for at in numbers), start=waits)
            turns = maximum(turns, -(-(instance.work + loading) // self.slots))
        return ints(turns)

    def _sums_in_turn(self, nest: _Instance, sizes: Sizes) -> Ints:
        """Return the cycles of blocks in turn in the slots of sums, if each moves a tile of them.

        A slot is free after its sums left the array and were stored. Those that a loop over another
        rank visits again are then loaded into it.
        """
        if self._row < len(self.loops):
            return ints(0)
        visits = ints(1)
        for (rank, _), (trips, _) in zip(self.loops, self._cut, strict=True):
            visits = visits * (1 if rank in self._sums.ranks else trips)
        tile = self._tile_cycles(self._sums, {**sizes, **dict(self.loops)}, write=True)
        tail = self._tail(self._last_sizes(sizes, 0))
        loads = maximum(nest.stores // visits * (visits - 1) - self.slots * tile, 0)
        again = maximum(nest.blocks // visits * (visits - 1) - self.slots, 0)
        stores = maximum(nest.stores - self.slots * tile, 0)
        stores = stores + maximum(nest.blocks - self.slots, 0) * tail
        waits = stores + loads + again * self.fills.units.accelerator.dram.latency_cycles
        return ints(-(-(nest.work + waits) // self.slots))

    def _last_sizes(self, sizes: Sizes, level: int) -> Sizes:
        """Return the sizes of the last block of an instance of the loops from ``level`` on."""
        pairs = zip(self.loops[level:], self._cut[level:], strict=True)
        return {**sizes, **{rank: end for (rank, _), (_, end) in pairs}}

    def _tail(self, sizes: Sizes) -> Ints:
        """Return the cycles from the end of a row's last block until its results are in place."""
        edges = self.fills.units.edges(self._path, self._cuts, self._last_sizes(sizes, self._row))
        return ints(edges["tail"] + self.fills.units.accelerator.tail_latency_cycles)

    def _beside_store(
        self, instance: _Instance, late: Sequence[Ints], sums: Ints, tail: Ints
    ) -> Ints:
        """Return `_Instance.after` of a row while the sums of the row before are stored.

        ``late``: cycles of its loads; ``sums``: of the store, which begins after ``tail``. While
        both directions wait, a channel serves them in turn, a batch at a time.
        """
        accelerator, loading = self.fills.units.accelerator, sum(late, start=ints(0))
        batch, other = (accelerator.batch_cycles(write=write) for write in (False, True))
        beside = minimum(sums, maximum(loading - tail - 1, 0) // batch * other)
        turns = 2 * accelerator.dram.turnaround_cycles * (beside // other)
        waits = self._latency + loading + beside + turns + instance.last
        return ints(maximum(instance.after, (loading > 0) * waits))
