"""A workload on the accelerator that it runs on: in its precision, with what its memories hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simaccel.errors import gather
from simaccel.hardware import Accelerator
from simaccel.workload import Workload
from simaccel.workload.precision import with_native
from simaccel.workload.shared import in_shared_buffer


def gather_placed(
    workload: Callable[[], Workload],
    accelerator: Callable[[], Accelerator | None],
    *others: Callable[[], object],
) -> list[Any]:
    """Read a workload, the accelerator that it runs on, and other inputs: the workload as there.

    Raises:
        InputError: the faults of all of them together.

    """
    read, there, *rest = gather(workload, accelerator, *others)
    return [read if there is None else place_on(read, there), there, *rest]


def place_on(workload: Workload, accelerator: Accelerator) -> Workload:
    """Return a workload with the accelerator's numbers in tensors for which it says none itself.

    What operators hand on lies in the buffer that its cores share, if there is one and it fits.
    Where the accelerator has neither, or a file says the types of the tensors, it is the same
    workload.
    """
    if not workload.parameters.get("typed"):
        workload = with_native(workload, accelerator.precision.by_class)
    return share_buffer(workload, accelerator)


def share_buffer(workload: Workload, accelerator: Accelerator) -> Workload:
    """Return a workload with what lies in the buffer that the accelerator's cores share."""
    shared = accelerator.cores.shared_buffer
    return in_shared_buffer(workload, None if shared is None else shared.capacity_bytes)
