"""ONNX nodes that multiply nothing: functions of elements, norms, poolings and reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.files.accounting import AccountEntry, split_names
from simaccel.importers.onnx_files import layers
from simaccel.importers.onnx_files.builder import NodeInput
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.places import WINDOW_RANKS, FilterWindow, NodePlace, windows_of
from simaccel.importers.onnx_files.views import SlotView

UNARY: Final[Mapping[str, str]] = {
    "Relu": "relu",
    "Swish": "silu",
    **dict.fromkeys(("Exp", "Elu", "Celu", "Selu", "Softplus", "Mish"), "exp"),
    "Erf": "erf",
    "Tanh": "tanh",
    **dict.fromkeys(("Sigmoid", "QLinearSigmoid"), "sigmoid"),
    "Sqrt": "sqrt",
    **dict.fromkeys(("Reciprocal", "Softsign"), "reciprocal"),
    **dict.fromkeys(("Gelu", "FastGelu", "QuickGelu", "BiasGelu"), "gelu"),
    **dict.fromkeys(
        split_names("""
Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Clip Cos Cosh CumProd CumSum Floor HardSigmoid
HardSwish IsInf IsNaN LeakyRelu Log Neg Not Round Shrink Sign Sin Sinh Tan ThresholdedRelu Trilu
DynamicQuantizeLinear QLinearLeakyRelu
"""),
        "scale",
    ),
}
"""One pass over the elements of the output; a kind stands for functions of equal cost."""
BINARY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Add", "Sub", "Max", "Min", "Sum", "Where", "Mod", "Pow"), "residual"),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), "residual"),
    **dict.fromkeys(("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"), "residual"),
    **dict.fromkeys(("BitShift", "Mean", "QLinearAdd"), "residual"),
    **dict.fromkeys(("Mul", "PRelu", "QLinearMul"), "product"),
    "Div": "divide",
}
"""One pass over two tensors; `residual` and `product` stand for functions of equal cost."""
REDUCTIONS: Final = (
    *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ArgMax", "ArgMin"),
    *("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "QLinearGlobalAveragePool"),
)
"""Nodes that make one element of many: a pass over all of them."""
_COERCED: Final = 13
"""The opset from which softmax goes over one axis; before, over all dimensions from it on."""


def unary(place: NodePlace) -> AccountEntry:
    """Map a function of elements, or a rotary embedding; its other inputs are not read."""
    for number in range(1, len(place.node.input)):
        place.report_input(number, "a bias, or another factor: not read")
    return one_pass(place, UNARY.get(place.node.op_type, "scale"))


def one_pass(place: NodePlace, kind: str = "scale", axis: int | None = None) -> AccountEntry:
    """Map a node as one vector operator over its first input."""
    operands = [place.shaped_input(0)]
    made = place.builder.vector(place.name, kind, place.out_shape, operands, axis)
    return place.take_node(kind, made=made)


def binary(place: NodePlace) -> AccountEntry:
    """Map a function of two tensors, one of which may be broadcast; with a number it is unary."""
    kind, made, builder = BINARY[place.node.op_type], place.out_shape, place.builder
    names = [*place.node.input]
    if place.node.op_type.startswith("QLinear"):  # scales and zero points stand between
        names = names[0:4:3]
    operands: list[NodeInput] = [(name, place.network.shapes.get(name, ())) for name in names]
    if place.attribute("broadcast", 0) and len(operands[1][1]) < len(made):  # below opset 7
        size = operands[1][1]
        lead = int(place.attribute("axis", len(made) - len(size))) % len(made)
        operands[1] = None, (*(1,) * lead, *size, *(1,) * (len(made) - lead - len(size)))
    whole = [operand for operand in operands if operand[1] == made]
    whole.sort(key=lambda operand: _link_order(builder.view(operand[0])))
    first: NodeInput = whole[0] if whole else _widen_operand(place, operands, made)
    others = [operand for operand in operands if math.prod(operand[1]) > 1]
    if math.prod(made) == 1:  # else what has one element is a number
        others = [operand for operand in operands if builder.view(operand[0]) is not None]
    done = first if whole else operands[0]
    if done in others:
        others.remove(done)
    if not others:
        return place.take_node("scale", made=builder.vector(place.name, "scale", made, [first]))
    for at, other in enumerate(others):
        name = f"{place.name}.{at}" if at else place.name
        first = builder.vector(name, kind, made, [first, other]), made
    return place.take_node(kind, made=builder.view(first[0]))


def _widen_operand(place: NodePlace, operands: Sequence[NodeInput], made: Shape) -> NodeInput:
    """Return the first of operands of which none has all elements, repeated to what is made."""
    source = operands[0][0]
    view = place.builder.view(source)
    if view is None and isinstance(source, str):
        view = place.builder.view_external(source, f"{place.name}.A")
    return None if view is None else view.expand(made), made


def _link_order(view: SlotView | None) -> int:
    """Rank operands: what is linked is the first one, what is stored once for several the last."""
    return 1 if view is None else 2 * view.repeats


def softmax(place: NodePlace) -> AccountEntry:
    """Map a softmax along one axis; below opset 13 along all dimensions from it on."""
    rank, coerced = len(place.out_shape), place.network.opset < _COERCED and not place.node.domain
    axis = int(place.attribute("axis", 1 if coerced else -1)) % rank
    axes = axis, rank if coerced else axis + 1
    made = _add_along_axes(place, "softmax", axes, [place.shaped_input(0)])
    return place.take_node("softmax", made=made)


def _add_along_axes(
    place: NodePlace, kind: str, axes: tuple[int, int], operands: Sequence[NodeInput]
) -> SlotView | None:
    """Add a vector operator along dimensions, from the first to before the last, as one axis."""
    (first, last), made = axes, place.out_shape
    size = math.prod(made[first:last])
    wide = (*made[:first], size, *made[last:])
    if wide == made:
        return place.builder.vector(place.name, kind, made, operands, first)
    return _add_reshaped(place, kind, wide, first)


def _add_reshaped(place: NodePlace, kind: str, wide: Shape, axis: int) -> SlotView | None:
    """Add a vector operator of the first input in another shape; return the output in its own."""
    source, made = place.node.input[0], place.out_shape
    view = place.builder.view(source)
    part = None if view is None or view.shape != made else view.reshape(wide)
    if part is None:
        place.builder.store_in_dram(source)
    return place.builder.vector(place.name, kind, wide, [(part, wide)], axis).reshape(made)


def norm(place: NodePlace) -> AccountEntry:
    """Map a layer norm or RMS norm over the last dimensions, with gain and bias."""
    kind = "layer_norm" if place.node.op_type == "LayerNormalization" else "rms_norm"
    rank = len(place.out_shape)
    axis = int(place.attribute("axis", -1)) % rank
    most = 3 if kind == "layer_norm" else 2
    given = [place.shaped_input(at) for at in range(min(len(place.node.input), most))]
    return place.take_node(kind, made=_add_along_axes(place, kind, (axis, rank), given))


def skip_norm(place: NodePlace) -> AccountEntry:
    """Map ONNX Runtime's sum with a norm after it."""
    kind = "rms_norm" if "Simplified" in place.node.op_type else "layer_norm"
    made, builder = place.out_shape, place.builder
    inputs = [place.shaped_input(0), place.shaped_input(1)]
    summed = builder.vector(f"{place.name}.sum", "residual", made, inputs)
    gain = [place.shaped_input(2)] if place.input_name(2) else []
    for number in (3, 4):
        place.report_input(number, "a bias beside a gain: not read")
    both: list[NodeInput] = [(summed, made), *gain]
    place.set_output(builder.vector(place.name, kind, made, both, len(made) - 1))
    place.set_output(summed, 3)
    return place.take_node(f"residual and {kind}")


