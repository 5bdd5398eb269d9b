"""What each kind of ONNX node becomes: an operator, nothing, or what is not taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from simaccel.files.accounting import Entry, How
from simaccel.workload.conv import positions
from simaccel.workload.layers import Product
from simaccel.workload.onnx_files import layers
from simaccel.workload.onnx_files.building import Building, Given, Window
from simaccel.workload.onnx_files.layers import Factor, Filters
from simaccel.workload.onnx_files.reading import Network, Shape
from simaccel.workload.onnx_files.views import View

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
FREE: Final = frozenset(
    (
        *("Cast", "Concat", "Dropout", "Expand", "Flatten", "Identity", "Pad", "Reshape"),
        *("Slice", "Split", "Squeeze", "Transpose", "Unsqueeze", "DepthToSpace"),
        *("SpaceToDepth", "Constant", "ConstantOfShape", "Shape", "Size", "Range"),
    )
)
"""Where elements stand, not what they are: whoever reads or writes next addresses them so."""
UNCOUNTED: Final = frozenset(
    (
        *("AffineGrid", "DFT", "DeformConv", "Det", "GridSample", "ImageDecoder", "RoiAlign"),
        *("STFT", "If", "Loop", "Scan", "SequenceMap"),
    )
)
"""Kinds of nodes that are not taken and multiply, or hide what does; others have no MACs."""
_MOST_STEPS = 64
"""Steps of a recurrent layer that are spelled out."""


@dataclass(frozen=True)
class Place:
    """A node with its name in the workload, and what is known around it."""

    node: Any
    name: str
    network: Network
    building: Building

    def shape(self, number: int) -> Shape:
        """Return the shape of an input."""
        return self.network.shapes[self.node.input[number]]

    def given(self, number: int) -> Given:
        """Return an input with its shape."""
        return self.node.input[number], self.shape(number)

    def makes(self, view: View | None, number: int = 0) -> None:
        """Say what an output is a view of."""
        if view is not None and number < len(self.node.output):
            self.building.views[self.node.output[number]] = view

    @property
    def made(self) -> Shape:
        """The shape of the first output."""
        return self.network.shapes[self.node.output[0]]

    @property
    def elements(self) -> int:
        """Elements of all outputs of known shape."""
        shapes = self.network.shapes
        return sum(math.prod(shapes[one]) for one in self.node.output if one in shapes)

    def attribute(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any kind
        """Return an attribute's value."""
        for one in self.node.attribute:
            if one.name == name:
                return list(one.ints) or one.s.decode() or one.i or (one.f if one.type == 1 else 0)
        return default

    def taken(self, become: str, macs: int = 0) -> Entry:
        """Return the entry of a node that is operators, or a part of one."""
        elements = 0 if macs else self.elements
        return Entry(self.name, "taken", become, self.node.op_type, macs, elements)

    def other(self, how: How, why: str, macs: int | None = 0) -> Entry:
        """Return the entry of a node that does nothing, or is left out."""
        return Entry(self.name, how, why, self.node.op_type, macs, self.elements)


def _windows(place: Place, size: Shape, reach: Shape) -> list[Window]:
    """Return the windows over all dimensions behind samples and channels."""
    count = len(reach)
    stride = tuple(place.attribute("strides") or [1] * count)
    dilation = tuple(place.attribute("dilations") or [1] * count)
    pads = place.attribute("pads") or [0] * 2 * count
    auto = place.attribute("auto_pad", "NOTSET") or "NOTSET"
    made = place.made[2:]
    found = []
    for at, one in enumerate(size):
        span = 1 + (reach[at] - 1) * dilation[at]
        whole = one + pads[at] + pads[at + count]
        number = made[at] if len(made) == count else positions(whole, span, stride[at])
        before = pads[at]
        if auto.startswith("SAME"):
            lacking = max(0, (number - 1) * stride[at] + span - one)
            before = lacking // 2 if auto == "SAME_UPPER" else -(-lacking // 2)
        found.append(Window(number, reach[at], stride[at], dilation[at], before))
    return found


