"""The layers of figures 10 to 14: ResNet-50 by layer type, and a selection of DeepBench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simaccel.workload.conv import Conv
from simaccel.workload.layers import LayerShape, Product
from simaccel.workload.networks import find_network


@dataclass(frozen=True)
class Layer:
    """A layer, how often the network has it, and its part of the network or field."""

    name: str
    group: str
    shape: LayerShape
    times: int = 1


def resnet50() -> list[Layer]:
    """Give the layer types of ResNet-50, in the order in which they come first."""
    times: dict[LayerShape, int] = {}
    first: dict[LayerShape, str] = {}
    for name, shape in find_network("resnet50").layers.items():
        times[shape] = times.get(shape, 0) + 1
        first.setdefault(shape, name)
    return [
        Layer(first[shape].replace("_branch", " "), _kind(shape), shape, count)
        for shape, count in times.items()
    ]


def _kind(shape: LayerShape) -> str:
    if isinstance(shape, Product):
        return "dense"
    return "pointwise" if shape.r == shape.s == 1 else f"{shape.r} x {shape.s}"


_DEEPBENCH: Final = {
    "vision": (
        "server_conv_224x224x3_n1_k64_3x3_s1",
        "server_conv_112x112x64_n1_k128_3x3_s1",
        "server_conv_56x56x128_n1_k256_3x3_s1",
        "server_conv_28x28x256_n1_k512_3x3_s1",
        "server_conv_14x14x512_n1_k512_3x3_s1",
        "server_conv_7x7x512_n1_k512_3x3_s1",
        "server_conv_224x224x3_n1_k64_7x7_s2",
        "server_conv_28x28x192_n1_k32_5x5_s1",
        "server_conv_14x14x512_n1_k192_1x1_s1",
        "server_conv_7x7x832_n1_k256_1x1_s1",
    ),
    "face recognition": (
        "server_conv_108x108x3_n1_k64_3x3_s2",
        "server_conv_54x54x64_n1_k64_3x3_s1",
        "server_conv_27x27x128_n1_k128_3x3_s1",
        "server_conv_14x14x128_n1_k256_3x3_s1",
        "server_conv_7x7x256_n1_k512_3x3_s1",
    ),
    "speaker id": (
        "server_conv_700x161x1_n1_k64_5x5_s2",
        "server_conv_350x80x64_n1_k64_3x3_s1",
        "server_conv_350x80x64_n1_k128_5x5_s2",
        "server_conv_175x40x128_n1_k128_3x3_s1",
        "server_conv_175x40x128_n1_k256_5x5_s2",
        "server_conv_84x20x256_n1_k256_3x3_s1",
        "server_conv_84x20x256_n1_k512_5x5_s2",
        "server_conv_42x10x512_n1_k512_3x3_s1",
    ),
    "speech to text": (
        "server_conv_700x161x1_n1_k32_20x5_s2",
        "server_conv_341x79x32_n1_k32_10x5_s2",
        "server_gemm_5124x700x2048",
        "server_gemm_35x700x2048",
        "server_gemm_3072x3000x1024",
        "server_gemm_512x6000x2816",
        "server_gemm_7680x1x2560",
        "server_gemm_3072x4x1024",
    ),
}
"""Inference on a server, one sample where the list has it. The fields are our reading of the shapes
(the labels of Fig. 11 are not in the text that we have); they only group the rows."""

_SUBSET: Final = (
    "server_conv_112x112x64_n1_k128_3x3_s1",
    "server_conv_28x28x192_n1_k32_5x5_s1",
    "server_conv_7x7x832_n1_k256_1x1_s1",
    "server_conv_54x54x64_n1_k64_3x3_s1",
    "server_conv_27x27x128_n1_k128_3x3_s1",
    "server_conv_350x80x64_n1_k64_3x3_s1",
    "server_conv_84x20x256_n1_k512_5x5_s2",
    "server_conv_341x79x32_n1_k32_10x5_s2",
    "server_gemm_35x700x2048",
    "server_gemm_3072x4x1024",
)
"""Of figures 13 and 14: two or three of each field."""


def deepbench(*, subset: bool = False) -> list[Layer]:
    """Give the selection of DeepBench, or the smaller one of the sweep over arrays."""
    every = find_network("deepbench").layers
    return [
        Layer(_short(name), field, _rows_as_samples(every[name]))
        for field, names in _DEEPBENCH.items()
        for name in names
        if not subset or name in _SUBSET
    ]


def _short(name: str) -> str:
    return name.removeprefix("server_").replace("_n1_", " ").replace("_", " ")


def _rows_as_samples(shape: LayerShape) -> LayerShape:
    """Write C = A B as C' = B' A', since DeepBench's A are the weights and ours the second factor.

    So samples are rows (m) and outputs columns (n), as in fully connected layers here.
    """
    if isinstance(shape, Conv):
        return shape
    return Product(m=shape.n, k=shape.k, n=shape.m, b=shape.b)
