"""The folds of a GEMM on systolic arrays: where each rank lies, and how arrays share folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Generic, Literal

from simaccel.hardware.quantity import Amount
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
    """

    down: Amount
    across: Amount
    along: Amount
    apart: Amount

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
            return Gang(one, cols * 0 + 1, one, one)
        steps = self.steps + (self.steps == 0)
        down, across = -(-rows // self.rows), -(-cols // self.cols)
        return Gang(down, across, -(-self.stream // steps), self.gang.apart)


def larger(one: Amount, other: Amount) -> Amount:
    """Return the larger of two amounts, elementwise if they are arrays."""
    return one + (other - one) * (other > one)


def smaller(one: Amount, other: Amount) -> Amount:
    """Return the smaller of two amounts, elementwise if they are arrays."""
    return one - (one - other) * (one > other)


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
    options: Sequence[tuple[int, int, int, int]], cycles: Sequence[Amount]
) -> Gang[Amount]:
    """Return, for each candidate, the gang with the fewest cycles; of equal ones the first."""
    if isinstance(cycles[0], int):
        return Gang(*options[cycles.index(min(cycles))])
    import numpy as np  # noqa: PLC0415 - what no array is given loads none

    best = np.argmin(np.stack(np.broadcast_arrays(*cycles)), axis=0)
    return Gang(*np.array(options, dtype=np.int64).T[:, best])


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
