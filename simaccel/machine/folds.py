"""How the array executes a GEMM command: its folds as a small tree of loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.hardware import Accelerator, spatial
from simaccel.program.program import Gemm


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
    distribution_bytes: int


@dataclass(frozen=True)
class FoldLoop:
    """``trips`` times the same folds."""

    trips: int
    body: tuple[Fold | FoldLoop, ...]


@dataclass(frozen=True)
class _Place:
    """Ranks of a GEMM on the array."""

    gemm: Gemm
    accelerator: Accelerator

    def fold(self, rows: int, cols: int, *, sums: bool) -> Fold:
        """Charge a fold of ``rows`` x ``cols`` PEs."""
        gemm, array = self.gemm, self.accelerator.systolic
        _, m, k, n = gemm.shape
        stream = spatial(m, k, n, gemm.stationarity)[2]
        a_bytes, b_bytes = gemm.a.view.bytes_per_element, gemm.b.view.bytes_per_element
        out_bytes = gemm.out.view.bytes_per_element
        copies = not self.accelerator.noc.distribution.multicast and (
            self.accelerator.noc.distribution.topology != "systolic"
        )
        if gemm.stationarity == "os":
            moved_a, moved_b, made = rows * stream * a_bytes, cols * stream * b_bytes, rows * cols
            spread = moved_a * (cols if copies else 1) + moved_b * (rows if copies else 1)
        elif gemm.stationarity == "ws":
            moved_a, moved_b, made = rows * stream * a_bytes, rows * cols * b_bytes, cols * stream
            spread = moved_a * (cols if copies else 1) + moved_b
        else:
            moved_a, moved_b, made = rows * cols * a_bytes, rows * stream * b_bytes, cols * stream
            spread = moved_a + moved_b * (cols if copies else 1)
        return Fold(
            cycles=array.fold_cycles(rows, cols, stream, gemm.stationarity),
            macs=rows * cols * stream,
            a_bytes=moved_a,
            b_bytes=moved_b,
            sums_bytes=made * out_bytes * sums,
            out_bytes=made * out_bytes,
            distribution_bytes=spread,
        )


def gemm_folds(gemm: Gemm, accelerator: Accelerator) -> tuple[int, FoldLoop, int]:
    """Give lead cycles, the folds of all g, and tail cycles of a GEMM command.

    Columns are the outer loop, rows the inner one: where rows hold the reduction (ws, is),
    the folds that add to the same outputs follow one another.
    """
    array = accelerator.systolic
    high, wide, stream = spatial(*gemm.shape[1:], gemm.stationarity)
    place = _Place(gemm, accelerator)
    full, edge = _split(wide, array.cols)
    columns: list[Fold | FoldLoop] = []
    if full:
        columns.append(FoldLoop(full, _column(place, high, array.cols)))
    if edge:
        columns.extend(_column(place, high, edge))
    lead = array.lead_cycles(min(high, array.rows), gemm.stationarity)
    tail = array.tail_cycles((high - 1) % array.rows + 1, (wide - 1) % array.cols + 1, stream)
    return lead, FoldLoop(gemm.shape[0], tuple(columns)), tail


def _split(extent: int, side: int) -> tuple[int, int]:
    return extent // side, extent % side


def _column(place: _Place, high: int, cols: int) -> tuple[Fold | FoldLoop, ...]:
    """Folds that follow one another down one strip of columns."""
    side = place.accelerator.systolic.rows
    full, edge = _split(high, side)
    reduction = place.gemm.stationarity != "os"
    body: list[Fold | FoldLoop] = []
    sums = place.gemm.accumulate
    if reduction and not sums:
        body.append(place.fold(side if full else edge, cols, sums=False))
        full, edge, sums = (full - 1, edge, True) if full else (0, 0, True)
    if full:
        body.append(FoldLoop(full, (place.fold(side, cols, sums=sums),)))
    if edge:
        body.append(place.fold(edge, cols, sums=sums))
    return tuple(body)


def total(folds: Sequence[Fold | FoldLoop], what: str) -> int:
    """Sum one field over all executions of the folds.

    >>> total([FoldLoop(3, (Fold(5, 1, 0, 0, 0, 0, 0),))], "cycles")
    15
    """
    return sum(
        node.trips * total(node.body, what) if isinstance(node, FoldLoop) else getattr(node, what)
        for node in folds
    )
