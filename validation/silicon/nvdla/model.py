"""Layers of NVDLA's own performance model: default runs on ``hwconfigs/nvdla_2048``.

Each layer is executed as a direct convolution. Products of AlexNet are of 16 images at once, as the
spreadsheet's bytes say. Other sizes of NVDLA are columns of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.workload import Conv
from simaccel.workload.files import parse_workload
from simaccel.workload.layers import Product
from validation.silicon.networks import linked_resnet
from validation.silicon.runs import layers, loaded, run

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
    images = [_IMAGES.get(row["network"], 1) if row["kind"] == "fc" else 1 for row in rows]
    return [
        layers(on, "layer", (_layer(row, count),)) / count
        for row, count in zip(rows, images, strict=True)
    ]


def predict_networks(rows: Sequence[Row]) -> list[float]:
    """Return images a second of ResNet-50: columns macs, conv_buffer_kib, dram_gb_per_s.

    It is the published network with its poolings and shortcuts.
    """
    network = parse_workload(linked_resnet(50))
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
        predicted.append(1 / on.seconds(run(network, on)))
    return predicted


def _layer(row: Row, images: int) -> Conv | Product:
    sizes = {name: int(row[name]) for name in ("C", "H", "W", "K", "R", "S", "P", "Q")}
    if row["kind"] == "fc":
        return Product(m=images, k=sizes["C"] * sizes["H"] * sizes["W"], n=sizes["K"])
    return Conv(
        m=sizes["K"],
        c=sizes["C"],
        p=sizes["P"],
        q=sizes["Q"],
        r=sizes["R"],
        s=sizes["S"],
        stride=(int(row["stride_h"]), int(row["stride_w"])),
    )
