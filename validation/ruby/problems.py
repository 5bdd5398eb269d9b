"""The toy problems of Ruby's figures 4 to 9, on accelerators with the energies of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import Constraints, parse_constraints
from simaccel.importers.accelerators import load_accelerator
from simaccel.search.effort import Effort, Strategy
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import NestResult, map_einsum
from simaccel.workload import Einsum, Tensor
from simaccel.workload.conv import Conv
from simaccel.workload.einsum import operand

_WORD: Final = 2
ROW_STATIONARY: Final = ("cols=Q,M", "rows=S,C,M", "pe=C,R,M", "buffer.keep=input,output")
"""The public exercise's constraints: columns split Q and M, rows S, C and M, PEs C, R and M."""
FILTER_ROWS: Final = ("rows.S=5", "pe.R=5")
"""A filter's columns across the rows of PEs, and a filter's row in each PE, as in Fig. 9."""


def toy(pes: int) -> Accelerator:
    """Give PEs in a row behind DRAM, each with a scratchpad of 512 words for all operands."""
    return load_accelerator("toy_linear", [f"array.cols={pes}"])


def eyeriss() -> Accelerator:
    """Give 14 columns of 12 PEs, with 128 KiB for inputs and outputs; columns don't add sums."""
    return load_accelerator("eyeriss_like", ["array.dataflow=[]"])


def rank_one(size: int) -> Einsum:
    """Give Z[d] = A[d]: a tensor of one rank goes through the PEs."""
    return Einsum(f"D{size}", {"d": size}, (operand("A d"),), operand("Z d"))


def matmul() -> Einsum:
    """Give the matrix product of 100 x 100 by 100 x 100."""
    ranks = {"m": 100, "k": 100, "n": 100}
    return Einsum("matmul-100", ranks, (operand("A m k"), operand("B k n")), operand("Z m n"))


def conv3() -> Einsum:
    """Give the 3 x 3 convolution of 64 channels over 28 x 28 pixels to 64."""
    return Conv(m=64, c=64, p=28, q=28, r=3, s=3).einsum("conv-3x3")


def alexnet2() -> Einsum:
    """Give the second layer of AlexNet (one group): 48 channels, 27 x 27, 5 x 5 filters, 96."""
    return Conv(m=96, c=48, p=27, q=27, r=5, s=5).einsum("alexnet-conv2")


def target(
    einsum: Einsum,
    accelerator: Accelerator,
    strategy: Strategy,
    dataflow: Sequence[str] = (),
    asked: Sequence[str] = (),
) -> MappingTarget:
    """Put a problem together; all tensors have 16-bit words."""
    constraints: Constraints = parse_constraints(dataflow)
    operands = (*einsum.inputs, einsum.output)
    return MappingTarget(
        einsum=einsum,
        tensors={operand.tensor: Tensor(operand.tensor, _WORD) for operand in operands},
        accelerator=accelerator,
        strategy=strategy,
        dataflow=constraints,
        constraints=parse_constraints(asked),
    )


def best(goal: MappingTarget, effort: Effort | None = None) -> NestResult:
    """Find the best mapping; mapspaces of up to 4 million mappings are searched completely."""
    return map_einsum(goal, effort or Effort(exhaustive=4_000_000))


def edp(mapped: NestResult) -> float:
    """Give energy times delay in J cycles."""
    return mapped.energy_pj * mapped.cycles * 1e-12


def energy_uj(mapped: NestResult) -> float:
    """Give the energy in microjoules."""
    return mapped.energy_pj * 1e-6
