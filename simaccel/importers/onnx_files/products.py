"""ONNX nodes that multiply: convolutions, matrix products and recurrent layers, also quantised.

Each function maps one node (`NodePlace`) to operators of the workload, and returns its entry in the
account of the file. Biases, scales and zero points are applied as elements enter or leave the
array: they are neither operators nor traffic.
"""

from __future__ import annotations

import math
import string
from dataclasses import replace
from fractions import Fraction
from typing import Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files import layers
from simaccel.importers.onnx_files.builder import NodeInput
from simaccel.importers.onnx_files.constants import UNMOVED_SCALES, Shape
from simaccel.importers.onnx_files.contractions import add_contraction, name_unequal, whole_sizes
from simaccel.importers.onnx_files.extensions import SECOND_FACTOR
from simaccel.importers.onnx_files.layers import Factor, Filters, WindowedOperand
from simaccel.importers.onnx_files.places import NodePlace, windows_of
from simaccel.importers.onnx_files.transposed import (
    MOST_PIECES,
    CutDimension,
    pieces_of,
    runs_inside,
    transposed_conv,
)
from simaccel.importers.onnx_files.views import SlotView, fresh

_MOST_STEPS: Final = 256
"""The most steps of a recurrent layer that are unrolled."""
_LENGTHS: Final = 4
"""The first input of a recurrent layer after X, W, R and B: lengths of sequences, states."""