def group_norm(place: NodePlace) -> AccountEntry:
    """Map a norm over groups of channels and all positions, or over each channel's positions."""
    made = place.out_shape
    each = "Instance" in place.node.op_type
    for number in (1, 2):
        place.report_input(number, "gains or biases of channels: not read")
    groups = made[1] if each else int(place.attribute("num_groups", 1))
    wide = (made[0] * groups, math.prod(made[1:]) // groups)
    return place.take_node("layer_norm", made=_add_reshaped(place, "layer_norm", wide, 1))


def lp_norm(place: NodePlace) -> AccountEntry:
    """Map a norm along one axis without gain."""
    axis = int(place.attribute("axis", -1)) % len(place.out_shape)
    return one_pass(place, "rms_norm", axis)


def batch_norm(place: NodePlace) -> AccountEntry:
    """Map a batch norm of inference: in the filters of what it alone reads, or two operators.

    A product and a sum by channel have the form of a filter and a bias, which compilers make them.
    """
    made, builder = place.out_shape, place.builder
    if place.is_only_reader(0) and _is_summed(place):
        builder.views[place.node.output[0]] = builder.views[place.node.input[0]]
        builder.read_tensors.add(place.node.input[0])
        return place.pass_node("harmless", "in the filters and sums before it")
    channel: NodeInput = None, (1, made[1], *([1] * (len(made) - 2)))
    scaled = builder.vector(place.name, "product", made, [place.shaped_input(0), channel])
    shift = f"{place.name}.shift"
    shifted = builder.vector(shift, "residual", made, [(scaled, made), channel])
    return place.take_node("product and residual", made=shifted)


def _is_summed(place: NodePlace) -> bool:
    """Return whether convolutions or products make the first input."""
    root = place.builder.views[place.node.input[0]].root
    kinds = {one.kind for one in place.builder.pending if one.output.root is root}
    return kinds == {None}


def pool(place: NodePlace) -> AccountEntry:
    """Map a pooling over windows."""
    kind = "average_pooling" if "Average" in place.node.op_type else "pooling"
    reach = tuple(place.attribute("kernel_shape"))
    if why := place.wrong_window("a pooling", reach):
        return place.pass_node("not taken", why)
    windows = windows_of(place, place.shape(0)[2:], reach)
    return _take_pooling(place, windows, kind)


def _take_pooling(place: NodePlace, windows: Sequence[FilterWindow], kind: str) -> AccountEntry:
    image = layers.WindowedOperand(place.builder, place.name, place.shaped_input(0), windows)
    return place.take_node(kind, made=image.add_pooling(kind))


def reduction(place: NodePlace) -> AccountEntry:
    """Map a mean, sum or maximum over some axes."""
    count = len(place.shape(0))
    axes = place.attribute("axes")
    if place.node.op_type.startswith("Arg"):
        axes = [int(place.attribute("axis", 0))]
    if "Global" in place.node.op_type:
        axes = list(range(2, count))
    elif len(place.node.input) > 1 and place.node.input[1] in place.network.values:
        axes = [int(axis) for axis in place.network.values[place.node.input[1]].reshape(-1)]
    if not axes and place.attribute("noop_with_empty_axes", 0):
        return one_pass(place)
    axes = [axis % count for axis in axes or range(count)]
    keeps = len(place.out_shape) == count
    source = place.shaped_input(0)
    reduced = layers.add_reduction(place.builder, place.name, source, axes, keeps=keeps)
    made = reduced if reduced.shape == place.out_shape else None
    return place.take_node("average_pooling", made=made)


def resize(place: NodePlace) -> AccountEntry:
    """Map a resize: windows over what becomes a single element, or else a pass over what is made.

    That reads as many elements as it makes, which a note says.
    """
    size, made, builder = place.shape(0), place.out_shape, place.builder
    count = len(size) - 2
    parts = [had % makes for had, makes in zip(size, made, strict=True)]
    if not any(parts) and size[:2] == made[:2] and 0 < count <= len(WINDOW_RANKS):
        steps = [had // makes for had, makes in zip(size[2:], made[2:], strict=True)]
        windows = [FilterWindow(n, step, step) for n, step in zip(made[2:], steps, strict=True)]
        return _take_pooling(place, windows, "average_pooling")
    entry, had = one_pass(place), math.prod(size)
    if size != made:
        builder.note(
            place.name, f"{had} elements, read as the {math.prod(made)} that are made", had
        )
        builder.roots[f"{place.name}.I"].distinct = min(had, math.prod(made))
    return entry
