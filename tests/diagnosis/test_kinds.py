"""Kinds of operators: windows alone make a convolution or a pooling."""

import pytest

from simaccel.diagnosis.kinds import kind_of
from simaccel.workload import build


@pytest.mark.parametrize(
    ("name", "operator", "kind"),
    [
        ("resnet50", "conv1", "convolution"),
        ("resnet50", "pool1", "pooling"),
        ("llama3-8b", "gate", "GEMM"),
        ("mixtral-8x7b", "experts0.gate", "GEMM"),  # tokens t of each expert x are rows x * 2 + t
        ("mixtral-8x7b", "experts0.silu", "elementwise"),
        ("mixtral-8x7b", "norm1", "row-wise"),
        ("mixtral-8x7b", "experts0.gate+experts0.silu", "fused GEMM"),
    ],
)
def test_kinds_by_hand(name: str, operator: str, kind: str) -> None:
    sizes = {"scope": "model"} if name == "resnet50" else {"phase": "decode", "batch": 3}
    workload = build(name, **sizes)
    assert {*operator.split("+")} <= {*workload.by_name}
    assert kind_of(workload, operator) == kind
