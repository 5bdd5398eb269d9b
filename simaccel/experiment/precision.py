"""A workload in the precision of the accelerator that it runs on."""

from __future__ import annotations

from simaccel.hardware import Accelerator
from simaccel.workload import Workload
from simaccel.workload.precision import with_native


def at_precision(workload: Workload, accelerator: Accelerator) -> Workload:
    """Return a workload with the accelerator's numbers in tensors for which it says none itself.

    Where the accelerator has no section ``precision``, or a file says the types of the tensors, it
    is the same workload.
    """
    if workload.parameters.get("typed"):
        return workload
    return with_native(workload, accelerator.precision.by_class)
