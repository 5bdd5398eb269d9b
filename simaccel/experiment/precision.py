"""A workload with the number formats and the shared buffer of the accelerator that it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simaccel.dataflows import DEPLOYED
from simaccel.errors import gather
from simaccel.hardware import Accelerator
from simaccel.workload import Workload
from simaccel.workload.precision import with_native
from simaccel.workload.shared import in_shared_buffer

if TYPE_CHECKING:
    from simaccel.mapping.tree import Mapping


def gather_placed(
    workload: Callable[[], Workload],
    accelerator: Callable[[], Accelerator | None],
    *others: Callable[[], object],
) -> list[Any]:
    """Read a workload, its accelerator and other inputs; the workload is placed (``place_on``).

    Raises:
        InputError: the faults of all inputs together.

    """
    read, there, *rest = gather(workload, accelerator, *others)
    return [read if there is None else place_on(read, there), there, *rest]


def place_on(
    workload: Workload, accelerator: Accelerator, dataflow: str | Mapping = ""
) -> Workload:
    """Return a workload with the accelerator's number formats in tensors without one.

    Tensors between operators are placed in the buffer that the cores share, if there is one and
    they fit. For the dataflow ``deployed`` it is as the accelerator's compiler sees it. Without
    formats and shared buffer (or with types from a file) the workload is unchanged.
    """
    if not workload.parameters.get("typed"):
        workload = with_native(workload, accelerator.precision.by_class)
    return compile_for(share_buffer(workload, accelerator), accelerator, dataflow)


def compile_for(workload: Workload, accelerator: Accelerator, dataflow: str | Mapping) -> Workload:
    """Return a workload as the dataflow, or that of a mapping, has it."""
    name = dataflow if isinstance(dataflow, str) else dataflow.dataflow
    if name != DEPLOYED:
        return workload
    from simaccel.schedulers.kernels import compile_graph  # noqa: PLC0415 - errors load little

    return compile_graph(workload, accelerator)


def share_buffer(workload: Workload, accelerator: Accelerator) -> Workload:
    """Return a workload with its tensors in the buffer that the accelerator's cores share."""
    shared = accelerator.cores.shared_buffer
    if shared is None and accelerator.compiler.described:
        return workload  # what lies on the chip is the compiler's choice
    return in_shared_buffer(workload, None if shared is None else shared.capacity_bytes)
