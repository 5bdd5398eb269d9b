"""Closed form of a GEMM mapping, vectorised over tile sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from simaccel.analytic.array import ArrayPass, Widths, array_pass
from simaccel.analytic.pace import Flow, Slots, Step, loop_cycles
from simaccel.analytic.work import (
    Bools,
    Cost,
    Floats,
    Ints,
    Traffic,
    Work,
    ceil_div,
    contention,
    ints,
    most,
    over_blocks,
    split,
)
from simaccel.hardware import Accelerator, Stationarity

_MANY = 64
_RANKS = {"a": ("m", "k"), "b": ("k", "n"), "out": ("m", "n")}


@dataclass(frozen=True, kw_only=True)
class GemmProblem:
    """out[g, m, n] = a[g, m, k] b[g, k, n]: sizes, tensor names, bytes per element.

    ``kept_a`` / ``kept_out``: the operand is in the buffer already, or stays there.
    """

    g: int
    m: int
    k: int
    n: int
    names: tuple[str, str, str]
    widths: Widths
    kept_a: bool = False
    kept_out: bool = False

    def extent(self, rank: str) -> Ints:
        """Size of rank m, k or n."""
        return ints(getattr(self, rank))


@dataclass(frozen=True, kw_only=True)
class GemmTiles:
    """Candidate mappings of one loop order and stationarity: arrays of tile sizes, slots."""

    m: Ints
    k: Ints
    n: Ints
    order: str
    stationarity: Stationarity
    slots: tuple[int, int, int] = (2, 2, 2)

    def of(self, rank: str, problem: GemmProblem) -> Ints:
        """Tile sizes of a rank, never larger than the rank."""
        return ints(np.minimum(getattr(self, rank), problem.extent(rank)))


class Shared:
    """What the array does in every kind of tile; it is the same under all loop orders.

    For one problem, accelerator and grid of tile sizes.
    """

    def __init__(self) -> None:
        self._passes: dict[tuple[Stationarity, int, int, int, bool], ArrayPass] = {}
        self._totals: dict[tuple[Stationarity, str], Ints] = {}

    def array_pass(
        self, key: tuple[Stationarity, int, int, int, bool], make: Callable[[], ArrayPass]
    ) -> ArrayPass:
        """Give the pass of a kind of tile (0: full, 1: edge, by rank)."""
        if key not in self._passes:
            self._passes[key] = make()
        return self._passes[key]

    def total(self, key: tuple[Stationarity, str], make: Callable[[], Ints]) -> Ints:
        """Give a sum over all tiles."""
        if key not in self._totals:
            self._totals[key] = make()
        return self._totals[key]


def gemm_work(
    problem: GemmProblem,
    tiles: GemmTiles,
    accelerator: Accelerator,
    shared: Shared | None = None,
) -> Work:
    """Predict one GEMM mapping: work of every resource, bytes, buffer and pace."""
    nest = _Nest(problem, tiles, accelerator, shared or Shared())
    return nest.work()


class _Nest:
    """The loops over tiles; a tile stays while only loops over other ranks go on inside."""

    def __init__(
        self, problem: GemmProblem, tiles: GemmTiles, accelerator: Accelerator, shared: Shared
    ) -> None:
        self.problem, self.tiles, self.accelerator = problem, tiles, accelerator
        self.shared = shared
        self.traffic = Traffic(accelerator)
        self.tile = {r: tiles.of(r, problem) for r in "mkn"}
        self.trips = {r: ceil_div(problem.extent(r), self.tile[r]) for r in "mkn"}
        self.repeats = {name: self._repeats(name) for name in _RANKS}
        self.spills = np.asarray(self.repeats["out"] > 1)

    def _repeats(self, name: str) -> Ints:
        """How often each element of a tensor comes: the trips of the loop it has no rank in.

        That loop repeats the tile only if a loop over one of the tensor's ranks runs inside.
        """
        order, ranks = self.tiles.order, _RANKS[name]
        other = next(r for r in "mkn" if r not in ranks)
        inside: Bools = np.zeros((), dtype=bool)
        for rank in order[order.index(other) + 1 :]:
            inside = inside | (self.trips[rank] > 1)
        return np.where(inside, self.trips[other], 1)

    def _over(self, name: str, cost: Cost) -> Ints:
        """Sum a cost of a request of so many bytes over the tiles of a tensor, once each."""
        first, second = _RANKS[name]
        width = getattr(self.problem.widths, name)
        return over_blocks(
            lambda h, w: cost(h * w * width),
            (self.problem.extent(first), self.tile[first]),
            (self.problem.extent(second), self.tile[second]),
        )

    def _pass(self, m: int, k: int, n: int, *, accumulate: bool) -> ArrayPass:
        """Give the array pass of a kind of tile: 0 the full one, 1 the edge, by rank."""

        def size(rank: str, kind: int) -> Ints:
            return np.maximum(split(self.problem.extent(rank), self.tile[rank])[kind][1], 1)

        def make() -> ArrayPass:
            return array_pass(
                self.accelerator,
                (ints(1), size("m", m), size("k", k), size("n", n)),
                self.tiles.stationarity,
                self.problem.widths,
                accumulate=accumulate,
            )

        return self.shared.array_pass((self.tiles.stationarity, m, k, n, accumulate), make)

    def _passes(self) -> list[tuple[Ints, ArrayPass]]:
        """Give each kind of tile GEMM with how often it runs (for all g)."""
        ms, ns = (split(self.problem.extent(r), self.tile[r]) for r in "mn")
        return [
            (
                self.problem.g * ms[m][0] * ns[n][0] * n_k,
                self._pass(m, k, n, accumulate=accumulate),
            )
            for m, n in product((0, 1), (0, 1))
            for n_k, k, accumulate in self._reduction()
        ]

    def _reduction(self) -> list[tuple[Ints, int, bool]]:
        """Steps of k: the first starts the sums, the others add to them."""
        (full, _), (edge, _) = split(self.problem.extent("k"), self.tile["k"])
        return [(np.ones_like(full), 0, False), (full - 1, 0, True), (edge, 1, True)]

    def loads(self, name: str) -> Ints:
        """How many tiles of a tensor come by, all g."""
        first, second = _RANKS[name]
        tiles = self.trips[first] * self.trips[second]
        return ints(self.problem.g * tiles * self.repeats[name])

    def slots(self, name: str) -> Ints:
        """Slots of a tile: one if it is loaded only once.

        Partial sums have no more than they have tiles in one step of the reduction.
        """
        slots = ints(dict(zip(_RANKS, self.tiles.slots, strict=True))[name])
        if name == "out":
            order = self.tiles.order
            inside = ints(1)
            for rank in order[order.index("k") + 1 :]:
                inside = inside * self.trips[rank]
            slots = ints(np.where(self.spills, np.minimum(slots, inside), slots))
        return np.where(self.loads(name) > 1, slots, 1)

    def kept(self, name: str) -> bool:
        return {"a": self.problem.kept_a, "out": self.problem.kept_out}.get(name, False)

    def leaf(self, m: int, k: int, n: int) -> Ints:
        """Cycles of one tile GEMM; a reduction in several steps adds to what is there."""
        adds = self._pass(m, k, n, accumulate=True).cycles
        if k:
            return adds
        starts = self._pass(m, k, n, accumulate=False).cycles
        return np.where(self.trips["k"] > 1, adds, starts)

    def work(self) -> Work:
        """Put everything together."""
        problem, g = self.problem, self.problem.g
        passes = self._passes()

        def total(what: str) -> Ints:
            return self.shared.total(
                (self.tiles.stationarity, what),
                lambda: np.asarray(sum(n * getattr(one, what) for n, one in passes)),
            )

        moved = self._moved(total)
        loads = {n: g * self.repeats[n] for n in ("a", "b") if not self.kept(n)}
        if not problem.kept_out:
            loads["out"] = g * (self.repeats["out"] - 1)
        stores = g * self.repeats["out"] * int(not problem.kept_out)
        traffic = self.traffic

        def loaded(cost: Cost) -> Ints:
            return ints(sum(n * self._over(name, cost) for name, n in loads.items()))

        def stored(cost: Cost) -> Ints:
            return ints(stores * self._over("out", cost))

        chain, dram = total("cycles"), loaded(traffic.dram) + stored(traffic.dram)
        reads, writes = stored(traffic.read), loaded(traffic.write)
        own_reads, own_writes = total("read_port"), total("write_port")
        slow = contention(chain, ((own_reads, reads), (own_writes, writes)))
        return Work(
            macs=ints(g * problem.m * problem.k * problem.n),
            elements=ints(0),
            moved=moved,
            tiles=self._buffer(),
            array=total("compute"),
            sfu=ints(0),
            dram=dram,
            read_port=own_reads + reads,
            write_port=own_writes + writes,
            chain=chain,
            pace=_Paces(self, slow).cycles(),
            fill=self._fill(),
            drain=self._drain(),
        )

    def _moved(self, sums: Callable[[str], Ints]) -> dict[tuple[str, str], Ints]:
        problem, g = self.problem, self.problem.g
        a, b, out = problem.names
        size = {
            "a": g * problem.m * problem.k * problem.widths.a,
            "b": g * problem.k * problem.n * problem.widths.b,
            "out": g * problem.m * problem.n * problem.widths.out,
        }
        in_a = size["a"] * self.repeats["a"] * int(not problem.kept_a)
        in_b = size["b"] * self.repeats["b"]
        in_out = size["out"] * (self.repeats["out"] - 1) * int(not problem.kept_out)
        stored = size["out"] * self.repeats["out"] * int(not problem.kept_out)
        return {
            ("dram_read", a): in_a,
            ("dram_read", b): in_b,
            ("dram_read", out): in_out,
            ("dram_write", out): stored,
            ("buffer_write", a): in_a,
            ("buffer_write", b): in_b,
            ("buffer_write", out): in_out + sums("out_bytes"),
            ("buffer_read", a): sums("a_bytes"),
            ("buffer_read", b): sums("b_bytes"),
            ("buffer_read", out): stored + sums("sums_bytes"),
            ("noc_distribution", f"{a},{b}"): sums("distribution_bytes"),
            ("noc_collection", out): sums("out_bytes"),
        }

    def _tile_bytes(self, name: str) -> Ints:
        first, second = _RANKS[name]
        return ints(self.tile[first] * self.tile[second] * getattr(self.problem.widths, name))

    def _buffer(self) -> dict[str, tuple[Ints, Ints]]:
        """Space by tile; partial sums that come and go are a tile of their own."""
        space = {
            name: (self._tile_bytes(role), self.slots(role))
            for role, name in zip(_RANKS, self.problem.names, strict=True)
            if not self.kept(role)
        }
        if not self.kept("out"):
            name = self.problem.names[2]
            n_bytes, slots = space[name]
            space[name] = (n_bytes * ~self.spills, slots * ~self.spills)
            space[f"{name}_sums"] = (n_bytes * self.spills, slots * self.spills)
        return space

    def _fill(self) -> Ints:
        """First operands: both are loaded at the same time and share the channel."""
        names = [n for n in ("a", "b") if not self.kept(n)]
        service = sum(self.traffic.dram(self._tile_bytes(n)) for n in names)
        return np.asarray(service + self.traffic.latency)

    def _last_size(self, rank: str) -> Ints:
        return (self.problem.extent(rank) - 1) % self.tile[rank] + 1

    def _drain(self) -> Ints:
        if self.problem.kept_out:
            return ints(0)
        n_bytes = self._last_size("m") * self._last_size("n") * self.problem.widths.out
        return self.traffic.dram(n_bytes)


class _Paces:
    """The steps of the tile loops, from the innermost to the outermost."""

    def __init__(self, nest: _Nest, slow: Floats) -> None:
        self.nest, self.slow = nest, slow
        self.order = nest.tiles.order
        self.slots = Slots(
            latency=nest.traffic.latency,
            turnaround=nest.accelerator.dram.turnaround_cycles,
            come=np.minimum(self._slots("a"), self._slots("b")),
            go=self._slots("out"),
            chained=nest.spills,
        )
        self.depth = {name: self._depth(name) for name in _RANKS}

    def _slots(self, name: str) -> Ints:
        """Slots of a tensor's tile; many if it comes once, then it holds nothing up."""
        nest = self.nest
        return np.where(nest.loads(name) > 1, nest.slots(name), _MANY)

    def _depth(self, name: str) -> Ints:
        """How many loops stand outside a tensor's tile: up to the last one over its ranks."""
        depth = ints(0)
        for index, rank in enumerate(self.order, 1):
            if rank in _RANKS[name]:
                depth = ints(np.where(self.nest.trips[rank] > 1, index, depth))
        return depth

    def cycles(self) -> Ints:
        """Cycles of all g, without the first fill and the last drain."""
        body = self._body(0, {}, {})
        g = ints(self.nest.problem.g)
        never = np.zeros((), dtype=bool)
        nothing = Step(np.zeros(()), Flow(), Flow())
        return ints(loop_cycles((g, body), (ints(0), nothing), self.slots, never))

    def _body(self, depth: int, sizes: dict[str, Ints], kinds: dict[str, int]) -> Step:
        own = self._transfers(depth, sizes)
        if depth == len(self.order):
            return Step(self.nest.leaf(**kinds) * self.slow, Flow(), own)
        nest, rank = self.nest, self.order[depth]
        (n, size), (has, rest) = split(nest.problem.extent(rank), nest.tile[rank])
        full = self._body(depth + 1, sizes | {rank: size}, kinds | {rank: 0})
        edge = self._body(depth + 1, sizes | {rank: np.maximum(rest, 1)}, kinds | {rank: 1})
        outside = [nest.trips[r] for r in self.order[:depth]]
        cyclic = np.asarray(most(ints(nest.problem.g), *outside) > 1)
        work = loop_cycles((n, full), (has, edge), self.slots, cyclic)
        inside = full.dram.times(n).plus(edge.dram.times(has))
        return Step(work, inside, own)

    def _transfers(self, depth: int, sizes: dict[str, Ints]) -> Flow:
        """Loads and stores that stand in the body below ``depth`` loops."""
        flow = Flow()
        for name, (first, second) in _RANKS.items():
            if self.nest.kept(name):
                continue
            high = sizes.get(first, self.nest.tile[first])
            wide = sizes.get(second, self.nest.tile[second])
            n_bytes = high * wide * getattr(self.nest.problem.widths, name)
            here = np.asarray(self.depth[name] == depth)
            if not here.any():
                continue
            service = here * self.nest.traffic.dram(n_bytes) * 1.0
            turns = here * self.nest.traffic.turns(n_bytes) * 1.0
            # partial sums come back for every step of the reduction but the first
            again = 1 - 1 / self.nest.trips["k"] if name == "out" else np.ones(())
            again = np.where(self.nest.spills, again, name != "out")
            flow = flow.plus(Flow(load=service, load_turns=turns).times(again))
            if name == "out":
                flow = flow.plus(Flow(store=service, store_turns=turns))
        return flow
