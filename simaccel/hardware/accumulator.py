"""The memory beside a systolic array in which sums grow."""

from __future__ import annotations

from simaccel.hardware.fold_grid import FoldGrid, smaller
from simaccel.hardware.quantity import Amount, BytesOrUnlimited, Count, Picojoules
from simaccel.hardware.spec import Spec, unset_fields


class AccumulatorSpec(Spec):
    """Memory at the foot of the columns in which sums of a strip of columns grow, as in a TPU.

    ``pj_per_byte``: read or written; as in the buffer if it isn't said.
    """

    bytes_per_element: Count = 4
    capacity_bytes: BytesOrUnlimited
    pj_per_byte: Picojoules | None = None

    @property
    def absent(self) -> set[str]:
        """Fields that are not set."""
        return unset_fields(self, "pj_per_byte")

    def n_bytes(self, grid: FoldGrid[Amount]) -> Amount:
        """Bytes of the sums of one strip of one array, which all its folds add to.

        >>> AccumulatorSpec(capacity_bytes=None).n_bytes(FoldGrid(64, 6, 100, 8, 8))
        2400
        """
        return grid.steps * smaller(grid.wide, grid.cols) * self.bytes_per_element
