"""The folds of a GEMM on systolic arrays: where ranks lie, how arrays share them, sums, blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Generic, Literal

from simaccel.hardware.quantity import Amount, BytesOrUnlimited, Count, Picojoules, larger, smaller
from simaccel.hardware.spec import Spec
from simaccel.numbers import in_bytes

Stationarity = Literal["ws", "os", "is"]
STATIONARITIES: tuple[Stationarity, ...] = ("ws", "os", "is")
PLACES: Final[dict[Stationarity, tuple[str, str, str]]] = {
    "ws": ("k", "n", "m"),
    "os": ("m", "n", "k"),
    "is": ("k", "m", "n"),
}
"""The ranks of C[m, n] += A[m, k] B[k, n] along rows, along columns, and along the stream.

Weight-stationary keeps B, output-stationary C, input-stationary A (SCALE-Sim, section III).
"""


def spatial(
    m: Amount, k: Amount, n: Amount, stationarity: Stationarity
) -> tuple[Amount, Amount, Amount]:
    """Return the sizes along array rows, array columns and time: ``(rows, cols, stream)``."""
    sizes = {"m": m, "k": k, "n": n}
    high, wide, stream = PLACES[stationarity]
    return sizes[high], sizes[wide], sizes[stream]


@dataclass(frozen=True)
class Gang(Generic[Amount]):
    """The numbers of arrays that share rows (``down``), columns (``across``), stream and products.

    Arrays that share rows (``ws``, ``is``) or the stream (``os``) make partial sums of the same
    results, which are added at the buffer. Operands that several arrays need are read once.
    ``beside``: products on the diagonal of each array.
    """

    down: Amount
    across: Amount
    along: Amount
    apart: Amount
    beside: Amount

    @property
    def products(self) -> Amount:
        """Products at once."""
        return self.apart * self.beside

    def adding(self, stationarity: Stationarity) -> Amount:
        """Return the number of arrays that make partial sums of the same results."""
        return self.along if stationarity == "os" else self.down


@dataclass(frozen=True)
class FoldBytes(Generic[Amount]):
    """Bytes that one fold, or one round of folds, moves."""

    a: Amount
    """Of operand A, read from the buffer once for all arrays; so is ``b``."""
    b: Amount
    out: Amount
    """Of the results, counted once; each of ``adding`` arrays makes as many."""
    a_sent: Amount
    """Of A through the distribution pipes of all arrays; so is ``b_sent``."""
    b_sent: Amount
    adding: Amount
    """Arrays that make partial sums of the same results."""
    pipe_in: Amount
    """Through the distribution pipe of the array with most bytes."""
    pipe_out: Amount
    """Of results, through the collection pipe of the array with most bytes."""


@dataclass(frozen=True)
class FoldGrid(Generic[Amount]):
    """The folds of one GEMM, one strip of columns after the other.

    ``high`` x ``wide`` elements (along rows, along columns) are cut into folds of at most ``rows``
    x ``cols`` PEs; each streams for ``stream`` steps of ``cycles_per_mac`` cycles. Several arrays
    (``gang``) run one fold each at once, a *round*.
    """

    high: Amount
    wide: Amount
    stream: Amount
    rows: Amount
    cols: Amount
    cycles_per_mac: int = 1
    gang: Gang[Amount] | None = None
    step_rate: tuple[int, int] = (1, 1)
    """(steps, cycles): the steps that enter in these cycles."""
    row_rate: int = 1
    """Rows of a stationary operand that shift in per cycle."""
    in_blocks: Amount | None = None
    """Cycles of a stream in blocks of instructions; None without blocks."""

    @property
    def beside(self) -> Amount:
        """Products on the diagonal of each array."""
        return self.stream * 0 + 1 if self.gang is None else self.gang.beside

    @property
    def round_rows(self) -> Amount:
        """Rows of a round, over all arrays that share rows."""
        return self.rows if self.gang is None else self.rows * self.gang.down

    @property
    def round_cols(self) -> Amount:
        """Columns of a round, over all arrays that share columns."""
        return self.cols if self.gang is None else self.cols * self.gang.across

    @property
    def steps(self) -> Amount:
        """Steps of the stream of one array."""
        return self.stream if self.gang is None else -(-self.stream // self.gang.along)

    @property
    def stream_cycles(self) -> Amount:
        """Cycles of a fold's stream."""
        return self.cycles_of(self.steps) if self.in_blocks is None else self.in_blocks

    def cycles_of(self, steps: Amount) -> Amount:
        """Return the cycles in which ``steps`` steps of a stream enter."""
        entering, cycles = self.step_rate
        return -(-steps * self.cycles_per_mac * cycles // entering)

    @property
    def row_rounds(self) -> Amount:
        """Rounds down a strip of columns."""
        return -(-self.high // self.round_rows)

    @property
    def first_rows(self) -> Amount:
        """Rows of the first fold of each strip."""
        return smaller(self.high, self.rows)

    @property
    def last_rows(self) -> Amount:
        """Rows of the last fold of each strip; of a round those of its largest fold."""
        return smaller((self.high - 1) % self.round_rows + 1, self.rows)

    @property
    def last_cols(self) -> Amount:
        """Columns of the last strip; of a round those of its widest fold."""
        return smaller((self.wide - 1) % self.round_cols + 1, self.cols)

    def arrays(self, rows: Amount, cols: Amount) -> Gang[Amount]:
        """Return the arrays at work in a round of ``rows`` x ``cols``, in each direction."""
        if self.gang is None:
            one = rows * 0 + 1
            return Gang(one, cols * 0 + 1, one, one, one)
        steps = self.steps + (self.steps == 0)
        down, across = -(-rows // self.rows), -(-cols // self.cols)
        along = -(-self.stream // steps)
        return Gang(down, across, along, self.gang.apart, self.gang.beside)


def operand_bytes(
    rows: Amount,
    cols: Amount,
    stream: Amount,
    stationarity: Stationarity,
    widths: tuple[int, int, int],
) -> tuple[Amount, Amount, Amount]:
    """Return the bytes of A, B and C in a fold of ``rows`` x ``cols`` PEs and ``stream`` steps."""
    along_rows, along_cols, held = rows * stream, cols * stream, rows * cols
    a, b, out = {
        "ws": (along_rows, held, along_cols),
        "os": (along_rows, along_cols, held),
        "is": (held, along_rows, along_cols),
    }[stationarity]
    return in_bytes(a, widths[0]), in_bytes(b, widths[1]), in_bytes(out, widths[2])


def choose_gang(
    options: Sequence[tuple[int, int, int, int]],
    beside: Sequence[Amount],
    cycles: Sequence[Amount],
) -> Gang[Amount]:
    """Return, for each candidate, the gang with the fewest cycles; of equal ones the first.

    ``cycles``: of all options with the first number of products ``beside``, then with the next.
    """
    if isinstance(cycles[0], int):
        number, way = divmod(cycles.index(min(cycles)), len(options))
        return Gang(*options[way], beside[number])
    import numpy as np  # noqa: PLC0415 - what no array is given loads none

    number, way = np.divmod(np.argmin(np.stack(np.broadcast_arrays(*cycles)), 0), len(options))
    down, across, along, apart = np.array(options, dtype=np.int64).T[:, way]
    return Gang(down, across, along, apart, np.choose(number, beside))


def is_above_one(amount: Amount) -> bool:
    """Return whether an amount, or one of several, is above 1."""
    return bool(amount > 1 if isinstance(amount, int) else (amount > 1).any())


@cache
def gangs(count: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return the ways in which arrays can share rows, columns, steps and products, the best first.

    Ways that leave room for a further array are left out.

    >>> gangs(2)
    ((1, 2, 1, 1), (1, 1, 1, 2), (1, 1, 2, 1), (2, 1, 1, 1))
    """
    numbers = range(1, count + 1)
    maximal = []
    for down in numbers:
        for across in range(1, count // down + 1):
            for along in range(1, count // (down * across) + 1):
                gang = down, across, along, count // (down * across * along)
                used = math.prod(gang)
                if all(used // number * (number + 1) > count for number in gang):
                    maximal.append(gang)
    return tuple(sorted(maximal, key=lambda gang: (-gang[1], -gang[3], -gang[2])))


class AccumulatorSpec(Spec):
    """Memory at the foot of the columns for the partial sums of a strip of columns, as in a TPU.

    ``pj_per_byte``: of a read or write; by default that of the buffer.
    """

    bytes_per_element: Count = 4
    capacity_bytes: BytesOrUnlimited
    pj_per_byte: Picojoules | None = None

    def n_bytes(self, grid: FoldGrid[Amount]) -> Amount:
        """Return the bytes of one array's sums of one strip of columns, over all its folds.

        >>> AccumulatorSpec(capacity_bytes=None).n_bytes(FoldGrid(64, 6, 100, 8, 8))
        2400
        """
        return grid.steps * smaller(grid.wide, grid.cols) * self.bytes_per_element


class BlocksSpec(Spec):
    """A fold streams in blocks, an instruction each, as in Gemmini.

    A block has at most ``steps`` positions of one run of the innermost streaming rank (of a
    convolution: of one output row). It takes at least ``least_cycles``; the first block of a fold
    takes at least as many cycles as the array has rows, as the next stationary operand shifts in
    meanwhile. At most ``in_flight`` blocks are in the array at once: by Little's law no more start
    in the time from the first operand of a block to its last result, which is longer than the block
    by as many cycles as the array has rows and columns (skew in and out, a register at each end).
    """

    steps: Count
    least_cycles: Count = 1
    in_flight: Count

    def cycles(
        self, stream: Amount, run: Amount, sides: tuple[int, int], cycles_per_mac: int = 1
    ) -> Amount:
        """Return the cycles of ``stream`` positions in runs of ``run``, on rows x columns PEs.

        7 runs of 7 are blocks of 16 and 6 x 7 cycles. 14 runs of 2 are blocks of 16 and 13 x 4, and
        each is in the array for 32 cycles more, but only 5 at once:

        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=5).cycles(49, 7, (16, 16))
        58
        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=5).cycles(28, 2, (16, 16))
        104
        >>> BlocksSpec(steps=16, least_cycles=4, in_flight=5).cycles(448, 32, (16, 16))
        448
        """
        full, rest = run // self.steps, run % self.steps
        others = rest > 0
        least = larger(rest * cycles_per_mac, self.least_cycles)
        whole = max(self.steps * cycles_per_mac, self.least_cycles)
        rows, cols = sides
        short = rows - least - (whole - least) * (full > 0)
        runs = stream // larger(run, 1)  # a piece that isn't there has runs of 0 positions
        cycles: Amount = runs * (full * whole + others * least) + larger(short, 0)
        limited = -(-(runs * (full + others) * (rows + cols) + cycles) // self.in_flight)
        return larger(cycles, limited)
