"""Layers of MAESTRO descriptions: what they are, checked, and as operators of a workload.

Y and X are sizes of the input with its padding; one may give Y' and X', the outputs at stride 1,
instead. A layer's operator has the sizes of its dimensions and stride: (Y - R) // stride + 1 rows.

    CONV    I[n,c,y,x] W[k,c,r,s] -> O[n,k,y',x']      NGCONV  G groups of K outputs and C inputs
    DSCONV  a group for each channel                   TRCONV  up-sampling, see below
    GEMM    I[m,k] W[k,n] -> O[m,n]                    BMM     the same for each b

A TRCONV makes Y * stride rows, each input times each tap of the filter: K C R S Y X MACs. Without a
stride that of U-Net's counts, the filter's size, so that its positions don't overlap. As every
output row of one phase of the stride has R / stride taps, it is a convolution with a filter for
each phase. (MAESTRO itself analyses it as a CONV without up-sampling.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, Literal, TypeVar, get_args

from simaccel.errors import ABSENT, Fault, require_none, suggest
from simaccel.papers.maestro.language import syntax
from simaccel.workload.conv import Conv, positions
from simaccel.workload.layers import LayerShape, Product, distinct_names, layers_workload, one_layer
from simaccel.workload.names import MAX_LAYER_SIZE, name_faults
from simaccel.workload.workload import Workload

LayerKind = Literal["CONV", "DSCONV", "NGCONV", "TRCONV", "GEMM", "BMM"]
LAYER_KINDS: Final[tuple[LayerKind, ...]] = get_args(LayerKind)
SLIDING: Final[Mapping[str, str]] = {"Y": "R", "X": "S"}
"""The dimension of the filter that slides over a dimension of the input."""
OF_INPUT: Final[Mapping[str, str]] = {"Y'": "Y", "X'": "X"}
"""Dimensions of the output, and those of the input that they stand for."""
_AnyMember = TypeVar(
    "_AnyMember", syntax.TypeNode, syntax.StrideNode, syntax.DimensionsNode, syntax.DataflowBlock
)
_CONV = ("K", "C", "R", "S", "Y", "X")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "CONV": _CONV,
    "TRCONV": _CONV,
    "DSCONV": ("C", "R", "S", "Y", "X"),
    "NGCONV": ("G", *_CONV),
    "GEMM": ("M", "N", "K"),
    "BMM": ("B", "M", "N", "K"),
}
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "CONV": ("N",),
    "TRCONV": ("N",),
    "DSCONV": ("N", "K"),
    "NGCONV": ("N",),
    "GEMM": (),
    "BMM": (),
}
_DIGITS: Final = 20
MAX_MACS: Final = 2**60
"""The most MACs of a layer: beyond that, counts would not be exact."""


@dataclass(frozen=True, kw_only=True)
class DescribedLayer:
    """One layer: its kind, the sizes of its dimensions, and its stride of (Y, X).

    ``sizes`` has Y and X also where Y' and X' were declared. ``up``: how many times as
    many rows and columns a TRCONV makes as it gets; None of others, and of a TRCONV of one tap
    that makes as many. ``node`` is where it was written.
    """

    name: str
    kind: LayerKind
    sizes: Mapping[str, int]
    stride: tuple[int, int] = (1, 1)
    up: tuple[int, int] | None = None
    node: syntax.Layer | None = field(default=None, compare=False, repr=False)

    def stride_of(self, dim: str) -> int:
        """Return the stride of a dimension: 1 of all but Y and X."""
        return {"Y": self.stride[0], "X": self.stride[1]}.get(dim, 1)

    @property
    def slides(self) -> bool:
        """Whether a filter slides over rows and columns: a convolution of any kind."""
        return self.kind not in {"GEMM", "BMM"}

    @property
    def outputs(self) -> tuple[int, int]:
        """Rows and columns of a convolution's output."""
        rows, columns = (
            positions(self.sizes[dim], self.sizes[reach], self.stride_of(dim))
            for dim, reach in SLIDING.items()
        )
        return rows, columns

    @property
    def macs(self) -> int:
        """Multiply-accumulates, from dimensions and stride; of a TRCONV those of a CONV."""
        return prod(replace(self, up=None).shape().ranks.values())

    def shape(self) -> LayerShape:
        """Return the layer as simaccel's operator."""
        sizes = self.sizes
        if not self.slides:
            return Product(m=sizes["M"], k=sizes["K"], n=sizes["N"], b=sizes.get("B", 1))
        if self.up is not None:
            return self._up_sampling(*self.up)
        p, q = self.outputs
        groups, outputs, inputs = sizes.get("G", 1), sizes.get("K", 1), sizes["C"]
        if self.kind == "DSCONV":
            groups, outputs, inputs = inputs, 1, 1
        return Conv(
            g=groups,
            m=outputs,
            c=inputs,
            p=p,
            q=q,
            r=sizes["R"],
            s=sizes["S"],
            n=sizes.get("N", 1),
            stride=self.stride,
        )

    def _up_sampling(self, up: int, across: int) -> Conv:
        """Return a convolution with a filter for each phase of the stride."""
        sizes = self.sizes
        return Conv(
            m=sizes["K"] * up * across,
            c=sizes["C"],
            p=sizes["Y"],
            q=sizes["X"],
            r=sizes["R"] // up,
            s=sizes["S"] // across,
            n=sizes.get("N", 1),
        )


