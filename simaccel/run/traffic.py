"""The tokens of a run, its DRAM bytes by class of tensors, and the roofline of its workload."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from simaccel.analytic.native import least_array_cycles
from simaccel.hardware import Accelerator
from simaccel.hardware.memory import DRAM_WAYS, way_outside
from simaccel.numbers import in_bytes
from simaccel.workload import CLASSES, Kind, Vector, Workload, class_of, operands_of
from simaccel.workload.names import tensor_of

_KINDS: tuple[Kind, ...] = ("input", "weight", "cache")
"""One of each class of tensors."""


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


def least_dram_bytes(workload: Workload) -> dict[str, int]:
    """Return the bytes that no mapping saves: weights read once, old caches read, new ones written.

    Inputs and outputs of the workload are activations; what lies between may stay on chip.
    """
    by_class = dict.fromkeys(CLASSES, 0)
    written: dict[str, int] = {}
    read: dict[str, set[str]] = {}
    times: dict[str, int] = {}
    for operator in workload.operators:
        for label, source in operands_of(operator):
            times[source.tensor] = max(times.get(source.tensor, 0), workload.times(operator.name))
            if label == "output":
                size = math.prod(source.shape(operator.ranks))
                written[source.tensor] = written.get(source.tensor, 0) + size
            else:
                read.setdefault(source.tensor, set()).add(operator.name)
    for name, tensor in workload.tensors.items():
        whole, made = math.prod(workload.shapes[name]), written.get(name, 0)
        elements = {
            "intermediate": 0,
            "output": made,
            "cache": made + (whole - made if name in read else 0),
        }.get(tensor.kind, whole)
        by_class[class_of(tensor.kind)] += in_bytes(elements, tensor.bits) * times[name]
    return by_class


def roofline_cycles(workload: Workload, accelerator: Accelerator) -> int:
    """Return the larger of MACs over peak and least bytes of a memory over bandwidth, in cycles."""
    compute = math.ceil(least_array_cycles(workload, accelerator))
    return max(compute, *least_memory_cycles(workload, accelerator).values())


def least_memory_cycles(workload: Workload, accelerator: Accelerator) -> dict[str, int]:
    """Return the cycles of the least bytes of DRAM and of each memory beside it, by its name."""
    least, found = least_dram_bytes(workload), {}
    for name, backing in accelerator.every_backing.items():
        bandwidth = backing.dram.bandwidth_bytes_per_second
        kinds = {class_of(kind) for kind in _KINDS if accelerator.memory(kind) == name}
        total = sum(n_bytes for one, n_bytes in least.items() if one in kinds)
        found[name] = 0 if bandwidth is None else -(-total * accelerator.clock_hz // bandwidth)
    return found


def masked_macs(workload: Workload) -> int:
    """Return the MACs of positions that no row sees: what a causal mask leaves to be computed."""
    hidden: dict[str, Fraction] = {}
    for operator in reversed(workload.operators):
        if isinstance(operator, Vector) and operator.output.tensor in hidden:
            hidden[operator.input.tensor] = hidden[operator.output.tensor]
        if isinstance(operator, Vector) and operator.visible and operator.axis:
            visible, keys = operator.visible, operator.ranks[operator.axis]
            rows = operator.ranks[visible.row]
            last = np.minimum(np.arange(rows, dtype=np.int64) + visible.before, keys - 1)
            window = keys if visible.window is None else visible.window
            first = np.maximum(last + 1 - window, 0)
            share = 1 - Fraction(int((last + 1 - first).sum()), rows * keys)
            hidden[operator.input.tensor] = hidden[operator.output.tensor] = share
    masked = Fraction(0)
    for operator in workload.operators:
        shares = [hidden.get(source.tensor) for _, source in operands_of(operator)]
        if operator.macs and any(shares):
            masked += workload.times(operator.name) * operator.macs * max(s or 0 for s in shares)
    return int(masked)


def tokens_of(workload: Workload) -> int | None:
    """Return the tokens that a run makes or takes in: of a decode step one a sequence.

    Of a network without tokens the images of its batch; None where neither is known, and of a part
    of a model.
    """
    parameters = workload.parameters
    batch = parameters.get("batch")
    whole = parameters.get("scope", "model") in {"model", "layers"} and "layer" not in parameters
    if batch is None or not whole:
        return None
    if parameters.get("kind") == "transformer":
        each = 1 if parameters.get("phase") == "decode" else parameters.get("prompt")
    else:
        each = parameters.get("seq_len", 1)
    return None if each is None else int(batch) * int(each)


def phase_of(workload: Workload) -> str | None:
    """Return the phase of a whole transformer, ``prefill`` or ``decode``; None of all else."""
    parameters = workload.parameters
    if (parameters.get("kind"), parameters.get("scope")) != ("transformer", "model"):
        return None
    return str(parameters["phase"])
