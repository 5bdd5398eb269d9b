"""Whole models on Coral's Edge TPU, on ``hwconfigs/coral_edge_tpu``.

A model is started once, its image comes over the link. Activations stay in the SRAM: the most that
a layer reads and makes. In what they leave weights stay from one image to the next, layer by layer
as long as there is room; those of the other layers come over the link each time, while the ones
before work. A depthwise convolution is one of
64 channels on 64 filters for each 64 channels, as an array of held weights can do it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.workload import Conv
from validation.silicon.booked import START, book, remembered
from validation.silicon.convolutions import streamed_conv_cycles
from validation.silicon.coral.networks import NETWORKS
from validation.silicon.kernels import ON_CHIP, loaded

_NAME: Final = "coral_edge_tpu"
INPUTS: Final = {
    **dict.fromkeys(NETWORKS, "224x224"),
    **{name: "299x299" for name in NETWORKS if name.startswith(("ResNet", "Inception"))},
    "Inception v1": "224x224",
    "UNet MobileNet v2": "128x128",
    "DeepLab v3": "513x513",
    "EfficientNet-EdgeTPU-M": "240x240",
}
"""The images for which `NETWORKS` are written down."""
USB: Final = ()
DEV_BOARD: Final = (
    "dram.bandwidth_bytes_per_second=407 MB/s",
    "groups.start_cycles=305000",
)
"""Calibrated on VGG16 and MobileNet v1 of the column of the board."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the milliseconds of each model at USB 3: columns model, input."""
    return [_milliseconds(row["model"], row["input"], USB) for row in rows]


def predict_board(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the milliseconds of each model on the dev board."""
    return [_milliseconds(row["model"], row["input"], DEV_BOARD) for row in rows]


@remembered
def _milliseconds(model: str, image: str, link: tuple[str, ...]) -> float:
    if image != INPUTS[model]:
        raise ValueError(f"input of {model}: got {image!r}; allowed: {INPUTS[model]}")
    on = loaded(_NAME, *link)
    book(START, on.groups.start_cycles)
    layers = list(NETWORKS[model]())
    first = layers[0]
    n_bytes = first.c * first.p * first.q * first.stride[0] * first.stride[1]
    room = (on.buffer.capacity_bytes or 0) - max(map(_activations, layers))
    seconds = on.seconds(on.groups.start_cycles) + n_bytes / (
        on.dram.bandwidth_bytes_per_second or 1
    )
    for layer in layers:
        stays = layer.weights <= room
        room -= layer.weights * stays
        seconds += on.seconds(_cycles(layer, () if stays else link, streams=not stays))
    return 1e3 * seconds


def _activations(layer: Conv) -> int:
    """Return the bytes that a layer reads and makes, int8, without zeros around an image."""
    sides = zip((layer.p, layer.q), layer.stride, strict=True)
    read = math.prod((out - 1) * stride + 1 for out, stride in sides)
    return layer.g * (layer.c * read + layer.m * layer.p * layer.q)


@remembered
def _cycles(layer: Conv, link: tuple[str, ...], *, streams: bool) -> int:
    """Return the cycles of a layer whose weights stream over the link, or are there."""
    on = _accelerator(link, streams=streams)
    blocks = -(-layer.g // on.array.cols)
    if layer.g > 1:
        side = min(layer.g, on.array.cols)
        layer = replace(layer, g=1, m=side, c=side)
    return sum(streamed_conv_cycles(on, layer) for _ in range(blocks))


def _accelerator(link: tuple[str, ...], *, streams: bool) -> Accelerator:
    """Return the chip inside a model; activations, and weights that stay, take no time to come."""
    on = loaded(_NAME, *link)
    rate = on.dram.bandwidth_bytes_per_second if streams else "unlimited"
    weights = f"memories.weight.bandwidth_bytes_per_second={rate}"
    return loaded(_NAME, "groups.start_cycles=0", *ON_CHIP, weights)
