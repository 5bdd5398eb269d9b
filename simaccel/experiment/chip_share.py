"""The share of a workload on one of several chips, by given degrees or by the fastest split."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.links import ONE_CHIP
from simaccel.mapping.chips.sharding import Pod
from simaccel.schedulers import Options
from simaccel.schedulers.parallel import (
    KeptOnce,
    Spreads,
    degrees_of,
    sharded_weights,
    share_of,
)
from simaccel.schedulers.split_ways import spread_by_degrees
from simaccel.schedulers.splits import fastest_split, name_legal_splits
from simaccel.workload import Workload


@dataclass(frozen=True, kw_only=True)
class ChipShare:
    """The workload of one of several chips, and an accelerator of that chip alone."""

    spreads: Spreads
    pod: Pod
    accelerator: Accelerator
    options: Options
    once: KeptOnce
    """Weights that lie once on all chips."""


def chip_share(workload: Workload, accelerator: Accelerator, options: Options) -> ChipShare | None:
    """Return the share for which a mapping is searched; None on a single chip.

    Raises:
        InputError: degrees don't fit the chips, or don't divide the workload.

    """
    degrees = options.degrees
    on_one = accelerator.pod.count == 1 and {*degrees} <= {None, 1}
    if on_one and not options.sequence_parallel:
        return None
    if {*degrees} == {None} and not options.sequence_parallel:
        split = fastest_split(workload, accelerator)
        spreads, pod = split.spreads, split.pod
    else:
        sequence, copies = options.sequence_parallel, options.copies
        whole = degrees_of(accelerator.pod, *degrees, sequence=sequence, copies=copies)
        try:
            spreads = spread_by_degrees(workload, whole)
            pod = share_of(workload, spreads, accelerator.pod)
        except InputError as error:
            raise name_legal_splits(error, workload, accelerator) from None
    once: KeptOnce = {}
    if options.shard_weights:
        once = sharded_weights(workload, spreads, accelerator.pod.count)
        pod = share_of(workload, spreads, accelerator.pod, once)
    return ChipShare(
        spreads=spreads,
        pod=pod,
        accelerator=accelerator.with_chips(ONE_CHIP),
        options=replace(options.with_degrees(), sequence_parallel=False, shard_weights=False),
        once=once,
    )
