"""Units that compute in no time; what they move stays."""

from __future__ import annotations

from simaccel.hardware import (
    Accelerator,
    ArraySpec,
    FoldGrid,
    SfuSpec,
    SpatialArraySpec,
    Stationarity,
)
from simaccel.hardware.quantity import Amount
from simaccel.hardware.sfu import InPasses
from simaccel.units import SFU


class FreeArray(ArraySpec):
    """An array whose folds take no cycles; what they move through NoC and ports stays."""

    def lead_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:  # noqa: ARG002
        """Nothing before the first fold."""
        return grid.high * 0

    def fold_cycles(
        self,
        rows: Amount,
        cols: Amount,  # noqa: ARG002 - as ArraySpec has them
        stream: Amount,  # noqa: ARG002
        stationarity: Stationarity,  # noqa: ARG002
        first_rows: Amount | None = None,  # noqa: ARG002
        row_rate: int = 1,  # noqa: ARG002
    ) -> Amount:
        """Nothing for a fold."""
        return rows * 0

    def tail_cycles(self, grid: FoldGrid[Amount], stationarity: Stationarity) -> Amount:  # noqa: ARG002
        """Nothing after the last fold."""
        return grid.high * 0

    @property
    def lead_latency_cycles(self) -> int:
        """Nothing before a pass."""
        return 0

    @property
    def tail_latency_cycles(self) -> int:
        """Nothing after a pass."""
        return 0


class FreePes(SpatialArraySpec):
    """A spatial array whose passes take no cycles; what they move stays."""

    def pass_cycles(self, steps: int, pes: tuple[int, int], stationarity: Stationarity) -> int:  # noqa: ARG002 - as SpatialArraySpec has it
        """Nothing for a pass."""
        return 0


class FreeSfu(SfuSpec):
    """An SFU whose work takes no cycles; what its passes move through the ports stays."""

    def cycles(self, work: InPasses, elements: Amount, rows: Amount) -> Amount:  # noqa: ARG002
        """Nothing for any work."""
        return elements * 0


def without_sfu_latency(accelerator: Accelerator) -> Accelerator:
    """Return an accelerator whose vector operators take what their elements take, and no more."""
    sfu = accelerator.sfu
    fields = {name: getattr(sfu, name) for name in type(sfu).model_fields}
    sections = {name: getattr(accelerator, name) for name in type(accelerator).model_fields}
    sections[SFU] = type(sfu).model_validate(fields | {"latency_cycles": 0})
    return Accelerator.model_validate(sections)
