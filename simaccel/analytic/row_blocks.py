"""Row blocks of fused attention: what one costs, and how its parts overlap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.array import ArrayPass, Widths, array_pass
from simaccel.analytic.attention import AttentionProblem, SfuPass, sfu_pass
from simaccel.analytic.pace import Flow
from simaccel.analytic.work import Ints, Level, Traffic, ceil_div, ints, most, split
from simaccel.hardware import Accelerator, Stationarity


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


@dataclass
class Sums:
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
class RowTimes:
    """One row block: cycles between two of them, beyond them, DRAM service of streamed keys.

    A lone block of a pipelined loop takes ``lone`` cycles more, a loop of several ``ends``.
    """

    steady: Ints
    lone: Ints
    ends: Ints
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


class RowBlocks:
    """Books what row blocks do (``sums``) and gives the times of each kind of block."""

    def __init__(
        self, problem: AttentionProblem, tiles: FusedTiles, accelerator: Accelerator
    ) -> None:
        self.problem, self.tiles, self.accelerator = problem, tiles, accelerator
        self.traffic = Traffic(accelerator)
        self.heads = np.minimum(tiles.heads, problem.g)
        self.rows = np.minimum(tiles.rows, problem.q)
        self.keys = np.minimum(tiles.keys, problem.c)
        self.streamed = np.asarray((self.keys < problem.c) | tiles.online)
        self.sums = Sums()
        w = problem.widths
        self.logit_widths = Widths(w["q"], w["k"], problem.tile_width)
        self.attend_widths = Widths(problem.tile_width, w["v"], w["z"])
        self.s_name = problem.tile_name

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

    def _sfu(self, times: Ints, step: str, elements: Ints, tensor: str, width: int) -> SfuPass:
        """Book SFU work that runs ``times`` times."""
        one = sfu_pass(self.accelerator, step, elements, width)
        sums = self.sums
        sums.sfu = sums.sfu + times * one.lanes
        sums.elements = sums.elements + times * one.elements
        sums.read_port = sums.read_port + times * one.read_port
        sums.write_port = sums.write_port + times * one.write_port
        sums.move("buffer_read", tensor, times * one.read_bytes)
        sums.move("buffer_write", tensor, times * one.write_bytes)
        return one

    def book(self, times: Ints, heads: Ints, rows: Ints) -> RowTimes:
        """Book ``times`` row blocks of ``rows`` rows of ``heads`` heads."""
        kind = self._online if self.tiles.online else self._whole
        block = kind(times, heads, rows)
        self.sums.chain = self.sums.chain + times * block.steady
        return block

    def _whole(self, times: Ints, heads: Ints, rows: Ints) -> RowTimes:
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
            k_all = k_all.plus(self.load("k", heads, keys).times(n))
            v_all = v_all.plus(self.load("v", heads, keys).times(n))
        elements = heads * rows * problem.c
        softmax = self._sfu(times, "whole", elements, self.s_name, problem.tile_width)
        ahead = np.minimum(self.tiles.slots[0], ceil_div(ints(problem.c), self.keys))
        k_ahead = ahead * self.load("k", heads, self.keys).load
        v_ahead = ahead * self.load("v", heads, self.keys).load
        q_and_z = self.q_and_z(heads, rows)
        l_dram = k_all.load - k_ahead + v_ahead + q_and_z.load + q_and_z.store
        a_dram = v_all.load - v_ahead + np.maximum(0, k_ahead - softmax.cycles)
        latency = ceil_div(ints(problem.c), self.keys) * self.traffic.latency
        l_ring = (logit.cycles + k_all.load + latency) / self.tiles.slots[0]
        a_ring = (attend.cycles + v_all.load + latency) / self.tiles.slots[0]
        l_wait = self.streamed * np.maximum(0, np.maximum(l_dram, l_ring) - logit.cycles)
        a_wait = self.streamed * np.maximum(0, np.maximum(a_dram, a_ring) - attend.cycles)
        alone = ints(logit.cycles + softmax.cycles + attend.cycles + l_wait + a_wait)
        streamed = k_all.plus(v_all).times(self.streamed)
        if not self.tiles.pipelined:
            return RowTimes(alone, ints(0), ints(0), streamed)
        # softmax of one block runs behind A of the block before, then behind L of the next
        array = ints(logit.cycles + attend.beside(softmax) + l_wait + a_wait)
        steady = most(array, attend.slowed(softmax))
        # the last softmax runs behind A of the block before, unless there is none
        ends = ints(np.maximum(0, softmax.cycles - attend.cycles))
        return RowTimes(steady, alone - steady, ends, streamed)

    def _online(self, times: Ints, heads: Ints, rows: Ints) -> RowTimes:
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
            flow = self.load("k", heads, keys).plus(self.load("v", heads, keys))
            arrives = ints(flow.load) + self.traffic.latency
            one = ints(logit.cycles + softmax.cycles + corrected + attend.cycles)
            one = most(one, ints(flow.load), (one + arrives) // self.tiles.slots[0])
            streamed = streamed.plus(flow.times(n))
            if self.tiles.pipelined and accumulate:
                behind = _Share().plus(ints(1), attend)
                # softmax of the next tile runs behind A, the correction behind the next L
                steady = most(
                    most(behind.beside(softmax), behind.slowed(softmax)) + corrected,
                    behind.beside(softmax) + _Share().plus(ints(1), logit).beside(rescale),
                    ints(flow.load),
                )
                steady = most(steady, (steady + arrives) // self.tiles.slots[0])
                total = total + np.where(n > 1, one + (n - 1) * steady, n * one)
            else:
                total = total + n * one
        divide = self._sfu(times, "divide", out, problem.names["z"], z_width).cycles
        # the array is at L of the next block while the SFU divides
        between = np.maximum(0, divide - logit.cycles)
        return RowTimes(ints(total + between), ints(0), ints(0), streamed)

    @staticmethod
    def beyond(n: Ints, times: RowTimes) -> Ints:
        """Cycles of a pipelined loop of ``n`` blocks beyond its steady steps."""
        return np.where(n > 1, times.ends, (n > 0) * times.lone)

    def _key_steps(self) -> list[tuple[Ints, Ints, bool]]:
        """Key tiles of a row block: the first starts the sums of A, the others add."""
        (full, size), (edge, rest) = split(ints(self.problem.c), self.keys)
        one = np.ones_like(np.asarray(self.keys))
        return [(one, size, False), (full - 1, size, True), (edge, np.maximum(rest, 1), True)]

    def q_and_z(self, heads: Ints, rows: Ints) -> Flow:
        """Traffic of one row block's Q and Z."""
        z = self.load("z", heads, rows)
        return self.load("q", heads, rows).plus(Flow(store=z.load, store_turns=z.load_turns))

    def load(self, role: str, heads: Ints, extent: Ints) -> Flow:
        """Traffic of one tile, loaded."""
        depth = self.problem.d if role in "qk" else self.problem.e
        n_bytes = heads * extent * depth * self.problem.widths[role]
        return Flow(
            load=self.traffic.dram(n_bytes) * 1.0, load_turns=self.traffic.turns(n_bytes) * 1.0
        )