def conv(place: Place) -> Entry:
    """Map a convolution; its bias begins the sums."""
    size = place.shape(0)[2:]
    filters, inner, *reach = place.shape(1)
    groups = place.attribute("group", 1) or 1
    if len(size) > 2:  # noqa: PLR2004 - height and width
        return place.other("not taken", f"a convolution of {len(size)} dimensions")
    windows = _windows(place, size, tuple(reach))
    of = Filters(groups, filters // groups, inner)
    place.makes(layers.conv(place.building, place.name, place.given(0), of, windows))
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


def unary(place: Place) -> Entry:
    """Map a function of each element."""
    kind = UNARY[place.node.op_type]
    place.makes(place.building.vector(place.name, kind, place.made, [place.given(0)]))
    return place.taken(kind)


def binary(place: Place) -> Entry:
    """Map a function of two tensors, one of which may be broadcast; with a number it is unary."""
    kind, made, building = BINARY[place.node.op_type], place.made, place.building
    given: list[Given] = [(name, place.network.shapes.get(name, ())) for name in place.node.input]
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
    if len(size) > 2:  # noqa: PLR2004 - height and width
        return place.other("not taken", f"a pooling of {len(size)} dimensions")
    windows = _windows(place, size, tuple(place.attribute("kernel_shape")))
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


def recurrent(place: Place) -> Entry:
    """Map an LSTM or GRU: the inputs of all steps at once, then step by step."""
    steps, batch, inner = place.shape(0)
    turns, gates, _ = place.shape(1)
    hidden = place.shape(2)[-1]
    if steps > _MOST_STEPS:
        return place.other("not taken", f"{steps} steps; at most {_MOST_STEPS} are spelled out")
    for turn in range(turns):
        name = f"{place.name}.{turn}" if turns > 1 else place.name
        states = _steps(place, name, (steps, batch, inner), (gates, hidden))
        if turns == 1 and steps == 1:
            one = states[0]
            place.makes(View(one.root, ((), (), *one.dims)))
        else:
            for state in states:
                place.building.part(state)
        if turns == 1:
            place.makes(View(states[-1].root, ((), *states[-1].dims)), 1)
    return place.taken("gemms and gates", turns * steps * batch * (inner + hidden) * gates)


def _steps(place: Place, name: str, shape: Shape, sizes: tuple[int, int]) -> list[View]:
    """Add the steps of one direction; return the states."""
    building, (steps, batch, inner), (gates, hidden) = place.building, shape, sizes
    ahead = Factor((None, (inner, gates)), "weight")
    given = layers.product(building, f"{name}.input", (place.given(0)[0], shape), ahead)
    weights = Factor((None, (hidden, gates)), "weight", name=f"{name}.R")
    states: list[View] = []
    for step in range(steps):
        before: Given = (states[-1] if states else None, (batch, hidden))
        summed = layers.product(building, f"{name}.step{step}", before, weights)
        part = given.sliced(0, step, 1)
        row = None if part is None else part.reshaped((batch, gates))
        inputs: list[Given] = [(row, (batch, gates)), (summed, (batch, gates))]
        opened = building.vector(f"{name}.gates{step}", "residual", (batch, gates), inputs)
        both: list[Given] = [(opened.sliced(1, 0, hidden), (batch, hidden)), before]
        states.append(building.vector(f"{name}.state{step}", "product", (batch, hidden), both))
    return states


HANDLERS: Final[Mapping[str, Callable[[Place], Entry]]] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": matmul,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "LayerNormalization": norm,
    "RMSNormalization": norm,
    "SimplifiedLayerNormalization": norm,
    "BatchNormalization": batch_norm,
    "Gather": gather,
    **dict.fromkeys(("MaxPool", "AveragePool"), pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), reduction),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"), reduction),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
}
"""What maps each kind of node."""
