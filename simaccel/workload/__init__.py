"""Workloads: ranks, tensors, einsums, vector operators, their graphs; the catalogue."""

from typing import TYPE_CHECKING

from simaccel.lazy import lazy_attributes
from simaccel.workload.attention import (
    MODELS,
    SCOPES,
    Model,
    ModelDimensions,
    Scope,
    attention,
    attention_model,
    find_model,
)
from simaccel.workload.building import (
    PLUGGED,
    WorkloadSizes,
    build,
    require_taken,
)
from simaccel.workload.conv import Conv, conv2d
from simaccel.workload.describe import OperatorRow, describe
from simaccel.workload.einsum import (
    AffineDimension,
    Einsum,
    Kind,
    Operand,
    Operator,
    Tensor,
    Vector,
    VisibleSpan,
    operand,
    operands_of,
    softmax,
)
from simaccel.workload.frozen import FrozenDict
from simaccel.workload.language import (
    CAUSAL_BLOCKS,
    CLASSES,
    PHASES,
    TRANSFORMERS,
    PhaseTokens,
    Transformer,
    class_of,
    find_transformer,
    transformer,
    transformer_names,
)
from simaccel.workload.layers import Layers, Product, layers_workload
from simaccel.workload.networks import NETWORKS, Network, find_network, network
from simaccel.workload.precision import parse_precision, with_precision
from simaccel.workload.products import bmm, gbmm, gemm
from simaccel.workload.vectors import VECTORS
from simaccel.workload.workload import Workload, canonical_text

if TYPE_CHECKING:
    from simaccel.workload.files import load_document, parse_workload

__getattr__ = lazy_attributes(__name__, __file__)
"""Readers of files, imported when used: their forms load more slowly than a workload is built."""

__all__ = [
    "CAUSAL_BLOCKS",
    "CLASSES",
    "MODELS",
    "NETWORKS",
    "PHASES",
    "PLUGGED",
    "SCOPES",
    "TRANSFORMERS",
    "VECTORS",
    "AffineDimension",
    "Conv",
    "Einsum",
    "FrozenDict",
    "Kind",
    "Layers",
    "Model",
    "ModelDimensions",
    "Network",
    "Operand",
    "Operator",
    "OperatorRow",
    "PhaseTokens",
    "Product",
    "Scope",
    "Tensor",
    "Transformer",
    "Vector",
    "VisibleSpan",
    "Workload",
    "WorkloadSizes",
    "attention",
    "attention_model",
    "bmm",
    "build",
    "canonical_text",
    "class_of",
    "conv2d",
    "describe",
    "find_model",
    "find_network",
    "find_transformer",
    "gbmm",
    "gemm",
    "layers_workload",
    "load_document",
    "network",
    "operand",
    "operands_of",
    "parse_precision",
    "parse_workload",
    "require_taken",
    "softmax",
    "transformer",
    "transformer_names",
    "with_precision",
]
