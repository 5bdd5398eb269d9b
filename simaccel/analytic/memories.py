"""Bytes that a workload needs of each memory, and what crosses the DRAM channels by class."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.hardware.memory import DRAM_WAYS, way_outside
from simaccel.numbers import SHARED, size_text
from simaccel.workload import CLASSES, Kind, Workload, class_of
from simaccel.workload.names import tensor_of
from simaccel.workload.shared import in_shared_buffer, most_live_bytes, most_shared_bytes

if TYPE_CHECKING:
    from simaccel.mapping.chips.sharding import Pod

_PARTS: Final[Mapping[Kind, str]] = {"weight": "weights", "cache": "cache"}
"""Tensors that each layer has its own of, all the time."""
_ACTIVATIONS: Final = "activations"
_NAMED: Final = 2
"""Intermediates that a message names."""


class MemoryOverflowError(SimaccelError):
    """A workload exceeds the capacity of a memory; the message names a remedy.

    It ends with the setting that ignores capacities, which ``shortage`` leaves out.
    """

    @property
    def shortage(self) -> str:
        """Text: the bytes needed, the capacity, and a remedy."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.shortage}; --set allow-overflow runs it all the same"


@dataclass(frozen=True)
class MemoryDemand:
    """Bytes that a workload needs of a memory, in all and by part; capacity None: unknown."""

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


def resident_bytes(by_parts: Iterable[Mapping[str, int]], batches: int = 1) -> int:
    """Return the bytes of weights, and of caches of ``batches`` batches.

    ``by_parts``: bytes by part of each memory of a chip (`MemoryDemand.by_part`).
    """
    return sum(each.get("weights", 0) + batches * each.get("cache", 0) for each in by_parts)


def memory_demands(
    workload: Workload,
    accelerator: Accelerator,
    stored: Collection[str] = (),
    pod: Pod | None = None,
) -> list[MemoryDemand]:
    """Return the bytes that a workload needs of each memory, by part.

    Parts: weights and caches of all layers, and activations. Activations are the inputs and outputs
    of the workload, and the peak of the intermediates that live at the same time; of these only
    those ``stored`` in the memory count, by name. ``pod``: the chips, if the workload is one chip's
    part: weights that are sharded over them are also counted whole for one layer, and tensors that
    are slices of another tensor of the chip don't count, but those that a message between stages
    of a pipeline has beside the run's do.
    """
    empty = dict.fromkeys((*_PARTS.values(), _ACTIVATIONS), 0)
    by_memory = {name: dict(empty) for name in accelerator.every_backing}
    layers: dict[str, int] = {}
    for operator in workload.operators:
        for operand in (*operator.inputs, operator.output):
            times = workload.times(operator.name)
            layers[operand.tensor] = max(layers.get(operand.tensor, 0), times)
    for name, tensor in workload.tensors.items():
        if tensor.kind == "intermediate" or (pod is not None and name in pod.parts):
            continue
        n_bytes = workload.stored_bytes(name)
        part = _PARTS.get(tensor.kind, _ACTIVATIONS)
        times = 1 if part == _ACTIVATIONS else layers[name]
        by_memory[accelerator.memory(tensor.kind)][part] += n_bytes * times
    for exchange in () if pod is None else pod.exchanges:
        kind: Kind = "weight" if exchange.is_stored else "input"
        n_bytes = workload.times(exchange.after) * exchange.kept_bytes
        by_memory[accelerator.memory(kind)][_PARTS.get(kind, _ACTIVATIONS)] += n_bytes
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


def stored_demands(
    pod: Pod, accelerator: Accelerator, moved: Mapping[tuple[str, str], int]
) -> list[MemoryDemand]:
    """Return the demands of the chip that needs most, with the intermediates it stores.

    ``moved``: bytes by (level and direction, tensor) of the mapping.
    """
    stored = _stored_names(moved)
    needs = [memory_demands(part, accelerator, stored, pod) for part in pod.workloads()]
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
                f"{shortage_text(pod.workload, accelerator, demand)}; its mapping stores {named}: "
                f"one that keeps them on chip needs less, as does a smaller batch"
            )


def _stored_names(moved: Mapping[tuple[str, str], int]) -> set[str]:
    return {tensor for (level, tensor), n in moved.items() if level == "dram_write" and n}


def shortage_text(workload: Workload, accelerator: Accelerator, demand: MemoryDemand) -> str:
    """Return a sentence with the bytes that a workload needs of a memory, and its capacity."""
    parts = ", ".join(f"{part} {size_text(n)}" for part, n in demand.by_part.items() if n)
    memory, capacity = demand.memory.replace("dram", "DRAM"), demand.capacity_bytes or 1
    return (
        f"{workload.name} does not fit the {memory} of {accelerator.name}: {parts} of "
        f"{size_text(capacity)}{' on each chip' if accelerator.pod.count > 1 else ''}"
    )


def share_buffer(workload: Workload, accelerator: Accelerator) -> Workload:
    """Return a workload with its tensors in the buffer that the accelerator's cores share."""
    shared = accelerator.cores.shared_buffer
    if shared is None and accelerator.compiler.described:
        return workload  # what lies on the chip is the compiler's choice
    return in_shared_buffer(workload, None if shared is None else shared.capacity_bytes)


def dram_by_class(workload: Workload, moved: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the bytes that cross the DRAM channels, of weights, activations and caches.

    What chips exchange (sums, gathered parts) is none of the workload's tensors: activations.
    """
    found = dict.fromkeys(CLASSES, 0)
    for (level, name), n_bytes in moved.items():
        if level in DRAM_WAYS:
            tensor = workload.tensors.get(tensor_of(name))
            found[class_of("intermediate" if tensor is None else tensor.kind)] += n_bytes
    return found


def reformed_dram_bytes(workload: Workload, moved: Mapping[tuple[str, str], int]) -> int:
    """Return the bytes that cross the DRAM channels as a reader has another form of what was made.

    Another deployment could keep them on the chip.
    """
    ways = (
        (way_outside("write" if tensor.kind == "output" else "read", tensor.kind), name)
        for name, tensor in workload.tensors.items()
        if tensor.distinct == 0
    )
    return sum(moved.get(way, 0) for way in ways)
