"""One drawn mapping on many machines: other memories, ports, pipes, units, rules of overlap."""

import random
from collections.abc import Iterator

from simaccel.hardware import Accelerator, ArraySpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.mapping.tree import Do, Mapping, nodes
from simaccel.program.lowering import lower
from simaccel.program.program import ProgramError
from simaccel.workload import Workload
from tests.machine.trees import draw_accelerator, with_banks

Random = random.Random
_TRIES = 4
_MOST_REFUSED = 400
"""Machines that are drawn for each that is given, at most."""

_SYSTOLIC = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
_SPATIAL = load_accelerator(
    "eyeriss_like",
    [
        "buffer.capacity_bytes=unlimited",
        "array.memories.input.capacity_bytes=unlimited",
        "array.memories.weight.capacity_bytes=unlimited",
        "array.memories.output.capacity_bytes=unlimited",
        "array.bypass_buffer=[]",
        "dram.latency_cycles=3",
    ],
)


def example_machine(one: Mapping) -> Accelerator:
    """Return a machine of an example's kind of array."""
    every = (node for group in one.groups for node in nodes(group.tree))
    return _SPATIAL if any(isinstance(n, Do) and n.unit == "mac" for n in every) else _SYSTOLIC


def machines(of: Workload, one: Mapping, on: Accelerator, seed: int) -> Iterator[Accelerator]:
    """Yield a machine of a mapping, then others that execute it, without an end.

    A systolic array may be another one, a spatial one stays as it is.
    """
    yield on
    refused = 0
    for number in range(1, 1 << 30):
        for again in range(_TRIES):
            other = _machine(on, f"{seed} {number} {again}")
            if executes(other, of, one):
                yield other
                refused = 0
                break
            refused += 1
            assert refused < _MOST_REFUSED, "no machine that is drawn executes the mapping"


def executes(on: Accelerator, of: Workload, one: Mapping) -> bool:
    """Return whether a machine takes a mapping."""
    if faults(of, one, on):
        return False
    try:
        Machine(on, lower(of, one), accounts=False)
    except ProgramError:
        return False
    return True


def _machine(on: Accelerator, seed: str) -> Accelerator:
    """Draw a machine like another one: with banks, accumulators, FIFOs and overlap in turn."""
    draw = Random(seed)
    drawn = draw_accelerator(draw)
    raw = drawn.model_dump()
    overlap = draw.random() < 0.5
    raw |= {name: there for name, there in on.model_dump().items() if name == "cores"}
    start = 0 if overlap else draw.choice([0, 0, 13])
    raw["compiler"] = {"overlap": overlap, "kernel_start_cycles": start}
    if isinstance(on.array, ArraySpec):
        raw["array"]["diagonal"] = on.array.diagonal  # as its mappings may say
        if draw.random() < 0.5:
            width = draw.choice([1, 2, 4, 5])
            capacity = draw.choice([16, 64, None]) or "unlimited"
            raw["array"]["accumulator"] = {"bytes_per_element": width, "capacity_bytes": capacity}
    else:
        raw["array"] = on.model_dump()["array"]
    if draw.random() < 0.5:
        raw["memories"] = {"weight": _memory(draw, is_fifo=isinstance(on.array, ArraySpec))}
    return with_banks(draw.randrange(1 << 30), Accelerator.model_validate(raw))


def _memory(draw: Random, *, is_fifo: bool) -> dict[str, object]:
    """Draw a memory for weights, of a systolic array also one whose slots are a FIFO."""
    staging = draw.choice([64, 256, None]) or "unlimited"
    return {
        "bandwidth_bytes_per_second": f"{draw.choice([1, 2, 5, 64])} GB/s",
        "channels": draw.choice([1, 2]),
        "interleave_bytes": draw.choice([4, 16]),
        "latency_cycles": draw.choice([0, 3, 30]),
        "turnaround_cycles": draw.choice([0, 3]),
        "in_flight_bytes": draw.choice([8, 64, None]) or "unlimited",
        "staging_bytes": staging,
        "fifo": is_fifo and staging != "unlimited" and draw.random() < 0.7,
    }
