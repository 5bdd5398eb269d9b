"""Workloads: ranks, tensors, einsums, vector operators, their graphs; the catalogue."""

from typing import TYPE_CHECKING

from simaccel.lazy import lazy_attributes
from simaccel.workload.attention import MODELS, Model, ModelDimensions, attention
from simaccel.workload.building import PLUGGED, build
from simaccel.workload.conv import Conv, conv2d
from simaccel.workload.documents import OperatorRow, describe
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
from simaccel.workload.language.build import transformer
from simaccel.workload.language.model import TRANSFORMERS, Transformer, find_transformer
from simaccel.workload.layers import Product, layers_workload
from simaccel.workload.networks import NETWORKS, Network, find_network, network
from simaccel.workload.precision import with_precision
from simaccel.workload.products import bmm, gbmm, gemm
from simaccel.workload.tensors import CLASSES, class_of
from simaccel.workload.vectors import VECTORS
from simaccel.workload.workload import Workload, canonical_text

if TYPE_CHECKING:
    from simaccel.workload.files import load_document, parse_workload

__getattr__ = lazy_attributes(__name__, __file__)
"""Readers of files, imported when used: their forms load more slowly than a workload is built."""

__all__ = [
    "CLASSES",
    "MODELS",
    "NETWORKS",
    "PLUGGED",
    "TRANSFORMERS",
    "VECTORS",
    "AffineDimension",
    "Conv",
    "Einsum",
    "Kind",
    "Model",
    "ModelDimensions",
    "Network",
    "Operand",
    "Operator",
    "OperatorRow",
    "Product",
    "Tensor",
    "Transformer",
    "Vector",
    "VisibleSpan",
    "Workload",
    "attention",
    "bmm",
    "build",
    "canonical_text",
    "class_of",
    "conv2d",
    "describe",
    "find_network",
    "find_transformer",
    "gbmm",
    "gemm",
    "layers_workload",
    "load_document",
    "network",
    "operand",
    "operands_of",
    "parse_workload",
    "softmax",
    "transformer",
    "with_precision",
]
