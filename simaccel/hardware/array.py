"""The systolic PE array: the cycles and bytes of one fold, and of a GEMM of folds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from simaccel.errors import SimaccelError
from simaccel.hardware.fold_grid import (
    AccumulatorSpec,
    BlocksSpec,
    FoldBytes,
    FoldGrid,
    Stationarity,
    choose_gang,
    gangs,
    is_above_one,
    operand_bytes,
    spatial,
)
from simaccel.hardware.precision import MultipliedAsSpec as MultipliedAs
from simaccel.hardware.precision import NarrowRatesSpec, NativeBits, cycles_per_mac
from simaccel.hardware.quantity import Amount, Count, larger, smaller
from simaccel.hardware.spec import Spec
from simaccel.numbers import Element


class NotSystolicError(SimaccelError):
    """The mapping needs a systolic array; the message names it."""


class NotSpatialError(SimaccelError):
    """The mapping needs a spatial array; the message names it."""


def _systolic(kind: object) -> object:
    """Refuse an unknown kind with the names of both; the default is systolic."""
    if kind != "systolic":
        raise ValueError("systolic or spatial")
    return kind


class ArraySpec(Spec):
    """``count`` arrays of R x C processing elements, one MAC each per cycle.

    ``overlap``: the part of a fold that happens during the one before:

    - ``none``: nothing; a fold is preload, stream and skew, and a GEMM ends with its last
      multiplication (SCALE-Sim's charge, which drains output-stationary sums at no cost);
    - ``preload``: the next stationary operand loads, or sums drain, during another fold's stream;
    - ``stream``: also the next stream follows directly, so that a GEMM has the skew once.

    With ``preload`` and ``stream`` a GEMM ends when its last result is at the foot of the rows in
    use. ``validation/rtl`` has the hardware, cycle by cycle.

    ``accumulator``: the sums of weight- and input-stationary folds leave for the buffer when their
    strip of columns is complete; without one, each fold reads them there and writes them back.

    ``edge_folds``: a fold with fewer rows or columns takes the cycles of the ``full`` array or of
    the ``used`` part.

    ``count``: several arrays are a gang behind one buffer; they execute a command together, in
    rounds of one fold each (`grid`), with pipes of their own and shared buffer ports.

    ``native_bits``: operand width of a multiplier; wider operands take several cycles per MAC
    (``cycles_per_mac``). Without it each MAC takes one. ``stationarity``: the operand that the PEs
    hold. ``macs_per_cycle``: of a PE, if both operands are narrow; as many steps of a stream enter
    per cycle, and as many rows of a stationary operand shift in. ``multiplied_as``: number formats
    that are multiplied as others. ``steps_per_cycle``: of a stream, below 1 if the array is fed
    more slowly than it computes. ``blocks``: a fold streams in instructions of a few positions.
    ``diagonal``: independent products with weights, such as the groups of a depthwise convolution,
    may lie on the diagonal, as many as have their own rows and columns, with zeros elsewhere.
    """

    OMITTED: ClassVar = ("stationarity", "count", "diagonal", "multiplied_as", "steps_per_cycle")

    kind: Annotated[Literal["systolic"], BeforeValidator(_systolic)] = Field(
        default="systolic", exclude=True
    )
    rows: Count
    cols: Count
    count: Count = 1
    overlap: Literal["none", "preload", "stream"] = "stream"
    edge_folds: Literal["full", "used"] = "full"
    accumulator: AccumulatorSpec | None = None
    native_bits: NativeBits | None = None
    macs_per_cycle: NarrowRatesSpec | None = None
    multiplied_as: MultipliedAs = MultipliedAs()
    stationarity: Literal["free"] | Stationarity = "free"
    steps_per_cycle: Annotated[float, Field(gt=0, le=1)] = 1.0
    blocks: BlocksSpec | None = None
    diagonal: bool = False

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.blocks is None:
            return
        alone = {"diagonal": False, "count": 1, "steps_per_cycle": 1, "macs_per_cycle": None}
        for name, value in alone.items():
            if getattr(self, name) != value:
                text = "nothing" if value is None else str(value).lower()
                yield name, f"{text}, with array.blocks"

    def cycles_per_mac(self, elements: Iterable[Element]) -> int:
        """Return the cycles of a MAC with operands of these elements."""
        return cycles_per_mac(self.native_bits, map(self.multiplied_as.bits, elements))

    def pace(self, elements: Iterable[Element]) -> Fraction:
        """Return the cycles of a step of the stream with operands of these elements."""
        widths = [self.multiplied_as.bits(one) for one in elements]
        rate = 1 if self.macs_per_cycle is None else self.macs_per_cycle.rate_of(widths)
        return Fraction(cycles_per_mac(self.native_bits, widths), rate)

    def accumulates(self, stationarity: Stationarity) -> AccumulatorSpec | None:
        """Return the accumulator that holds sums; None if they stay in PEs or go to the buffer."""
        return None if stationarity == "os" else self.accumulator

    @property
    def pes(self) -> int:
        """PEs of one array: its peak MACs per cycle at the native width."""
        return self.rows * self.cols * self.count

    def grid(
        self,
        sizes: tuple[Amount, Amount, Amount],
        sides: tuple[Amount, Amount],
        pace: Fraction,
        stationarity: Stationarity,
        products: Amount | None = None,
        run: Amount | None = None,
        *,
        diagonal: bool = False,
    ) -> FoldGrid[Amount]:
        """Return the folds of a GEMM and how all arrays share them.

        ``sizes``: along rows, along columns, steps of the stream (`spatial`); ``sides``: rows and
        columns of a full fold; ``pace``: cycles of a step; ``products``: the number of such GEMMs;
        ``run``: positions of the innermost streaming rank; ``diagonal``: products may share an
        array. The arrays share the folds in the way with the fewest cycles; of equal ones without
        the diagonal, then with more columns at once, then with more products, then with shorter
        streams, as partial sums of one result cost reads of the buffer.

        >>> array = ArraySpec(rows=8, cols=8, count=4)
        >>> array.grid((8, 64, 100), (8, 8), 1, "ws").gang
        Gang(down=1, across=4, along=1, apart=1, beside=1)
        >>> array.grid((8, 8, 100), (8, 8), 1, "ws").gang
        Gang(down=1, across=1, along=4, apart=1, beside=1)
        """
        enter = Fraction(str(self.steps_per_cycle))
        rate = enter.numerator * pace.denominator, enter.denominator
        times, rows_at_once = pace.numerator, pace.denominator
        grid = FoldGrid(*sizes, *sides, times, step_rate=rate, row_rate=rows_at_once)
        unit = sizes[0] * 0 + 1
        if self.blocks is not None:
            step = sizes[2] if run is None else run
            size, whole = (self.rows, self.cols), pace.numerator
            return replace(grid, in_blocks=self.blocks.cycles(sizes[2], step, size, whole))
        beside, count = [unit], unit if products is None else products
        if diagonal and is_above_one(count):
            room = grid.rows // larger(sizes[0], unit), grid.cols // larger(sizes[1], unit)
            beside.append(smaller(larger(smaller(*room), unit), larger(count, unit)))
        elif self.count == 1:
            return grid
        rows, cols = grid.first_rows, smaller(grid.wide, grid.cols)
        options = ((1, 1, 1, 1), *gangs(self.count))
        downs, across, along, apart = map(dict.fromkeys, zip(*options, strict=True))
        under = {n: -(-grid.high // (grid.rows * n)) for n in downs}
        strips = {n: -(-grid.wide // (grid.cols * n)) for n in across}
        streams = {n: grid.cycles_of(-(-grid.stream // n)) for n in along}
        cycles = []
        for many in beside:
            high, wide, held = rows * many, cols * many, (stationarity, rows * many, grid.row_rate)
            # of an array whose folds are freed, too: the shares stay
            folds = {n: ArraySpec.fold_cycles(self, high, wide, streams[n], *held) for n in along}
            turns = {n: -(-count // (n * many)) for n in apart}
            cycles += [turns[d] * strips[b] * under[a] * folds[c] for a, b, c, d in options]
        return replace(grid, gang=choose_gang(options, beside, cycles))

    def _sides(self, rows: Amount, cols: Amount) -> tuple[Amount, Amount]:
        if self.edge_folds == "used":
            return rows, cols
        return rows * 0 + self.rows, cols * 0 + self.cols

    def lead_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Return the cycles before the first fold of a GEMM, whose stationary operand shifts in.

        Less the wait for a next operand that the last fold is charged but that doesn't follow.
        """
        first_rows, last = grid.first_rows * grid.beside, grid.last_rows * grid.beside
        first = -(-self._sides(first_rows, last)[0] // grid.row_rate)
        if self.overlap == "none" or stationarity == "os":
            return first * 0
        if self.overlap == "stream":
            return smaller(first, grid.stream_cycles)
        high, wide = self._sides(last, grid.last_cols * grid.beside)
        return smaller(first, grid.stream_cycles + high + wide - 2)

    def fold_cycles(
        self,
        rows: Amount,
        cols: Amount,
        stream: Amount,
        stationarity: Stationarity,
        first_rows: Amount | None = None,
        row_rate: int = 1,
    ) -> Amount:
        """Return the cycles of one fold that uses ``rows`` x ``cols`` PEs for ``stream`` cycles.

        ``first_rows``: rows of the first fold of a strip, which may be the next one to load.
        ``row_rate``: rows of a stationary operand that shift in per cycle.

        >>> ArraySpec(rows=8, cols=8, overlap="none").fold_cycles(8, 8, 32, "ws")
        54
        >>> ArraySpec(rows=8, cols=8, overlap="none").fold_cycles(8, 8, 32, "ws", row_rate=2)
        50
        """
        high, wide = self._sides(rows, cols)
        loading = high if stationarity == "os" else -(-high // row_rate)
        if self.overlap == "stream":
            # the next operand (or the last result, os) shifts through `high` rows meanwhile
            return larger(stream, loading)
        shift = loading * int(self.overlap == "none" and stationarity != "os")
        alone = shift + stream + high + wide - 2
        if self.overlap == "none" or stationarity == "os" or first_rows is None:
            return alone
        return larger(alone, -(-self._sides(first_rows, cols)[0] // row_rate))

    def cycles_in(
        self, grid: FoldGrid[Amount], rows: Amount, cols: Amount, stationarity: Stationarity
    ) -> Amount:
        """Return the cycles of one fold of a grid, ``rows`` x ``cols`` PEs of each product."""
        many = grid.beside
        held = stationarity, grid.first_rows * many, grid.row_rate
        return self.fold_cycles(rows * many, cols * many, grid.stream_cycles, *held)

    def hidden_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Return the last cycles of a GEMM in which the operand of the next one may shift in.

        The shadow registers are free once the last fold has begun to stream.
        """
        if self.overlap == "stream":
            return grid.stream_cycles
        sides = grid.last_rows * grid.beside, grid.last_cols * grid.beside
        stream = grid.stream_cycles
        alone = self.fold_cycles(*sides, stream, stationarity, row_rate=grid.row_rate)
        return alone * int(self.overlap == "preload")

    def leaving_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Return the cycles after a GEMM for which its leaving sums hold up those of the next one.

        Output-stationary sums shift out through the rows in use. With ``stream`` the GEMM is
        charged only for the part that exceeds the stream of its last fold.

        >>> ArraySpec(rows=8, cols=8).leaving_cycles(FoldGrid(20, 5, 3, 8, 8), "os")
        3
        """
        high = self._sides(grid.last_rows * grid.beside, grid.last_cols)[0]
        return smaller(high, grid.stream_cycles) * int(
            stationarity == "os" and self.overlap == "stream"
        )

    @staticmethod
    def fold_bytes(
        grid: FoldGrid[Amount],
        sides: tuple[Amount, Amount],
        stationarity: Stationarity,
        widths: tuple[int, int, int],
        *,
        multicasts: bool,
        products: Amount | int = 1,
        together: Amount | int = 1,
    ) -> FoldBytes[Amount]:
        """Return the bytes of one fold, or a round of folds, on ``sides`` (rows, columns of PEs).

        ``products``: products at once, ``together`` of them on each array. ``widths``: bits per
        element of A, B and C. An operand that enters along the rows is needed in each column, and
        the other way round: without multicast it is sent once per column (row), with it once per
        array.

        >>> grid, widths = FoldGrid(8, 4, 100, 8, 8), (16, 8, 32)
        >>> moved = ArraySpec.fold_bytes(grid, (8, 4), "ws", widths, multicasts=True)
        >>> moved.a, moved.b, moved.out, moved.a_sent, moved.b_sent
        (1600, 32, 1600, 1600, 32)
        >>> ArraySpec.fold_bytes(grid, (8, 4), "ws", widths, multicasts=False).a_sent
        6400
        """
        rows, cols = sides
        gang = grid.arrays(rows, cols)
        a, b, out = operand_bytes(rows, cols, grid.stream, stationarity, widths)
        alone = smaller(rows, grid.rows), smaller(cols, grid.cols)
        a_alone, b_alone, pipe_out = operand_bytes(*alone, grid.steps, stationarity, widths)
        # how often what streams is sent: to each array that needs it, or to each of its lines
        across, down = (gang.across, gang.down) if multicasts else (cols, rows)
        unit = rows * 0 + 1
        per_col, per_row = (unit, unit) if multicasts else (alone[1], alone[0])
        times = {
            "ws": ((across, per_col), (gang.along, unit)),
            "is": ((gang.along, unit), (across, per_col)),
            "os": ((across, per_col), (down, per_row)),
        }[stationarity]
        (a_times, a_each), (b_times, b_each) = times
        pipe_in: Amount = a_alone * a_each + b_alone * b_each
        return FoldBytes(
            a * products,
            b * products,
            out * products,
            a_sent=a * a_times * products,
            b_sent=b * b_times * products,
            adding=gang.adding(stationarity),
            pipe_in=pipe_in * together,
            pipe_out=pipe_out * together,
        )

    def tail_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:
        """Return the cycles after the last fold until all results are at the foot of the array.

        If edge folds use fewer PEs, an earlier fold may end last: the last fold, the one before,
        and the last two of the strip before are compared.
        """
        sides = grid.last_rows * grid.beside, grid.last_cols * grid.beside
        tail = self._way_out(*sides, grid.stream_cycles, stationarity)
        if self.edge_folds == "full":
            return tail
        rows, cols = (grid.last_rows, grid.rows), (grid.last_cols, grid.cols)
        spent = [[self.cycles_in(grid, r, c, stationarity) for c in cols] for r in rows]
        more_rows, more_cols = grid.high > grid.round_rows, grid.wide > grid.round_cols
        strip = spent[0][0] + (grid.row_rounds - 1) * spent[1][0]
        for r, c, after, exists in (
            (rows[1], cols[0], spent[0][0], more_rows),
            (rows[0], cols[1], strip, more_cols),
            (rows[1], cols[1], strip + spent[0][1], more_rows & more_cols),
        ):
            own = self._way_out(r, c, grid.stream_cycles, stationarity)
            tail = larger(tail, (own - after) * exists)
        return tail

    def _way_out(
        self, rows: Amount, cols: Amount, stream: Amount, stationarity: Stationarity
    ) -> Amount:
        """Return the cycles from the end of a fold's charge to its last result at the foot."""
        high, wide = self._sides(rows, cols)
        if stationarity != "os":
            return (high + wide - 2) * int(self.overlap == "stream")
        if self.overlap != "stream":
            return (high - 1) * int(self.overlap == "preload")
        # sums start on their way when the stream ends, not when those before them have left
        return high + wide - 2 + high - 1 - (larger(stream, high) - stream)

    def gemm_cycles(self, *, m: Amount, k: Amount, n: Amount, stationarity: Stationarity) -> Amount:
        """Return the cycles of C[m, n] += A[m, k] B[k, n] with unlimited memory and NoC.

        With ``overlap="none"``: os ``ceil(m/R) ceil(n/C) (k+R+C-2)``, ws ``ceil(k/R) ceil(n/C)
        (m+2R+C-2)``, is ``ceil(k/R) ceil(m/C) (n+2R+C-2)``, as SCALE-Sim v3 charges.

        >>> array = ArraySpec(rows=8, cols=8, overlap="none")
        >>> array.gemm_cycles(m=32, k=32, n=32, stationarity="ws")
        864
        """
        high, wide, stream = spatial(m, k, n, stationarity)
        full_row, full_col = high * 0 + self.rows, wide * 0 + self.cols
        grid = self.grid((high, wide, stream), (full_row, full_col), Fraction(1), stationarity)
        row_folds, col_folds = grid.row_rounds - 1, -(-wide // grid.round_cols) - 1
        cycles: Amount = (
            self.lead_cycles(grid, stationarity)
            + row_folds * col_folds * self.cycles_in(grid, full_row, full_col, stationarity)
            + row_folds * self.cycles_in(grid, full_row, grid.last_cols, stationarity)
            + col_folds * self.cycles_in(grid, grid.last_rows, full_col, stationarity)
            + self.cycles_in(grid, grid.last_rows, grid.last_cols, stationarity)
            + self.tail_cycles(grid, stationarity)
        )
        return cycles
