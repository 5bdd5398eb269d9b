"""Layers of NVDLA's own performance model: default runs on ``hwconfigs/nvdla_2048``.

Each layer is executed as a direct convolution. Products of AlexNet are of 16 images at once, as the
spreadsheet's bytes say. Other sizes of NVDLA have files of their own here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
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
SIZES: Final = {
    path.stem.removeprefix("nvdla_"): str(path)
    for path in sorted(Path(__file__).parent.glob("nvdla_*.yaml"))
}
"""The file of each size by its MACs."""


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

    Raises:
        ValueError: a size that the primer has not with such a buffer and DRAM.
    """
    return [_images_a_second(row) for row in rows]


def _images_a_second(row: Row) -> float:
    on = loaded(SIZES[row["macs"]])
    found = {
        "conv_buffer_kib": Fraction(on.buffer.capacity_bytes or 0, 2**10),
        "dram_gb_per_s": Fraction(on.dram.bandwidth_bytes_per_second or 0, 10**9),
    }
    for name, size in found.items():
        if Fraction(row[name]) != size:
            raise ValueError(f"{name} of {on.name}: got {row[name]}; allowed: {float(size):g}")
    return 1 / on.seconds(run(parse_workload(linked_resnet(50)), on))


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
