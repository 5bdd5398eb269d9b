"""Whole models on Coral's Edge TPU: default runs on ``hwconfigs``, coral_edge_tpu and its board.

A model is started once, its image comes over the link. Activations stay in the SRAM, and in what
they leave weights from one image to the next, layer by layer as long as there is room; those of the
other layers come over the link each time, while the ones before work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.hardware import Accelerator
from validation.silicon.booked import START, book
from validation.silicon.coral.networks import NETWORKS
from validation.silicon.runs import layers, loaded

INPUTS: Final = {
    **dict.fromkeys(NETWORKS, "224x224"),
    **{name: "299x299" for name in NETWORKS if name.startswith(("ResNet", "Inception"))},
    "Inception v1": "224x224",
    "UNet MobileNet v2": "128x128",
    "DeepLab v3": "513x513",
    "EfficientNet-EdgeTPU-M": "240x240",
}
"""The images for which `NETWORKS` are written down."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the milliseconds of each model at USB 3: columns model, input."""
    return [_milliseconds(row["model"], row["input"], loaded("coral_edge_tpu")) for row in rows]


def predict_board(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the milliseconds of each model on the dev board."""
    return [_milliseconds(row["model"], row["input"], loaded("coral_dev_board")) for row in rows]


def _milliseconds(model: str, image: str, on: Accelerator) -> float:
    if image != INPUTS[model]:
        raise ValueError(f"input of {model}: got {image!r}; allowed: {INPUTS[model]}")
    start = on.compiler.program_start_cycles
    book(START, start)
    return 1e3 * on.seconds(start + layers(on, model, tuple(NETWORKS[model]())))
