"""Scheduling, with what was found before."""

from __future__ import annotations

from simaccel.experiment.remembered import remembered
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, make_mapping, settled
from simaccel.schedulers.accounts import Note, unnoted
from simaccel.workload import Workload


def scheduled(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options | None = None,
    *,
    told: Note = unnoted,
) -> Mapping:
    """Schedule a workload.

    A mapping that was found before is read from disk (``remembered``). ``told`` is handed the
    accounts of how it was searched, then or now.

    Raises:
        SimaccelError: as of ``make_mapping``.

    """
    return remembered(
        workload,
        accelerator,
        dataflow,
        settled(options or Options(), accelerator),
        lambda options: make_mapping(workload, accelerator, dataflow, options),
        told=told,
    )
