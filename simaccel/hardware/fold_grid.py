"""The folds of a GEMM on systolic arrays: what goes where, and how several arrays share them."""

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
"""What of C[m, n] += A[m, k] B[k, n] goes down the rows, across the columns, and streams.

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
    """Arrays at work at once: below and beside one another, along the stream, on other products.

    Those below one another (``ws``, ``is``) or along the stream (``os``) make partial sums of the
    same results, which are added up at the buffer. What several need is read from it once.
    """

    down: Amount
    across: Amount
    along: Amount
    apart: Amount

    def adding(self, stationarity: Stationarity) -> Amount:
        """Arrays that make sums of the same results."""
        return self.along if stationarity == "os" else self.down


@dataclass(frozen=True)
class FoldBytes(Generic[Amount]):
    """Bytes that one fold, or a round of them, moves."""

    a: Amount
    """Read from the buffer, as ``b``, however many arrays need it."""
    b: Amount
    out: Amount
    """Of the results once; each of ``adding`` arrays makes as many."""
    a_sent: Amount
    """Through the distribution pipes of all arrays, as ``b_sent``."""
    b_sent: Amount
    adding: Amount
    """Arrays that make sums of the same results."""
    pipe_in: Amount
    """Through the distribution pipe of the array that takes most."""
    pipe_out: Amount
    """Results through the collection pipe of the array that makes most."""


@dataclass(frozen=True)
class FoldGrid(Generic[Amount]):
    """The folds of one GEMM, strip of columns by strip.

    ``high`` x ``wide`` elements (along rows, along columns) are cut into folds of at most ``rows``
    x ``cols`` PEs, and each streams for ``stream`` steps of ``cycles_per_mac`` cycles. Where there
    are several arrays each has a fold of its own at once, a *round*: ``gang`` says how many of them
    are below one another, beside one another, and share out the steps of the stream.
    """

    high: Amount
    wide: Amount
    stream: Amount
    rows: Amount
    cols: Amount
    cycles_per_mac: int = 1
    gang: Gang[Amount] | None = None
    step_rate: tuple[int, int] = (1, 1)
    """Steps that enter in so many cycles."""
    row_rate: int = 1
    """Rows of a stationary operand that shift in at once."""
    in_blocks: Amount | None = None
    """Cycles of a stream where instructions say how long it takes."""

    @property
    def round_rows(self) -> Amount:
        """Rows of a round: those of all arrays below one another."""
        return self.rows if self.gang is None else self.rows * self.gang.down

    @property
    def round_cols(self) -> Amount:
        """Columns of a round: those of all arrays beside one another."""
        return self.cols if self.gang is None else self.cols * self.gang.across

    @property
    def steps(self) -> Amount:
        """Steps of the stream that an array takes."""
        return self.stream if self.gang is None else -(-self.stream // self.gang.along)

    @property
    def stream_cycles(self) -> Amount:
        """Cycles in which a fold streams."""
        return self.cycles_of(self.steps) if self.in_blocks is None else self.in_blocks

    def cycles_of(self, steps: Amount) -> Amount:
        """Cycles in which so many steps of a stream enter."""
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
        """Rows of the last fold of each strip; of several at once those of the largest."""
        return smaller((self.high - 1) % self.round_rows + 1, self.rows)

    @property
    def last_cols(self) -> Amount:
        """Columns of the last strip; of several at once those of the widest."""
        return smaller((self.wide - 1) % self.round_cols + 1, self.cols)

    def arrays(self, rows: Amount, cols: Amount) -> Gang[Amount]:
        """Return how many arrays a round of ``rows`` x ``cols`` has at work, each way."""
        if self.gang is None:
            one = rows * 0 + 1
            return Gang(one, cols * 0 + 1, one, one)
        steps = self.steps + (self.steps == 0)
        down, across = -(-rows // self.rows), -(-cols // self.cols)
        return Gang(down, across, -(-self.stream // steps), self.gang.apart)


def larger(one: Amount, other: Amount) -> Amount:
    """Return the larger of two amounts, by candidate where they are arrays."""
    return one + (other - one) * (other > one)


def smaller(one: Amount, other: Amount) -> Amount:
    """Return the smaller of two amounts, by candidate where they are arrays."""
    return one - (one - other) * (one > other)


def operand_bytes(
    rows: Amount,
    cols: Amount,
    stream: Amount,
    stationarity: Stationarity,
    widths: tuple[int, int, int],
) -> tuple[Amount, Amount, Amount]:
    """Return the bytes of A, B and C of ``rows`` x ``cols`` PEs that stream for some steps."""
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
    """Return the gang that takes the fewest cycles, by candidate; of equal ones the first."""
    if isinstance(cycles[0], int):
        return Gang(*options[cycles.index(min(cycles))])
    import numpy as np  # noqa: PLC0415 - what no array is given loads none

    best = np.argmin(np.stack(np.broadcast_arrays(*cycles)), axis=0)
    return Gang(*np.array(options, dtype=np.int64).T[:, best])


@cache
def gangs(count: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return the ways in which arrays share rows, columns, steps and products, the best first.

    Those in which another array could be at work are left out.

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
