"""What is put on the buses of SCALE-Sim's array, cycle by cycle, for a GEMM, and read at its foot.

The array has no control logic: these plays are one, as early as its registers allow. A word that is
on a bus in a cycle is in a PE's register in the next, where it is multiplied; a PE's sum is in a
register after that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from validation.rtl.simulate import Gemm

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Fold:
    """One fold: where its results go, and the numbers of the PEs in use."""

    at: tuple[int, int, int]
    """Batch, first row (os) or step (ws, is) of the result, first column."""
    along: Ints
    """What enters from the left: rows of the array x steps."""
    stays: Ints
    """What enters from above: steps x columns (os), or stays: rows x columns (ws, is)."""


def folds(gemm: Gemm, rows: int, cols: int) -> Iterator[Fold]:
    """Cut a GEMM; the lowest folds of all come last, as what they leave in other rows stays."""
    high, wide, _ = gemm.grid
    a, b = (operand & 255 for operand in gemm.operands)
    if gemm.kind == "is":
        a, b = b.swapaxes(1, 2), a.swapaxes(1, 2)
    for r, g, c in itertools.product(range(0, high, rows), range(gemm.g), range(0, wide, cols)):
        lines, columns = slice(r, r + rows), b[g, :, c : c + cols]
        if gemm.kind == "os":
            yield Fold((g, r, c), a[g, lines], columns)
        else:
            yield Fold((g, 0, c), a[g, :, lines].T, columns[lines])


def product(gemm: Gemm) -> Ints:
    """Return the product of operands of 8 bits, as the plays put it together."""
    a, b = (operand & 255 for operand in gemm.operands)
    both = a @ b
    return both.swapaxes(1, 2) if gemm.kind == "is" else both


@dataclass
class Play:
    """Words on the buses and control lines by cycle; what is read at the foot, and when.

    ``early``: what the last word waits for is taken one cycle too soon.
    """

    rows: int
    cols: int
    early: int = 0
    words: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """By bus (``left``, ``top``), cycle, row or column."""
    lines: dict[int, str] = field(default_factory=dict)
    """stat, op2, out of cycles that have not those of most."""
    reads: list[tuple[int, int, tuple[int, int, int]]] = field(default_factory=list)
    """Cycle, column, place in the result (added up)."""
    usual: str = "000"
    last_mac: int = 0
    """Cycles from the first word on a bus until the last multiplication."""
    last_out: int = 0
    """... until the last result is in a register at the foot."""

    def put(self, bus: str, cycle: int, lane: int, word: int) -> None:
        """Put a word on a bus."""
        self.words[bus, cycle, lane] = word

    def output_stationary(self, every: list[Fold], *, full: bool) -> None:
        """Play folds whose sums stay: when the last is made, all go to the vertical registers.

        In that cycle (`out_select`, `stat_bit`) sums are cleared and nothing is multiplied; the
        next words stand on the buses. Sums before must have left through all rows.
        """
        begin = swap = 0
        for fold in every:
            (high, steps), wide = fold.along.shape, fold.stays.shape[1]
            for row, step in np.ndindex(high, steps):
                self.put("left", begin + step + row, row, int(fold.along[row, step]))
            for step, col in np.ndindex(steps, wide):
                self.put("top", begin + step + col, col, int(fold.stays[step, col]))
            last = begin + steps + sum((self.rows, self.cols) if full else (high, wide)) - 2
            swap = max(last + 1 - self.early, swap + self.rows * (swap > 0))
            self.lines[swap] = "101"
            g, r, c = fold.at
            for row, col in np.ndindex(high, wide):
                self.reads.append((swap + self.rows - 1 - row, col, (g, r + row, c + col)))
            self.last_mac, self.last_out, begin = swap, swap + self.rows - 1, swap

    def stationary(self, every: list[Fold], *, full: bool) -> None:
        """Play folds that hold a weight in each PE of the lowest rows.

        Weights come down the registers of the sums, so an empty cycle follows them; a sum then
        passes two registers a row: operands of a row come two cycles after those above.
        """
        self.usual, begin = "101", 0
        for fold in every:
            (high, steps), wide = fold.along.shape, fold.stays.shape[1]
            under = self.rows - (self.rows if full else high)
            for row, col in np.ndindex(high, wide):
                self.put("top", begin + self.rows - 1 - under - row, col, int(fold.stays[row, col]))
            for cycle in range(begin + 1, begin + self.rows + 1):
                self.lines[cycle] = "100"
            self.lines[begin + self.rows - 1] = "11" + "01"[self.rows == 1]
            first = begin + self.rows + 1 - self.early
            for row, step in np.ndindex(high, steps):
                self.put(
                    "left", first - 1 + step + 2 * row, under + row, int(fold.along[row, step])
                )
            down = 2 * (self.rows - under - 1)
            g, _, c = fold.at
            for step, col in np.ndindex(steps, wide):
                self.reads.append((first + step + down + col + 1, col, (g, step, c + col)))
            begin = first + steps + down + (self.cols if full else wide) - 1
            self.last_mac = self.last_out = begin

    def text(self) -> list[str]:
        """Write a line a cycle, from a reset on."""
        blank = "0" * 8
        lines = [f"1 0 0 0 {blank * self.rows} {blank * self.cols}"]
        sides = {"left": self.rows, "top": self.cols}
        for cycle in range(max(cycle for cycle, _, _ in self.reads) + 1):
            buses = (
                "".join(f"{self.words.get((bus, cycle, at), 0):08x}" for at in reversed(range(n)))
                for bus, n in sides.items()
            )
            control = self.lines.get(cycle, self.usual)
            lines.append(" ".join(("0", *control, *buses)))
        return lines

    def result(self, seen: list[str]) -> Ints:
        """Put together what was seen at the foot; all -1 if something of it is unknown."""
        sides = zip(*(place for _, _, place in self.reads), strict=True)
        found = np.zeros([max(side) + 1 for side in sides], dtype=np.int64)
        for cycle, col, place in self.reads:
            until = 8 * (self.cols - col)
            word = seen[cycle + 1][until - 8 : until]
            if "x" in word or "z" in word:
                return np.full_like(found, -1)
            found[place] += int(word, 16)
        return found


def play(gemm: Gemm, rows: int, cols: int, *, early: int = 0) -> Play:
    """Return how a GEMM is played, as its stationarity and edge folds say."""
    made = Play(rows, cols, early)
    put = made.output_stationary if gemm.kind == "os" else made.stationary
    put(list(folds(gemm, rows, cols)), full=gemm.edge_folds == "full")
    return made
