"""ResNets on VTA: default runs on ``hwconfigs/vta_16``, and on the file of the GEMM unit before.

The workload is the network as TVM quantises it: behind each convolution and each sum of a shortcut
come operators of the ALU (bias, shift, the two limits of a clip). TVM leaves to the host what
stands before the first block and behind the last: these are left out (`resnet18.yaml`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simaccel.workload.files import parse_workload
from simaccel.workload.linking import IMAGE
from validation.silicon.booked import remembered
from validation.silicon.networks import linked_resnet
from validation.silicon.runs import loaded, run

UNPIPELINED: Final = str(Path(__file__).with_name("vta_16_unpipelined.yaml"))
"""A step took four cycles, one for each state of its machine (TensorGemm.scala)."""
_BEHIND: Final = {"conv": ("bias", "shift", "low", "high"), "residual": ("shift", "low", "high")}
"""What the ALU does to each number of a result, an instruction for each."""
_HOST: Final = ("conv1", "pool1", "pool5", "classes")


def predict(rows: Sequence[Mapping[str, str]]) -> list[int]:
    """Return the cycles of each network: column network, such as ``resnet18_v1``."""
    return [_cycles(row["network"], "vta_16") for row in rows]


def predict_unpipelined(rows: Sequence[Mapping[str, str]]) -> list[int]:
    """Return the cycles of each network before the GEMM unit was pipelined."""
    return [_cycles(row["network"], UNPIPELINED) for row in rows]


def _cycles(network: str, on: str) -> int:
    return _blocks(int(network.removeprefix("resnet").partition("_")[0]), on)


@remembered
def _blocks(depth: int, on: str) -> int:
    """Return the cycles of a network's blocks; versions 1 and 2 have the same convolutions."""
    return run(parse_workload(quantised(linked_resnet(depth))), loaded(on))


def quantised(network: Mapping[str, Any]) -> dict[str, Any]:
    """Return a linked network without the host's layers, whose results go through the ALU."""
    layers: dict[str, Any] = {}
    last = {"pool1": IMAGE}
    for name, layer in network["layers"].items():
        if name in _HOST:
            continue
        reads = layer["reads"]
        renamed = last[reads] if isinstance(reads, str) else [last[source] for source in reads]
        layers[name] = {**layer, "reads": renamed}
        behind = [f"{name}_{step}" for step in _BEHIND.get(layer["kind"], ())]
        layers |= {step: {"kind": "relu"} for step in behind}
        last[name] = behind[-1] if behind else name
    return {**network, "layers": layers}
