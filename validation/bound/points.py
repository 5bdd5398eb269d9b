"""The points at which the bound is held against the machine: a seeded draw."""

from __future__ import annotations

import random
from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import Workload, build

ACCELERATORS = ("edge", "cloud", "mxu_128", "edge_tpu")
MODELS = ("bert", "trxl", "flaubert-large", "t5", "xlm")
BATCHES = (1, 2, 4, 16, 64)
DATAFLOWS = (
    *("flash", "flat", "flat-b", "flat-h", "flat-m", "flat-r"),
    *("flex", "flex-b", "flex-h", "flex-m", "flex-r", "naive"),
)
"""In this order, whatever other schedulers come: the points are to stay the same."""
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Point:
    """One experiment: accelerator with its buffer and bandwidth scaled, workload, dataflow."""

    hw: str
    buffer_bytes: int
    dram_bytes_per_second: int
    model: str
    scope: str
    batch: int
    seq_len: int
    dataflow: str
    pipeline: bool

    def accelerator(self) -> Accelerator:
        """Build the accelerator."""
        return load_accelerator(
            self.hw,
            [
                f"buffer.capacity_bytes={self.buffer_bytes}",
                f"dram.bandwidth_bytes_per_second={self.dram_bytes_per_second}",
            ],
        )

    def workload(self) -> Workload:
        """Build the workload."""
        return build(
            self.model,
            batch=self.batch,
            seq_len=self.seq_len,
            scope=self.scope,
            bytes_per_element=2,
        )


def draw(count: int, seed: int = 2026) -> list[Point]:
    """Draw ``count`` points; lengths are log-uniform from 64 to 65,536, mostly not round."""
    random_ = random.Random(seed)  # noqa: S311 - a reproducible sample, no secret
    points = []
    for _ in range(count):
        hw = random_.choice(ACCELERATORS)
        base = load_accelerator(hw)
        capacity = base.buffer.capacity_bytes or 0
        bandwidth = base.dram.bandwidth_bytes_per_second or 0
        points.append(
            Point(
                hw=hw,
                buffer_bytes=int(capacity * random_.choice(SCALES)),
                dram_bytes_per_second=int(bandwidth * random_.choice(SCALES)),
                model=random_.choice(MODELS),
                scope=random_.choice(("la", "la", "block")),
                batch=random_.choice(BATCHES),
                seq_len=int(2 ** random_.uniform(6, 16)),
                dataflow=random_.choice(DATAFLOWS),
                pipeline=random_.random() < 0.5,
            )
        )
    return points
