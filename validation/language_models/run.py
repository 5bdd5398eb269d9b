"""Published token rates beside ours: plausibility, not accuracy.

The devices are GPUs; what runs here is one systolic array with their peak MACs and DRAM bandwidth.
`python -m validation.language_models.run` writes `rates.csv`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simaccel import load_accelerator
from simaccel.hardware import Accelerator
from simaccel.study.generation import generate
from validation import PLAIN

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Device:
    """A device as an accelerator: array, clock and DRAM of its data sheet, the rest `cloud`."""

    name: str
    rows: int
    cols: int
    clock: str
    bandwidth: str

    def accelerator(self) -> Accelerator:
        """Return `cloud` with the device's figures, on-chip rates and requests unlimited."""
        return load_accelerator(
            "cloud",
            [
                *PLAIN,
                f"array.rows={self.rows}",
                f"array.cols={self.cols}",
                f"clock_hz={self.clock}",
                f"dram.bandwidth_bytes_per_second={self.bandwidth}",
                "dram.in_flight_bytes=unlimited",
                "buffer.read_bytes_per_second=unlimited",
                "buffer.write_bytes_per_second=unlimited",
            ],
        )


A100 = Device("A100-80GB", 108, 1024, "1410 MHz", "2039 GB/s")
M2_PRO = Device("M2 Pro", 19, 128, "1400 MHz", "200 GB/s")


@dataclass(frozen=True)
class Point:
    """A published rate of a model at batch 1: milliseconds per token, decoding."""

    device: Device
    model: str
    weights_bytes: int
    prompt: int
    tokens: int
    published_ms: float
    source: str


POINTS = (
    Point(A100, "llama2-7b", 2, 5, 200, 1e3 / 104.9, "gpt-fast, bf16"),
    Point(A100, "llama2-7b", 1, 5, 200, 1e3 / 155.58, "gpt-fast, int8 weights"),
    Point(M2_PRO, "llama2-7b", 2, 128, 128, 92.15, "llama.cpp, f16"),
)


def row(point: Point) -> dict[str, Any]:
    """Generate as published, and give both rates and the limit of streaming the weights."""
    accelerator = point.device.accelerator()
    generation = generate(
        point.model,
        accelerator,
        tokens=point.tokens,
        prompt=point.prompt,
        lengths=3,
        bytes_by_tensor={"weights": point.weights_bytes},
    )
    ours = 1e3 * generation.token_seconds
    roofline = 1e3 * accelerator.seconds(generation.decode["roofline_cycles"]) / (point.tokens - 1)
    assert ours >= roofline
    return {
        "device": point.device.name,
        "model": point.model,
        "weights_bytes": point.weights_bytes,
        "prompt": point.prompt,
        "tokens": point.tokens,
        "published_ms": round(point.published_ms, 2),
        "simulated_ms": round(ours, 2),
        "roofline_ms": round(roofline, 2),
        "published_over_simulated": round(point.published_ms / ours, 2),
        "published_over_roofline": round(point.published_ms / roofline, 2),
        "source": point.source,
    }


def main() -> None:
    """Write `rates.csv`."""
    rows = [row(point) for point in POINTS]
    with (HERE / "rates.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, tuple(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for one in rows:
        print(one)


if __name__ == "__main__":
    main()
