"""What is computed: ranks, tensors, einsums; operator graphs; the model catalogue."""

from simaccel.workload.attention import SCOPES, Dimensions, Scope, attention
from simaccel.workload.catalogue import MODELS, Model, build, find_model
from simaccel.workload.describe import OperatorRow, describe
from simaccel.workload.einsum import (
    Affine,
    Einsum,
    Kind,
    Operand,
    Operator,
    Softmax,
    Tensor,
    operand,
    operands_of,
)
from simaccel.workload.files import load_workload, parse_workload
from simaccel.workload.frozen import FrozenDict
from simaccel.workload.gemm import GemmShape, gemm, parse_shape
from simaccel.workload.matmul import (
    Matmul,
    NotAMatmul,
    Rows,
    as_matmul,
    as_rows,
    from_matrix,
    to_matrix,
)
from simaccel.workload.workload import Workload, canonical_text

__all__ = [
    "MODELS",
    "SCOPES",
    "Affine",
    "Dimensions",
    "Einsum",
    "FrozenDict",
    "GemmShape",
    "Kind",
    "Matmul",
    "Model",
    "NotAMatmul",
    "Operand",
    "Operator",
    "OperatorRow",
    "Rows",
    "Scope",
    "Softmax",
    "Tensor",
    "Workload",
    "as_matmul",
    "as_rows",
    "attention",
    "build",
    "canonical_text",
    "describe",
    "find_model",
    "from_matrix",
    "gemm",
    "load_workload",
    "operand",
    "operands_of",
    "parse_shape",
    "parse_workload",
    "to_matrix",
]
