"""Whether a workload fits the memories that it lives in: DRAM, and those beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from simaccel.errors import InputError, SimaccelError
from simaccel.experiment.chip_share import chip_share
from simaccel.experiment.pipeline_plan import PipelinePlan, plan_pipeline
from simaccel.hardware import Accelerator
from simaccel.hardware.links import MOST_CHIPS
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.sharding import Pod, pod_of
from simaccel.mapping.tree import Mapping as MappingTree
from simaccel.numbers import SHARED, size_text
from simaccel.schedulers import Options
from simaccel.workload import Kind, Workload
from simaccel.workload.shared import most_live_bytes, most_shared_bytes

_PARTS: Final[Mapping[Kind, str]] = {"weight": "weights", "cache": "cache"}
"""Tensors that each layer has its own of, all the time."""
_ACTIVATIONS: Final = "activations"
_NAMED: Final = 2
"""Intermediates that a message names."""


class MemoryOverflowError(SimaccelError):
    """A workload needs more of a memory than there is; the message names what would hold it.

    It ends with the setting that runs it all the same, which ``shortage`` leaves out.
    """

    @property
    def shortage(self) -> str:
        """Text of what is needed, what there is, and what would hold it."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.shortage}; --set allow-overflow runs it all the same"


@dataclass(frozen=True)
class MemoryDemand:
    """Bytes that a workload needs of a memory, also by part, and its capacity; None: not known."""

    memory: str
    needed_bytes: int
    capacity_bytes: int | None
    by_part: Mapping[str, int]

    @property
    def fits(self) -> bool:
        """Whether there is enough, as far as is known."""
        return self.capacity_bytes is None or self.needed_bytes <= self.capacity_bytes

    @property
    def share(self) -> float:
        """Share of the capacity; 0 where that is not known."""
        return self.needed_bytes / self.capacity_bytes if self.capacity_bytes else 0.0


def memory_demands(
    workload: Workload,
    accelerator: Accelerator,
    stored: Collection[str] = (),
    exchanges: Collection[Exchange] = (),
) -> list[MemoryDemand]:
    """Return what a workload needs of each memory: weights and caches of all layers, activations.

    Activations are what goes in and comes out, and of what goes from one operator to the next the
    most at once of the tensors that are ``stored``; others need not be there. ``exchanges``: of
    weights that lie cut over chips, which one layer has whole.
    """
    empty = dict.fromkeys((*_PARTS.values(), _ACTIVATIONS), 0)
    by_memory = {name: dict(empty) for name in accelerator.every_backing}
    layers: dict[str, int] = {}
    for operator in workload.operators:
        for operand in (*operator.inputs, operator.output):
            times = workload.times(operator.name)
            layers[operand.tensor] = max(layers.get(operand.tensor, 0), times)
    for name, tensor in workload.tensors.items():
        if tensor.kind == "intermediate":
            continue
        n_bytes = workload.stored_bytes(name)
        part = _PARTS.get(tensor.kind, _ACTIVATIONS)
        times = 1 if part == _ACTIVATIONS else layers[name]
        by_memory[accelerator.memory(tensor.kind)][part] += n_bytes * times
    for exchange in exchanges:
        if exchange.is_stored:
            n_bytes = workload.times(exchange.after) * exchange.n_bytes(exchange.elements[0])
            by_memory[accelerator.memory("weight")][_PARTS["weight"]] += n_bytes
    steps = [(operator.name,) for operator in workload.operators]
    by_memory["dram"][_ACTIVATIONS] += most_live_bytes(workload, steps, stored)
    if SHARED in by_memory:
        by_memory[SHARED] = {**empty, _ACTIVATIONS: most_shared_bytes(workload, steps)}
    return [
        MemoryDemand(name, sum(by_part.values()), memory.dram.capacity_bytes, by_part)
        for (name, memory), by_part in zip(
            accelerator.every_backing.items(), by_memory.values(), strict=True
        )
    ]


def require_room(
    workload: Workload, accelerator: Accelerator, dataflow: str | MappingTree, options: Options
) -> None:
    """Require that a chip's part of a workload fits its memories.

    Raises:
        MemoryOverflowError: it doesn't; the message names the parts and what would hold them.
        InputError: chips that can't share the workload so.

    """
    if all(demand.fits for demand in memory_demands(workload, accelerator)):
        return
    for chip_part, exchanges in _parts(workload, accelerator, dataflow, options):
        for demand in memory_demands(chip_part, accelerator, exchanges=exchanges):
            if not demand.fits:
                raise MemoryOverflowError(_overflow_text(workload, accelerator, demand, options))


