"""The area section of an accelerator, and the areas that follow from it.

Published areas of arithmetic and SRAM at 45 nm, and their scaling. Nothing here is fitted.

The figures are those of bare arithmetic and of SRAM macros: the registers and wires of a PE, the
NoC, control, interfaces and pads are not in them. The matrix unit of TPU v1 (24% of at most
331 mm2 for 65,536 8-bit MACs: Jouppi et al., ISCA 2017, figure 2 and table 2) is 5.5 times its bare
arithmetic at 28 nm, its unified buffer (29% for 24 MiB) 0.8 times the SRAM here.

Where each figure was read, and what was not checked:

- ``int16`` MAC and both memories: in the file of the public exercises that ``SOURCE`` names.
- 28, 16 and 7 nm cells: WikiChip's pages of these nodes, TSMC's cells of high density.
- the 45 nm cell: quoted; WikiChip's 28 nm page gives 0.52 of the 40 nm cell, which fits 0.242.
- other arithmetic: an assumption. It is quoted from a talk whose slides were not at hand; that an
  8-bit multiplier takes 282, adders of 32 bits 137 and 4184 um2 was not checked against anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from simaccel.hardware.quantity import SquareMicrometres
from simaccel.hardware.spec import Spec

AreaNode = Literal["45nm", "28nm", "16nm", "7nm"]
AreaNumber = Literal["int8", "int16", "fp16", "fp32"]

MAC_UM2: Final[dict[AreaNumber, float]] = {
    "int8": 282.0 + 137.0,
    "int16": 1239.5,
    "fp16": 1640.0 + 4184.0,
    "fp32": 7700.0 + 4184.0,
}
"""A multiplier, and an adder of 32 bits for its sum, at 45 nm."""
SRAM_UM2_PER_BYTE: Final = 8.87
"""A buffer of 128 KiB at 45 nm."""
SMALL_SRAM_UM2_PER_BYTE: Final = 10.07
"""Scratchpads of 24 to 384 B at 45 nm."""
CELL_UM2: Final[dict[AreaNode, float]] = {"45nm": 0.242, "28nm": 0.127, "16nm": 0.07, "7nm": 0.027}
"""A 6-transistor SRAM cell of high density."""
SOURCE: Final = (
    "Arithmetic: an assumption, quoted from Dally, High-Performance Hardware for Machine Learning, "
    "NIPS tutorial 2015 (synthesis at 45 nm), and not checked against it; int16 and memories: "
    "Accelergy's reference output of the Timeloop exercises' eyeriss_like (45 nm, Aladdin and "
    "Cacti)"
)
SCALED: Final = (
    "; shrunk as TSMC's SRAM cells are: 0.242 um2 at 45 nm (Cheng et al., IEDM 2007, quoted and "
    "not checked), 0.127 at 28 nm (WikiChip), 0.07 at 16 nm (Chen et al., JSSC 2015), 0.027 at "
    "7 nm (Chang et al., ISSCC 2017); that logic shrinks as much is an assumption"
)


def shrink(node: AreaNode) -> float:
    """Return the ratio of the area at a node to that at 45 nm.

    >>> round(shrink("28nm"), 3), shrink("45nm")
    (0.525, 1.0)
    """
    return CELL_UM2[node] / CELL_UM2["45nm"]


NODE: Final[AreaNode] = "45nm"
"""The default node: the one with most of the published energies."""


_MULTIPLIERS: Final[dict[str, AreaNumber]] = {
    "int4": "int8",
    "int8": "int8",
    "int16": "int16",
    **dict.fromkeys(("fp4", "fp8", "bf16", "fp16"), "fp16"),
    **dict.fromkeys(("int32", "tf32", "fp32", "fp64"), "fp32"),
}
"""The multiplier of each number format: the narrowest of the tables that is wide enough."""


def multiplier_of(numbers: Iterable[str]) -> AreaNumber:
    """Return the largest multiplier that the number formats need; that of fp16 without any.

    >>> multiplier_of(["int8", "bf16"]), multiplier_of([])
    ('fp16', 'fp16')
    """
    return max((_MULTIPLIERS[name] for name in numbers), key=MAC_UM2.__getitem__, default="fp16")


class AreaSpec(Spec):
    """Areas that are given, or those of a ``node``; given figures have priority over the tables'.

    ``number``: the number format of a MAC; by default the widest of the accelerator's
    ``precision``. A lane of the SFU is a multiplier and an adder of 32-bit floats; accumulators
    count as buffer memory.
    """

    node: AreaNode | None = None
    number: AreaNumber | None = None
    mac_um2: SquareMicrometres | None = None
    pe_memory_um2_per_byte: SquareMicrometres | None = None
    buffer_um2_per_byte: SquareMicrometres | None = None
    sfu_um2_per_lane: SquareMicrometres | None = None

    def areas(self, node: AreaNode = NODE, number: AreaNumber = "fp16") -> dict[str, float]:
        """Return all areas in um2, by field; ``node`` and ``number``: where the section has none.

        >>> [spec.areas()["mac_um2"] for spec in (AreaSpec(number="int8"), AreaSpec(mac_um2=1))]
        [419.0, 1.0]
        """
        ratio = shrink(self.node or node)
        table = {
            "mac_um2": MAC_UM2[self.number or number],
            "pe_memory_um2_per_byte": SMALL_SRAM_UM2_PER_BYTE,
            "buffer_um2_per_byte": SRAM_UM2_PER_BYTE,
            "sfu_um2_per_lane": MAC_UM2["fp32"],
        }
        own_areas = {name: getattr(self, name) for name in table}
        return {n: ratio * table[n] if own is None else own for n, own in own_areas.items()}

    def table_source(self, node: AreaNode = NODE) -> str:
        """Return the source of the figures in the tables."""
        node = self.node or node
        return f"{node}. {SOURCE}{'' if node == NODE else SCALED}"
