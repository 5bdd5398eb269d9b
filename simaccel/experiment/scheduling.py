"""Scheduling, with what was found before."""

from __future__ import annotations

from dataclasses import replace

from simaccel.experiment.remembered import recall_or_search
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipsSpec
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, make_mapping, settle_options
from simaccel.schedulers.parallel import degrees_of, share_of, spread_over, whole_mapping
from simaccel.search.accounts import Note, ignore_account
from simaccel.workload import Workload


def schedule_workload(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options | None = None,
    *,
    record: Note = ignore_account,
) -> Mapping:
    """Schedule a workload.

    A mapping that an earlier call stored is read from disk (``recall_or_search``). ``record`` is
    called with the account of each search, whether this call or an earlier one did it. For several
    chips, one chip's share of the workload is searched, as if links took no time.

    Raises:
        SimaccelError: as of ``make_mapping``.

    """
    options = options or Options()
    degrees = options.tensor_parallel, options.data_parallel, options.expert_parallel
    on_one = accelerator.chips.count == 1 and set(degrees) <= {None, 1}
    if on_one and not options.sequence_parallel:
        return _map_single_core(workload, accelerator, dataflow, options, record)
    whole = degrees_of(accelerator.chips, *degrees, sequence=options.sequence_parallel)
    spreads = spread_over(workload, whole)
    pod = share_of(workload, spreads, accelerator.chips)
    fields = {name: getattr(accelerator, name) for name in Accelerator.model_fields}
    alone = Accelerator.model_construct(**{**fields, "chips": ChipsSpec()})
    options = replace(options, tensor_parallel=None, data_parallel=None, expert_parallel=None)
    options = replace(options, sequence_parallel=False)
    mapping = _map_single_core(pod.workload, alone, dataflow, options, record)
    return whole_mapping(workload, spreads, pod, mapping, accelerator.chips)


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
