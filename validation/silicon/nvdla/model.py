"""Layers of NVDLA's own performance model, on ``hwconfigs/nvdla_2048``.

Each layer is executed as a direct convolution: 64 channels by 32 filters, the next filters come
while it works. The first layer's taps along the width are merged into channels, as NVDLA extends
images. Products of AlexNet are of 16 images at once, as the spreadsheet's bytes say.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.workload import Conv
from validation.silicon.convolutions import streamed_conv_cycles
from validation.silicon.kernels import streamed_gemm_cycles
from validation.silicon.runs import loaded

Row = Mapping[str, str]
_IMAGES: Final = {"AlexNet": 16}
"""Images that share the weights of a fully connected layer."""
KINDS: Final = ("conv", "conv + elwise", "fc")
SHAPES: Final = {
    "2048": (64, 32),
    "1024": (64, 16),
    "512": (32, 16),
    "256": (32, 8),
    "128": (16, 8),
    "64": (8, 8),
    "32": (8, 4),
}
"""Channels and filters of each size: 2,048 and 64 (nv_small) as documented, others assumed."""


def predict(rows: Sequence[Row]) -> list[float]:
    """Return the cycles of each layer: columns network, kind, C, H, W, K, R, S, strides, P, Q."""
    on = loaded("nvdla_2048")
    return [_cycles(on, row) for row in rows]


def predict_networks(rows: Sequence[Row]) -> list[float]:
    """Return images a second of ResNet-50: columns macs, conv_buffer_kib, dram_gb_per_s.

    Its layers, those of the spreadsheet, are run one after the other.
    """
    with (Path(__file__).parent / "layers.csv").open(newline="", encoding="utf-8") as file:
        layers = [row for row in csv.DictReader(file) if row["network"] == "ResNet50"]
    predicted: list[float] = []
    for row in rows:
        channels, filters = SHAPES[row["macs"]]
        settings = (
            f"array.rows={channels}",
            f"array.cols={filters}",
            f"buffer.capacity_bytes={row['conv_buffer_kib']} KiB",
            f"dram.bandwidth_bytes_per_second={row['dram_gb_per_s']} GB/s",
        )
        on = loaded("nvdla_2048", *settings)
        cycles = sum(_cycles(on, layer) for layer in layers)
        predicted.append(1 / on.seconds(round(cycles)))
    return predicted


def _cycles(on: Accelerator, row: Row) -> float:
    sizes = {name: int(row[name]) for name in ("C", "H", "W", "K", "R", "S", "P", "Q")}
    channels, filters = sizes["C"], sizes["K"]
    if row["kind"] == "fc":
        images = _IMAGES.get(row["network"], 1)
        depth = channels * sizes["H"] * sizes["W"]
        return streamed_gemm_cycles(on, (images, depth, filters), n_bytes=1) / images
    conv = Conv(
        m=filters,
        c=channels,
        p=sizes["P"],
        q=sizes["Q"],
        r=sizes["R"],
        s=sizes["S"],
        stride=(int(row["stride_h"]), int(row["stride_w"])),
    )
    return streamed_conv_cycles(on, conv, merged=True)
