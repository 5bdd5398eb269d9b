"""ONNX nodes that multiply: convolutions and products, of floats and of quantised numbers."""

from __future__ import annotations

import math
from typing import Literal

from simaccel.files.accounting import Entry
from simaccel.workload.layers import Product
from simaccel.workload.onnx_files import layers
from simaccel.workload.onnx_files.building import Window
from simaccel.workload.onnx_files.layers import Factor, Filters
from simaccel.workload.onnx_files.places import Place, windows_of
from simaccel.workload.onnx_files.reading import Shape


def conv(place: Place) -> Entry:
    """Map a convolution; its bias begins the sums."""
    size = place.shape(0)[2:]
    filters, inner, *reach = place.shape(1)
    groups = place.attribute("group", 1) or 1
    if len(size) > layers.MOST_WINDOWS:
        return place.other("not taken", f"a convolution of {len(size)} dimensions", None)
    windows = windows_of(place, size, tuple(reach))
    of = Filters(groups, filters // groups, inner)
    weights = place.node.input[1]
    place.makes(layers.conv(place.building, place.name, place.given(0), of, windows, weights))
    if (kind := place.building.pending[-1].kind) is not None:
        return place.taken(kind)
    macs = place.made[0] * filters * inner * math.prod(one.made * one.reach for one in windows)
    return place.taken("conv", macs)


def conv_transpose(place: Place) -> Entry:
    """Map a transposed convolution as a product; adding overlapping windows up costs nothing."""
    n, channels, *size = place.shape(0)
    _, filters, *reach = place.shape(1)
    groups = place.attribute("group", 1) or 1
    if len(size) > 2:  # noqa: PLR2004 - height and width
        return place.other("not taken", f"a convolution of {len(size)} dimensions")
    of = Filters(groups, filters * math.prod(reach), channels // groups)
    windows = [Window(one, 1) for one in size]
    layers.conv(place.building, place.name, place.given(0), of, windows)
    macs = n * math.prod(size) * channels * filters * math.prod(reach)
    return place.taken("conv 1x1", macs)


def gemm(place: Place) -> Entry:
    """Map a Gemm; its bias begins the sums."""
    turned = bool(place.attribute("transA", 0)), bool(place.attribute("transB", 0))
    factor = Factor(place.given(1), _second(place), turned[1])
    place.makes(
        layers.product(place.building, place.name, place.given(0), factor, turned=turned[0])
    )
    inner = place.shape(0)[0 if turned[0] else 1]
    return place.taken("gemm", math.prod(place.made) * inner)


def matmul(place: Place) -> Entry:
    """Map a matrix product; a second factor without a batch sees all rows as one."""
    factor = Factor(place.given(1), _second(place))
    made = layers.product(place.building, place.name, place.given(0), factor)
    place.makes(made if made.shape == place.made else made.reshaped(place.made))
    shape = matmul_shape(place.shape(0), place.shape(1))
    return place.taken("gemm", math.prod(shape.ranks.values()))


def matmul_shape(first: Shape, second: Shape) -> Product:
    """Return the sizes of numpy's matmul.

    >>> matmul_shape((2, 5, 3), (3, 7)).ranks
    {'b': 1, 'm': 10, 'k': 3, 'n': 7}
    """
    first = (1, *first) if len(first) == 1 else first
    second = (*second, 1) if len(second) == 1 else second
    k, n = second[-2:]
    batch = math.prod(second[:-2])
    outer = math.prod(first[:-2])
    if batch == 1:
        return Product(m=outer * first[-2], k=k, n=n)
    return Product(b=max(batch, outer), m=first[-2], k=k, n=n)


def _second(place: Place) -> Literal["weight", "input"]:
    return "weight" if place.node.input[1] in place.network.weights else "input"
