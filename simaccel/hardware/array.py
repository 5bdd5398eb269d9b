"""The systolic PE array: what one fold, and one GEMM of folds, costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Generic, Literal

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from simaccel.hardware.blocks import BlocksSpec
from simaccel.hardware.precision import NativeBits, cycles_per_mac
from simaccel.hardware.quantity import Amount, BytesOrUnlimited, Count, Picojoules
from simaccel.hardware.spec import Spec
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
class FoldBytes(Generic[Amount]):
    """Bytes that one fold moves: what it reads of both operands, what it makes, what is sent."""

    a: Amount
    b: Amount
    out: Amount
    """Written; partial sums that it adds to are read, as many bytes."""
    a_sent: Amount
    """Through the distribution pipe, as ``b_sent``."""
    b_sent: Amount


@dataclass(frozen=True)
class FoldGrid(Generic[Amount]):
    """The folds of one GEMM, strip of columns by strip.

    ``high`` x ``wide`` elements (along rows, along columns) are cut into folds of at most ``rows``
    x ``cols`` PEs, and each streams for ``stream`` steps of ``cycles_per_mac`` cycles, or for
    ``in_blocks`` cycles where instructions say how long that takes.
    """

    high: Amount
    wide: Amount
    stream: Amount
    rows: Amount
    cols: Amount
    cycles_per_mac: int = 1
    in_blocks: Amount | None = None

    @property
    def stream_cycles(self) -> Amount:
        """Cycles in which a fold streams."""
        return self.stream * self.cycles_per_mac if self.in_blocks is None else self.in_blocks

    @property
    def first_rows(self) -> Amount:
        """Rows of the first fold of each strip."""
        return _smaller(self.high, self.rows)

    @property
    def last_rows(self) -> Amount:
        """Rows of the last fold of each strip."""
        return (self.high - 1) % self.rows + 1

    @property
    def last_cols(self) -> Amount:
        """Columns of the last strip."""
        return (self.wide - 1) % self.cols + 1


def _larger(one: Amount, other: Amount) -> Amount:
    return one + (other - one) * (other > one)


def _smaller(one: Amount, other: Amount) -> Amount:
    return one - (one - other) * (one > other)


def _systolic(kind: object) -> object:
    """Name both kinds of array; a file that says no kind has this one."""
    if kind != "systolic":
        raise ValueError("systolic or spatial")
    return kind


class AccumulatorSpec(Spec):
    """Memory at the foot of the columns in which sums of a strip of columns grow, as in a TPU.

    ``pj_per_byte``: read or written; as in the buffer if it isn't said.
    """

    bytes_per_element: Count = 4
    capacity_bytes: BytesOrUnlimited
    pj_per_byte: Picojoules | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = dump(self)
        if self.pj_per_byte is None:
            del found["pj_per_byte"]
        return found

    def n_bytes(self, grid: FoldGrid[Amount]) -> Amount:
        """Bytes of the sums of one strip, which all its folds add to.

        >>> AccumulatorSpec(capacity_bytes=None).n_bytes(FoldGrid(64, 6, 100, 8, 8))
        2400
        """
        return grid.stream * _smaller(grid.wide, grid.cols) * self.bytes_per_element


class ArraySpec(Spec):
    """R x C processing elements, one MAC each per cycle.

    ``overlap`` says what of the next fold happens behind the current one:

    - ``none``: nothing; a fold is preload, stream and skew, and a GEMM ends with its last
      multiplication (SCALE-Sim's charge, which lets output-stationary sums leave for nothing);
    - ``preload``: the stationary operand loads, or sums leave, behind the next fold;
    - ``stream``: also the stream enters directly behind, so the skew is paid once per GEMM.

    With ``preload`` and ``stream`` a GEMM ends when its last result is at the foot of the rows in
    use. ``validation/rtl`` has the hardware, cycle by cycle.

    With an ``accumulator`` the sums of weight- and input-stationary folds leave for the buffer when
    their strip of columns is complete; without, each fold reads them there and writes them back.

    ``edge_folds`` says whether a fold with fewer rows or columns is charged for ``full`` array
    sides or for the ``used`` ones.

    ``native_bits``: of the operands of a multiplier; wider ones take it several times
    (``cycles_per_mac``). Without it all take one cycle. ``stationarity``: what the PEs can hold.
    ``blocks``: instructions of a few positions each; without, a fold streams without a gap.
    """

    kind: Annotated[Literal["systolic"], BeforeValidator(_systolic)] = Field(
        default="systolic", exclude=True
    )
    rows: Count
    cols: Count
    overlap: Literal["none", "preload", "stream"] = "stream"
    edge_folds: Literal["full", "used"] = "full"
    accumulator: AccumulatorSpec | None = None
    native_bits: NativeBits | None = None
    stationarity: Literal["free"] | Stationarity = "free"
    blocks: BlocksSpec | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = dump(self)
        for name in ("accumulator", "native_bits", "stationarity", "blocks"):
            if getattr(self, name) in (None, "free"):
                found.pop(name, None)
        return found

    def cycles_per_mac(self, bits: Iterable[int]) -> int:
        """Cycles of a MAC of operands of so many bits."""
        return cycles_per_mac(self.native_bits, bits)

    def grid(
        self,
        sizes: tuple[Amount, Amount, Amount],
        sides: tuple[Amount, Amount],
        cycles_per_mac: int,
        run: Amount,
    ) -> FoldGrid[Amount]:
        """Cut ``sizes`` (along rows, columns and time) into folds of ``sides`` PEs.

        ``run``: positions of the innermost rank that streams.
        """
        blocks, stream = self.blocks, sizes[2]
        pes = self.rows, self.cols
        paced = None if blocks is None else blocks.cycles(stream, run, pes, cycles_per_mac)
        return FoldGrid(*sizes, *sides, cycles_per_mac, paced)

    def accumulates(self, stationarity: Stationarity) -> AccumulatorSpec | None:
        """Return the memory in which sums grow; output-stationary they grow in the PEs."""
        return None if stationarity == "os" else self.accumulator

    @property
    def pes(self) -> int:
        """Number of PEs = peak MACs per cycle."""
        return self.rows * self.cols

    def _sides(self, rows: Amount, cols: Amount) -> tuple[Amount, Amount]:
        if self.edge_folds == "used":
            return rows, cols
        return rows * 0 + self.rows, cols * 0 + self.cols

    def lead_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Cycles before the first fold of a GEMM: its stationary operand shifts in row by row.

        Less by what the charge of the last fold has for a next operand that doesn't follow.
        """
        first, last = self._sides(grid.first_rows, grid.last_rows)[0], grid.last_rows
        if self.overlap == "none" or stationarity == "os":
            return first * 0
        if self.overlap == "stream":
            return _smaller(first, grid.stream_cycles)
        high, wide = self._sides(last, grid.last_cols)
        return _smaller(first, grid.stream_cycles + high + wide - 2)

    def fold_cycles(
        self,
        rows: Amount,
        cols: Amount,
        stream: Amount,
        stationarity: Stationarity,
        first_rows: Amount | None = None,
    ) -> Amount:
        """Cycles of one fold that uses ``rows`` x ``cols`` PEs for ``stream`` cycles.

        ``first_rows``: of the first fold of a strip, which may follow and must have been loaded.

        >>> ArraySpec(rows=8, cols=8, overlap="none").fold_cycles(8, 8, 32, "ws")
        54
        """
        high, wide = self._sides(rows, cols)
        if self.overlap == "stream":
            # the next operand (or the last result, os) shifts through `high` rows meanwhile
            return _larger(stream, high)
        shift = high * int(self.overlap == "none" and stationarity != "os")
        alone = shift + stream + high + wide - 2
        if self.overlap == "none" or stationarity == "os" or first_rows is None:
            return alone
        return _larger(alone, self._sides(first_rows, cols)[0])

    def hidden_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Last cycles of a GEMM's charge in which the operand of a next one may shift in.

        The registers behind those in use are free once the last fold has begun to stream.
        """
        if self.overlap == "stream":
            return grid.stream_cycles
        alone = self.fold_cycles(grid.last_rows, grid.last_cols, grid.stream_cycles, stationarity)
        return alone * int(self.overlap == "preload")

    def leaving_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Cycles after a GEMM's charge in which its sums keep those of a next one in the rows.

        Output-stationary sums shift through the rows in use. With ``stream`` the charge has only
        what the stream of the last fold is too short for.

        >>> ArraySpec(rows=8, cols=8).leaving_cycles(FoldGrid(20, 5, 3, 8, 8), "os")
        3
        """
        high = self._sides(grid.last_rows, grid.last_cols)[0]
        return _smaller(high, grid.stream_cycles) * int(
            stationarity == "os" and self.overlap == "stream"
        )

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

        ``widths``: bits per element of A, B and C. What enters along the rows is needed in each
        column (and the other way round): without multicast it is sent once for each of them.

        >>> ArraySpec.fold_bytes((8, 4), 100, "ws", (16, 8, 32), multicasts=True)
        FoldBytes(a=1600, b=32, out=1600, a_sent=1600, b_sent=32)
        >>> ArraySpec.fold_bytes((8, 4), 100, "ws", (16, 8, 32), multicasts=False).a_sent
        6400
        >>> ArraySpec.fold_bytes((3, 5), 100, "ws", (8, 4, 32), multicasts=True).b
        8
        """
        rows, cols = sides
        along_rows, along_cols, held = rows * stream, cols * stream, rows * cols
        per_row, per_col = (1, 1) if multicasts else (rows, cols)
        if stationarity == "os":
            a, b, out = (
                in_bytes(one, bits)
                for one, bits in zip((along_rows, along_cols, held), widths, strict=True)
            )
            return FoldBytes(a, b, out, a * per_col, b * per_row)
        out = in_bytes(along_cols, widths[2])
        if stationarity == "ws":
            a, b = in_bytes(along_rows, widths[0]), in_bytes(held, widths[1])
            return FoldBytes(a, b, out, a * per_col, b)
        a, b = in_bytes(held, widths[0]), in_bytes(along_rows, widths[1])
        return FoldBytes(a, b, out, a, b * per_col)

    def tail_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Cycles after the last fold until all results are at the foot of the array.

        Where edge folds use fewer PEs, a fold before the last one may be the last to end: the
        last fold, the one before, and the last two of the strip before are looked at.
        """
        tail = self._way_out(grid.last_rows, grid.last_cols, grid.stream_cycles, stationarity)
        if self.edge_folds == "full":
            return tail
        rows, cols = (grid.last_rows, grid.rows), (grid.last_cols, grid.cols)
        spent = [
            [
                self.fold_cycles(r, c, grid.stream_cycles, stationarity, grid.first_rows)
                for c in cols
            ]
            for r in rows
        ]
        more_rows, more_cols = grid.high > grid.rows, grid.wide > grid.cols
        strip = spent[0][0] + (-(-grid.high // grid.rows) - 1) * spent[1][0]
        for r, c, after, there in (
            (rows[1], cols[0], spent[0][0], more_rows),
            (rows[0], cols[1], strip, more_cols),
            (rows[1], cols[1], strip + spent[0][1], more_rows & more_cols),
        ):
            own = self._way_out(r, c, grid.stream_cycles, stationarity)
            tail = _larger(tail, (own - after) * there)
        return tail

    def _way_out(
        self, rows: Amount, cols: Amount, stream: Amount, stationarity: Stationarity
    ) -> Amount:
        """Cycles from the end of what a fold is charged to its last result at the foot."""
        high, wide = self._sides(rows, cols)
        if stationarity != "os":
            return (high + wide - 2) * int(self.overlap == "stream")
        if self.overlap != "stream":
            return (high - 1) * int(self.overlap == "preload")
        # sums start on their way when the stream ends, not when those before them have left
        return high + wide - 2 + high - 1 - (_larger(stream, high) - stream)

    def pass_cycles(self, steps: int, pes: tuple[int, int], stationarity: Stationarity) -> int:
        """Cycles of a pass of ``steps`` cycles on ``pes`` (rows, columns): those of a fold."""
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
        full_row, full_col = high * 0 + self.rows, wide * 0 + self.cols
        grid = FoldGrid(high, wide, stream, full_row, full_col)
        row_folds, col_folds = -(-high // self.rows) - 1, -(-wide // self.cols) - 1

        def fold(rows: Amount, cols: Amount) -> Amount:
            return self.fold_cycles(rows, cols, stream, stationarity, grid.first_rows)

        cycles: Amount = (
            self.lead_cycles(grid, stationarity)
            + row_folds * col_folds * fold(full_row, full_col)
            + row_folds * fold(full_row, grid.last_cols)
            + col_folds * fold(grid.last_rows, full_col)
            + fold(grid.last_rows, grid.last_cols)
            + self.tail_cycles(grid, stationarity)
        )
        return cycles
