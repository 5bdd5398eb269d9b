"""What each kind of ONNX node becomes: an operator, a part of another, nothing, or not modelled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from simaccel.workload.conv import Conv, positions
from simaccel.workload.layers import Product
from simaccel.workload.onnx_files.building import Building
from simaccel.workload.onnx_files.reading import Network, Shape

How = Literal["mapped", "fused", "free", "not modelled"]

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
_MOST_STEPS = 64
"""Steps of a recurrent layer that are spelled out."""


@dataclass(frozen=True)
class Row:
    """What became of a node; ``work`` is the elements of its outputs where it has no MACs."""

    node: str
    kind: str
    how: How
    become: str
    macs: int = 0
    work: int = 0


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

    def mapped(self, become: str, macs: int = 0) -> Row:
        """Return the row of a node that was mapped."""
        return Row(
            self.name, self.node.op_type, "mapped", become, macs, 0 if macs else self.elements
        )

    def other(self, how: How, why: str) -> Row:
        """Return the row of a node that was not."""
        return Row(self.name, self.node.op_type, how, why, 0, self.elements)


def _window(place: Place, size: Shape, reach: Shape) -> tuple[Shape, Shape, Shape]:
    """Return (stride, dilation, output) of a window over two dimensions."""
    count = len(reach)
    stride = tuple(place.attribute("strides") or [1] * count)
    dilation = tuple(place.attribute("dilations") or [1] * count)
    made = place.made[2:]
    if len(made) != count:
        pads = place.attribute("pads") or [0] * 2 * count
        made = tuple(
            positions(
                one + pads[at] + pads[at + count], 1 + (reach[at] - 1) * dilation[at], stride[at]
            )
            for at, one in enumerate(size)
        )
    return stride, dilation, made


def _pair(values: Shape) -> tuple[int, int]:
    """Return height and width, of one dimension as a row."""
    return (1, values[0]) if len(values) == 1 else (values[0], values[1])


def conv(place: Place) -> Row:
    """Map a convolution; its bias begins the sums."""
    size = place.shape(0)[2:]
    filters, inner, *reach = place.shape(1)
    groups = place.attribute("group", 1) or 1
    if len(size) > 2:  # noqa: PLR2004 - height and width
        return place.other("not modelled", f"a convolution of {len(size)} dimensions")
    stride, dilation, made = _window(place, size, tuple(reach))
    (p, q), (r, s) = _pair(made), _pair(tuple(reach))
    shape = Conv(
        n=place.made[0],
        g=groups,
        m=filters // groups,
        c=inner,
        p=p,
        q=q,
        r=r,
        s=s,
        stride=_pair(stride) if len(stride) > 1 else (1, stride[0]),
        dilation=_pair(dilation) if len(dilation) > 1 else (1, dilation[0]),
    )
    place.building.layer(place.name, shape)
    return place.mapped("conv", math.prod(shape.ranks.values()))


def conv_transpose(place: Place) -> Row:
    """Map a transposed convolution as a product; adding overlapping windows up costs nothing."""
    n, channels, *size = place.shape(0)
    _, filters, *reach = place.shape(1)
    groups = place.attribute("group", 1) or 1
    rows = n * math.prod(size)
    shape = Conv(
        n=1, g=groups, m=filters * math.prod(reach), c=channels // groups, p=1, q=rows, r=1, s=1
    )
    place.building.layer(place.name, shape)
    return place.mapped("conv 1x1", math.prod(shape.ranks.values()))


def gemm(place: Place) -> Row:
    """Map a Gemm; its bias begins the sums."""
    first, second = place.shape(0), place.shape(1)
    turned = bool(place.attribute("transA", 0)), bool(place.attribute("transB", 0))
    k, m = first if turned[0] else first[::-1]
    n = second[0] if turned[1] else second[1]
    shape = Product(m=m, k=k, n=n, transposed=turned)
    place.building.layer(place.name, shape, _second(place))
    return place.mapped("gemm", m * k * n)


def matmul(place: Place) -> Row:
    """Map a matrix product; a second factor without a batch sees all rows as one."""
    shape = matmul_shape(place.shape(0), place.shape(1))
    place.building.layer(place.name, shape, _second(place))
    return place.mapped("gemm", math.prod(shape.ranks.values()))


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


def unary(place: Place) -> Row:
    """Map a function of each element."""
    kind = UNARY[place.node.op_type]
    place.building.vector(place.name, kind, place.made)
    return place.mapped(kind)


def binary(place: Place) -> Row:
    """Map a function of two tensors, one of which may be broadcast; with a number it is unary."""
    kind, made = BINARY[place.node.op_type], place.made
    shapes = [place.network.shapes.get(name, ()) for name in place.node.input]
    others = [one for one in shapes if math.prod(one) > 1]
    if made in others:
        others.remove(made)
    if not others:
        place.building.vector(place.name, "scale", made)
        return place.mapped("scale")
    if len(others) > 1:
        names = [f"{place.name}.{at}" if at else place.name for at in range(len(others))]
    else:
        names = [place.name]
    for name, other in zip(names, others, strict=True):
        place.building.vector(name, kind, made, [other])
    return place.mapped(kind)


def softmax(place: Place) -> Row:
    """Map a softmax along one axis."""
    place.building.vector(place.name, "softmax", place.made, axis=_axis(place))
    return place.mapped("softmax")


def _axis(place: Place) -> int:
    rank, axis = len(place.made), place.attribute("axis", -1)
    return int(axis) % rank


def norm(place: Place) -> Row:
    """Map a layer norm or RMS norm over the last axis, with gain and bias."""
    kind = "layer_norm" if place.node.op_type == "LayerNormalization" else "rms_norm"
    if _axis(place) != len(place.made) - 1:
        return place.other("not modelled", "a norm over several axes")
    most = 3 if kind == "layer_norm" else 2
    others = [place.shape(at) for at in range(1, min(len(place.node.input), most))]
    place.building.vector(place.name, kind, place.made, others, axis=len(place.made) - 1)
    return place.mapped(kind)


def batch_norm(place: Place) -> Row:
    """Map a batch norm of inference: a product and a sum by channel."""
    made = place.made
    channel = (1, made[1], *([1] * (len(made) - 2)))
    place.building.vector(place.name, "product", made, [channel])
    place.building.vector(f"{place.name}.shift", "residual", made, [channel])
    return place.mapped("product and residual")


def pool(place: Place) -> Row:
    """Map a pooling over windows."""
    kind = "pooling" if place.node.op_type == "MaxPool" else "average_pooling"
    n, channels, *size = place.shape(0)
    reach = tuple(place.attribute("kernel_shape"))
    if len(size) > 2:  # noqa: PLR2004 - height and width
        return place.other("not modelled", f"a pooling of {len(size)} dimensions")
    stride, dilation, made = _window(place, tuple(size), reach)
    (p, q), (r, s) = _pair(made), _pair(reach)
    steps = _pair(stride) if len(stride) > 1 else (1, stride[0])
    apart = _pair(dilation) if len(dilation) > 1 else (1, dilation[0])
    shape = Conv(n=n, g=channels, m=1, c=1, p=p, q=q, r=r, s=s, stride=steps, dilation=apart)
    place.building.pooling(place.name, kind, shape)
    return place.mapped(kind)


def reduction(place: Place) -> Row:
    """Map a mean, sum or maximum over some axes."""
    rows = math.prod(place.made)
    place.building.reduction(place.name, rows, max(1, math.prod(place.shape(0)) // max(1, rows)))
    return place.mapped("average_pooling")


def gather(place: Place) -> Row:
    """Map the rows that are looked up in a table of weights; other gathers only address."""
    if place.node.input[0] not in place.network.weights or place.elements < 2:  # noqa: PLR2004
        return place.other("free", "addresses")
    place.building.vector(place.name, "scale", place.made)
    return place.mapped("scale")


def recurrent(place: Place) -> Row:
    """Map an LSTM or GRU: the inputs of all steps at once, then step by step."""
    steps, batch, inner = place.shape(0)
    turns, gates, _ = place.shape(1)
    hidden = place.shape(2)[-1]
    if steps > _MOST_STEPS:
        return place.other("not modelled", f"{steps} steps; at most {_MOST_STEPS} are spelled out")
    name, building, macs = place.name, place.building, 0
    for turn in range(turns):
        own = f"{name}.{turn}" if turns > 1 else name
        building.layer(f"{own}.input", Product(m=steps * batch, k=inner, n=gates))
        macs += steps * batch * (inner + hidden) * gates
        for step in range(steps):
            building.layer(f"{own}.step{step}", Product(m=batch, k=hidden, n=gates))
            building.vector(f"{own}.gates{step}", "scale", (batch, gates))
            building.vector(f"{own}.state{step}", "product", (batch, hidden), [(batch, hidden)])
    return place.mapped("gemms and gates", macs)


HANDLERS: Final[Mapping[str, Callable[[Place], Row]]] = {
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
