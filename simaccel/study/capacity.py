"""Check that a workload fits the memories of chips; if not, how many chips would hold it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from simaccel.analytic.memories import (
    MemoryDemand,
    MemoryOverflowError,
    memory_demands,
    shortage_text,
)
from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.links import MOST_CHIPS
from simaccel.mapping.chips.sharding import pod_of
from simaccel.mapping.tree import Mapping as MappingTree
from simaccel.schedulers import Options
from simaccel.schedulers.chip_share import chip_share
from simaccel.study.pipeline_plan import plan_pipeline
from simaccel.study.points import base_point
from simaccel.workload import Workload


def require_room(
    workload: Workload, accelerator: Accelerator, dataflow: str | MappingTree, options: Options
) -> None:
    """Refuse a workload whose part on a chip doesn't fit the chip's memories.

    Raises:
        MemoryOverflowError: it doesn't; the message names the parts and what would hold them.
        InputError: chips that can't share the workload by these degrees.
    """
    if all(demand.fits for demand in memory_demands(workload, accelerator)):
        return
    if isinstance(dataflow, MappingTree):
        pod = pod_of(workload, dataflow, accelerator)
        every = [memory_demands(part, accelerator, pod=pod) for part in pod.workloads()]
    else:
        every = [_demands_of_chip(workload, accelerator, options, dataflow)]
    for demand in chain(*every):
        if not demand.fits:
            raise MemoryOverflowError(_overflow_text(workload, accelerator, demand, options))


def _demands_of_chip(
    workload: Workload, accelerator: Accelerator, options: Options, dataflow: str | None = None
) -> list[MemoryDemand]:
    """Return what a chip needs of each memory for its share of a workload."""
    share = chip_share(workload, accelerator, options, dataflow)
    if share is None:
        return memory_demands(workload, accelerator)
    return memory_demands(share.pod.workload, accelerator, pod=share.pod)


def _overflow_text(
    workload: Workload, accelerator: Accelerator, demand: MemoryDemand, options: Options
) -> str:
    capacity = demand.capacity_bytes or 1
    needed = {each.memory: each.needed_bytes for each in memory_demands(workload, accelerator)}
    least = -(-needed[demand.memory] // capacity)
    holding = f"at least {least} chips hold it"
    if accelerator.links.given:
        count = next(_holding_counts(workload, accelerator, options, least), None)
        holding = holding if count is None else f"{count} chips hold it (--chips {count})"
        stages = next(_holding_stages(workload, accelerator, options), None)
        if stages is not None:
            holding += f", or these in {stages} stages (--pipeline-parallel {stages})"
    return f"{shortage_text(workload, accelerator, demand)}; {holding}"


def _holding_counts(
    workload: Workload, accelerator: Accelerator, options: Options, least: int
) -> Iterator[int]:
    """Yield numbers of chips that would hold a workload: the least, or powers of two from it on.

    They share it by the default degrees.
    """
    workload, free = replace(workload, split=""), options.with_degrees()
    powers = (2**n for n in range(MOST_CHIPS.bit_length()))
    for count in (least, *(power for power in powers if power > least)):
        with suppress(InputError):
            demands = _demands_of_chip(workload, accelerator.with_sections(chips=(count,)), free)
            if all(demand.fits for demand in demands):
                yield count


def _holding_stages(
    workload: Workload, accelerator: Accelerator, options: Options
) -> Iterator[int]:
    """Yield numbers of pipeline stages whose chips hold their layers, the smallest first.

    A chip holds the caches of all micro-batches.
    """
    parameters, pod = workload.parameters, accelerator.pod
    if parameters.get("kind") != "transformer" or parameters.get("scope") != "model":
        return
    free = options.with_degrees()
    for size in pod.group_sizes[-2::-1]:
        with suppress(InputError):
            stages = pod.count // size
            point = base_point(workload, accelerator)
            plan = plan_pipeline(replace(point, stages=stages, options=free))
            demands = (
                demand
                for stage in plan.stages
                for demand in _demands_of_chip(stage.workload, plan.group, plan.options)
            )
            if all(
                demand.needed_bytes + (plan.micro_batches - 1) * demand.by_part["cache"]
                <= (demand.capacity_bytes or demand.needed_bytes)
                for demand in demands
            ):
                yield stages
