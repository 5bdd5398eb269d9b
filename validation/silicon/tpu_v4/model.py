"""The measured operators of a TPU v4 chip: default runs on ``hwconfigs/tpu_v4``.

Operands are f16, of which the chip has no multiplier: the vector unit turns them into bf16 and
results back. Those of GEMMs lie on the chip when the kernel starts (the source measures it so).

Calibrated on ``*_calibration.csv`` alone: ``compiler.kernel_start_cycles``,
``dram.latency_cycles``, ``sfu.lanes``, ``compiler.converted_blocks``; on the copies
``dram.bandwidth_bytes_per_second``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from validation.silicon.runs import NUMBERS, gemm, loaded, vector

_NUMBER: Final = "fp16"
KINDS: Final = {
    **dict.fromkeys(("add", "subtract", "maximum", "minimum"), "residual"),
    **dict.fromkeys(("binary_step", "elu", "identity", "leaky_relu", "parametric_relu"), "relu"),
    **dict.fromkeys(("relu", "selu", "softplus"), "relu"),
    **{kind: kind for kind in ("sigmoid", "tanh", "gelu", "silu", "exp", "divide")},
    "multiply": "product",
}
"""Kinds of operators that go over their elements once, as those of the source do: conversions of
f16 hide what else they work. The source has `add`, `multiply` and functions of one array, but not
the last of these."""


def predict_gemm(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of the kernel of each GEMM: columns M, N, K."""
    on = loaded("tpu_v4")
    sizes = [(int(row["M"]), int(row["K"]), int(row["N"])) for row in rows]
    return [1e6 * on.seconds(gemm(on, *each, _NUMBER)) for each in sizes]


def predict_vector(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each vector operator: columns operator, shape."""
    on = loaded("tpu_v4")
    predicted = []
    for row in rows:
        kind, shape = KINDS[row["operator"]], tuple(map(int, row["shape"].split("x")))
        predicted.append(1e6 * on.seconds(vector(on, kind, shape, _NUMBER)))
    return predicted


def predict_layernorm(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each layer norm: columns B, S, D."""
    on = loaded("tpu_v4")
    shapes = [(int(row["B"]), int(row["S"]), int(row["D"])) for row in rows]
    return [1e6 * on.seconds(vector(on, "layer_norm", shape, _NUMBER)) for shape in shapes]


def predict_copy(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the microseconds of each copy from HBM to CMEM: columns rows, cols; dtype, or f16.

    The source has the event ``copy-done``, which waits for what ``copy-start``, an event before,
    has asked for: the latency of DRAM is in that one.
    """
    on = loaded("tpu_v4")
    predicted = []
    for row in rows:
        shape, number = (int(row["rows"]), int(row["cols"])), NUMBERS[row.get("dtype", "f16")]
        cycles = vector(on, "copy", shape, number) - on.dram.latency_cycles
        predicted.append(1e6 * on.seconds(cycles))
    return predicted
