"""Scheduling, with what was found before."""

from __future__ import annotations

from simaccel.experiment.chip_share import chip_share
from simaccel.experiment.precision import compile_for
from simaccel.experiment.remembered import recall_or_search
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, make_mapping, settle_options
from simaccel.schedulers.parallel import whole_mapping
from simaccel.search.accounts import Note, ignore
from simaccel.workload import Workload


def schedule_workload(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options | None = None,
    *,
    record: Note = ignore,
) -> Mapping:
    """Schedule a workload.

    A mapping that an earlier call stored is read from disk (``recall_or_search``). ``record`` is
    called with the account of each search, whether this call or an earlier one did it. For several
    chips, one chip's share of the workload is searched, as if links took no time.

    Raises:
        SimaccelError: as of ``make_mapping``.

    """
    options = options or Options()
    workload = compile_for(workload, accelerator, dataflow, options)
    share = chip_share(workload, accelerator, options)
    if share is None:
        return _map_single_core(workload, accelerator, dataflow, options, record)
    mapping = _map_single_core(
        share.pod.workload, share.accelerator, dataflow, share.options, record
    )
    cuts = share.spreads, share.pod, mapping, accelerator.pod
    return whole_mapping(workload, *cuts, share.once)


def _map_single_core(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options, record: Note
) -> Mapping:
    return recall_or_search(
        workload,
        accelerator,
        dataflow,
        settle_options(options, accelerator),
        lambda options: make_mapping(workload, accelerator, dataflow, options),
        record=record,
    )
