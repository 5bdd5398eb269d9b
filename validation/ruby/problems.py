"""The toy problems of Ruby's figures 4 to 9, on hierarchies with the energies of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simaccel.hardware.dataflow import Constraints, parse_constraints
from simaccel.hardware.levels import ROLES, Hierarchy, Memory, Role, Spatial, Temporal
from simaccel.mapspace.nests import Mapped, Target, map_einsum
from simaccel.mapspace.search import Effort
from simaccel.mapspace.space import Strategy
from simaccel.workload import Einsum, Tensor
from simaccel.workload.conv import parse_conv
from simaccel.workload.einsum import operand

DRAM_PJ, BUFFER_PJ, TOY_PAD_PJ, PAD_PJ, WEIGHT_PAD_PJ, MAC_PJ = 200.0, 7.41, 1.03, 0.98, 1.0, 1.0
"""Per 16-bit word and per MAC, as in data/README.md."""
_WORD: Final = 2
ROW_STATIONARY: Final = ("cols=Q,M", "rows=S,C,M", "pe=C,R,M", "buffer.keep=input,output")
"""The public exercise's constraints: columns split Q and M, rows S, C and M, PEs C, R and M."""
FILTER_ROWS: Final = ("rows.S=5", "pe.R=5")
"""A filter's columns across the rows of PEs, and a filter's row in each PE, as in Fig. 9."""


def _memory(roles: Sequence[Role], words: int | None, pj_per_word: float) -> Memory:
    each = pj_per_word / _WORD
    capacity = None if words is None else words * _WORD
    return Memory(
        roles=frozenset(roles),
        capacity_bytes=capacity,
        read_pj_per_byte=each,
        write_pj_per_byte=each,
    )


def toy(pes: int) -> Hierarchy:
    """Give PEs in a row behind DRAM, each with a scratchpad of 512 words for all operands."""
    return Hierarchy(
        levels=(
            Temporal(name="dram", memories=(_memory(ROLES, None, DRAM_PJ),)),
            Spatial(name="pes", fanout=pes),
            Temporal(name="pad", memories=(_memory(ROLES, 512, TOY_PAD_PJ),)),
        ),
        mac_pj=MAC_PJ,
    )


def eyeriss() -> Hierarchy:
    """Give 14 columns of 12 PEs, with 128 KiB for inputs and outputs; columns don't add sums."""
    return Hierarchy(
        levels=(
            Temporal(name="dram", memories=(_memory(ROLES, None, DRAM_PJ),)),
            Temporal(name="buffer", memories=(_memory(("input", "output"), 65536, BUFFER_PJ),)),
            Spatial(name="cols", fanout=14, reduces=False),
            Spatial(name="rows", fanout=12),
            Temporal(
                name="pe",
                memories=(
                    _memory(("input",), 12, PAD_PJ),
                    _memory(("weight",), 224, WEIGHT_PAD_PJ),
                    _memory(("output",), 16, PAD_PJ),
                ),
            ),
        ),
        mac_pj=MAC_PJ,
    )


def rank_one(size: int) -> Einsum:
    """Give Z[d] = A[d]: a tensor of one rank goes through the PEs."""
    return Einsum(f"D={size}", {"d": size}, (operand("A d"),), operand("Z d"))


def matmul() -> Einsum:
    """Give the matrix product of 100 x 100 by 100 x 100."""
    ranks = {"m": 100, "k": 100, "n": 100}
    return Einsum("matmul 100", ranks, (operand("A m k"), operand("B k n")), operand("Z m n"))


def conv3() -> Einsum:
    """Give the 3 x 3 convolution of 64 channels over 28 x 28 pixels to 64."""
    return parse_conv("M=64,C=64,P=28,Q=28,R=3,S=3").einsum("conv 3x3")


def alexnet2() -> Einsum:
    """Give the second layer of AlexNet (one group): 48 channels, 27 x 27, 5 x 5 filters, 96."""
    return parse_conv("M=96,C=48,P=27,Q=27,R=5,S=5").einsum("alexnet conv2")


def target(
    einsum: Einsum,
    hierarchy: Hierarchy,
    strategy: Strategy,
    dataflow: Sequence[str] = (),
    asked: Sequence[str] = (),
) -> Target:
    """Put a problem together; all tensors have 16-bit words."""
    given: Constraints = parse_constraints(dataflow)
    operands = (*einsum.inputs, einsum.output)
    return Target(
        einsum=einsum,
        tensors={one.tensor: Tensor(one.tensor, _WORD) for one in operands},
        hierarchy=hierarchy,
        strategy=strategy,
        dataflow=given,
        asked=parse_constraints(asked),
    )


def best(goal: Target, effort: Effort | None = None) -> Mapped:
    """Find the best mapping; mapspaces of up to 4 million mappings are searched completely."""
    return map_einsum(goal, effort or Effort(exhaustive=4_000_000))


def edp(mapped: Mapped) -> float:
    """Give energy times delay in J cycles."""
    return float(mapped.costs.edp[0]) * 1e-12


def energy_uj(mapped: Mapped) -> float:
    """Give the energy in microjoules."""
    return float(mapped.costs.energy_pj[0]) * 1e-6