class Evaluator:
    """Values of a description: constants, sizes of dimensions, sums; it notes what is wrong."""

    def __init__(self, description: syntax.Description, file: str) -> None:
        """Read the constants."""
        self.file = file
        self.faults: list[Fault] = []
        self.constants: dict[str, int] = {}
        for constant in description.constants:
            if constant.name.text in self.constants:
                self.fault(constant.name, constant.name.text, "each constant once")
            self.constants[constant.name.text] = self.value(constant.value, {}, at_least=None)

    def value(
        self, value: syntax.ValueNode, sizes: Mapping[str, int], *, at_least: int | None = 1
    ) -> int:
        """Return a value; 1 where it is none, with a fault."""
        known = len(self.faults)
        total = self._term(value.first, sizes)
        for sign, term in value.others:
            total += self._term(term, sizes) * (1 if sign == "+" else -1)
        if len(self.faults) > known:
            return 1
        if not (at_least or -MAX_LAYER_SIZE) <= total <= MAX_LAYER_SIZE:
            written = total if value.others else str(value)
            allowed = f"a whole number from {at_least or -MAX_LAYER_SIZE} to {MAX_LAYER_SIZE}"
            self.fault(value, written, allowed)
            return 1
        return total

    def fault(self, node: syntax.Node, value: object, allowed: str) -> None:
        """Note a fault at a node."""
        self.faults.append(Fault(self.file, str(node.place), value, allowed))

    def _term(self, term: syntax.Term, sizes: Mapping[str, int]) -> int:
        if isinstance(term, syntax.NumberNode):
            if term.digits.isascii() and term.digits.isdigit() and len(term.digits) <= _DIGITS:
                return int(term.digits)
            self.fault(term, term.digits, f"a whole number from 1 to {MAX_LAYER_SIZE}")
        elif isinstance(term, syntax.SizeNode):
            if term.dim.text in sizes:
                return sizes[term.dim.text]
            self.fault(term.dim, term.dim.text, f"a declared dimension; {_choices_text(sizes)}")
        elif term.text in self.constants:
            return self.constants[term.text]
        else:
            self.fault(term, term.text, f"a number or a constant; {_choices_text(self.constants)}")
        return 1


def _choices_text(known: Mapping[str, int]) -> str:
    return f"one of {', '.join(known)}" if known else "there is none"


