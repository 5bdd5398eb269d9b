"""What each kind of ONNX node becomes: an operator, nothing, or what is not taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from simaccel.files.accounting import Entry
from simaccel.workload.onnx_files.places import Place
from simaccel.workload.onnx_files.products import conv, conv_transpose, gemm, matmul
from simaccel.workload.onnx_files.recurrent import recurrent
from simaccel.workload.onnx_files.vectors import (
    BINARY,
    UNARY,
    batch_norm,
    binary,
    gather,
    norm,
    pool,
    reduction,
    softmax,
    unary,
)

FREE: Final = frozenset(
    (
        *("Cast", "CastLike", "Concat", "Dropout", "Expand", "Flatten", "Identity", "Pad"),
        *("Reshape", "Tile", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze", "DepthToSpace"),
        *("SpaceToDepth", "Constant", "ConstantOfShape", "Shape", "Size", "Range"),
    )
)
"""Where elements stand, not what they are: whoever reads or writes next addresses them so."""
MULTIPLY: Final = frozenset(
    (
        *("Attention", "Conv", "ConvInteger", "ConvTranspose", "DynamicQuantizeMatMul", "Einsum"),
        *("FusedMatMul", "GRU", "Gemm", "LSTM", "MatMul", "MatMulInteger", "MatMulIntegerToFloat"),
        *("MatMulNBits", "QGemm", "QLinearConv", "QLinearMatMul", "RNN"),
    )
)
"""Kinds of nodes that have multiply-accumulates."""
UNCOUNTED: Final = frozenset(
    (
        *("AffineGrid", "DFT", "DeformConv", "Det", "GridSample", "ImageDecoder", "RoiAlign"),
        *("STFT", "If", "Loop", "Scan", "SequenceMap"),
    )
)
"""Kinds of nodes that are not taken and multiply, or hide what does; others have no MACs."""
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
