"""Closed form of fused attention: FLAT-tiles of whole rows, or key tiles (flash)."""

from __future__ import annotations

import numpy as np

from simaccel.analytic.attention import AttentionProblem
from simaccel.analytic.pace import Slots, Step, loop_cycles
from simaccel.analytic.row_blocks import FusedTiles, RowBlocks, RowTimes
from simaccel.analytic.work import (
    Bools,
    Cost,
    Floats,
    Ints,
    Level,
    Work,
    ceil_div,
    contention,
    ints,
    most,
    over_blocks,
    split,
)
from simaccel.hardware import Accelerator


def fused_work(problem: AttentionProblem, tiles: FusedTiles, accelerator: Accelerator) -> Work:
    """Predict a fused mapping: work of every resource, bytes, buffer and pace."""
    return _Fused(problem, tiles, accelerator).work()


class _Fused:
    def __init__(
        self, problem: AttentionProblem, tiles: FusedTiles, accelerator: Accelerator
    ) -> None:
        self.problem, self.tiles, self.accelerator = problem, tiles, accelerator
        self.rows_of = RowBlocks(problem, tiles, accelerator)
        self.traffic = self.rows_of.traffic
        self.heads, self.rows, self.keys = (
            self.rows_of.heads,
            self.rows_of.rows,
            self.rows_of.keys,
        )
        self.streamed = self.rows_of.streamed

    def work(self) -> Work:
        """Put everything together."""
        problem, traffic, sums = self.problem, self.traffic, self.rows_of.sums
        blocks = self._blocks()
        load, store = self._dram(traffic.dram)
        reads, writes = self._stored(traffic.read), ints(sum(self._dram(traffic.write)[0].values()))
        dram = ints(sum(load.values())) + store
        slow = contention(sums.chain, ((sums.read_port, reads), (sums.write_port, writes)))
        fill, drain = self._fill(), self._drain()
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
            pace=most(self._pace(blocks, slow), dram + self._last(blocks) - fill - drain),
            fill=fill,
            drain=drain,
        )

    def _blocks(self) -> list[list[tuple[Ints, Ints, RowTimes]]]:
        """Book all row blocks; give (count, rows, times) by heads (full, edge) and rows."""
        found = []
        for n_g, heads in split(ints(self.problem.g), self.heads):
            found.append(
                [
                    (
                        n_q,
                        rows,
                        self.rows_of.book(n_g * n_q, np.maximum(heads, 1), np.maximum(rows, 1)),
                    )
                    for n_q, rows in split(ints(self.problem.q), self.rows)
                ]
            )
        return found

    def _pace(self, blocks: list[list[tuple[Ints, Ints, RowTimes]]], slow: Floats) -> Ints:
        """Cycles of all row blocks beside the transfers of their neighbours."""
        problem = self.problem
        slots = Slots(
            latency=self.traffic.latency,
            turnaround=self.accelerator.dram.turnaround_cycles,
            come=ints(self.tiles.slots[0]),
            go=ints(self.tiles.slots[1]),
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
                    self.rows_of.q_and_z(heads, rows).times(~whole),
                )
                for _, rows, times in by_rows
            )
            n_full, n_edge = by_rows[0][0], by_rows[1][0]
            # each software-pipelined loop (of full blocks, of the last one) starts anew
            start = self._restarts() * sum(self.rows_of.beyond(n, times) for n, _, times in by_rows)
            work = loop_cycles((n_full, full), (n_edge, edge), slots, cyclic) + start * slow
            inside = full.dram.times(n_full).plus(edge.dram.times(n_edge))
            keys = ints(problem.c)
            k_and_v = self.rows_of.load("k", heads, keys).plus(self.rows_of.load("v", heads, keys))
            own = k_and_v.times(~self.streamed)
            own = own.plus(self.rows_of.q_and_z(heads, self.rows).times(whole))
            steps.append(Step(work, inside, own))
        (n_full, _), (n_edge, _) = head_blocks
        never = np.zeros((), dtype=bool)
        total = loop_cycles((n_full, steps[0]), (n_edge, steps[1]), slots, never)
        starts = sum(
            self.rows_of.beyond(n, by_rows[0][2])
            for (n, _), by_rows in zip(head_blocks, blocks, strict=True)
        )
        return ints(total + starts * ~self._restarts())

    def _last(self, blocks: list[list[tuple[Ints, Ints, RowTimes]]]) -> Ints:
        """Cycles behind the last load, if the DRAM has to serve everything else before it."""
        times = blocks[0][0][2]
        return ints((times.steady + times.lone + self.traffic.latency) * ~self.streamed)

    def _restarts(self) -> Bools:
        """Whether the software pipeline starts anew in each head block."""
        return np.asarray(self.streamed | (self.rows < self.problem.q))

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
            self.rows_of.sums.move("dram_read", names[role], n_bytes)
            self.rows_of.sums.move("buffer_write", names[role], n_bytes)
        self.rows_of.sums.move("dram_write", names["z"], z)
        self.rows_of.sums.move("buffer_read", names["z"], z)
        return self.rows_of.sums.moved

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
