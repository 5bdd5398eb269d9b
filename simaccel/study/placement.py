"""A workload made ready for its accelerator: number formats, shared buffer, compiler's kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from simaccel.analytic.memories import share_buffer
from simaccel.dataflows import DEPLOYED
from simaccel.errors import InputError, gather
from simaccel.hardware import Accelerator
from simaccel.workload import Workload
from simaccel.workload.precision import with_native

if TYPE_CHECKING:
    from simaccel.mapping.chips.sharding import Pod
    from simaccel.mapping.tree import Mapping
    from simaccel.schedulers import Options


def gather_placed(
    workload: Callable[[], Workload],
    accelerator: Callable[[], Accelerator | None],
    *others: Callable[[], object],
) -> list[Any]:
    """Read a workload, its accelerator and other inputs; the workload is placed (``place_on``).

    Raises:
        InputError: the faults of all inputs together.
    """
    read, chip, *rest = gather(workload, accelerator, *others)
    return [read if chip is None else place_on(read, chip), chip, *rest]


def place_on(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping = "",
    options: Options | None = None,
) -> Workload:
    """Return a workload with the accelerator's number formats in tensors without one.

    Tensors between operators are placed in the buffer that the cores share, if there is one and
    they fit. For the dataflow ``deployed`` operators are fused and changed as by the accelerator's
    compiler; ``options`` have the degrees of parallelism of its chips. An accelerator without
    formats and shared buffer leaves other workloads unchanged.
    """
    workload = with_native(workload, accelerator.precision.by_class)
    return compile_for(share_buffer(workload, accelerator), accelerator, dataflow, options)


def compile_for(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping,
    options: Options | None = None,
) -> Workload:
    """Return the workload that a dataflow or a mapping is for: compiled if that is ``deployed``.

    ``options``: degrees of parallelism. On several chips the form and the split are chosen
    (`with_split`); with a mapping, the form is that with its fingerprint.
    """
    if accelerator.pod.count == 1 or not dataflow:
        return _compile(workload, accelerator, dataflow, options)
    from simaccel.schedulers.chip_share import (  # noqa: PLC0415 - errors load little
        grouped_experts,
        with_split,
    )

    if isinstance(dataflow, str):
        from simaccel.schedulers import Options  # noqa: PLC0415 - errors load little

        workload = with_split(workload, accelerator, options or Options(), dataflow)
        return _compile(workload, accelerator, dataflow, options)
    plain = _compile(workload, accelerator, dataflow, options)
    forms = grouped_experts(workload, accelerator.pod)
    others = (_compile(form, accelerator, dataflow, options) for form in forms)
    wanted = dataflow.workload.fingerprint
    return next((form for form in chain([plain], others) if form.fingerprint == wanted), plain)


def _compile(
    workload: Workload, accelerator: Accelerator, dataflow: str | Mapping, options: Options | None
) -> Workload:
    """Return a workload as the accelerator's compiler makes it for ``deployed``, else as it is."""
    name = dataflow if isinstance(dataflow, str) else dataflow.dataflow
    if name != DEPLOYED:
        return workload
    from simaccel.schedulers.kernels import compile_graph  # noqa: PLC0415 - errors load little

    share = partial(_pod_of, accelerator=accelerator, dataflow=dataflow, options=options)
    return compile_graph(workload, accelerator, share)


def _pod_of(
    workload: Workload, accelerator: Accelerator, dataflow: str | Mapping, options: Options | None
) -> Pod | None:
    """Return what each chip does; None for an illegal split, which is refused later."""
    from simaccel.mapping.chips.sharding import pod_of  # noqa: PLC0415 - errors load little
    from simaccel.schedulers import Options  # noqa: PLC0415 - errors load little
    from simaccel.schedulers.chip_share import chip_share  # noqa: PLC0415 - errors load little

    try:
        if isinstance(dataflow, str):
            share = chip_share(workload, accelerator, options or Options())
            return None if share is None else share.pod
        known = workload.by_name.keys()
        groups = tuple(group for group in dataflow.groups if known >= {*group.operators})
        return pod_of(workload, replace(dataflow, body=groups), accelerator)
    except InputError:
        return None
