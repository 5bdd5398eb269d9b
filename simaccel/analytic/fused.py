"""Closed form of fused attention: FLAT-tiles of whole rows, or key tiles (flash)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.array import Widths, array_pass
from simaccel.analytic.attention import AttentionProblem, sfu_pass
from simaccel.analytic.work import (
    Cost,
    Ints,
    Level,
    Traffic,
    Work,
    ceil_div,
    ints,
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
class _Pace:
    """Times of one key tile of one row block: L, softmax, A."""

    logit: Ints
    softmax: Ints
    attend: Ints


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
        for n_g, heads in split(ints(self.problem.g), self.heads):
            for n_q, rows in split(ints(self.problem.q), self.rows):
                self._block(n_g * n_q, np.maximum(heads, 1), np.maximum(rows, 1), n_q)
        load, store = self._dram("dram")
        moved = self._moved()
        return Work(
            macs=ints(
                self.problem.g * self.problem.q * self.problem.c * (self.problem.d + self.problem.e)
            ),
            elements=self.sums.elements,
            moved=moved,
            tiles=self._buffer(),
            array=self.sums.array,
            sfu=self.sums.sfu,
            dram=sum(load.values(), ints(0)) + store,
            turnarounds=self._stored(self.traffic.turns),
            read_port=self.sums.read_port + self._stored(self.traffic.read),
            write_port=self.sums.write_port + sum(self._dram("write")[0].values(), ints(0)),
            chain=self.sums.chain,
            fill=self._fill(),
            drain=self._drain(),
            last=self._last(),
            rings=self._rings(load, store),
        )

    # -- what one row block does -------------------------------------------------------

    def _gemm(
        self, times: Ints, shape: tuple[Ints, Ints, Ints, Ints], which: int, *, accumulate: bool
    ) -> Ints:
        """Book a GEMM that runs ``times`` times; give the cycles of one."""
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
        return one.cycles

    def _sfu(self, times: Ints, work: SfuWork, elements: Ints, tensor: str, width: int) -> Ints:
        """Book SFU work that runs ``times`` times; give the cycles of one."""
        one = sfu_pass(self.accelerator, work, elements, width)
        sums = self.sums
        sums.sfu = sums.sfu + times * one.lanes
        sums.elements = sums.elements + times * one.elements
        sums.read_port = sums.read_port + times * one.read_port
        sums.write_port = sums.write_port + times * one.write_port
        sums.move("buffer_read", tensor, times * one.read_bytes)
        sums.move("buffer_write", tensor, times * one.write_bytes)
        return one.cycles

    def _block(self, times: Ints, heads: Ints, rows: Ints, in_loop: Ints) -> None:
        """Book ``times`` row blocks of ``rows`` rows of ``heads`` heads."""
        if self.tiles.online:
            chain = self._online(times, heads, rows)
        else:
            chain = self._whole(times, heads, rows, in_loop)
        self.sums.chain = self.sums.chain + chain

    def _whole(self, times: Ints, heads: Ints, rows: Ints, in_loop: Ints) -> Ints:
        """Whole rows: all of L, then softmax, then all of A."""
        problem = self.problem
        logit = attend = slow_logit = slow_attend = ints(0)
        for n, keys, accumulate in self._key_steps():
            per = times * n
            l_one = self._gemm(per, (heads, rows, ints(problem.d), keys), 0, accumulate=False)
            a_one = self._gemm(per, (heads, rows, keys, ints(problem.e)), 1, accumulate=accumulate)
            logit, attend = logit + n * l_one, attend + n * a_one
            k_load = self.traffic.dram(heads * keys * problem.d * problem.widths["k"])
            v_load = self.traffic.dram(heads * keys * problem.e * problem.widths["v"])
            slow_logit = slow_logit + n * np.maximum(l_one, k_load)
            slow_attend = slow_attend + n * np.maximum(a_one, v_load)
        elements = heads * rows * problem.c
        softmax = self._sfu(times, "softmax", elements, self.s_name, problem.tile_width)
        # streamed keys: K comes in during L only, V during A only, but for the slots ahead
        ahead = self.tiles.slots[0]
        steps = ceil_div(ints(problem.c), self.keys)
        spared = np.maximum(0, steps - ahead) / np.maximum(1, steps)
        logit = np.where(
            self.streamed, logit + ((slow_logit - logit) * spared).astype(np.int64), logit
        )
        attend = np.where(
            self.streamed, attend + ((slow_attend - attend) * spared).astype(np.int64), attend
        )
        pace = _Pace(logit, softmax, attend)
        if not self.tiles.pipelined:
            return times * (logit + softmax + attend)
        return self._overlapped(times, pace, in_loop)

    def _overlapped(self, times: Ints, pace: _Pace, in_loop: Ints) -> Ints:
        """Softmax of one block behind L of the next (and A of the one before).

        A loop of n blocks: the first L, n - 1 steady steps, the last softmax and A.
        """
        whole_head = self.rows >= self.problem.q
        loops = np.where(
            self.streamed | ~whole_head,
            ceil_div(times, np.maximum(in_loop, 1)),
            np.minimum(times, 1),
        )
        steady = np.maximum(
            np.maximum(pace.logit + pace.attend, pace.softmax),
            pace.attend + np.maximum(pace.logit, np.maximum(0, pace.softmax - pace.attend)),
        )
        return ints(loops * (pace.logit + pace.softmax + pace.attend) + (times - loops) * steady)

    def _online(self, times: Ints, heads: Ints, rows: Ints) -> Ints:
        """Key tiles with online softmax: L, softmax of the tile, correction, A."""
        problem = self.problem
        width, z_width = problem.tile_width, problem.widths["z"]
        out = heads * rows * problem.e
        total = ints(0)
        for n, keys, accumulate in self._key_steps():
            per = times * n
            logit = self._gemm(per, (heads, rows, ints(problem.d), keys), 0, accumulate=False)
            softmax = self._sfu(per, "online", heads * rows * keys, self.s_name, width)
            rescale = ints(0)
            if accumulate:
                rescale = self._sfu(per, "rescale", out, problem.names["z"], z_width)
            attend = self._gemm(per, (heads, rows, keys, ints(problem.e)), 1, accumulate=accumulate)
            one = logit + softmax + rescale + attend
            if self.tiles.pipelined and accumulate:
                steady = np.maximum(
                    attend + np.maximum(logit, rescale),
                    np.maximum(softmax + rescale, logit + attend),
                )
                total = total + np.where(n > 1, one + (n - 1) * steady, n * one)
            else:
                total = total + n * one
        divide = self._sfu(times, "divide", out, problem.names["z"], z_width)
        # the array is at L of the next block while the SFU divides
        return ints(times * (total + np.maximum(0, divide - logit)) + divide)

    def _key_steps(self) -> list[tuple[Ints, Ints, bool]]:
        """Key tiles of a row block: the first starts the sums of A, the others add."""
        (full, size), (edge, rest) = split(ints(self.problem.c), self.keys)
        one = np.ones_like(np.asarray(self.keys))
        return [(one, size, False), (full - 1, size, True), (edge, np.maximum(rest, 1), True)]

    # -- DRAM -----------------------------------------------------------------------

    def _dram(self, what: str) -> tuple[dict[str, Ints], Ints]:
        """Service of all loads by role, and of all stores."""
        problem, cost = self.problem, getattr(self.traffic, what)
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

    def _last(self) -> Ints:
        """What array and SFU still do when the DRAM has delivered the last tile."""
        blocks = ceil_div(ints(self.problem.g), self.heads) * ceil_div(
            ints(self.problem.q), self.rows
        )
        steps = np.where(self.streamed, ceil_div(ints(self.problem.c), self.keys), 1)
        return self.sums.chain // (blocks * steps) + self.traffic.latency

    def _rings(self, load: dict[str, Ints], store: Ints) -> list[Ints]:
        """Per tile: load, latency, use and store of all instances, divided by the slots."""
        problem, chain = self.problem, self.sums.chain
        blocks = ceil_div(ints(problem.q), self.rows)
        g = ceil_div(ints(problem.g), self.heads)
        steps = np.where(self.streamed, blocks * ceil_div(ints(problem.c), self.keys), 1)
        count = {"q": g * blocks, "k": g * steps, "v": g * steps}
        into, out, _ = self.tiles.slots
        rings = [(chain + load[r] + count[r] * self.traffic.latency) // into for r in "qkv"]
        return [*rings, (chain + store) // out]
