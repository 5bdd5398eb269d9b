"""Kinds of ONNX nodes: each becomes an operator, needs no work, or is not taken.

Also reports what no handler reads: attributes, and nodes in the bodies of other nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from simaccel.files.accounting import AccountEntry, split_names
from simaccel.importers.onnx_files import attention, products, vectors, view_nodes
from simaccel.importers.onnx_files.constants import MOVES, Proto, graphs_of, nodes_within
from simaccel.importers.onnx_files.places import NodePlace

DOMAINS: Final = ("", "com.microsoft")
"""Known domains of nodes: ONNX's own, and ONNX Runtime's."""
FREE: Final = MOVES | split_names("""
Constant ConstantOfShape DepthToSpace Dropout Pad Range Shape Size SpaceToDepth Split
""")
"""Kinds that only move elements: the next operator addresses them accordingly."""
UNCOUNTED: Final = split_names("""
AffineGrid DFT DeformConv Det GridSample ImageDecoder RoiAlign STFT LinearAttention
CausalConvWithState
""")
"""Kinds of nodes that are not taken, though they have MACs or contain nodes with MACs."""
_Handler = Callable[[NodePlace], AccountEntry]
PRODUCTS: Final[Mapping[str, _Handler]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "FusedConv"), products.conv),
    "ConvTranspose": products.conv_transpose,
    **dict.fromkeys(("Gemm", "QGemm", "FusedGemm"), products.gemm),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), products.matmul),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), products.matmul),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), products.fused_matmul),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), products.matmul_bits),
    "Einsum": products.einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), products.recurrent),
    **dict.fromkeys(("Attention", "QAttention"), attention.attention_node),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention"), attention.attention_node),
}
"""The function that maps each kind of node with multiply-accumulates."""
HANDLERS: Final[Mapping[str, _Handler]] = {
    **PRODUCTS,
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "QLinearSoftmax"), vectors.softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), vectors.norm),
    "SimplifiedLayerNormalization": vectors.norm,
    **dict.fromkeys(
        ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), vectors.skip_norm
    ),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), vectors.group_norm),
    "LpNormalization": vectors.lp_norm,
    "BatchNormalization": vectors.batch_norm,
    **dict.fromkeys(view_nodes.LOOKUPS, view_nodes.gather),
    "GatherBlockQuantized": view_nodes.gather_blocks,
    "EmbedLayerNormalization": view_nodes.embed,
    **dict.fromkeys(("Resize", "Upsample"), vectors.resize),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"), vectors.pool),
    **dict.fromkeys(vectors.REDUCTIONS, vectors.reduction),
    "RotaryEmbedding": vectors.unary,
    "DequantizeLinear": view_nodes.dequantise,
    "QuantizeLinear": view_nodes.quantise,
    **dict.fromkeys(("Cast", "CastLike"), view_nodes.cast),
    **dict.fromkeys(vectors.UNARY, vectors.unary),
    **dict.fromkeys(vectors.BINARY, vectors.binary),
}
"""The function that maps each kind of node."""
_HARMLESS_IN_RUNTIME: Final = split_names("""
accuracy_level alpha beta block_size ceil_mode channels_last count_include_pad do_rotary epsilon
gather_axis interleaved is_packed_batching mask_filter_value mask_index_type num_heads qk_output
quant_type quantize_axis rotary_embedding_dim rotary_interleaved scale smooth_softmax softcap
""")
"""Attributes that change no figure where no handler reads them, of all nodes."""
_HARMLESS: Final = _HARMLESS_IN_RUNTIME.union(
    # of values, not of their number
    split_names("""
activation_alpha activation_beta activations antialias approximate bias clip
coordinate_transformation_mode cubic_coeff_a detect_negative detect_positive direction
exclude_outside exclusive extrapolation_value fmod gamma input_forget lambd linear_before_reset mode
momentum nearest_mode p ratio reverse seed select_last_index storage_order training_mode upper
"""),
    # said by the shapes of the results
    split_names("""
allowzero axes axis batch_dims blocksize broadcast consumed_inputs ends height_scale hidden_size
keep_aspect_ratio_policy keepdims kernel_shape max min noop_with_empty_axes num_outputs
output_height output_padding output_shape output_width pads perm scales shape spatial split starts
width_scale
"""),
    # said by the types of the results, or of training, or of which results are outputs
    split_names("""
dtype output_dtype precision round_mode saturate softmax_precision stash_type to is_test
qk_matmul_output_mode
"""),
)
"""Attributes of ONNX's own nodes that change no figure where no handler reads them."""


def unread_attributes(place: NodePlace) -> Iterator[AccountEntry]:
    """Yield an entry for each attribute of a node that is neither read nor harmless."""
    for one in place.node.attribute:
        harmless = _HARMLESS_IN_RUNTIME if place.node.domain else _HARMLESS
        if one.name not in place.builder.attributes and one.name not in harmless:
            name = f"{place.name}.{one.name}"
            yield AccountEntry(name, "not taken", "not read", "attribute")


def hidden_work(node: Proto) -> tuple[str, int | None]:
    """Return the nodes inside of one with a body or branches, and their MACs.

    None: unknown, as one is of a kind that has MACs, or that isn't ONNX's.

    >>> from onnx import helper
    >>> body = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "b", [], [])
    >>> hidden_work(helper.make_node("Loop", ["n"], ["y"], body=body))
    ('control flow, which hides 1 node: 1 Conv', None)
    """
    inside = [*nodes_within(*graphs_of(node))]
    counts, total = Counter(inner.op_type for inner in inside), len(inside)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common(5))
    more = ", ..." if len(counts) > 5 else ""  # noqa: PLR2004 - as many as are named
    works = counts.keys() & {*PRODUCTS, *UNCOUNTED} or any(inner.domain for inner in inside)
    text = f"control flow, which hides {total} node{'s' * (total != 1)}: {kinds}{more}"
    return text, None if works else 0
