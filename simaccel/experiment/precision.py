"""A workload in the precision of the accelerator that it runs on."""

from __future__ import annotations

from simaccel.hardware import Accelerator
from simaccel.workload import Workload, with_precision


def at_precision(workload: Workload, accelerator: Accelerator) -> Workload:
    """Return a workload with the accelerator's numbers in classes for which it names none itself.

    Where the accelerator has no section ``precision``, or a file says the types of the tensors, it
    is the same workload.
    """
    if workload.parameters.get("typed"):
        return workload
    own = workload.parameters.get("precision", {})
    given = accelerator.precision.by_class
    missing = {name: number for name, number in given.items() if name not in own}
    return with_precision(workload, missing) if missing else workload
