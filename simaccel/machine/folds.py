"""How a systolic array executes a command: its folds as a small tree of loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.hardware import Accelerator, FoldGrid, spatial
from simaccel.program.folding import folded_shape
from simaccel.program.program import Compute, Folds, ProgramError


@dataclass(frozen=True)
class Fold:
    """One pass over the array: its cycles and the bytes that it moves."""

    cycles: int
    macs: int
    a_bytes: int
    b_bytes: int
    sums_bytes: int
    """Partial sums read back before they are added to."""
    out_bytes: int
    a_sent_bytes: int
    """Through the distribution pipe, as ``b_sent_bytes``."""
    b_sent_bytes: int


@dataclass(frozen=True)
class FoldLoop:
    """``trips`` times the same folds."""

    trips: int
    body: tuple[Fold | FoldLoop, ...]


@dataclass(frozen=True)
class _Place:
    """A block on the array: cut as ``grid`` says."""

    command: Compute
    folds: Folds
    accelerator: Accelerator
    grid: FoldGrid[int]

    def fold(self, rows: int, cols: int, *, sums: bool) -> Fold:
        """Charge a fold of ``rows`` x ``cols`` PEs."""
        array, stationarity = self.accelerator.systolic, self.folds.stationarity
        a, b, out = (tile.view for tile in (*self.command.inputs, self.command.out))
        moved = array.fold_bytes(
            (rows, cols),
            self.grid.stream,
            stationarity,
            (a.bytes_per_element, b.bytes_per_element, out.bytes_per_element),
            multicasts=self.accelerator.noc.distribution.multicasts,
        )
        return Fold(
            cycles=array.fold_cycles(
                rows, cols, self.grid.stream, stationarity, self.grid.first_rows
            ),
            macs=rows * cols * self.grid.stream,
            a_bytes=moved.a,
            b_bytes=moved.b,
            sums_bytes=moved.out * sums,
            out_bytes=moved.out,
            a_sent_bytes=moved.a_sent,
            b_sent_bytes=moved.b_sent,
        )


def folds_of(command: Compute, folds: Folds, accelerator: Accelerator) -> tuple[int, FoldLoop, int]:
    """Return lead cycles, the folds of all g, and tail cycles of a command.

    Columns are the outer loop, rows the inner one: where rows hold the reduction (ws, is),
    the folds that add to the same outputs follow one another.

    Raises:
        ProgramError: the block can't be folded, or a fold is larger than the array.

    """
    array = accelerator.systolic
    g, m, k, n = folded_shape(command)
    high, wide, stream = spatial(m, k, n, folds.stationarity)
    rows = _side(command, folds.rows, array.rows, "rows")
    cols = _side(command, folds.cols, array.cols, "cols")
    grid = FoldGrid(high, wide, stream, rows, cols)
    place = _Place(command, folds, accelerator, grid)
    full, edge = divmod(wide, cols)
    columns: list[Fold | FoldLoop] = []
    if full:
        columns.append(FoldLoop(full, _column(place, high, cols)))
    if edge:
        columns.extend(_column(place, high, edge))
    lead = array.lead_cycles(grid, folds.stationarity)
    tail = array.tail_cycles(grid, folds.stationarity)
    return lead, FoldLoop(g, tuple(columns)), tail


def _side(command: Compute, asked: int | None, there: int, name: str) -> int:
    if asked is None:
        return there
    if not 1 <= asked <= there:
        raise ProgramError(
            f"{command.out.name}: folds of {asked} {name}; allowed: 1 to {there}, the array's"
        )
    return asked


def _column(place: _Place, high: int, cols: int) -> tuple[Fold | FoldLoop, ...]:
    """Folds that follow one another down one strip of columns."""
    full, edge = divmod(high, place.grid.rows)
    body: list[Fold | FoldLoop] = []
    sums = place.command.accumulate
    if place.folds.stationarity != "os" and not sums:
        body.append(place.fold(place.grid.rows if full else edge, cols, sums=False))
        full, edge, sums = (full - 1, edge, True) if full else (0, 0, True)
    if full:
        body.append(FoldLoop(full, (place.fold(place.grid.rows, cols, sums=sums),)))
    if edge:
        body.append(place.fold(edge, cols, sums=sums))
    return tuple(body)


def total(folds: Sequence[Fold | FoldLoop], what: str) -> int:
    """Sum one field over all executions of the folds.

    >>> total([FoldLoop(3, (Fold(5, 1, 0, 0, 0, 0, 0, 0),))], "cycles")
    15
    """
    return sum(
        node.trips * total(node.body, what) if isinstance(node, FoldLoop) else getattr(node, what)
        for node in folds
    )
