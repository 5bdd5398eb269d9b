"""Convolutions of networks that were measured whole, for one image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simaccel.workload import Conv

_RESNETS: Final = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}
"""Blocks of each stage, and whether they have bottlenecks (He et al., CVPR 2016, table 1)."""


def conv(side: int, channels: int, filters: int, kernel: int = 1, stride: int = 1) -> Conv:
    """Return a convolution of a square image of ``side`` pixels, padded so that none is lost."""
    out = -(-side // stride)
    return Conv(m=filters, c=channels, p=out, q=out, r=kernel, s=kernel, stride=(stride, stride))


def resnet(depth: int, side: int = 224) -> Iterator[Conv]:
    """Yield the convolutions of a ResNet, strides in those of 3 x 3."""
    stages, bottleneck = _RESNETS[depth]
    yield conv(side, 3, 64, 7, 2)
    side, channels = -(-side // 4), 64
    for stage, blocks in enumerate(stages):
        width = 64 * 2**stage
        made = width * (4 if bottleneck else 1)
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            small = -(-side // stride)
            if bottleneck:
                yield conv(side, channels, width)
                yield conv(side, width, width, 3, stride)
                yield conv(small, width, made)
            else:
                yield conv(side, channels, width, 3, stride)
                yield conv(small, width, width, 3)
            if channels != made:
                yield conv(side, channels, made, 1, stride)
            side, channels = small, made


def linked_resnet(depth: int) -> dict[str, object]:
    """Return a ResNet with its poolings, shortcuts and classes, as a workload file has it."""
    first, *others = resnet(depth)
    count = 3 if _RESNETS[depth][1] else 2
    layers = {
        "conv1": {**first.document(), "padding": 3},
        "pool1": {"kind": "pooling", "shape": _window(56, 3), "stride": 2, "padding": 1},
    }
    before, made, left = "pool1", first.m, others
    while left:
        block, left = left[:count], left[count:]
        name, reads = f"block{len(layers)}", before
        for at, layer in enumerate(block):
            layers[f"{name}_{at}"] = _layer(layer, reads)
            reads = f"{name}_{at}"
        if made != block[-1].m:
            layers[f"{name}_shortcut"], left = _layer(left[0], before), left[1:]
            before = f"{name}_shortcut"
        layers[name] = {"kind": "residual", "reads": [reads, before]}
        before, made = name, block[-1].m
    layers["pool5"] = {"kind": "average_pooling", "shape": _window(1, 7)}
    layers["classes"] = {"kind": "gemm", "shape": {"M": 1, "K": made, "N": 1000}}
    return {"kind": "layers", "name": f"resnet{depth}", "linked": True, "layers": layers}


def _window(side: int, kernel: int) -> dict[str, int]:
    return {"P": side, "Q": side, "R": kernel, "S": kernel}


def _layer(layer: Conv, reads: str) -> dict[str, object]:
    return {**layer.document(), "padding": layer.r // 2, "reads": reads}
