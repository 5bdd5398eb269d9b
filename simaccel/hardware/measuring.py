"""Costs of measuring: between an accelerator and the clock that it was timed with."""

from __future__ import annotations

from simaccel.hardware.quantity import Cycles
from simaccel.hardware.spec import Spec


class MeasuringSpec(Spec):
    """Costs of measuring: part of published times, not of the accelerator. No run has them.

    ``start_cycles``: what the host takes for each timed call, in cycles of the accelerator.
    """

    start_cycles: Cycles = 0