def stored_demands(
    pod: Pod, accelerator: Accelerator, moved: Mapping[tuple[str, str], int]
) -> list[MemoryDemand]:
    """Return what the fullest chip needs of each memory, of all that a mapping moves to DRAM."""
    stored = _stored_names(moved)
    needs = [memory_demands(part, accelerator, stored, pod.exchanges) for part in pod.workloads()]
    return max(needs, key=lambda need: [one.needed_bytes for one in need])


def require_stored(
    pod: Pod, accelerator: Accelerator, moved: Mapping[tuple[str, str], int]
) -> None:
    """Require that a chip's memories also hold the intermediates which its mapping stores.

    Raises:
        MemoryOverflowError: they don't; the message names the largest of them.

    """
    for demand in stored_demands(pod, accelerator, moved):
        if not demand.fits:
            tensors = pod.workload.tensors
            sizes = {
                name: pod.workload.tensor_bytes(name)
                for name in _stored_names(moved)
                if tensors[name].kind == "intermediate"
            }
            largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:_NAMED]
            named = ", ".join(f"{name} ({size_text(sizes[name])})" for name in largest)
            raise MemoryOverflowError(
                f"{_shortage_text(pod.workload, accelerator, demand)}; its mapping stores {named}: "
                f"one that keeps them on chip needs less, as does a smaller batch"
            )


def _stored_names(moved: Mapping[tuple[str, str], int]) -> set[str]:
    return {tensor for (level, tensor), n in moved.items() if level == "dram_write" and n}


def _parts(
    workload: Workload, accelerator: Accelerator, dataflow: str | MappingTree, options: Options
) -> Iterator[tuple[Workload, tuple[Exchange, ...]]]:
    """Yield what one chip of each place does, and its exchanges."""
    if isinstance(dataflow, MappingTree):
        pod = pod_of(workload, dataflow, accelerator)
        yield from ((part, pod.exchanges) for part in pod.workloads())
        return
    share = chip_share(workload, accelerator, options)
    yield (workload, ()) if share is None else (share.pod.workload, share.pod.exchanges)


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
    return f"{_shortage_text(workload, accelerator, demand)}; {holding}"


def _shortage_text(workload: Workload, accelerator: Accelerator, demand: MemoryDemand) -> str:
    parts = ", ".join(f"{part} {size_text(n)}" for part, n in demand.by_part.items() if n)
    there, capacity = demand.memory.replace("dram", "DRAM"), demand.capacity_bytes or 1
    return (
        f"{workload.name} does not fit the {there} of {accelerator.name}: {parts} of "
        f"{size_text(capacity)}{' on each chip' if accelerator.pod.count > 1 else ''}"
    )


def _holding_counts(
    workload: Workload, accelerator: Accelerator, options: Options, least: int
) -> Iterator[int]:
    """Yield numbers of chips that hold a workload: the least, or powers of two from there on.

    They share it by the degrees that are taken where none is given.
    """
    fields = {name: getattr(accelerator, name) for name in Accelerator.model_fields}
    free = replace(options, tensor_parallel=None, data_parallel=None, expert_parallel=None)
    powers = (2**n for n in range(MOST_CHIPS.bit_length()))
    for count in (least, *(power for power in powers if power > least)):
        with suppress(InputError):
            pod = Accelerator.model_construct(**{**fields, "chips": (count,)})
            share = chip_share(workload, pod, free)
            part = workload if share is None else share.pod.workload
            if all(demand.fits for demand in memory_demands(part, accelerator)):
                yield count


def _holding_stages(
    workload: Workload, accelerator: Accelerator, options: Options
) -> Iterator[int]:
    """Yield numbers of stages in which chips hold the layers of a model, the smallest first.

    A chip has the caches of all micro-batches.
    """
    parameters, pod = workload.parameters, accelerator.pod
    if parameters.get("kind") != "transformer" or parameters.get("scope") != "model":
        return
    free = replace(options, tensor_parallel=None, data_parallel=None, expert_parallel=None)
    for size in pod.group_sizes[-2::-1]:
        with suppress(InputError):
            stages = pod.count // size
            plan = plan_pipeline(workload, accelerator, stages=stages, options=free)
            if all(_holds_stage(stage.workload, plan) for stage in plan.stages):
                yield stages


def _holds_stage(workload: Workload, plan: PipelinePlan) -> bool:
    """Return whether the chips of a stage hold it, with the caches of all micro-batches."""
    share = chip_share(workload, plan.group, plan.options)
    part = workload if share is None else share.pod.workload
    return all(
        demand.needed_bytes + (plan.micro_batches - 1) * demand.by_part["cache"]
        <= (demand.capacity_bytes or demand.needed_bytes)
        for demand in memory_demands(part, plan.group)
    )
