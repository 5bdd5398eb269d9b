"""Accumulators: the memory beside a systolic array that holds partial sums."""

from __future__ import annotations

from typing import ClassVar

from simaccel.hardware.fold_grid import FoldGrid, smaller
from simaccel.hardware.quantity import Amount, BytesOrUnlimited, Count, Picojoules
from simaccel.hardware.spec import Spec


class AccumulatorSpec(Spec):
    """Memory at the foot of the columns for the partial sums of a strip of columns, as in a TPU.

    ``pj_per_byte``: of a read or write; by default that of the buffer.
    """

    OMITTED: ClassVar = ("pj_per_byte",)

    bytes_per_element: Count = 4
    capacity_bytes: BytesOrUnlimited
    pj_per_byte: Picojoules | None = None

    def n_bytes(self, grid: FoldGrid[Amount]) -> Amount:
        """Return the bytes of one array's sums of one strip of columns, over all its folds.

        >>> AccumulatorSpec(capacity_bytes=None).n_bytes(FoldGrid(64, 6, 100, 8, 8))
        2400
        """
        return grid.steps * smaller(grid.wide, grid.cols) * self.bytes_per_element