def conv(place: NodePlace) -> AccountEntry:
    """Map a convolution."""
    second = SECOND_FACTOR.get(place.node.op_type, 1)
    size = place.shape(0)[2:]
    filters, inner, *reach = place.shape(second)
    groups = place.attribute("group", 1) or 1
    if why := place.wrong_window("a convolution", tuple(reach)):
        macs = place.out_shape[0] * filters * inner * math.prod((*place.out_shape[2:], *reach))
        return place.pass_node("not taken", why, macs)
    if why := _name_other_filters(place, inner * groups, tuple(reach)):
        return place.pass_node("not taken", why, None)
    windows = windows_of(place, size, tuple(reach))
    of = Filters(groups, filters // groups, inner)
    weights = place.node.input[second]
    if place.node.op_type == "FusedConv":
        place.report_input(3, "a sum after the convolution: not read")
    place.set_output(
        WindowedOperand(place.builder, place.name, place.shaped_input(0), windows).add_conv(
            of, weights
        )
    )
    return place.take_node(place.builder.pending[-1].kind or "conv")


def conv_transpose(place: NodePlace) -> AccountEntry:
    """Map a transposed convolution: a convolution for each phase of its strides."""
    size = place.shape(0)[2:]
    channels, filters, *reach = place.shape(1)
    groups = place.attribute("group", 1) or 1
    scattered = math.prod(place.shape(0)) * filters * math.prod(reach)
    if why := place.wrong_window("a convolution", tuple(reach)):
        return place.pass_node("not taken", why, scattered)
    if why := _name_other_filters(place, channels, tuple(reach)):
        return place.pass_node("not taken", why, None)
    dims = [_cut_dimension(place, at, length, reach[at]) for at, length in enumerate(size)]
    if math.prod(len(dim.pieces) for dim in dims) > MOST_PIECES:
        what = "exact pieces" if place.builder.exact else "phases of strides"
        return place.pass_node("not taken", f"more than {MOST_PIECES} {what}", scattered)
    if not all(dim.pieces for dim in dims):
        return place.pass_node("not taken", "no input reaches its output")
    of = Filters(groups, filters, channels // groups)
    before = len(place.builder.pending)
    made = transposed_conv(place.builder, place.name, place.shaped_input(0), of, dims)
    place.set_output(made if made.shape == place.out_shape else None)
    added = [math.prod(pending.ranks.values()) for pending in place.builder.pending[before:]]
    products = elements = 1
    for dim, length in zip(dims, size, strict=True):
        windows = [piece.window for piece in dim.pieces]
        products *= sum(window.outputs * window.taps for window in windows)
        runs = [run for window in windows for run in runs_inside(window, length)]
        elements *= sum(count * len(taps) for _, count, taps in runs)
    zeros = 1 - Fraction(elements, products) if products else Fraction(0)
    macs = sum(added)
    border = f"{float(zeros):.1%} of its MACs are products with zeros around the input"
    needed = f"without them (transposed=exact) it has {int((1 - zeros) * macs):,} of {macs:,}"
    taken = place.take_node(f"conv in {len(added)} parts")
    return replace(taken, remark=f"{border}; {needed}") if zeros else taken


def _name_other_filters(place: NodePlace, channels: int, reach: Shape) -> str:
    """Return how filters differ from the input or the node's attribute; empty if they don't."""
    asked = tuple(place.attribute("kernel_shape") or reach)
    if asked != reach:
        return f"filters of {'x'.join(map(str, reach))}, a kernel_shape of {asked}"
    given = place.shape(0)[1]
    return "" if channels == given else f"{given} channels, filters of {channels}"


def _cut_dimension(place: NodePlace, at: int, size: int, reach: int) -> CutDimension:
    """Return the pieces of a dimension: which taps make which positions, of which inputs."""
    strides, dilations, pads, auto = place.window_steps(len(place.out_shape) - 2)
    before, made, stride, apart = pads[at], place.out_shape[2 + at], strides[at], dilations[at]
    extra = (place.attribute("output_padding") or [0] * (at + 1))[at]
    if auto.startswith("SAME") or place.attribute("output_shape"):
        lacking = max(0, stride * (size - 1) + extra + (reach - 1) * apart + 1 - made)
        before = lacking // 2 if auto == "SAME_UPPER" else lacking - lacking // 2
    pieces = pieces_of(size, made, stride, reach, apart, before, exact=place.builder.exact)
    return CutDimension.of_pieces(made, stride, pieces)


def gemm(place: NodePlace) -> AccountEntry:
    """Map a Gemm; its bias begins the sums."""
    second = SECOND_FACTOR.get(place.node.op_type, 1)
    transposed = bool(place.attribute("transA", 0)), bool(place.attribute("transB", 0))
    factor = _factor(place, second, transposed=transposed[1])
    rows, own = "km" if transposed[0] else "mk", "nk" if transposed[1] else "kn"
    if why := name_unequal([(place.shaped_input(0), rows), (factor.source, own)], "k"):
        return place.pass_node("not taken", why, None)
    made = layers.add_product(
        place.builder, place.name, place.shaped_input(0), factor, transposed=transposed[0]
    )
    if second == 1 and _is_summand(place):
        operands = [(made, place.out_shape), place.shaped_input(2)]
        made = place.builder.vector(f"{place.name}.sum", "residual", place.out_shape, operands)
    return place.take_node("gemm", made)


def _is_summand(place: NodePlace) -> bool:
    """Return whether the third input is a matrix or comes from outside: no bias."""
    name = place.input_name(2)
    count = math.prod(place.network.shapes.get(name, ()))
    return count > 1 and (name not in place.network.weights or count > place.out_shape[-1])


def matmul(place: NodePlace) -> AccountEntry:
    """Map a matrix product; the first factor's batch joins its rows if the second has none."""
    second = SECOND_FACTOR.get(place.node.op_type, 1)
    factor = _factor(place, second)
    lead = string.ascii_uppercase[::-1]  # batches are counted from the last
    rows, own = f"{lead}mk"[-len(place.shape(0)) :], f"{lead}kn"[-len(place.shape(second)) :]
    own = "k" if own == "n" else own
    if why := name_unequal([(place.shaped_input(0), rows), (factor.source, own)], "k"):
        return place.pass_node("not taken", why, None)
    return _take_product(place, factor)


def _take_product(place: NodePlace, factor: Factor) -> AccountEntry:
    """Map a product of the first input and a factor."""
    made = layers.add_product(place.builder, place.name, place.shaped_input(0), factor)
    view = made if made.shape == place.out_shape else made.reshape(place.out_shape)
    return place.take_node(place.builder.pending[-1].kind or "gemm", view)


def fused_matmul(place: NodePlace) -> AccountEntry:
    """Map ONNX Runtime's FusedMatMul: factors may be transposed, or have their batch inside."""
    first, second = place.shaped_input(0), place.shaped_input(1)
    lead = "abcdefgh"[: max(len(first[1]), len(second[1])) - 2]
    operands = []
    for operand, own, which in ((first, ("m", "k"), "A"), (second, ("k", "n"), "B")):
        before = lead[len(lead) - len(operand[1]) + 2 :]
        row, column = own[::-1] if place.attribute(f"trans{which}", 0) else own
        batched = place.attribute(f"transBatch{which}", 0)  # rows stand before the batch
        operands.append((operand, (row + before if batched else before + row) + column))
    if why := name_unequal(operands, "k"):
        return place.pass_node("not taken", why, None)
    made = add_contraction(place.builder, place.name, operands, f"{lead}mn")
    return place.take_node("gemm", made)


def matmul_bits(place: NodePlace) -> AccountEntry:
    """Map a product with block-quantised weights of shape [N, K]; scales are not moved."""
    inner, columns = place.attribute("K"), place.attribute("N")
    bits = place.attribute("bits", 4)
    root = place.builder.root(f"{place.name}.W", "weight", bits=bits)
    weights: NodeInput = fresh(root, (columns, inner), (0, 1)), (columns, inner)
    entry = _take_product(place, Factor(weights, "weight", transposed=True))
    scales = [scale for scale in place.node.input[2:] if scale]
    count = sum(math.prod(place.network.shapes.get(scale, ())) for scale in scales)
    place.builder.note(", ".join(scales), UNMOVED_SCALES, count)
    return entry


def _factor(place: NodePlace, number: int, *, transposed: bool = False) -> Factor:
    kind = place.builder.kind_of(place.node.input[number])
    return Factor(place.shaped_input(number), kind, transposed=transposed)


def einsum(place: NodePlace) -> AccountEntry:
    """Map an Einsum as products of two operands, from the left; each sums the letters it can."""
    lettered = _letters(place)
    if lettered is None:
        return place.pass_node("not taken", "an equation with a letter twice in a term", None)
    operands, output = lettered
    if why := name_unequal(operands):
        return place.pass_node("not taken", why, None)
    if len(operands) == 1:
        return _map_single_operand(place, operands[0], output)
    first, *others, last = operands
    for number, second in enumerate(others):
        later = {*output, *(letter for _, letters in operands[number + 2 :] for letter in letters)}
        sizes = whole_sizes([first, second])
        kept = "".join(letter for letter in sizes if letter in later)
        name = f"{place.name}.{number}"
        view = add_contraction(place.builder, name, [first, second], kept)
        first = (view, tuple(sizes[letter] for letter in kept)), kept
    view = add_contraction(place.builder, place.name, [first, last], output)
    return place.take_node("einsum", view if view.shape == place.out_shape else None)


def _letters(place: NodePlace) -> tuple[list[tuple[NodeInput, str]], str] | None:
    """Return the operands of an equation with a letter for each dimension, and the output's."""
    equation = str(place.attribute("equation", "")).replace(" ", "")
    left, arrow, output = equation.partition("->")
    terms = left.split(",")
    spare = [letter for letter in string.ascii_uppercase if letter not in equation]
    counts = [len(place.shape(at)) - len(text.replace("...", "")) for at, text in enumerate(terms)]
    most = max((counts[at] for at, term in enumerate(terms) if "..." in term), default=0)
    wide = "".join(spare[:most])
    terms = [text.replace("...", wide[most - counts[at] :]) for at, text in enumerate(terms)]
    every = "".join(terms)
    if not arrow:
        once = sorted(letter for letter in {*every} - {*wide} if every.count(letter) == 1)
        output = wide + "".join(once)
    output = output.replace("...", wide)
    if any(len({*term}) < len(term) for term in (*terms, output)):
        return None
    return [(place.shaped_input(at), term) for at, term in enumerate(terms)], output


def _map_single_operand(
    place: NodePlace, operand: tuple[NodeInput, str], output: str
) -> AccountEntry:
    source, letters = operand
    left = [letter for letter in letters if letter in output]
    gone = [at for at, letter in enumerate(letters) if letter not in output]
    view: SlotView | None
    if gone:
        view = layers.add_reduction(place.builder, place.name, source, gone, keeps=False)
    else:
        view = place.builder.view_external(place.node.input[0], f"{place.name}.I")
        view = place.builder.view(place.node.input[0]) if view is None else view
    if view is not None and len(view.dims) == len(left):
        place.set_output(view.transpose([left.index(letter) for letter in output]))
    return place.take_node("average_pooling") if gone else place.pass_node("harmless", "addresses")


def recurrent(place: NodePlace) -> AccountEntry:
    """Map an LSTM, GRU or RNN: the inputs of all steps at once, then step by step."""
    first = bool(place.attribute("layout", 0))
    steps, batch, inner = place.shape(0)
    steps, batch = (batch, steps) if first else (steps, batch)
    directions, gates, _ = place.shape(1)
    hidden = place.shape(2)[-1]
    unequal = name_unequal([(place.shaped_input(0), "sbk"), (place.shaped_input(1), "tgk")], "k")
    if unequal or steps > _MOST_STEPS:
        macs = directions * steps * batch * (inner + hidden) * gates
        why = unequal or f"{steps} steps; at most {_MOST_STEPS} are unrolled"
        return place.pass_node("not taken", why, None if unequal else macs)
    for number in range(_LENGTHS, len(place.node.input)):
        if place.node.input[number] not in place.network.weights:
            place.report_input(number, "lengths of sequences, or states before them: not read")
    for direction in range(directions):
        name = f"{place.name}.{direction}" if directions > 1 else place.name
        states = _steps(place, name, (steps, batch, inner), (gates, hidden))
        if directions == 1 and steps == 1 and not first:
            state = states[0]
            place.set_output(SlotView(state.root, ((), (), *state.dims)))
        else:
            for state in states:
                place.builder.store_in_dram(state)
        if directions == 1 and not first:
            place.set_output(SlotView(states[-1].root, ((), *states[-1].dims)), 1)
    return place.take_node("gemms and gates")


def _steps(place: NodePlace, name: str, shape: Shape, sizes: tuple[int, int]) -> list[SlotView]:
    """Add the steps of one direction; return the states."""
    builder, (steps, batch, inner), (gates, hidden) = place.builder, shape, sizes
    ahead = Factor((None, (inner, gates)), "weight")
    projected = layers.add_product(
        builder, f"{name}.input", (place.shaped_input(0)[0], shape), ahead
    )
    weights = Factor((None, (hidden, gates)), "weight", name=f"{name}.R")
    states: list[SlotView] = []
    for step in range(steps):
        before: NodeInput = (states[-1] if states else None, (batch, hidden))
        rows = states[-1].reshape((batch, hidden)) if states else None  # one unit has no rank
        summed = layers.add_product(builder, f"{name}.step{step}", (rows, before[1]), weights)
        part = projected.slice_dim(0, step, 1)
        row = None if part is None else part.reshape((batch, gates))
        inputs: list[NodeInput] = [(row, (batch, gates)), (summed, (batch, gates))]
        opened = builder.vector(f"{name}.gates{step}", "residual", (batch, gates), inputs)
        both: list[NodeInput] = [(opened.slice_dim(1, 0, hidden), (batch, hidden)), before]
        states.append(builder.vector(f"{name}.state{step}", "product", (batch, hidden), both))
    return states
