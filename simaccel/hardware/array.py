"""The systolic PE array: what one fold, and one GEMM of folds, costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Generic, Literal

from pydantic import BeforeValidator, Field

from simaccel.hardware.quantity import Amount, Count
from simaccel.hardware.spec import Spec

Stationarity = Literal["ws", "os", "is"]
STATIONARITIES: tuple[Stationarity, ...] = ("ws", "os", "is")


def spatial(
    m: Amount, k: Amount, n: Amount, stationarity: Stationarity
) -> tuple[Amount, Amount, Amount]:
    """Give the ranks along array rows, array columns and time: ``(rows, cols, stream)``.

    Weight-stationary keeps B[k, n] and streams m, output-stationary keeps C[m, n] and
    streams k, input-stationary keeps A[m, k] and streams n (SCALE-Sim, section III).
    """
    if stationarity == "ws":
        return k, n, m
    if stationarity == "os":
        return m, n, k
    return k, m, n


@dataclass(frozen=True)
class FoldBytes(Generic[Amount]):
    """Bytes that one fold moves: what it reads of both operands, what it makes, what is sent."""

    a: Amount
    b: Amount
    out: Amount
    """Written; partial sums that it adds to are read, as many bytes."""
    a_sent: Amount
    """Through the distribution pipe, as ``b_sent``."""
    b_sent: Amount


def _systolic(kind: object) -> object:
    """Name both kinds of array; a file that says no kind has this one."""
    if kind != "systolic":
        raise ValueError("systolic or spatial")
    return kind


class ArraySpec(Spec):
    """R x C processing elements, one MAC each per cycle.

    ``overlap`` says what of the next fold happens behind the current one:

    - ``none``: nothing; a fold is preload, stream and skew (SCALE-Sim's charge);
    - ``preload``: the stationary operand loads behind the current fold;
    - ``stream``: also the stream enters directly behind, so the skew is paid once per GEMM.

    ``edge_folds`` says whether a fold with fewer rows or columns is charged for ``full`` array
    sides or for the ``used`` ones.
    """

    kind: Annotated[Literal["systolic"], BeforeValidator(_systolic)] = Field(
        default="systolic", exclude=True
    )
    rows: Count
    cols: Count
    overlap: Literal["none", "preload", "stream"] = "stream"
    edge_folds: Literal["full", "used"] = "full"

    @property
    def pes(self) -> int:
        """Number of PEs = peak MACs per cycle."""
        return self.rows * self.cols

    def _sides(self, rows: Amount, cols: Amount) -> tuple[Amount, Amount]:
        if self.edge_folds == "used":
            return rows, cols
        return rows * 0 + self.rows, cols * 0 + self.cols

    def lead_cycles(self, rows: Amount, stationarity: Stationarity) -> Amount:
        """Cycles before the first fold of a GEMM: its stationary operand shifts in row by row."""
        side, _ = self._sides(rows, rows)
        return side * int(self.overlap != "none" and stationarity != "os")

    def fold_cycles(
        self, rows: Amount, cols: Amount, stream: Amount, stationarity: Stationarity
    ) -> Amount:
        """Cycles of one fold that uses ``rows`` x ``cols`` PEs for ``stream`` steps.

        >>> ArraySpec(rows=8, cols=8, overlap="none").fold_cycles(8, 8, 32, "ws")
        54
        """
        high, wide = self._sides(rows, cols)
        if self.overlap == "stream":
            # the next operand (or the last result, os) shifts through `high` rows meanwhile
            return stream + (high - stream) * (high > stream)
        shift = high * int(self.overlap == "none" and stationarity != "os")
        return shift + stream + high + wide - 2

    @staticmethod
    def fold_bytes(
        sides: tuple[Amount, Amount],
        stream: Amount,
        stationarity: Stationarity,
        widths: tuple[int, int, int],
        *,
        multicasts: bool,
    ) -> FoldBytes[Amount]:
        """Bytes of one fold on ``sides`` (rows, columns of PEs) for ``stream`` steps.

        ``widths``: bytes per element of A, B and C. What enters along the rows is needed in each
        column (and the other way round): without multicast it is sent once for each of them.

        >>> ArraySpec.fold_bytes((8, 4), 100, "ws", (2, 1, 4), multicasts=True)
        FoldBytes(a=1600, b=32, out=1600, a_sent=1600, b_sent=32)
        >>> ArraySpec.fold_bytes((8, 4), 100, "ws", (2, 1, 4), multicasts=False).a_sent
        6400
        """
        rows, cols = sides
        along_rows, along_cols, held = rows * stream, cols * stream, rows * cols
        per_row, per_col = (1, 1) if multicasts else (rows, cols)
        if stationarity == "os":
            a, b, out = along_rows * widths[0], along_cols * widths[1], held * widths[2]
            return FoldBytes(a, b, out, a * per_col, b * per_row)
        out = along_cols * widths[2]
        if stationarity == "ws":
            a, b = along_rows * widths[0], held * widths[1]
            return FoldBytes(a, b, out, a * per_col, b)
        a, b = held * widths[0], along_rows * widths[1]
        return FoldBytes(a, b, out, a, b * per_col)

    def tail_cycles(self, rows: Amount, cols: Amount, stream: Amount) -> Amount:
        """Cycles after the last fold: the skew, less what no next operand has to wait for."""
        high, wide = self._sides(rows, cols)
        spare = (high - stream) * (high > stream)
        return (high + wide - 2 - spare) * int(self.overlap == "stream")

    def pass_cycles(self, steps: int, pes: tuple[int, int], stationarity: Stationarity) -> int:
        """Cycles of a pass of ``steps`` steps on ``pes`` (rows, columns): those of a fold."""
        return self.fold_cycles(*pes, steps, stationarity)

    @property
    def lead_latency_cycles(self) -> int:
        """Cycles in which a stationary tile shifts in, if that happens behind the pass before."""
        return self.rows * int(self.overlap != "none")

    @property
    def tail_latency_cycles(self) -> int:
        """Skew in cycles from the last step of a pass to its last output, which hold nobody up."""
        return (self.rows + self.cols - 2) * int(self.overlap == "stream")

    def gemm_cycles(self, *, m: Amount, k: Amount, n: Amount, stationarity: Stationarity) -> Amount:
        """Cycles of C[m, n] += A[m, k] B[k, n] with no limit of memory or NoC.

        With ``overlap="none"``: os ``ceil(m/R) ceil(n/C) (k+R+C-2)``, ws ``ceil(k/R) ceil(n/C)
        (m+2R+C-2)``, is ``ceil(k/R) ceil(m/C) (n+2R+C-2)``, as SCALE-Sim v3 charges.

        >>> array = ArraySpec(rows=8, cols=8, overlap="none")
        >>> array.gemm_cycles(m=32, k=32, n=32, stationarity="ws")
        864
        """
        high, wide, stream = spatial(m, k, n, stationarity)
        row_folds, row_edge = -(-high // self.rows) - 1, (high - 1) % self.rows + 1
        col_folds, col_edge = -(-wide // self.cols) - 1, (wide - 1) % self.cols + 1
        full_row, full_col = high * 0 + self.rows, wide * 0 + self.cols
        first_row = row_edge + (full_row - row_edge) * (row_folds > 0)
        cycles: Amount = (
            self.lead_cycles(first_row, stationarity)
            + row_folds * col_folds * self.fold_cycles(full_row, full_col, stream, stationarity)
            + row_folds * self.fold_cycles(full_row, col_edge, stream, stationarity)
            + col_folds * self.fold_cycles(row_edge, full_col, stream, stationarity)
            + self.fold_cycles(row_edge, col_edge, stream, stationarity)
            + self.tail_cycles(row_edge, col_edge, stream)
        )
        return cycles
