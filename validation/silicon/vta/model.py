"""ResNets on VTA, on ``hwconfigs/vta_16``: convolutions one after the other, as TVM runs them.

TVM leaves the first convolution and the last product to the host. Before the GEMM unit was
pipelined a step took four cycles, one for each state of its machine (TensorGemm.scala). Behind each
convolution the ALU goes over its results four times (bias, shift, two limits of a clip: TVM's
quantisation); it stands in the same module as the GEMM unit, which waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from validation.silicon.booked import remembered
from validation.silicon.convolutions import streamed_conv_cycles
from validation.silicon.kernels import ON_CHIP, vector_cycles
from validation.silicon.networks import resnet
from validation.silicon.runs import loaded

_ALU_PASSES: Final = 4
_UNPIPELINED: Final = ("array.steps_per_cycle=0.25",)


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the cycles of each network: column network, such as ``resnet18_v1``."""
    return [_cycles(row["network"]) for row in rows]


def predict_unpipelined(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the cycles of each network before the GEMM unit was pipelined."""
    return [_cycles(row["network"], _UNPIPELINED) for row in rows]


@remembered
def _cycles(network: str, settings: tuple[str, ...] = ()) -> float:
    on = loaded("vta_16", *settings)
    _, *layers = resnet(int(network.removeprefix("resnet").partition("_")[0]))
    inside = loaded("vta_16", *ON_CHIP)
    return sum(
        streamed_conv_cycles(on, layer)
        + vector_cycles(inside, layer.m * layer.p * layer.q, reads=1, passes=_ALU_PASSES, n_bytes=1)
        for layer in layers
    )
