"""The cost of each command, and of each fold of a block: own cycles, and what it asks of channels.

The pipes of the NoC belong to the folds alone. Not covered: ports and pipes where PEs have
memories, DRAM with banks, folds that are smaller than the array.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from simaccel.hardware import Accelerator, FoldGrid, Gang, Stationarity
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
    transfer_of,
)
from tests.machine.stepped import READ, WRITE

Asked = tuple[str, int, int]
"""A channel, the cycles of service that are asked of it, and the direction."""
Work = tuple[int, list[Asked]]
"""Cycles of some work, and what it asks for at once: it ends when all of that is over."""


ALONE = Gang(1, 1, 1, 1, 1)


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
        of = transfer_of(command)[0] if isinstance(command, Load | Store) else None
        return self.on.backing(of.kind if of else "")

    def _cycles(self, command: Command) -> int:
        if isinstance(command, Compute) and isinstance(command.on, Steps):
            return command.on.steps * self._pace(command)
        if isinstance(command, Sfu):
            work = self.on.sfu.choose_form(command.does, command.does.merged)
            return self.on.sfu.cycles(work, command.elements, command.rows)
        return 0

    def _asked(self, command: Command) -> Iterator[Asked]:
        """Yield what a command asks for: a transfer of DRAM and a port, the SFU of both ports."""
        on = self.on
        if isinstance(command, Sfu):
            cost = on.sfu.choose_form(command.does, command.does.merged)
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
        view, moved = transfer_of(command)
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

    def _step(self, command: Compute) -> Fraction:
        """Return the cycles of a step: narrow operands enter several at once."""
        rates = self.on.systolic.macs_per_cycle
        narrow = rates is not None and all(tile.view.bits <= 8 for tile in command.inputs)
        return Fraction(self._pace(command), rates.bits8 if rates and narrow else 1)

    def _block(self, command: Compute, folds: Folds) -> Block:
        """Wide operands stream as if there were as many more of them as they have pieces."""
        array, kind = self.on.systolic, folds.stationarity
        g, m, k, n = _blocked(command)
        high, wide, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[kind]
        grid = array.grid(
            (high, wide, stream),
            (array.rows, array.cols),
            self._step(command),
            kind,
            g,
            diagonal=folds.diagonal,
        )
        steps, gang = grid.stream_cycles, grid.gang or ALONE
        last_rows, last_cols = grid.last_rows * gang.beside, grid.last_cols * gang.beside
        last = array.fold_cycles(last_rows, last_cols, steps, kind, row_rate=grid.row_rate)
        return Block(
            lead=array.lead_cycles(grid, kind),
            folds=[
                fold
                for products in _cut(g, gang.apart * gang.beside)
                for fold in self._folds(command, folds, grid, products)
            ],
            tail=array.tail_cycles(grid, kind),
            hidden={"stream": steps, "preload": last, "none": 0}[array.overlap],
            staying=kind == "os" and array.overlap == "stream",
            rows=last_rows if array.edge_folds == "used" else array.rows,
            steps=steps,
        )

    def _folds(
        self, command: Compute, folds: Folds, grid: FoldGrid[int], products: int
    ) -> Iterator[Work]:
        """Yield the rounds of folds of a product, strip of columns by strip.

        Each array writes its sums. It reads those of the fold before it in a strip whose rows are
        parts of sums, those of the arrays before it in a round, and where the block adds to sums
        those that are there. Where accumulators hold the sums of a strip, its first round alone may
        read some, and its last alone writes.
        """
        kind, gang = folds.stationarity, grid.gang or ALONE
        columns = _cut(grid.wide, grid.cols * gang.across)
        rows = _cut(grid.high, grid.rows * gang.down)
        partial = kind != "os"
        held = partial and self.on.systolic.accumulator is not None
        for wide, (place, high) in product(columns, enumerate(rows)):
            reads, writes = command.accumulate or (place > 0 and partial), True
            parts = _cut(high, grid.rows) if partial else _cut(grid.stream, grid.steps)
            adding = len(parts)
            if held:
                reads, writes = command.accumulate and place == 0, place == len(rows) - 1
                adding = len(_cut(rows[0], grid.rows))
            yield self._round(
                command,
                (grid, kind),
                (high, wide),
                results=(reads + (adding - 1) * writes, adding * writes),
                products=products,
            )

    def _round(
        self,
        command: Compute,
        folded: tuple[FoldGrid[int], Stationarity],
        sides: tuple[int, int],
        results: tuple[int, int],
        products: int,
    ) -> Work:
        """Return a fold on each array: the longest; ``results``: how often all are read, written.

        Operands leave the buffer once, and enter each array that needs them by its own pipe, as do
        those of all products on its diagonal.
        """
        on, (grid, kind), (high, wide) = self.on, folded, sides
        widths = [tile.view.bits for tile in (*command.inputs, command.out)]
        lines = on.noc.distribution.multicasts
        longest, beside = 0, (grid.gang or ALONE).beside
        together, first_rows = min(products, beside), grid.first_rows * beside
        parts = product(_cut(high, grid.rows), _cut(wide, grid.cols), _cut(grid.stream, grid.steps))
        for rows, cols, steps in parts:
            sizes = {
                "ws": (steps, rows, cols),
                "is": (cols, rows, steps),
                "os": (rows, steps, cols),
            }
            m, k, n = sizes[kind]
            first = in_bytes(m * k, widths[0]) * (1 if lines or kind == "is" else cols)
            second = in_bytes(k * n, widths[1])
            second *= 1 if lines or kind == "ws" else cols if kind == "is" else rows
            rates = on.systolic.macs_per_cycle
            narrow = rates.bits8 if rates and max(widths[:2]) <= 8 else 1
            rate = Fraction(str(on.systolic.steps_per_cycle)) * narrow
            pace = math.ceil(steps * grid.cycles_per_mac / rate)
            longest = max(
                longest,
                on.systolic.fold_cycles(
                    rows * beside, cols * beside, pace, kind, first_rows, grid.row_rate
                ),
                on.array_in_rate.cycles(together * (first + second)),
                on.array_out_rate.cycles(together * in_bytes(m * n, widths[2]) * (results[1] > 0)),
            )
        stream = grid.stream
        sizes = {"ws": (stream, high, wide), "is": (wide, high, stream), "os": (high, stream, wide)}
        m, k, n = sizes[kind]
        inputs = products * (in_bytes(m * k, widths[0]) + in_bytes(k * n, widths[1]))
        made = products * in_bytes(m * n, widths[2])
        read = on.read_rate.cycles(inputs + made * results[0])
        write = on.write_rate.cycles(made * results[1])
        return longest, [("buffer_read", read, READ), ("buffer_write", write, WRITE)]


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
