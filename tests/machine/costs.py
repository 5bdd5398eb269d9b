"""The cost of each command, and of each fold of a block: own cycles, and what it asks of channels.

The pipes of the NoC belong to the folds alone. Not covered: ports and pipes where PEs have
memories, DRAM with banks, folds that are smaller than the array.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from simaccel.hardware import Accelerator, FoldGrid
from simaccel.numbers import in_bytes
from simaccel.program.program import (
    BUFFER,
    Command,
    Compute,
    Folds,
    Load,
    Sfu,
    Steps,
    Store,
    between_tiles,
    transferred,
)
from tests.machine.stepped import READ, WRITE

Asked = tuple[str, int, int]
"""A channel, the cycles of service that are asked of it, and the direction."""
Work = tuple[int, list[Asked]]
"""Cycles of some work, and what it asks for at once: it ends when all of that is over."""


@dataclass(frozen=True)
class Block:
    """What a systolic array does with a block."""

    lead: int
    """Cycles before the folds."""
    folds: list[Work]
    tail: int
    """Cycles after them until the last result is out."""
    hidden: int
    """Cycles of the last fold's stream."""
    staying: bool
    """Whether sums stay, and streams follow directly."""
    rows: int
    """Rows of the last fold."""
    steps: int
    """Cycles of each stream."""


@dataclass(frozen=True)
class Costs:
    """The costs of a program's commands on an accelerator; each is found once."""

    on: Accelerator
    works: dict[int, Work] = field(default_factory=dict)
    blocks: dict[int, Block] = field(default_factory=dict)

    def work(self, command: Command) -> Work:
        """Return the work of a command that is not a block of folds."""
        if id(command) not in self.works:
            self.works[id(command)] = self._cycles(command), [*self._asked(command)]
        return self.works[id(command)]

    def block(self, command: Compute, folds: Folds) -> Block:
        """Return the folds of a block and what is around them."""
        if id(command) not in self.blocks:
            self.blocks[id(command)] = self._block(command, folds)
        return self.blocks[id(command)]

    def memory(self, command: Command) -> Accelerator:
        """Return the accelerator whose DRAM is where what is loaded or stored lives."""
        of = transferred(command)[0] if isinstance(command, Load | Store) else None
        return self.on.backing(of.kind if of else "")

    def _cycles(self, command: Command) -> int:
        if isinstance(command, Compute) and isinstance(command.on, Steps):
            return command.on.steps * self._pace(command)
        if isinstance(command, Sfu):
            passes = self.on.sfu.chosen(command.does, command.does.merged).passes
            return self.on.sfu.cycles(passes, command.elements)
        return 0

    def _asked(self, command: Command) -> Iterator[Asked]:
        """Yield what a command asks for: a transfer of DRAM and a port, the SFU of both ports."""
        on = self.on
        if isinstance(command, Sfu):
            cost = on.sfu.chosen(command.does, command.does.merged)
            sizes = dict(zip(command.ranks, command.shape, strict=True))
            *given, made = (
                in_bytes(math.prod(tile.view.extent(sizes)), tile.view.bits)
                for tile in (*command.inputs, command.out)
            )
            reads = sum(times * n for times, n in zip(cost.reads, given, strict=False))
            yield "buffer_read", on.read_rate.cycles(reads), READ
            yield "buffer_write", on.write_rate.cycles(cost.writes * made), WRITE
        if not isinstance(command, Load | Store) or between_tiles(command):
            return
        view, moved = transferred(command)
        there, loads = self.memory(command), isinstance(command, Load)
        rate = there.channel_read_rate if loads else there.channel_rate
        for channel in range(there.dram.channels):
            cycles = rate.cycles(there.dram.channel_bytes(moved.outer, channel))
            yield f"{on.memory(view.kind)}{channel}", cycles, READ if loads else WRITE
        if command.tile.place == BUFFER and loads:
            yield "buffer_write", on.write_rate.cycles(moved.inner), WRITE
        elif command.tile.place == BUFFER:
            yield "buffer_read", on.read_rate.cycles(moved.inner), READ

    def _pace(self, command: Compute) -> int:
        """Products of pieces that an array multiplies for one product of operands."""
        native = self.on.array.native_bits or 64
        return math.prod(math.ceil(tile.view.bits / native) for tile in command.inputs)

    def _block(self, command: Compute, folds: Folds) -> Block:
        """Wide operands stream as if there were as many more of them as they have pieces."""
        array, kind = self.on.systolic, folds.stationarity
        g, m, k, n = _blocked(command)
        high, wide, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[kind]
        steps = stream * self._pace(command)
        grid = FoldGrid(high, wide, steps, array.rows, array.cols)
        last = array.fold_cycles(grid.last_rows, grid.last_cols, steps, kind)
        return Block(
            lead=array.lead_cycles(grid, kind),
            folds=g * [*self._folds(command, folds, grid, stream)],
            tail=array.tail_cycles(grid, kind),
            hidden={"stream": steps, "preload": last, "none": 0}[array.overlap],
            staying=kind == "os" and array.overlap == "stream",
            rows=grid.last_rows if array.edge_folds == "used" else array.rows,
            steps=steps,
        )

    def _folds(
        self, command: Compute, folds: Folds, grid: FoldGrid[int], stream: int
    ) -> Iterator[Work]:
        """Yield the folds of a product, strip of columns by strip.

        Each writes its sums. It reads those of the fold before it in a strip whose rows are parts
        of sums, and where the block adds to sums those that are there. Where an accumulator holds
        the sums of a strip, its first fold alone may read some, and its last alone writes.
        """
        on, kind = self.on, folds.stationarity
        a, b, out = (tile.view.bits for tile in (*command.inputs, command.out))
        columns, rows = _cut(grid.wide, grid.cols), _cut(grid.high, grid.rows)
        for wide, (place, high) in product(columns, enumerate(rows)):
            moved = on.systolic.fold_bytes(
                (high, wide), stream, kind, (a, b, out), multicasts=on.noc.distribution.multicasts
            )
            reads, writes = command.accumulate or (place > 0 and kind != "os"), True
            if kind != "os" and on.systolic.accumulator is not None:
                reads, writes = command.accumulate and place == 0, place == len(rows) - 1
            made = moved.out * writes
            cycles = max(
                on.systolic.fold_cycles(high, wide, grid.stream, kind, grid.first_rows),
                on.distribution_rate.cycles(moved.a_sent + moved.b_sent),
                on.collection_rate.cycles(made),
            )
            read = on.read_rate.cycles(moved.a + moved.b + moved.out * reads)
            write = on.write_rate.cycles(made)
            yield cycles, [("buffer_read", read, READ), ("buffer_write", write, WRITE)]


def _cut(size: int, part: int) -> list[int]:
    return [min(part, size - start) for start in range(0, size, part)]


def _blocked(command: Compute) -> tuple[int, ...]:
    """Give g, m, k and n of a product: a rank plays them by the tensors that have it."""
    first, second = (tile.view.names for tile in command.inputs)
    found = dict.fromkeys("gmkn", 1)
    for rank, size in zip(command.ranks, command.shape, strict=True):
        if rank in first and rank in second:
            found["g" if rank in command.out.view.names else "k"] *= size
        else:
            found["m" if rank in first else "n"] *= size
    return tuple(found.values())
