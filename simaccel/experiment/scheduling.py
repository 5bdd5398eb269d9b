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
    told: Note = ignore_account,
) -> Mapping:
    """Schedule a workload.

    A mapping that was found before is read from disk (``recall_or_search``). ``told`` is handed the
    accounts of how it was searched, then or now. Of several chips it is that of one on its part of
    the workload, as long as nobody has to wait for links.

    Raises:
        SimaccelError: as of ``make_mapping``.

    """
    options = options or Options()
    asked = options.tensor_parallel, options.data_parallel, options.expert_parallel
    on_one = accelerator.chips.count == 1 and set(asked) <= {None, 1}
    if on_one and not options.sequence_parallel:
        return _map_single_core(workload, accelerator, dataflow, options, told)
    degrees = degrees_of(accelerator.chips, *asked, sequence=options.sequence_parallel)
    spreads = spread_over(workload, degrees)
    pod = share_of(workload, spreads, accelerator.chips)
    fields = {name: getattr(accelerator, name) for name in Accelerator.model_fields}
    alone = Accelerator.model_construct(**{**fields, "chips": ChipsSpec()})
    options = replace(options, tensor_parallel=None, data_parallel=None, expert_parallel=None)
    options = replace(options, sequence_parallel=False)
    mapping = _map_single_core(pod.workload, alone, dataflow, options, told)
    return whole_mapping(workload, spreads, pod, mapping, accelerator.chips)


def _map_single_core(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options, told: Note
) -> Mapping:
    return recall_or_search(
        workload,
        accelerator,
        dataflow,
        settle_options(options, accelerator),
        lambda options: make_mapping(workload, accelerator, dataflow, options),
        told=told,
    )
