"""A node of an ONNX model in its context: the graph, and the workload that is being built.

Of a convolution or pooling its windows, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from simaccel.files.accounting import AccountEntry, How
from simaccel.files.limits import MAX_WINDOW
from simaccel.importers.onnx_files.builder import NodeInput, WorkloadBuilder
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.extensions import attribute_of
from simaccel.importers.onnx_files.reading import OnnxGraph
from simaccel.importers.onnx_files.views import SlotView
from simaccel.workload.conv import positions

WINDOW_RANKS: Final = (("o", "t"), ("p", "r"), ("q", "s"))
"""Ranks of output positions and of filter taps, for planes, rows and columns."""


@dataclass(frozen=True)
class FilterWindow:
    """A filter or pooling window that slides over one dimension.

    ``outputs``: positions of the window. ``taps``: elements of a window. ``zeros_before``: of the
    border, in front of the first element.
    """

    outputs: int
    taps: int
    stride: int = 1
    dilation: int = 1
    zeros_before: int = 0

    @property
    def length(self) -> int:
        """Positions of the input that all windows together reach."""
        return (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation + 1


@dataclass(frozen=True)
class NodePlace:
    """A node of an ONNX graph, its name in the workload, and the workload that is being built."""

    node: Any
    name: str
    network: OnnxGraph
    builder: WorkloadBuilder

    def input_name(self, number: int) -> str:
        """Return the name of the input with a number; empty if the node has none."""
        return str(self.node.input[number]) if number < len(self.node.input) else ""

    def shape(self, number: int) -> Shape:
        """Return the shape of the input with a number."""
        return self.network.shapes[self.node.input[number]]

    def shaped_input(self, number: int) -> NodeInput:
        """Return (name, shape) of the input with a number."""
        return self.node.input[number], self.shape(number)

    @property
    def has_shapes(self) -> bool:
        """Whether the shapes of all inputs and outputs are known."""
        shapes = self.network.shapes
        return all(name in shapes for name in (*self.node.input, *self.node.output))

    def is_only_reader(self, number: int) -> bool:
        """Return whether an input is all of an operator's output, and nothing else reads it."""
        name, builder = self.node.input[number], self.builder
        view = builder.views.get(name)
        if view is None or not view.root.made or view.root.read or view.root.kept:
            return False
        return name not in builder.derived and self.network.reads[name] == 1

    def set_output(self, view: SlotView | None, number: int = 0) -> None:
        """Set the view of an output, if there is one."""
        if view is not None and number < len(self.node.output):
            self.builder.views[self.node.output[number]] = view

    @property
    def out_shape(self) -> Shape:
        """The shape of the first output that has a name."""
        return self.network.shapes[next(name for name in self.node.output if name)]

    @property
    def elements(self) -> int:
        """Number of elements of all outputs whose shapes are known."""
        shapes = self.network.shapes
        return sum(math.prod(shapes[one]) for one in self.node.output if one in shapes)

    def attribute(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any kind
        """Return an attribute's value, and record that it has been read."""
        self.builder.attributes.add(name)
        return attribute_of(self.node, name, default)

    def window_steps(self, count: int) -> tuple[list[int], list[int], list[int], str]:
        """Return (strides, dilations, pads, auto_pad) of a window with ``count`` dimensions."""
        stride = self.attribute("strides") or [1] * count
        dilation = self.attribute("dilations") or [1] * count
        pads = self.attribute("pads") or [0] * 2 * count
        return stride, dilation, pads, self.attribute("auto_pad", "NOTSET") or "NOTSET"

    def wrong_window(self, what: str, reach: Shape) -> str:
        """Return why a window can't be modelled; empty if it can.

        ``what`` it is of has too many dimensions, or it, a stride or a dilation is too long, or 0.
        """
        if (count := len(self.shape(0)) - 2) > len(WINDOW_RANKS):
            return f"{what} of {count} dimensions"
        strides, dilations, _, _ = self.window_steps(len(reach))
        sizes = sorted((*reach, *strides, *dilations))
        wrong = [size for size in sizes if not 1 <= size <= MAX_WINDOW]
        return f"a window, stride or dilation of {wrong[-1]}" if wrong else ""

    def report_input(self, number: int, why: str) -> None:
        """Report an input of more than one element that isn't modelled, if the node has it."""
        name = self.input_name(number)
        count = math.prod(self.network.shapes.get(name, ()))
        if name and count > 1:
            self.builder.note(f"{self.name}: {name}", why, count)

    def take_node(
        self, become: str, made: SlotView | None = None, macs: int | None = None
    ) -> AccountEntry:
        """Return the account entry of a node that becomes operators, or a part of one.

        ``made``: the view of its first output. ``macs``: None: those of all operators that have
        been added for it.
        """
        self.set_output(made)
        if macs is None:
            macs = sum(added.macs for added in self.builder.pending[self.builder.begun :])
        elements = 0 if macs else self.elements
        return AccountEntry(self.name, "taken", become, self.node.op_type, macs, elements)

    def pass_node(self, how: How, why: str, macs: int | None = 0) -> AccountEntry:
        """Return the account entry of a node that needs no operator, or isn't modelled."""
        return AccountEntry(self.name, how, why, self.node.op_type, macs, self.elements)


def windows_of(place: NodePlace, size: Shape, reach: Shape) -> list[FilterWindow]:
    """Return the windows of a node over its dimensions after batch and channels.

    ``size``: of the input; ``reach``: of the filter or window.
    """
    count, made = len(reach), place.out_shape[2:]
    stride, dilation, pads, auto = place.window_steps(count)
    windows = []
    for at, length in enumerate(size):
        span = 1 + (reach[at] - 1) * dilation[at]
        whole = length + pads[at] + pads[at + count]
        number = made[at] if len(made) == count else positions(whole, span, stride[at])
        before = pads[at]
        if auto.startswith("SAME"):
            lacking = max(0, (number - 1) * stride[at] + span - length)
            before = lacking // 2 if auto == "SAME_UPPER" else -(-lacking // 2)
        windows.append(FilterWindow(number, reach[at], stride[at], dilation[at], before))
    return windows
