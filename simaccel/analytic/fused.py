"""Closed form of fused attention: FLAT-tiles of whole rows, or key tiles (flash)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.array import ArrayPass, Widths, array_pass
from simaccel.analytic.attention import AttentionProblem, SfuPass, sfu_pass
from simaccel.analytic.pace import Flow, Slots, Step, loop_cycles
from simaccel.analytic.work import (
    Bools,
    Cost,
    Floats,
    Ints,
    Level,
    Traffic,
    Work,
    ceil_div,
    contention,
    ints,
    most,
    over_blocks,
    split,
)
from simaccel.hardware import Accelerator, SfuWork, Stationarity


@dataclass(frozen=True, kw_only=True)
class FusedTiles:
    """Candidate fused mappings: arrays of heads, rows and keys; the rest is common to all."""

    heads: Ints
    rows: Ints
    keys: Ints
    online: bool
    pipelined: bool
    stationarity: tuple[Stationarity, Stationarity]
    slots: tuple[int, int, int]
    """Slots of the inputs (Q, K, V), of the output Z, of the intermediate S."""


def fused_work(problem: AttentionProblem, tiles: FusedTiles, accelerator: Accelerator) -> Work:
    """Predict a fused mapping: work of every resource, bytes, buffer and pace."""
    return _Fused(problem, tiles, accelerator).work()


@dataclass
class _Sums:
    """What all row blocks do together."""

    chain: Ints = field(default_factory=lambda: ints(0))
    array: Ints = field(default_factory=lambda: ints(0))
    sfu: Ints = field(default_factory=lambda: ints(0))
    elements: Ints = field(default_factory=lambda: ints(0))
    read_port: Ints = field(default_factory=lambda: ints(0))
    write_port: Ints = field(default_factory=lambda: ints(0))
    moved: dict[Level, Ints] = field(default_factory=dict)

    def move(self, level: str, tensor: str, n_bytes: Ints) -> None:
        """Count bytes."""
        self.moved[level, tensor] = self.moved.get((level, tensor), ints(0)) + n_bytes


@dataclass(frozen=True)
class _Rows:
    """One row block: cycles between two, of one alone, and DRAM service of streamed keys."""

    steady: Ints
    alone: Ints
    streamed: Flow


@dataclass(frozen=True)
class _Share:
    """What GEMMs need of the buffer ports while the SFU uses them too."""

    cycles: Ints = field(default_factory=lambda: ints(0))
    read: Ints = field(default_factory=lambda: ints(0))
    write: Ints = field(default_factory=lambda: ints(0))

    def plus(self, times: Ints, one: ArrayPass) -> _Share:
        """Add GEMMs."""
        return _Share(
            self.cycles + times * one.cycles,
            self.read + times * one.read_port,
            self.write + times * one.write_port,
        )

    def beside(self, sfu: SfuPass) -> Ints:
        """Cycles beside SFU work: while both use a port, each gets every second cycle of it."""
        late = np.zeros(())
        for own, other in ((self.read, sfu.read_port), (self.write, sfu.write_port)):
            together = np.minimum(1.0, other / np.maximum(1, own))
            late = np.maximum(late, together * np.maximum(0, 2 * own - self.cycles))
        return ints(self.cycles + late)

    def slowed(self, sfu: SfuPass) -> Ints:
        """Cycles of the SFU work beside these GEMMs."""
        return most(
            sfu.cycles,
            sfu.read_port + np.minimum(self.read, sfu.read_port),
            sfu.write_port + np.minimum(self.write, sfu.write_port),
        )


class _Fused:
    def __init__(
        self, problem: AttentionProblem, tiles: FusedTiles, accelerator: Accelerator
    ) -> None:
        self.problem, self.tiles, self.accelerator = problem, tiles, accelerator
        self.traffic = Traffic(accelerator)
        self.heads = np.minimum(tiles.heads, problem.g)
        self.rows = np.minimum(tiles.rows, problem.q)
        self.keys = np.minimum(tiles.keys, problem.c)
        self.streamed = np.asarray((self.keys < problem.c) | tiles.online)
        self.sums = _Sums()
        w = problem.widths
        self.logit_widths = Widths(w["q"], w["k"], problem.tile_width)
        self.attend_widths = Widths(problem.tile_width, w["v"], w["z"])
        self.s_name = problem.tile_name

    def work(self) -> Work:
        """Put everything together."""
        problem, traffic, sums = self.problem, self.traffic, self.sums
        blocks = self._blocks()
        load, store = self._dram(traffic.dram)
        reads, writes = self._stored(traffic.read), ints(sum(self._dram(traffic.write)[0].values()))
        dram = ints(sum(load.values())) + store
        slow = contention(sums.chain, ((sums.read_port, reads), (sums.write_port, writes)))
        return Work(
            macs=ints(problem.g * problem.q * problem.c * (problem.d + problem.e)),
            elements=sums.elements,
            moved=self._moved(),
            tiles=self._buffer(),
            array=sums.array,
            sfu=sums.sfu,
            dram=dram,
            read_port=sums.read_port + reads,
            write_port=sums.write_port + writes,
            chain=sums.chain,
            pace=self._pace(blocks, slow),
            fill=self._fill(),
            drain=self._drain(),
        )

    def _blocks(self) -> list[list[tuple[Ints, Ints, _Rows]]]:
        """Book all row blocks; give (count, rows, times) by heads (full, edge) and rows."""
        found = []
        for n_g, heads in split(ints(self.problem.g), self.heads):
            found.append(
                [
                    (n_q, rows, self._block(n_g * n_q, np.maximum(heads, 1), np.maximum(rows, 1)))
                    for n_q, rows in split(ints(self.problem.q), self.rows)
                ]
            )
        return found

    def _pace(self, blocks: list[list[tuple[Ints, Ints, _Rows]]], slow: Floats) -> Ints:
        """Cycles of all row blocks beside the transfers of their neighbours."""
        problem = self.problem
        slots = Slots(
            latency=self.traffic.latency,
            turnaround=self.accelerator.dram.turnaround_cycles,
            single_in=np.asarray(self.tiles.slots[0] == 1),
            single_out=np.asarray(self.tiles.slots[1] == 1),
            chained=np.zeros((), dtype=bool),
        )
        head_blocks = split(ints(problem.g), self.heads)
        cyclic = np.asarray(ceil_div(ints(problem.g), self.heads) > 1)
        whole = np.asarray(self.rows >= problem.q)  # one row block: Q and Z come with the heads
        steps = []
        for (_, heads), by_rows in zip(head_blocks, blocks, strict=True):
            full, edge = (
                Step(
                    times.steady * slow,
                    times.streamed,
                    self._q_and_z(heads, rows).times(~whole),
                )
                for _, rows, times in by_rows
            )
            n_full, n_edge = by_rows[0][0], by_rows[1][0]
            # each software-pipelined loop (of full blocks, of the last one) starts anew
            start = sum(
                (n > 0) * (times.alone - times.steady) * self._restarts() for n, _, times in by_rows
            )
            work = loop_cycles((n_full, full), (n_edge, edge), slots, cyclic) + start * slow
            inside = full.dram.times(n_full).plus(edge.dram.times(n_edge))
            keys = ints(problem.c)
            k_and_v = self._load("k", heads, keys).plus(self._load("v", heads, keys))
            own = k_and_v.times(~self.streamed)
            own = own.plus(self._q_and_z(heads, self.rows).times(whole))
            steps.append(Step(work, inside, own))
        (n_full, _), (n_edge, _) = head_blocks
        never = np.zeros((), dtype=bool)
        total = loop_cycles((n_full, steps[0]), (n_edge, steps[1]), slots, never)
        starts = sum(
            (n > 0) * (by_rows[0][2].alone - by_rows[0][2].steady)
            for (n, _), by_rows in zip(head_blocks, blocks, strict=True)
        )
        return ints(total + starts * ~self._restarts())

    def _q_and_z(self, heads: Ints, rows: Ints) -> Flow:
        """Traffic of one row block's Q and Z."""
        z = self._load("z", heads, rows)
        return self._load("q", heads, rows).plus(Flow(store=z.load, store_turns=z.load_turns))

    def _load(self, role: str, heads: Ints, extent: Ints) -> Flow:
        """Traffic of one tile, loaded."""
        depth = self.problem.d if role in "qk" else self.problem.e
        n_bytes = heads * extent * depth * self.problem.widths[role]
        return Flow(
            load=self.traffic.dram(n_bytes) * 1.0, load_turns=self.traffic.turns(n_bytes) * 1.0
        )

    def _restarts(self) -> Bools:
        """Whether the software pipeline starts anew in each head block."""
        return np.asarray(self.streamed | (self.rows < self.problem.q))

    # -- what one row block does -------------------------------------------------------

    def _gemm(
        self, times: Ints, shape: tuple[Ints, Ints, Ints, Ints], which: int, *, accumulate: bool
    ) -> ArrayPass:
        """Book a GEMM that runs ``times`` times."""
        widths = (self.logit_widths, self.attend_widths)[which]
        n = self.problem.names
        a, b, out = ((n["q"], n["k"], self.s_name), (self.s_name, n["v"], n["z"]))[which]
        one = array_pass(
            self.accelerator,
            shape,
            self.tiles.stationarity[which],
            widths,
            accumulate=accumulate,
        )
        sums = self.sums
        sums.array = sums.array + times * one.compute
        sums.read_port = sums.read_port + times * one.read_port
        sums.write_port = sums.write_port + times * one.write_port
        sums.move("buffer_read", a, times * one.a_bytes)
        sums.move("buffer_read", b, times * one.b_bytes)
        sums.move("buffer_read", out, times * one.sums_bytes)
        sums.move("buffer_write", out, times * one.out_bytes)
        sums.move("noc_distribution", f"{a},{b}", times * one.distribution_bytes)
        sums.move("noc_collection", out, times * one.out_bytes)
        return one

    def _sfu(self, times: Ints, work: SfuWork, elements: Ints, tensor: str, width: int) -> SfuPass:
        """Book SFU work that runs ``times`` times."""
        one = sfu_pass(self.accelerator, work, elements, width)
        sums = self.sums
        sums.sfu = sums.sfu + times * one.lanes
        sums.elements = sums.elements + times * one.elements
        sums.read_port = sums.read_port + times * one.read_port
        sums.write_port = sums.write_port + times * one.write_port
        sums.move("buffer_read", tensor, times * one.read_bytes)
        sums.move("buffer_write", tensor, times * one.write_bytes)
        return one

    def _block(self, times: Ints, heads: Ints, rows: Ints) -> _Rows:
        """Book ``times`` row blocks of ``rows`` rows of ``heads`` heads."""
        book = self._online if self.tiles.online else self._whole
        block = book(times, heads, rows)
        self.sums.chain = self.sums.chain + times * block.steady
        return block

    def _whole(self, times: Ints, heads: Ints, rows: Ints) -> _Rows:
        """Whole rows: all of L, then softmax, then all of A.

        Streamed K tiles come in during L and V tiles during A, but for those that the slots hold
        ahead: V's first ones come during L, as do Q and Z; K's during softmax and A.
        """
        problem = self.problem
        logit, attend = _Share(), _Share()
        k_all, v_all = Flow(), Flow()
        for n, keys, accumulate in self._key_steps():
            per = times * n
            l_one = self._gemm(per, (heads, rows, ints(problem.d), keys), 0, accumulate=False)
            a_one = self._gemm(per, (heads, rows, keys, ints(problem.e)), 1, accumulate=accumulate)
            logit, attend = logit.plus(n, l_one), attend.plus(n, a_one)
            k_all = k_all.plus(self._load("k", heads, keys).times(n))
            v_all = v_all.plus(self._load("v", heads, keys).times(n))
        elements = heads * rows * problem.c
        softmax = self._sfu(times, "softmax", elements, self.s_name, problem.tile_width)
        ahead = np.minimum(self.tiles.slots[0], ceil_div(ints(problem.c), self.keys))
        k_ahead = ahead * self._load("k", heads, self.keys).load
        v_ahead = ahead * self._load("v", heads, self.keys).load
        ends = self._q_and_z(heads, rows)
        l_dram = k_all.load - k_ahead + v_ahead + ends.load + ends.store
        a_dram = v_all.load - v_ahead + np.maximum(0, k_ahead - softmax.cycles)
        latency = ceil_div(ints(problem.c), self.keys) * self.traffic.latency
        l_ring = (logit.cycles + k_all.load + latency) / self.tiles.slots[0]
        a_ring = (attend.cycles + v_all.load + latency) / self.tiles.slots[0]
        l_wait = self.streamed * np.maximum(0, np.maximum(l_dram, l_ring) - logit.cycles)
        a_wait = self.streamed * np.maximum(0, np.maximum(a_dram, a_ring) - attend.cycles)
        alone = ints(logit.cycles + softmax.cycles + attend.cycles + l_wait + a_wait)
        streamed = k_all.plus(v_all).times(self.streamed)
        if not self.tiles.pipelined:
            return _Rows(alone, alone, streamed)
        # softmax of one block runs behind A of the block before, then behind L of the next
        array = ints(logit.cycles + attend.beside(softmax) + l_wait + a_wait)
        return _Rows(most(array, attend.slowed(softmax)), alone, streamed)

    def _online(self, times: Ints, heads: Ints, rows: Ints) -> _Rows:
        """Key tiles with online softmax: L, softmax of the tile, correction, A."""
        problem = self.problem
        width, z_width = problem.tile_width, problem.widths["z"]
        out = heads * rows * problem.e
        total, streamed = ints(0), Flow()
        for n, keys, accumulate in self._key_steps():
            per = times * n
            logit = self._gemm(per, (heads, rows, ints(problem.d), keys), 0, accumulate=False)
            softmax = self._sfu(per, "online", heads * rows * keys, self.s_name, width)
            # the correction of the first key tile would have nothing to correct
            rescale = self._sfu(per * int(accumulate), "rescale", out, problem.names["z"], z_width)
            corrected = rescale.cycles * int(accumulate)
            attend = self._gemm(per, (heads, rows, keys, ints(problem.e)), 1, accumulate=accumulate)
            flow = self._load("k", heads, keys).plus(self._load("v", heads, keys))
            arrives = ints(flow.load) + self.traffic.latency
            one = ints(logit.cycles + softmax.cycles + corrected + attend.cycles)
            one = most(one, arrives, (one + arrives) // self.tiles.slots[0])
            streamed = streamed.plus(flow.times(n))
            if self.tiles.pipelined and accumulate:
                behind = _Share().plus(ints(1), attend)
                # softmax of the next tile runs behind A, the correction behind the next L
                steady = most(
                    most(behind.beside(softmax), behind.slowed(softmax)) + corrected,
                    behind.beside(softmax) + _Share().plus(ints(1), logit).beside(rescale),
                    arrives,
                )
                steady = most(steady, (steady + arrives) // self.tiles.slots[0])
                total = total + np.where(n > 1, one + (n - 1) * steady, n * one)
            else:
                total = total + n * one
        divide = self._sfu(times, "divide", out, problem.names["z"], z_width).cycles
        # the array is at L of the next block while the SFU divides
        between = np.maximum(0, divide - logit.cycles)
        return _Rows(ints(total + between), ints(total + divide), streamed)

    def _key_steps(self) -> list[tuple[Ints, Ints, bool]]:
        """Key tiles of a row block: the first starts the sums of A, the others add."""
        (full, size), (edge, rest) = split(ints(self.problem.c), self.keys)
        one = np.ones_like(np.asarray(self.keys))
        return [(one, size, False), (full - 1, size, True), (edge, np.maximum(rest, 1), True)]

    # -- DRAM -----------------------------------------------------------------------

    def _dram(self, cost: Cost) -> tuple[dict[str, Ints], Ints]:
        """Cost of all loads by role, and of all stores."""
        problem = self.problem
        blocks = ceil_div(ints(problem.q), self.rows)
        again = np.where(self.streamed, blocks, 1)
        keys = np.where(self.streamed, self.keys, problem.c)
        load = {
            "q": self._tiles((problem.q, self.rows), problem.d * problem.widths["q"], cost),
            "k": again * self._tiles((problem.c, keys), problem.d * problem.widths["k"], cost),
            "v": again * self._tiles((problem.c, keys), problem.e * problem.widths["v"], cost),
        }
        return load, self._stored(cost)

    def _tiles(self, rank: tuple[int, Ints], bytes_each: int, cost: Cost) -> Ints:
        """Sum a request's cost over head blocks and the tiles of one rank."""
        return over_blocks(
            lambda h, w: cost(h * w * bytes_each),
            (ints(self.problem.g), self.heads),
            (ints(rank[0]), rank[1]),
        )

    def _stored(self, cost: Cost) -> Ints:
        bytes_each = self.problem.e * self.problem.widths["z"]
        return self._tiles((self.problem.q, self.rows), bytes_each, cost)

    def _moved(self) -> dict[Level, Ints]:
        problem, names, widths = self.problem, self.problem.names, self.problem.widths
        again = np.where(self.streamed, ceil_div(ints(problem.q), self.rows), 1)
        size = {
            "q": ints(problem.g * problem.q * problem.d * widths["q"]),
            "k": again * problem.g * problem.c * problem.d * widths["k"],
            "v": again * problem.g * problem.c * problem.e * widths["v"],
        }
        z = ints(problem.g * problem.q * problem.e * widths["z"])
        for role, n_bytes in size.items():
            self.sums.move("dram_read", names[role], n_bytes)
            self.sums.move("buffer_write", names[role], n_bytes)
        self.sums.move("dram_write", names["z"], z)
        self.sums.move("buffer_read", names["z"], z)
        return self.sums.moved

    # -- buffer, fill and drain ----------------------------------------------------------

    def _slot_bytes(self) -> dict[str, Ints]:
        problem, w = self.problem, self.problem.widths
        keys = np.where(self.streamed, self.keys, problem.c)
        wide = keys if self.tiles.online else ints(problem.c)
        return {
            "q": self.heads * self.rows * problem.d * w["q"],
            "k": self.heads * keys * problem.d * w["k"],
            "v": self.heads * keys * problem.e * w["v"],
            "s": self.heads * self.rows * wide * problem.tile_width,
            "z": self.heads * self.rows * problem.e * w["z"],
        }

    def _buffer(self) -> dict[str, tuple[Ints, Ints]]:
        into, out, inter = self.tiles.slots
        slots = {"q": into, "k": into, "v": into, "s": inter, "z": out}
        return {role: (n, ints(slots[role])) for role, n in self._slot_bytes().items()}

    def _fill(self) -> Ints:
        """Q, K and V start together; L waits for Q and K, which share the channel with V."""
        size = self._slot_bytes()
        service = {r: self.traffic.dram(size[r]) for r in "qkv"}
        shared = service["q"] + service["k"] + np.minimum(service["v"], service["k"])
        return shared + self.traffic.latency

    def _drain(self) -> Ints:
        heads = (self.problem.g - 1) % self.heads + 1
        rows = (self.problem.q - 1) % self.rows + 1
        return self.traffic.dram(heads * rows * self.problem.e * self.problem.widths["z"])
