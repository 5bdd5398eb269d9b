"""What one piece of work costs: a block on the array or the SFU, a tile on its way.

The costs of single pieces come from the hardware's specs; how they compose is written here and in
``timeline`` from the mapping alone, without the program and without the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from simaccel.analytic.array import Folded, fold_sides, matmul_of
from simaccel.analytic.blocks import Block, Move, levelled
from simaccel.analytic.bodies import FALSE, TRUE, Tiled, Work
from simaccel.analytic.counting.transfers import Cost
from simaccel.analytic.family import Bools, Ints, Kept, Path, ints
from simaccel.analytic.known import known_block
from simaccel.analytic.matmuls import Matmul
from simaccel.analytic.pieces import Cuts, expanded, extent
from simaccel.analytic.pointwise import anywhere, everywhere, identity, larger, pick, plain
from simaccel.analytic.steps import Division
from simaccel.analytic.widths import Widths
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.hardware.dram.tile import Rows
from simaccel.mapping.space import Seen
from simaccel.mapping.tree import BUFFER, STREAM
from simaccel.mapping.view import View
from simaccel.numbers import in_bytes
from simaccel.workload import Vector
from simaccel.workload.vectors import VECTORS, Passes, Step

_ZERO: Ints = plain(ints(0))


@dataclass
class Units(Widths):
    """Costs of the pieces of one family on one accelerator."""

    accelerator: Accelerator
    known: dict[object, object] = field(default_factory=dict)
    kept: list[object] = field(default_factory=list)
    """Arrays whose identity is part of a key in ``known``."""

    # -- vector work

    def cost(self, step: Step) -> Passes:
        """Return the passes of a step on this accelerator's SFU."""
        return self.accelerator.sfu.chosen(step, step.merged)

    def vector_bytes(self, path: Path, seen: Seen, step: Step) -> Iterator[tuple[str, int, Cost]]:
        """Yield (level and direction, position of the operand, bytes of a block) of a step."""
        cost, widths = self.cost(step), self.widths(path, seen)
        for position, times in enumerate(cost.reads[: len(seen.inputs)]):
            yield (
                f"{BUFFER}_read",
                position,
                self._n_bytes(seen.inputs[position], times, widths[position]),
            )
        yield f"{BUFFER}_write", -1, self._n_bytes(seen.output, cost.writes, widths[-1])

    @staticmethod
    def _n_bytes(view: View, times: int, width: int) -> Cost:
        def cost(sizes: dict[str, Ints]) -> Ints:
            elements = math.prod((extent(dim, sizes) for dim in view.terms), start=ints(1))
            return times * in_bytes(elements, width)

        return cost

    def vector_cycles(self, path: Path, seen: Seen, step: Step) -> dict[str, Cost]:
        """Return the cycles of SFU and ports for a block of a step."""
        accelerator, passes = self.accelerator, self.cost(step).passes
        parts = [(level, cost) for level, _, cost in self.vector_bytes(path, seen, step)]

        def sfu(sizes: dict[str, Ints]) -> Ints:
            elements = math.prod((sizes[rank] for rank in seen.ranks), start=ints(1))
            return ints(accelerator.sfu.cycles(passes, elements))

        def read(sizes: dict[str, Ints]) -> Ints:
            total = sum((cost(sizes) for level, cost in parts if "read" in level), start=ints(0))
            return ints(accelerator.read_rate.cycles(total))

        def write(sizes: dict[str, Ints]) -> Ints:
            return ints(accelerator.write_rate.cycles(parts[-1][1](sizes)))

        return {"sfu": sfu, "buffer_read": read, "buffer_write": write}

    def correction_cycles(self, view: View, step: Step) -> dict[str, Cost]:
        """Return the cycles of SFU and ports for a step in place on sums."""
        accelerator = self.accelerator
        read, write = (self.correction_bytes(view, n) for n in (step.reads[0], step.writes))
        ranks = tuple(rank for dim in view.terms for rank, _ in dim)

        def elements(sizes: dict[str, Ints]) -> Ints:
            return math.prod((sizes[rank] for rank in ranks), start=ints(1))

        return {
            "sfu": lambda s: ints(accelerator.sfu.cycles(step.passes, elements(s))),
            "buffer_read": lambda s: ints(accelerator.read_rate.cycles(read(s))),
            "buffer_write": lambda s: ints(accelerator.write_rate.cycles(write(s))),
        }

    def correction_bytes(self, view: View, times: int) -> Cost:
        """Return the bytes of a block of sums that a step in place goes over so many times."""
        return self._n_bytes(view, times, self.tile_width(view.name, view))

    # -- einsums

    def cuts(self, path: Path) -> Cuts:
        """Return the cuts along the path of a leaf, the same each time."""
        found = Cuts(self.family.space, path)
        return self.known.setdefault(("cuts", id(path)), found)  # type: ignore[return-value]

    def held(self, path: Path) -> Ints:
        """Return the place of what the array holds in ``STATIONARITIES``; plain if it is one."""
        leaf = path.leaf
        return plain(
            self.family.held.get(
                leaf.operator, ints(STATIONARITIES.index(leaf.stationarity or "ws"))
            )
        )

    def matmul(self, path: Path, cuts: Cuts, sizes: dict[str, Ints]) -> Matmul:
        """Return a block of a systolic array."""
        seen = self.family.space.seen(path.leaf.operator)
        widths = self.widths(path, seen)
        rows, cols = (side if side is None else plain(side) for side in fold_sides(cuts))
        g, m, k, n = map(plain, matmul_of(seen, sizes))
        return Matmul(
            accelerator=self.accelerator,
            shape=(g, m, k, n),
            widths=(widths[0], widths[1], widths[-1]),
            pace=self.accelerator.array.cycles_per_mac(widths[: len(seen.inputs)]),
            sides=(rows, cols),
            held=self.held(path),
        )

    def folds(
        self, path: Path, cuts: Cuts, sizes: dict[str, Ints], *, accumulate: bool
    ) -> list[Folded]:
        """Return what a systolic array does with a block, by what it holds if that is free."""
        ranks = self.family.space.seen(path.leaf.operator).ranks
        key = (id(path.leaf), accumulate, *(identity(sizes[rank]) for rank in ranks))
        if key not in self.known:
            self.kept += [sizes[rank] for rank in ranks]
            self.known[key] = self.matmul(path, cuts, sizes).folds(accumulate=accumulate)
        return self.known[key]  # type: ignore[return-value]

    # -- for the timeline

    def block(self, work: Work, sizes: dict[str, Ints], begun: Bools) -> Block:
        """Return the cost of a leaf's command on a block of these sizes."""
        seen = work.seen
        sizes = self.widened(sizes)
        some, whole = anywhere(begun), everywhere(begun)
        ranks = (identity(sizes[rank]) for rank in seen.ranks)
        key = (id(work), work.step, *ranks, whole, some)
        mixed = some and not whole
        if key in self.known and not mixed:
            return self.known[key]  # type: ignore[return-value]
        found = self._block(work, sizes, begun)
        self.kept += [sizes[rank] for rank in seen.ranks]
        self.known[key] = found
        return found

    def widened(self, sizes: dict[str, Ints]) -> dict[str, Ints]:
        """Return sizes with those of ranks that follow from others, as of a window's positions."""
        derived = self.family.space.derived
        if not derived:
            return sizes
        found = dict(sizes)
        for rank, terms in derived.items():
            key = ("derived", rank, *(identity(found[one]) for one, _ in terms))
            if key not in self.known:
                self.kept += [found[one] for one, _ in terms]
                self.known[key] = extent(terms, found)
            found[rank] = self.known[key]  # type: ignore[assignment]
        return found

    def _block(self, work: Work, sizes: dict[str, Ints], begun: Bools) -> Block:
        seen, path = work.seen, work.path
        if isinstance(seen.operator, Vector):
            step = VECTORS[seen.operator.kind].steps[work.step]
            costs = {
                name: cost(sizes) for name, cost in self.vector_cycles(path, seen, step).items()
            }
            most = larger(costs["sfu"], larger(costs["buffer_read"], costs["buffer_write"]))
            return levelled(Block(most, costs["buffer_read"], costs["buffer_write"]))
        if work.do.unit == "mac":
            return levelled(self._pass(work, sizes, begun))
        block = self.matmul(path, self.cuts(path), sizes)
        if block.is_one and (begun is TRUE or begun is FALSE):
            anew = partial(block.block, begun)
            return known_block(self.accelerator, (block, begun is TRUE), anew)
        return block.block(begun)

    def division(self, path: Path) -> Division:
        """Return how PEs divide what arrives on the path of a leaf, the same each time."""
        key = "division", id(path)
        if key not in self.known:
            self.known[key] = Division(self.cuts(path))
        return self.known[key]  # type: ignore[return-value]

    def _pass(self, work: Work, sizes: dict[str, Ints], begun: Bools) -> Block:
        """Return the cycles of PEs with memories, and of what they take from the buffer."""
        seen, path, division = work.seen, work.path, self.division(work.path)
        own = {rank: sizes[rank] for rank in division.full if rank in seen.ranks}
        cycles = self.pace(self.accelerator, path, seen) * division.steps(own)
        read = write = down = _ZERO
        for position, ((use, view), bits) in enumerate(
            zip(seen.uses, self.widths(path, seen), strict=True)
        ):
            if not self._from_buffer(path, use):
                continue
            accesses = partial(division.accesses, expanded(self.family.space, view), own, bits)
            outer, piped = accesses(inner=False), accesses(inner=self._apart)
            if position == len(seen.inputs):
                write = outer
                outer = outer - pick(begun, 0, accesses(inner=False, first=True))
                piped = piped - pick(begun, 0, accesses(inner=self._apart, first=True))
            read, down = read + outer, down + piped
        a = self.accelerator
        reads, writes = a.read_rate.cycles(read), a.write_rate.cycles(write)
        most = larger(cycles, larger(reads, writes))
        most = larger(most, a.distribution_rate.cycles(down))
        most = larger(most, a.collection_rate.cycles(write))
        return Block(most, reads, writes)

    @cached_property
    def _apart(self) -> bool:
        """Whether what several PEs need is sent to each of them."""
        return not self.accelerator.noc.distribution.multicasts

    def _from_buffer(self, path: Path, use: str) -> bool:
        """Return whether the steps of PEs take an operand from the buffer."""
        name = self.family.aliases.get(use, use)
        kept = [e for e in path.entries if isinstance(e, Kept) and e.tensor == name]
        if kept:
            return kept[-1].level == BUFFER
        held = self.tile_of(path, use)
        return any(keep.tensor == held for keep in self.family.around)

    def correction(self, step: str, work: Work, view: View, sizes: dict[str, Ints]) -> Block:
        """Return the cost of a step in place on sums."""
        assert isinstance(work.seen.operator, Vector)  # noqa: S101 - only these correct sums
        form = VECTORS[work.seen.operator.kind].steps[step]
        found = {name: cost(sizes) for name, cost in self.correction_cycles(view, form).items()}
        most = larger(found["sfu"], larger(found["buffer_read"], found["buffer_write"]))
        return levelled(Block(most, found["buffer_read"], found["buffer_write"]))

    def move(
        self, tiled: Tiled, sizes: dict[str, Ints], slid: Bools, kind: str, *, up: bool
    ) -> Move:
        """Return the cost of bringing a tile of a tensor of a class, or of taking it away."""
        later = FALSE if up or tiled.slide is None else slid
        if later is not FALSE and later is not TRUE:
            return self._move(tiled, sizes, later, kind, up=up)
        each = tiled.level == STREAM or (self._apart and tiled.level != BUFFER)
        ranks = sizes if each else tiled.ranks
        known = (id(tiled), up, kind, later is TRUE, *[identity(sizes[rank]) for rank in ranks])
        if known not in self.known:
            self.kept += [sizes[rank] for rank in ranks]
            self.known[known] = self._move(tiled, sizes, later, kind, up=up)
        return self.known[known]  # type: ignore[return-value]

    def _move(
        self, tiled: Tiled, sizes: dict[str, Ints], slid: Bools, kind: str, *, up: bool
    ) -> Move:
        if tiled.level != BUFFER:
            return self._to_pe(tiled, sizes, slid, kind, up=up)
        n_bytes, rows = self._tile(tiled, sizes, slid, kind)
        return self._dram(n_bytes, kind, rows, up=up)

    def _tile(
        self, tiled: Tiled, sizes: dict[str, Ints], slid: Bools, kind: str
    ) -> tuple[Ints, Rows | None]:
        """Return the bytes of a tile of the buffer, and its rows in DRAM."""
        sides = tuple(extent(dim, sizes) for dim in tiled.dims)
        width = tiled.view.bits
        rows = self.accelerator.backing(kind).rows(sides, tiled.view.shape, width)
        whole = math.prod(sides, start=ints(1))
        if tiled.slide is None or not anywhere(slid):
            return ints(in_bytes(whole, width)), rows
        rank, c = tiled.slide
        at = next(n for n, dim in enumerate(tiled.dims) if rank in dict(dim) and len(dim) > 1)
        others = math.prod(sides[:at] + sides[at + 1 :], start=ints(1))
        # the window moved by the size of a full tile, of which a last one shares as much
        reach = larger(sides[at] - c * sizes[rank], 0)
        return ints(in_bytes(pick(slid, whole - reach * others, whole), width)), rows

    def _dram(self, n_bytes: Ints, kind: str, rows: Rows | None = None, *, up: bool) -> Move:
        """Return the cost of a transfer with the memory of a class, from or to the buffer."""
        accelerator = self.accelerator.backing(kind)
        service = accelerator.transfer_cycles(n_bytes, rows, write=up)
        rate = accelerator.read_rate if up else accelerator.write_rate
        return Move(
            service=plain(ints(service)),
            port=plain(ints(rate.cycles(n_bytes))),
            latency=0 if up else accelerator.dram.latency_cycles,
            on_chip=False,
            memory=self.accelerator.memory(kind),
        )

    def _to_pe(
        self, tiled: Tiled, sizes: dict[str, Ints], slid: Bools, kind: str, *, up: bool
    ) -> Move:
        """Return the cost of a transfer between PEs and the memory outside."""
        accelerator, division = self.accelerator, self.division(tiled.path)
        moved = partial(self._moved, tiled, division, sizes, slid)
        n_bytes = moved(inner=False)
        piped = moved(inner=True) if self._apart and not up else n_bytes
        latency = accelerator.tail_latency_cycles if up else accelerator.lead_latency_cycles
        rate = accelerator.collection_rate if up else accelerator.distribution_rate
        pipe = plain(ints(rate.cycles(piped)))
        if tiled.outside is None:
            found = self._dram(n_bytes, kind, up=up)
            latency = 0 if up else found.latency + latency
            return replace(found, port=_ZERO, latency=latency, pipe=pipe)
        port = accelerator.write_rate if up else accelerator.read_rate
        n_cycles = plain(ints(port.cycles(n_bytes)))
        return Move(service=_ZERO, port=n_cycles, latency=latency, on_chip=True, pipe=pipe)

    def _moved(
        self, tiled: Tiled, division: Division, sizes: dict[str, Ints], slid: Bools, *, inner: bool
    ) -> Ints:
        """Return the bytes of a block of PEs: all, or less what windows had that slid."""
        dims, bits = tiled.dims, tiled.view.bits
        if tiled.level == STREAM:
            return division.accesses(dims, division.block(sizes, sizes), bits, inner=inner)
        block = division.block(sizes, sizes if inner else tiled.ranks)
        spread = partial(division.spread, dims, block, bits, inner=inner)
        if tiled.slide is None or slid is FALSE:
            return spread()
        less = spread(slide=tiled.slide)
        return less if slid is TRUE else pick(slid, less, spread())
