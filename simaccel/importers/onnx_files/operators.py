"""Kinds of ONNX nodes: each becomes an operator, needs no work, or is not taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files.attention import attention_node
from simaccel.importers.onnx_files.lookups import LOOKUPS, embed, gather, gather_blocks
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.products import (
    conv,
    conv_transpose,
    einsum,
    fused_matmul,
    gemm,
    matmul,
    matmul_bits,
)
from simaccel.importers.onnx_files.recurrent import recurrent
from simaccel.importers.onnx_files.vectors import (
    BINARY,
    REDUCTIONS,
    UNARY,
    batch_norm,
    binary,
    group_norm,
    lp_norm,
    norm,
    pool,
    reduction,
    resize,
    rotary,
    skip_norm,
    softmax,
    unary,
)
from simaccel.importers.onnx_files.view_nodes import cast, dequantise, quantise

DOMAINS: Final = ("", "ai.onnx", "com.microsoft")
"""Known domains of nodes: ONNX's own, and ONNX Runtime's."""
FREE: Final = frozenset(
    (
        *("Concat", "Dropout", "Expand", "Flatten", "Identity", "Pad"),
        *("Reshape", "Tile", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze", "DepthToSpace"),
        *("SpaceToDepth", "Constant", "ConstantOfShape", "Shape", "Size", "Range"),
    )
)
"""Kinds that only move elements: the next operator addresses them accordingly."""
MULTIPLY: Final = frozenset(
    (
        *("Attention", "Conv", "ConvInteger", "ConvTranspose", "DynamicQuantizeMatMul", "Einsum"),
        *("FusedMatMul", "GRU", "Gemm", "LSTM", "MatMul", "MatMulInteger", "MatMulIntegerToFloat"),
        *("MatMulNBits", "QGemm", "QLinearConv", "QLinearMatMul", "RNN"),
        *("GroupQueryAttention", "MultiHeadAttention", "QAttention", "MatMulBnb4"),
        "TransposeMatMul",
    )
)
"""Kinds of nodes that have multiply-accumulates."""
UNCOUNTED: Final = frozenset(
    (
        *("AffineGrid", "DFT", "DeformConv", "Det", "GridSample", "ImageDecoder", "RoiAlign"),
        *("STFT", "LinearAttention", "CausalConvWithState"),
    )
)
"""Kinds of nodes that are not taken and have MACs, or hide nodes with MACs."""
HANDLERS: Final[Mapping[str, Callable[[NodePlace], AccountEntry]]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "FusedConv"), conv),
    "ConvTranspose": conv_transpose,
    **dict.fromkeys(("Gemm", "QGemm", "FusedGemm"), gemm),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), matmul),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), matmul),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), fused_matmul),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), matmul_bits),
    "Einsum": einsum,
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "QLinearSoftmax"), softmax),
    "LayerNormalization": norm,
    "RMSNormalization": norm,
    "SimplifiedLayerNormalization": norm,
    "BatchNormalization": batch_norm,
    **dict.fromkeys(LOOKUPS, gather),
    "GatherBlockQuantized": gather_blocks,
    "EmbedLayerNormalization": embed,
    **dict.fromkeys(("Resize", "Upsample"), resize),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"), pool),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), skip_norm),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), group_norm),
    "LpNormalization": lp_norm,
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention"), attention_node),
    "QAttention": attention_node,
    "RotaryEmbedding": rotary,
    "DequantizeLinear": dequantise,
    "QuantizeLinear": quantise,
    **dict.fromkeys(("Cast", "CastLike"), cast),
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
}
"""The function that maps each kind of node."""
