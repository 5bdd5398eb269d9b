"""Scheduling, with what was found before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simaccel.errors import InputError
from simaccel.experiment.precision import compile_for
from simaccel.experiment.remembered import recall_or_search
from simaccel.hardware import Accelerator
from simaccel.hardware.links import ONE_CHIP
from simaccel.mapping.chips.sharding import Pod
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, make_mapping, settle_options
from simaccel.schedulers.parallel import (
    KeptOnce,
    Spreads,
    degrees_of,
    sharded_weights,
    share_of,
    whole_mapping,
)
from simaccel.schedulers.splits import fastest_split, name_legal_splits, spread_by_degrees
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
    workload = compile_for(workload, accelerator, dataflow)
    share = chip_share(workload, accelerator, options)
    if share is None:
        return _map_single_core(workload, accelerator, dataflow, options, record)
    mapping = _map_single_core(
        share.pod.workload, share.accelerator, dataflow, share.options, record
    )
    cuts = share.spreads, share.pod, mapping, accelerator.pod
    return whole_mapping(workload, *cuts, share.once)


@dataclass(frozen=True, kw_only=True)
class ChipShare:
    """Part of a workload that one of several chips does, and that chip alone."""

    spreads: Spreads
    pod: Pod
    accelerator: Accelerator
    options: Options
    once: KeptOnce
    """Weights that lie once on all chips."""


def chip_share(workload: Workload, accelerator: Accelerator, options: Options) -> ChipShare | None:
    """Return what is searched for one of several chips; None where there is one.

    Raises:
        InputError: degrees that aren't those of the chips, or what can't be cut by them.

    """
    degrees = options.tensor_parallel, options.data_parallel, options.expert_parallel
    on_one = accelerator.pod.count == 1 and set(degrees) <= {None, 1}
    if on_one and not options.sequence_parallel:
        return None
    if set(degrees) == {None} and not options.sequence_parallel:
        split = fastest_split(workload, accelerator)
        spreads, pod = split.spreads, split.pod
    else:
        whole = degrees_of(accelerator.pod, *degrees, sequence=options.sequence_parallel)
        try:
            spreads = spread_by_degrees(workload, whole)
            pod = share_of(workload, spreads, accelerator.pod)
        except InputError as error:
            raise name_legal_splits(error, workload, accelerator) from None
    once: KeptOnce = {}
    if options.shard_weights:
        once = sharded_weights(workload, spreads, accelerator.pod.count)
        pod = share_of(workload, spreads, accelerator.pod, once)
    fields = {name: getattr(accelerator, name) for name in Accelerator.model_fields}
    options = replace(options, tensor_parallel=None, data_parallel=None, expert_parallel=None)
    return ChipShare(
        spreads=spreads,
        pod=pod,
        accelerator=Accelerator.model_construct(**{**fields, "chips": ONE_CHIP}),
        options=replace(options, sequence_parallel=False, shard_weights=False),
        once=once,
    )


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
