"""Published energies of arithmetic, SRAM and DRAM. Nothing here is fitted.

Each figure is quoted from the publication named beside it. A node without figures is interpolated
between its neighbours, and its source says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

EnergyNode = Literal["45nm", "28nm", "7nm"]
EnergyNumber = Literal["int8", "bf16", "fp16", "fp32"]

_BITS: Final[dict[EnergyNumber, int]] = {"int8": 8, "bf16": 16, "fp16": 16, "fp32": 32}
_SRAM_ACCESS_BYTES: Final = 8


@dataclass(frozen=True)
class NodeEnergy:
    """Energies of one technology node in pJ."""

    multiply_pj: dict[EnergyNumber, float]
    sum_pj: dict[EnergyNumber, float]
    """Addition of a product to a 32-bit sum, integer or float."""
    sram_pj: dict[int, float]
    """A 64-bit access, by capacity in bytes."""
    source: str


_HOROWITZ: Final = NodeEnergy(
    multiply_pj={"int8": 0.2, "fp16": 1.1, "fp32": 3.7},
    sum_pj={"int8": 0.1, "fp16": 0.9, "fp32": 0.9},
    sram_pj={2**13: 10.0, 2**15: 20.0, 2**20: 100.0},
    source="Horowitz, Computing's Energy Problem, ISSCC 2014: 45 nm, 0.9 V",
)
_JOUPPI: Final = NodeEnergy(
    multiply_pj={"int8": 0.07, "bf16": 0.21, "fp16": 0.34, "fp32": 1.31},
    sum_pj={"int8": 0.03, "bf16": 0.38, "fp16": 0.38, "fp32": 0.38},
    sram_pj={2**13: 7.5, 2**15: 8.5, 2**20: 14.0},
    source="Jouppi et al., Ten Lessons From Three Generations, ISCA 2021, Table 2: 7 nm",
)


def _interpolate_log(share: float, one: float, other: float) -> float:
    """Interpolate on a logarithmic scale; 0 gives ``one``, 1 gives ``other``."""
    return math.exp((1 - share) * math.log(one) + share * math.log(other))


def _interpolate_node(nm: int) -> NodeEnergy:
    share = math.log(45 / nm) / math.log(45 / 7)
    numbers = _HOROWITZ.multiply_pj
    return NodeEnergy(
        {n: _interpolate_log(share, numbers[n], _JOUPPI.multiply_pj[n]) for n in numbers},
        {n: _interpolate_log(share, _HOROWITZ.sum_pj[n], _JOUPPI.sum_pj[n]) for n in numbers},
        {
            size: _interpolate_log(share, pj, _JOUPPI.sram_pj[size])
            for size, pj in _HOROWITZ.sram_pj.items()
        },
        f"interpolated to {nm} nm (both axes logarithmic) between the 45 nm of Horowitz, ISSCC "
        "2014, and the 7 nm of Jouppi et al., ISCA 2021: no publication with all of them is known "
        "here",
    )


NODES: Final[dict[EnergyNode, NodeEnergy]] = {
    "45nm": _HOROWITZ,
    "28nm": _interpolate_node(28),
    "7nm": _JOUPPI,
}

DRAM_PJ_PER_BYTE: Final[dict[str, tuple[float, str]]] = {
    "HBM2": (31.36, "3.92 pJ/bit: O'Connor et al., Fine-Grained DRAM, MICRO 2017"),
    "GDDR5": (112.0, "14.0 pJ/bit: O'Connor et al., Fine-Grained DRAM, MICRO 2017"),
    "GDDR6": (51.875, "350 to 480 pJ per 64 bit, the middle: Jouppi et al., ISCA 2021, Table 2"),
    "DDR3": (162.5, "1,300 pJ per 64 bit: Jouppi et al., ISCA 2021, Table 2"),
    "DDR4": (162.5, "1,300 pJ per 64 bit: Jouppi et al., ISCA 2021, Table 2"),
}
"""Energy per byte, and its source, by family of parts (a part's name up to its first hyphen)."""


def mac_pj(node: EnergyNode, number: EnergyNumber) -> float:
    """Return the energy in pJ of a multiplication and the addition to a 32-bit sum.

    >>> round(mac_pj("45nm", "fp16"), 3), round(mac_pj("7nm", "int8"), 3)
    (2.0, 0.1)
    """
    return NODES[node].multiply_pj[number] + NODES[node].sum_pj[number]


def noc_pj_per_byte(node: EnergyNode, number: EnergyNumber) -> float:
    """Return the energy in pJ of a byte that enters or leaves the array.

    Two MACs per word, the relative cost of a word between PEs in Eyeriss (Chen et al., ISCA 2016).
    """
    return 2 * mac_pj(node, number) / (_BITS[number] / 8)


def sram_pj_per_byte(node: EnergyNode, capacity_bytes: int | None) -> float:
    """Return the energy in pJ of a byte of an SRAM, by its capacity.

    Interpolated between the published sizes, both axes logarithmic; a larger memory is banked and
    costs as the largest of these, a smaller one as the smallest.

    >>> sram_pj_per_byte("45nm", 2**20), sram_pj_per_byte("7nm", 4096)
    (12.5, 0.9375)
    """
    sizes = sorted(NODES[node].sram_pj)
    energies = NODES[node].sram_pj
    size = sizes[-1] if capacity_bytes is None else min(max(capacity_bytes, sizes[0]), sizes[-1])
    above = next(larger_size for larger_size in sizes if larger_size >= size)
    if above == size:
        return energies[size] / _SRAM_ACCESS_BYTES
    below = max(smaller_size for smaller_size in sizes if smaller_size < size)
    share = math.log(size / below) / math.log(above / below)
    return _interpolate_log(share, energies[below], energies[above]) / _SRAM_ACCESS_BYTES


def dram_pj_per_byte(part: str) -> float | None:
    """Return the energy in pJ of a byte of a DRAM part; None without a known publication.

    >>> dram_pj_per_byte("DDR4-3200x64"), dram_pj_per_byte("LPDDR9-1x1")
    (162.5, None)
    """
    found = DRAM_PJ_PER_BYTE.get(part.partition("-")[0])
    return None if found is None else found[0]
