"""Closed form of one GEMM command on the array, limited by array, NoC and buffer ports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simaccel.analytic.work import Ints, ints
from simaccel.hardware import Accelerator, Stationarity, spatial


@dataclass(frozen=True)
class Widths:
    """Bytes per element of a GEMM's operands."""

    a: int
    b: int
    out: int


@dataclass(frozen=True)
class ArrayPass:
    """One GEMM command: cycles as executed, compute cycles alone, bytes moved."""

    cycles: Ints
    compute: Ints
    a_bytes: Ints
    b_bytes: Ints
    sums_bytes: Ints
    out_bytes: Ints
    distribution_bytes: Ints
    read_port: Ints
    write_port: Ints


def array_pass(
    accelerator: Accelerator,
    shape: tuple[Ints, Ints, Ints, Ints],
    stationarity: Stationarity,
    widths: Widths,
    *,
    accumulate: bool,
) -> ArrayPass:
    """Charge out[g, m, n] (+)= a[g, m, k] b[g, k, n].

    Bytes follow from reuse: the stationary operand is read once per fold, the streamed one
    once per strip of columns, partial sums once per row fold after the first (ws, is).
    """
    g, m, k, n = shape
    array = accelerator.systolic
    high, wide, stream = spatial(m, k, n, stationarity)
    totals = _Totals(accelerator, stationarity, widths, stream)
    side, across = ints(array.rows), ints(array.cols)
    strips = (
        (wide // array.cols, across),
        (ints(wide % array.cols > 0), wide % array.cols),
    )
    full, edge = high // array.rows, high % array.rows
    first_high = np.minimum(high, array.rows)
    reduces = stationarity != "os"
    for n_strips, cols in strips:
        if reduces and not accumulate:
            totals.add(n_strips, first_high, cols, sums=False)
            totals.add(n_strips * (full - (full > 0)), side, cols, sums=True)
            totals.add(n_strips * ints((full > 0) & (edge > 0)), edge, cols, sums=True)
        else:
            totals.add(n_strips * full, side, cols, sums=accumulate)
            totals.add(n_strips * ints(edge > 0), edge, cols, sums=accumulate)
    lead = array.lead_cycles(first_high, stationarity)
    tail = array.tail_cycles((high - 1) % array.rows + 1, (wide - 1) % array.cols + 1, stream)
    latency = accelerator.lead_latency_cycles + accelerator.tail_latency_cycles
    return ArrayPass(
        cycles=g * totals.cycles + lead + tail + latency,
        compute=g * totals.compute + lead + tail,
        a_bytes=g * totals.a_bytes,
        b_bytes=g * totals.b_bytes,
        sums_bytes=g * totals.sums_bytes,
        out_bytes=g * totals.out_bytes,
        distribution_bytes=g * totals.distribution_bytes,
        read_port=g * totals.read_port,
        write_port=g * totals.write_port,
    )


class _Totals:
    """Sums over the folds of one g."""

    def __init__(
        self, accelerator: Accelerator, stationarity: Stationarity, widths: Widths, stream: Ints
    ) -> None:
        self.accelerator, self.stationarity = accelerator, stationarity
        self.widths, self.stream = widths, stream
        zero = ints(0)
        self.cycles = self.compute = self.a_bytes = self.b_bytes = zero
        self.sums_bytes = self.out_bytes = self.distribution_bytes = zero
        self.read_port = self.write_port = zero

    def add(self, times: Ints, rows: Ints, cols: Ints, *, sums: bool) -> None:
        """Add ``times`` folds of ``rows`` x ``cols``."""
        hardware, widths, stream = self.accelerator, self.widths, self.stream
        array = hardware.systolic
        one = array.fold_bytes(
            (rows, cols),
            stream,
            self.stationarity,
            (widths.a, widths.b, widths.out),
            multicasts=hardware.noc.distribution.multicasts,
        )
        a, b, out, spread = one.a, one.b, one.out, one.distributed
        read = hardware.read_rate.cycles(a + b + out * int(sums))
        write = hardware.write_rate.cycles(out)
        compute = array.fold_cycles(rows, cols, stream, self.stationarity)
        limits = (
            hardware.distribution_rate.cycles(spread),
            hardware.collection_rate.cycles(out),
            read,
            write,
        )
        longest = compute
        for limit in limits:
            longest = np.maximum(longest, limit)
        self.cycles = self.cycles + times * longest
        self.compute = self.compute + times * compute
        self.a_bytes = self.a_bytes + times * a
        self.b_bytes = self.b_bytes + times * b
        self.sums_bytes = self.sums_bytes + times * out * int(sums)
        self.out_bytes = self.out_bytes + times * out
        self.distribution_bytes = self.distribution_bytes + times * spread
        self.read_port = self.read_port + times * read
        self.write_port = self.write_port + times * write
