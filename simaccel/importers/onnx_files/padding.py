"""Folding of Pad nodes that pad with zeros into the convolutions that read them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simaccel.importers.onnx_files.extensions import attribute_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = Mapping[str, npt.NDArray[Any]]

_CHANNELS = 2
"""Dimensions that no window goes over: samples and channels."""
_INTS = 7
"""ONNX's number of an attribute that is a list of whole numbers."""


def fold_paddings(
    nodes: Sequence[Any], values: Values, ranks: Mapping[str, int], outputs: Sequence[str]
) -> list[Any]:
    """Return the nodes, with paddings of zeros as pads of the convolutions that read them.

    Pad nodes that are folded have no inputs any more; one that another node reads, too, stays.
    ``values``: of constants; ``ranks``: dimensions of tensors; ``outputs`` of the graph.
    """
    readers: dict[str, list[Any]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    folded = {}
    for node in nodes:
        pads = _zeros(node, values, ranks)
        reading = readers.get(node.output[0], []) if node.output else []
        if (
            pads
            and node.output[0] not in outputs
            and all(_takes(reader, node) for reader in reading)
        ):
            folded[node.output[0]] = node.input[0], pads
    made = []
    for node in nodes:
        if _first_input(node) in folded:
            made.append(_pad_convolution(node, *folded[node.input[0]]))
        elif node.op_type == "Pad" and node.output[0] in folded:
            made.append(copy.deepcopy(node))
            del made[-1].input[:]
        else:
            made.append(node)
    return made


def _first_input(node: Any) -> str:  # noqa: ANN401 - a node
    return node.input[0] if node.input and node.op_type == "Conv" else ""


def _takes(node: Any, padding: Any) -> bool:  # noqa: ANN401 - nodes
    """Return whether a node is a convolution that reads a padding, with explicit pads or none."""
    auto = attribute_of(node, "auto_pad", "NOTSET")
    once = list(node.input).count(padding.output[0]) == 1
    said = auto in {"NOTSET", "VALID", ""}
    return bool(_first_input(node) == padding.output[0] and not node.domain and said and once)


def _zeros(node: Any, values: Values, ranks: Mapping[str, int]) -> list[int]:  # noqa: ANN401
    """Return a padding's zeros before and after each spatial dimension; empty for another Pad."""
    if node.op_type != "Pad" or node.domain or attribute_of(node, "mode", "constant") != "constant":
        return []
    rank, names = ranks.get(node.input[0], 0), [*node.input, "", "", ""]
    pads = attribute_of(node, "pads") or values.get(names[1], ())
    value, axes = values.get(names[2]), values.get(names[3], range(rank))
    filled = value is None and bool(names[2])  # with what isn't known
    filled |= bool(attribute_of(node, "value", 0.0)) or (value is not None and bool(value.any()))
    if filled or (names[3] and names[3] not in values) or len(pads) != 2 * len(axes):
        return []
    sizes = [0] * 2 * rank
    for at, axis in enumerate(axes):
        sizes[int(axis) % rank] = int(pads[at])
        sizes[int(axis) % rank + rank] = int(pads[at + len(axes)])
    before, behind = sizes[:rank], sizes[rank:]
    if rank <= _CHANNELS or min(sizes) < 0 or any(before[:_CHANNELS] + behind[:_CHANNELS]):
        return []
    return before[_CHANNELS:] + behind[_CHANNELS:]


def _pad_convolution(node: Any, source: str, pads: Sequence[int]) -> Any:  # noqa: ANN401 - nodes
    """Return a convolution with pads added, that reads the padding's input."""
    made = copy.deepcopy(node)
    own = attribute_of(node, "pads") or [0] * len(pads)
    made.input[0] = source
    for one in [one for one in made.attribute if one.name in {"pads", "auto_pad"}]:
        made.attribute.remove(one)
    said = made.attribute.add()
    said.name, said.type = "pads", _INTS
    said.ints.extend(a + b for a, b in zip(own, pads, strict=True))
    return made
