"""ONNX nodes that multiply nothing: functions of elements, norms, poolings and reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from simaccel.files.accounting import Entry
from simaccel.workload.onnx_files import layers
from simaccel.workload.onnx_files.building import Given
from simaccel.workload.onnx_files.places import Place, windows_of

UNARY: Final[Mapping[str, str]] = {
    "Relu": "relu",
    "Gelu": "gelu",
    **dict.fromkeys(
        (
            *("Abs", "Ceil", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid"),
            *("HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Not", "PRelu", "Reciprocal"),
            *("Resize", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign"),
            *("Sqrt", "Swish", "Tanh", "ThresholdedRelu", "Upsample"),
            *("QuantizeLinear", "DequantizeLinear"),
        ),
        "scale",
    ),
}
"""One pass over the elements of the output; `scale` stands for functions of equal cost."""
BINARY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Add", "Sub", "Max", "Min", "Sum", "Where", "Mod", "Pow"), "residual"),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), "residual"),
    **dict.fromkeys(("And", "Or", "Xor"), "residual"),
    **dict.fromkeys(("Mul", "Div"), "product"),
}
"""One pass over two tensors; `residual` and `product` stand for functions of equal cost."""


def unary(place: Place) -> Entry:
    """Map a function of each element."""
    kind = UNARY[place.node.op_type]
    place.makes(place.building.vector(place.name, kind, place.made, [place.given(0)]))
    return place.taken(kind)


def binary(place: Place) -> Entry:
    """Map a function of two tensors, one of which may be broadcast; with a number it is unary."""
    kind, made, building = BINARY[place.node.op_type], place.made, place.building
    given: list[Given] = [(name, place.network.shapes.get(name, ())) for name in place.node.input]
    if place.attribute("broadcast", 0) and len(given[1][1]) < len(made):  # below opset 7
        size = given[1][1]
        lead = int(place.attribute("axis", len(made) - len(size))) % len(made)
        given[1] = None, (*(1,) * lead, *size, *(1,) * (len(made) - lead - len(size)))
    whole = [one for one in given if one[1] == made]
    whole.sort(key=lambda one: building.view(one[0]) is None)  # what is linked first
    first: Given = whole[0] if whole else (None, made)
    others = [one for one in given if math.prod(one[1]) > 1]
    if math.prod(made) == 1:  # else what has one element is a number
        others = [one for one in given if building.view(one[0]) is not None]
    if first in others:
        others.remove(first)
    if not others:
        place.makes(building.vector(place.name, "scale", made, [first]))
        return place.taken("scale")
    for at, other in enumerate(others):
        name = f"{place.name}.{at}" if at else place.name
        first = building.vector(name, kind, made, [first, other]), made
    place.makes(building.view(first[0]))
    return place.taken(kind)


def softmax(place: Place) -> Entry:
    """Map a softmax along one axis."""
    given, axis = [place.given(0)], _axis(place)
    place.makes(place.building.vector(place.name, "softmax", place.made, given, axis))
    return place.taken("softmax")


def _axis(place: Place) -> int:
    rank, axis = len(place.made), place.attribute("axis", -1)
    return int(axis) % rank


def norm(place: Place) -> Entry:
    """Map a layer norm or RMS norm over the last axis, with gain and bias."""
    kind = "layer_norm" if place.node.op_type == "LayerNormalization" else "rms_norm"
    if _axis(place) != len(place.made) - 1:
        return place.other("not taken", "a norm over several axes")
    most = 3 if kind == "layer_norm" else 2
    given = [place.given(at) for at in range(min(len(place.node.input), most))]
    axis = len(place.made) - 1
    place.makes(place.building.vector(place.name, kind, place.made, given, axis))
    return place.taken(kind)


def batch_norm(place: Place) -> Entry:
    """Map a batch norm of inference: a product and a sum by channel."""
    made, building = place.made, place.building
    channel: Given = None, (1, made[1], *([1] * (len(made) - 2)))
    scaled = building.vector(place.name, "product", made, [place.given(0), channel])
    shift = f"{place.name}.shift"
    place.makes(building.vector(shift, "residual", made, [(scaled, made), channel]))
    return place.taken("product and residual")


def pool(place: Place) -> Entry:
    """Map a pooling over windows."""
    kind = "pooling" if place.node.op_type == "MaxPool" else "average_pooling"
    size = place.shape(0)[2:]
    if len(size) > layers.MOST_WINDOWS:
        return place.other("not taken", f"a pooling of {len(size)} dimensions")
    windows = windows_of(place, size, tuple(place.attribute("kernel_shape")))
    place.makes(layers.pooling(place.building, place.name, kind, place.given(0), windows))
    return place.taken(kind)


def reduction(place: Place) -> Entry:
    """Map a mean, sum or maximum over some axes."""
    count = len(place.shape(0))
    axes = place.attribute("axes")
    if place.node.op_type.startswith("Global"):
        axes = list(range(2, count))
    elif len(place.node.input) > 1 and place.node.input[1] in place.network.values:
        axes = [int(one) for one in place.network.values[place.node.input[1]].reshape(-1)]
    axes = [one % count for one in axes or range(count)]
    keeps = len(place.made) == count
    found = place.building.reduction(place.name, place.given(0), axes, keeps=keeps)
    place.makes(found if found.shape == place.made else None)
    return place.taken("average_pooling")


def gather(place: Place) -> Entry:
    """Map the rows that are looked up in a table of weights."""
    place.makes(place.building.vector(place.name, "scale", place.made, [(None, place.made)]))
    return place.taken("scale")
