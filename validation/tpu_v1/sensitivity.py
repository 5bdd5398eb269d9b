"""Figure 11 of the paper: speed with more or less of a resource, by ``--set`` and by what-if."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from simaccel import load_accelerator
from simaccel.diagnosis.what_if import CASES, what_if
from validation.tpu_v1.programs import PROGRAMS, run, seconds

SCALES: Final = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
RESOURCES: Final = (
    "bandwidth",
    "clock",
    "clock and accumulators",
    "matrix",
    "matrix and accumulators",
)
"""The curves of figure 11."""
FREED: Final = (("dram_bandwidth",), ("array",))
"""What what-if frees: its factor is that of an infinite amount."""
Row = dict[str, object]


def settings(resource: str, scale: Fraction) -> list[str]:
    """Return the fields of `tpu_v1` that make so many times of a resource.

    A clock changes no time of the memory. A matrix unit of other sides has tiles, paths and sums as
    wide, and a FIFO of four of its tiles; its accumulators have as many rows, or with more of them
    as many times more.
    """
    chip = load_accelerator("tpu_v1")
    memory, accumulator = chip.memories.weight, chip.systolic.accumulator
    assert memory is not None
    assert accumulator is not None
    assert memory.bandwidth_bytes_per_second is not None
    sums_bytes, bandwidth = accumulator.capacity_bytes or 0, memory.bandwidth_bytes_per_second
    if resource == "bandwidth":
        return [f"memories.weight.bandwidth_bytes_per_second={bandwidth * scale}"]
    more = scale if resource.endswith("accumulators") else Fraction(1)
    if resource.startswith("clock"):
        return [
            f"clock_hz={chip.clock_hz * scale}",
            f"memories.weight.latency_cycles={int(memory.latency_cycles * scale)}",
            f"array.accumulator.capacity_bytes={int(sums_bytes * more)}",
        ]
    fold_bytes = int(chip.array.pes * scale**2)
    return [
        f"array.rows={chip.array.rows * scale}",
        f"array.cols={chip.array.cols * scale}",
        f"sfu.lanes={chip.sfu.lanes * scale}",
        f"array.accumulator.capacity_bytes={int(sums_bytes * scale * more)}",
        f"memories.weight.staging_bytes={4 * fold_bytes}",
        f"buffer.capacity_bytes={24 * 2**20 + 4 * fold_bytes}",
    ]


def by_set() -> Iterator[Row]:
    """Yield the speed of each program at each scale of each resource; 1 is the chip's."""
    for program in PROGRAMS:
        before = seconds(program)
        for resource in RESOURCES:
            for scale in SCALES:
                speed = 1.0
                if scale != 1:
                    speed = round(before / seconds(program, settings(resource, scale)), 4)
                yield {
                    "program": program,
                    "resource": resource,
                    "scale": float(scale),
                    "speed": speed,
                }


def by_what_if() -> Iterator[Row]:
    """Yield how many times faster each program is where a resource costs nothing."""
    cases = [case for case in CASES if case in FREED]
    for program in PROGRAMS:
        one = run(program)
        found = what_if(one.accelerator, one.program, cases)
        for freed in found.freed:
            speed = round(found.base.cycles / freed.cycles, 4)
            yield {"program": program, "freed": "+".join(freed.resources), "speed": speed}
