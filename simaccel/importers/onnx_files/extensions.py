"""Shape inference of nodes of ONNX Runtime's own domain, which ONNX's inference doesn't know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simaccel.files.accounting import split_names
from simaccel.importers.onnx_files.constants import Proto, Shape

Made = tuple[Shape, int]
"""A shape, and ONNX's number of the type of its elements."""
_FLOAT: Final = 1
_UINT8: Final = 2
_INT32: Final = 6
ALIKE: Final = split_names("""
BiasGelu FastGelu Gelu QuickGelu QLinearSigmoid QLinearLeakyRelu QLinearSoftmax DequantizeLinear
QuantizeLinear SkipLayerNormalization SkipSimplifiedLayerNormalization SimplifiedLayerNormalization
BiasAdd LayerNormalization RotaryEmbedding GroupNormalization MeanVarianceNormalization
""")
"""Kinds whose first output has the shape of the first input."""


def attribute_of(node: Proto, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any kind
    """Return an attribute's value."""
    for one in node.attribute:
        if one.name == name:
            if one.type == _FLOAT:
                return one.f
            if one.type in {_INT32, 7, 8}:  # lists of floats, integers, texts
                return [*one.floats, *one.ints, *(text.decode() for text in one.strings)]
            return one.s.decode() if one.type == 3 else one.i  # noqa: PLR2004 - a text
    return default


def outputs_of(
    node: Proto, shapes: Mapping[str, Shape], types: Mapping[str, int]
) -> list[Made | None] | None:
    """Return (shape, type) of a node's outputs, or None where it is unknown."""
    try:
        return _outputs(node, shapes, types)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None


def _outputs(
    node: Proto, shapes: Mapping[str, Shape], types: Mapping[str, int]
) -> list[Made | None] | None:
    inputs = [shapes.get(name) for name in node.input]
    kind, make = node.op_type, _MADE.get(node.op_type)
    if not inputs or inputs[0] is None:
        return None
    if kind in _ATTENTIONS:
        number = _type(node, types)
        return [(shape, number) if shape else None for shape in _infer_attention(node, inputs)]
    if kind in ALIKE:
        made: Shape | None = inputs[0]
    elif kind == "GatherBlockQuantized":
        made = _infer_rows(node, inputs, types.get(node.input[0], _FLOAT))
    else:
        made = make(node, inputs) if make else None
    if made is None:
        return None
    first: Made = (made, _type(node, types))
    if kind in _SUMMED:  # the sum before the norm stands behind a mean and a deviation
        return [first, None, first if kind.startswith("Embed") else None, first]
    return [first]


def _type(node: Proto, types: Mapping[str, int]) -> int:
    number = _TYPED.get(node.op_type, 0)
    return types.get(node.input[number], _FLOAT) if 0 <= number < len(node.input) else _FLOAT


def _turn_factor(node: Proto, which: str, shape: Shape) -> Shape:
    """Return the shape of a factor with its batch first and its rows before its columns."""
    if attribute_of(node, f"transBatch{which}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    transposed = attribute_of(node, f"trans{which}", 0)
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def _infer_attention(node: Proto, inputs: list[Shape | None]) -> list[Shape | None]:
    """Return the shapes of what an attention makes, and of keys and values, if none were before."""
    inputs = [*inputs, *[None] * 8]
    heads = int(attribute_of(node, "num_heads", 0))
    shared = int(attribute_of(node, "kv_num_heads", heads))
    query, value, past = inputs[0], inputs[2], inputs[_PAST[node.op_type]]
    if query is None or len(query) < 3 or not heads:  # noqa: PLR2004 - batch, tokens, columns
        return []
    batch, tokens = query[:2]
    new, size, columns = tokens, query[-1] // heads, query[-1]
    if node.op_type in {"Attention", "QAttention"}:
        sizes = attribute_of(node, "qkv_hidden_sizes") or [(inputs[1] or (0,))[-1] // 3] * 3
        return [(batch, tokens, int(sizes[2]))]
    if node.op_type == "GroupQueryAttention":
        if inputs[1] is None:
            size = query[-1] // (heads + 2 * shared)
            columns = heads * size
    elif value is not None:
        new = value[1] if len(value) == 3 else value[2]  # noqa: PLR2004 - or heads before tokens
        columns = value[2] if len(value) == 3 else heads * value[3]  # noqa: PLR2004
    else:
        packed = inputs[1] or query
        new, size, columns = packed[1], packed[-1], heads * packed[-1]
    kept = None if past is not None else (batch, shared, new, columns // heads)
    keys = None if past is not None else (batch, shared, new, size)
    return [(batch, tokens, columns), keys, kept]


def _infer_rows(node: Proto, inputs: list[Shape | None], number: int) -> Shape | None:
    """Return the shape of rows of a table, whose bytes may each hold several elements."""
    table, ids = inputs[:2]
    if table is None or ids is None or attribute_of(node, "gather_axis", 0):
        return None
    many = 8 // int(attribute_of(node, "bits", 4)) if number == _UINT8 else 1
    return (*ids, *table[1:-1], table[-1] * many)


def _infer_embedding(_node: Proto, given: list[Shape | None]) -> Shape | None:
    """Return the shape of an embedding's rows, from the shapes of tokens and table."""
    return None if given[0] is None or given[2] is None else (*given[0], given[2][-1])


def _columns(node: Proto, given: list[Shape | None]) -> Shape | None:
    columns = int(attribute_of(node, "N", 0))
    return None if given[0] is None or not columns else (*given[0][:-1], columns)


def _as_standard(node: Proto, inputs: list[Shape | None]) -> Shape | None:
    """Return the shape of a node's output as ONNX infers it for a kind of its own."""
    import onnx  # noqa: PLC0415 - an extra

    kind, numbers = _STANDARD[node.op_type]
    shapes = [shape for number in numbers if (shape := inputs[number]) is not None]
    if len(shapes) < len(numbers) or attribute_of(node, "channels_last", 0):
        return None
    if kind == "MatMul":
        shapes = [_turn_factor(node, *each) for each in zip("AB", shapes, strict=True)]
    schema = onnx.defs.get_schema(kind)
    names = [f"x{number}" for number in numbers]
    standard = onnx.helper.make_node(kind, names, ["y"])
    standard.attribute.extend(
        attribute for attribute in node.attribute if attribute.name in schema.attributes
    )
    types = {
        name: onnx.helper.make_tensor_type_proto(_FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    }
    try:
        made = onnx.shape_inference.infer_node_outputs(schema, standard, types)["y"].tensor_type
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return None
    return tuple(dim.dim_value for dim in made.shape.dim)


_STANDARD: Final[Mapping[str, tuple[str, tuple[int, ...]]]] = {
    "FusedConv": ("Conv", (0, 1)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), ("Add", (0, 3))),
    "QGemm": ("MatMul", (0, 3)),
    **dict.fromkeys(("FusedMatMul", "FusedGemm", "TransposeMatMul"), ("MatMul", (0, 1))),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), ("MatMul", (0, 1))),
    "MatMulInteger16": ("MatMul", (0, 1)),
}
"""Kinds whose first output is that of one of ONNX's kinds, of some of the inputs."""
SECOND_FACTOR: Final[Mapping[str, int]] = {"QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3}
"""The input that is the second factor (weights), where scales stand before it; 1 for others."""
_MADE: Final[Mapping[str, Callable[[Proto, list[Shape | None]], Shape | None]]] = {
    "MatMulNBits": _columns,
    "MatMulBnb4": _columns,
    "EmbedLayerNormalization": _infer_embedding,
    **dict.fromkeys(_STANDARD, _as_standard),
}
_PAST: Final[Mapping[str, int]] = {
    "Attention": 4,
    "GroupQueryAttention": 3,
    "MultiHeadAttention": 6,
    "QAttention": 8,
}
"""Attentions, and where keys of tokens before stand."""
_ATTENTIONS: Final = frozenset(_PAST)
_SUMMED: Final = frozenset(
    ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "EmbedLayerNormalization")
)
"""Norms of sums that they may make, too."""
_TYPED: Final[Mapping[str, int]] = {
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), -1),
    **dict.fromkeys(("DequantizeLinear", "QAttention"), -1),
    "EmbedLayerNormalization": 2,
    "GatherBlockQuantized": 2,
    "QGemm": 8,
    "QLinearAdd": 7,
    "QLinearMul": 7,
    "QuantizeLinear": 2,
}
"""The input whose type the output has: its zero point; -1: none, it makes 32-bit floats."""
