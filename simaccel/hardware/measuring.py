"""Costs of measuring, which published times include and runs do not."""

from __future__ import annotations

from simaccel.hardware.quantity import Cycles
from simaccel.hardware.spec import Spec


class MeasuringSpec(Spec):
    """Costs that are part of published times, but not of the accelerator or of any run.

    ``start_cycles``: time of the host per timed call, in cycles of the accelerator.
    """

    start_cycles: Cycles = 0
