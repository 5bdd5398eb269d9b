"""The area section of an accelerator, and the areas that follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from simaccel.hardware.area.tables import (
    MAC_UM2,
    SCALED,
    SMALL_SRAM_UM2_PER_BYTE,
    SOURCE,
    SRAM_UM2_PER_BYTE,
    AreaNode,
    AreaNumber,
    shrink,
)
from simaccel.hardware.quantity import SquareMicrometres
from simaccel.hardware.spec import Spec

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


@dataclass(frozen=True, kw_only=True)
class UnitAreas:
    """Areas in um2, all of them known: per MAC, per lane of the SFU, per byte of memory."""

    mac_um2: float
    pe_memory_um2_per_byte: float
    buffer_um2_per_byte: float
    sfu_um2_per_lane: float = 0.0


class AreaSpec(Spec):
    """Areas that are given, or those of a ``node``; given figures have priority over the tables'.

    ``number``: the number format of a MAC; by default the widest of the accelerator's
    ``precision``. A lane of the SFU is a multiplier and an adder of 32-bit floats; accumulators
    count as buffer memory.
    """

    OMITTED: ClassVar = (
        *("node", "number", "mac_um2", "sfu_um2_per_lane"),
        *("pe_memory_um2_per_byte", "buffer_um2_per_byte"),
    )

    node: AreaNode | None = None
    number: AreaNumber | None = None
    mac_um2: SquareMicrometres | None = None
    pe_memory_um2_per_byte: SquareMicrometres | None = None
    buffer_um2_per_byte: SquareMicrometres | None = None
    sfu_um2_per_lane: SquareMicrometres | None = None

    def areas(self, node: AreaNode = NODE, number: AreaNumber = "fp16") -> UnitAreas:
        """Return all areas; ``node`` and ``number``: defaults where the section has none.

        >>> AreaSpec(number="int8").areas().mac_um2, AreaSpec(mac_um2=1).areas().mac_um2
        (419.0, 1.0)
        """
        ratio = shrink(self.node or node)
        table = {
            "mac_um2": MAC_UM2[self.number or number],
            "pe_memory_um2_per_byte": SMALL_SRAM_UM2_PER_BYTE,
            "buffer_um2_per_byte": SRAM_UM2_PER_BYTE,
            "sfu_um2_per_lane": MAC_UM2["fp32"],
        }
        own_areas = {name: getattr(self, name) for name in table}
        return UnitAreas(
            **{name: ratio * table[name] if own is None else own for name, own in own_areas.items()}
        )

    def table_source(self, node: AreaNode = NODE) -> str:
        """Return the source of the figures in the tables."""
        node = self.node or node
        return f"{node}. {SOURCE}{'' if node == NODE else SCALED}"