def described_layers(
    description: syntax.Description, file: str
) -> tuple[tuple[DescribedLayer, ...], Evaluator]:
    """Return the layers of a description, and what evaluated them, with the faults it found.

    Layers that are wrong are left out.
    """
    evaluator = Evaluator(description, file)
    nodes = description.layers
    if not nodes:
        allowed = "a network with at least one layer"
        evaluator.faults.append(Fault(file, "line 1, column 1", ABSENT, allowed))
    names = distinct_names(node.name.text or "Layer" for node in nodes)
    layers = []
    for name, node in zip(names, nodes, strict=True):
        known = len(evaluator.faults)
        for name_fault in name_faults(file, "layer", [name]):
            evaluator.fault(node.name, name_fault.value, name_fault.allowed)
        layer = _layer(name, node, evaluator)
        if layer is not None and len(evaluator.faults) == known:
            layers.append(layer)
    return tuple(layers), evaluator


def load_described(
    path: str,
    *,
    layer: str | None = None,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return the layers of a MAESTRO description as a workload, or one of them.

    Raises:
        InputError: all faults of its syntax and layers, each with line and column.
    """
    from simaccel.papers.maestro.language.reading import (  # noqa: PLC0415 - a parser
        description_text,
        interpret,
    )

    text = description_text(path)
    description, layers = interpret(text, path, _sound_layers)
    shapes = one_layer({described.name: described.shape() for described in layers}, layer, path)
    name = next(
        (network.name.text for network in description.networks if network.name.text), "Network"
    )
    workload = layers_workload(
        name, shapes, bytes_per_element=bytes_per_element, bytes_by_tensor=bytes_by_tensor
    )
    return replace(workload, source=(path, text))


def choices_of(node: syntax.Layer) -> tuple[str, ...]:
    """Return the dimensions that a layer can have by its type; those of all types without one."""
    named = next(
        (member.kind.text for member in node.members if isinstance(member, syntax.TypeNode)), ""
    )
    kinds = [kind for kind in LAYER_KINDS if kind == named] or LAYER_KINDS
    found = (dim for kind in kinds for dim in (*_NEEDED[kind], *_OPTIONAL[kind]))
    outer = OF_INPUT if any("Y" in _NEEDED[kind] for kind in kinds) else ()
    return tuple(dict.fromkeys((*found, *outer)))


def _sound_layers(
    description: syntax.Description, file: str
) -> tuple[syntax.Description, tuple[DescribedLayer, ...]]:
    layers, evaluator = described_layers(description, file)
    require_none(evaluator.faults)
    return description, layers


def _layer(name: str, node: syntax.Layer, evaluator: Evaluator) -> DescribedLayer | None:
    kind = _kind(node, evaluator)
    dimensions = _single_member(node, syntax.DimensionsNode, evaluator)
    if kind is None or dimensions is None:
        for _, value in () if dimensions is None else _entries(dimensions.entries, evaluator):
            evaluator.value(value, {})
        return None
    stride_node = _single_member(node, syntax.StrideNode, evaluator)
    if stride_node is not None and node.members.index(stride_node) > node.members.index(dimensions):
        evaluator.fault(stride_node, "Stride after Dimensions", "Stride before Dimensions")
    sizes = _sizes(kind, dimensions, evaluator)
    stride = _stride(kind, stride_node, evaluator)
    if sizes is None:
        return None
    up = None
    if kind == "TRCONV" and (stride != (1, 1) or (sizes["R"], sizes["S"]) != (1, 1)):
        up = stride if stride_node else (sizes["R"], sizes["S"])
    layer = DescribedLayer(name=name, kind=kind, sizes=sizes, stride=stride, up=up, node=node)
    return layer if _fits(layer, dimensions, evaluator) else None


def _kind(node: syntax.Layer, evaluator: Evaluator) -> LayerKind | None:
    found = _single_member(node, syntax.TypeNode, evaluator)
    if found is None:
        return None
    for kind in LAYER_KINDS:
        if kind == found.kind.text:
            return kind
    evaluator.fault(found.kind, found.kind.text, suggest(found.kind.text, LAYER_KINDS))
    return None


def _single_member(
    node: syntax.Layer, member: type[_AnyMember], evaluator: Evaluator
) -> _AnyMember | None:
    """Return the one member of its kind."""
    name = member.keyword
    found = [one for one in node.members if isinstance(one, member)]
    for one in found[1:]:
        evaluator.fault(one, name, f"one {name} in a layer")
    if not found and member is not syntax.StrideNode:
        evaluator.fault(node, f"Layer {node.name} without {name}", f"a {name} in each layer")
    return found[0] if found else None


def _entries(
    entries: tuple[syntax.EntryNode, ...], evaluator: Evaluator
) -> Iterator[tuple[syntax.NameNode, syntax.ValueNode]]:
    """Yield the entries, each name once."""
    seen: set[str] = set()
    for entry in entries:
        if entry.dim.text in seen:
            evaluator.fault(entry.dim, entry.dim.text, "each dimension once")
        else:
            seen.add(entry.dim.text)
            yield entry.dim, entry.value


def _sizes(
    kind: LayerKind, node: syntax.DimensionsNode, evaluator: Evaluator
) -> dict[str, int] | None:
    """Read the dimensions; Y' and X' become Y and X."""
    outer = OF_INPUT if "Y" in _NEEDED[kind] else {}
    choices = (*_NEEDED[kind], *_OPTIONAL[kind], *outer)
    known = len(evaluator.faults)
    declared: dict[str, int] = {}
    for dim, value in _entries(node.entries, evaluator):
        if dim.text not in choices:
            evaluator.fault(dim, dim.text, f"a dimension of {kind}: one of {', '.join(choices)}")
            continue
        size = evaluator.value(value, declared)
        if outer.get(dim.text, "") in declared:
            evaluator.fault(dim, dim.text, f"either {dim.text} or {outer[dim.text]}")
        declared[dim.text] = size
    missing = [
        dim
        for dim in _NEEDED[kind]
        if dim not in declared and not any(outer.get(other) == dim for other in declared)
    ]
    if missing:
        allowed = f"sizes of {', '.join(_NEEDED[kind])}; {', '.join(missing)} is not there"
        evaluator.fault(node, "Dimensions", allowed)
    if len(evaluator.faults) > known:
        return None
    sizes = {dim: size for dim, size in declared.items() if dim not in outer}
    for outer_dim, inner in outer.items():
        if outer_dim in declared:
            sizes[inner] = declared[outer_dim] + sizes[SLIDING[inner]] - 1
    return sizes


def _stride(
    kind: LayerKind, node: syntax.StrideNode | None, evaluator: Evaluator
) -> tuple[int, int]:
    if node is None:
        return 1, 1
    strides = {"Y": 1, "X": 1}
    slides = "Y" in _NEEDED[kind]
    choices = tuple(strides) if slides else (*_NEEDED[kind], *strides)
    for dim, value in _entries(node.entries, evaluator):
        stride = evaluator.value(value, {})
        name = OF_INPUT.get(dim.text, dim.text)
        if name not in choices:
            evaluator.fault(dim, dim.text, f"one of {', '.join(choices)}")
        elif name in strides and slides:
            strides[name] = stride
        elif stride != 1:
            evaluator.fault(value, stride, "1: only Y and X of convolutions have strides")
    return strides["Y"], strides["X"]


def _fits(layer: DescribedLayer, node: syntax.DimensionsNode, evaluator: Evaluator) -> bool:
    """Refuse a filter larger than the input, and layers beyond what can be counted."""
    places = {OF_INPUT.get(entry.dim.text, entry.dim.text): entry for entry in node.entries}
    sizes = layer.sizes
    for dim, reach in SLIDING.items() if layer.slides else ():
        up = 1 if layer.up is None else layer.up["YX".index(dim)]
        if sizes[reach] > sizes[dim]:
            allowed = f"at most {dim}, {sizes[dim]}"
        elif sizes[reach] % up:
            allowed = f"a multiple of the stride of {dim}, {up}, in a TRCONV"
        else:
            continue
        evaluator.fault(places[reach].value, sizes[reach], allowed)
        return False
    if layer.kind == "DSCONV" and sizes.get("K", 1) not in (1, sizes["C"]):
        evaluator.fault(places["K"].value, sizes["K"], f"1, or as many as C, {sizes['C']}")
        return False
    if layer.macs > MAX_MACS:
        evaluator.fault(node, f"{layer.macs} MACs", f"at most {MAX_MACS} MACs in a layer")
        return False
    return True
