"""The energy section of an accelerator, and the prices that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from simaccel.hardware.energy.tables import (
    NODES,
    EnergyNode,
    EnergyNumber,
    dram_pj_per_byte,
    mac_pj,
    noc_pj_per_byte,
    sram_pj_per_byte,
)
from simaccel.hardware.quantity import Picojoules
from simaccel.hardware.spec import Spec

_BY_NODE: Final = ("mac_pj", "sfu_pj_per_element", "buffer_pj_per_byte", "noc_pj_per_byte")
DRAM: Final = "dram_pj_per_byte"


class EnergySpec(Spec):
    """Energies per action in pJ that are given, or those of a ``node`` and of ``dram.part``.

    Given figures have priority over the tables'. ``number``: the number format of the node's MAC.
    ``leakage_pj_per_cycle``: of the whole accelerator; no table has it. With ``known: false``
    figures that are left out are unknown, and so are energies of runs; else they are faults.
    """

    OMITTED: ClassVar = ("known", "leakage_pj_per_cycle")

    known: Annotated[bool, Field(strict=True)] = True
    node: EnergyNode | None = None
    number: EnergyNumber = "fp16"
    mac_pj: Picojoules | None = None
    sfu_pj_per_element: Picojoules | None = None
    buffer_pj_per_byte: Picojoules | None = None
    noc_pj_per_byte: Picojoules | None = None
    dram_pj_per_byte: Picojoules | None = None
    leakage_pj_per_cycle: Picojoules = 0.0

    @property
    def absent(self) -> set[str]:
        """The fields that are not set."""
        return super().absent | ({"number"} if self.node is None else set())

    @property
    def are_given(self) -> bool:
        """Whether all energies that a node has are given, so that none follows from a node."""
        return None not in (getattr(self, name) for name in _BY_NODE)

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.known and self.node is None:
            yield from ((name, "") for name in _BY_NODE if getattr(self, name) is None)
        numbers = {} if self.node is None else NODES[self.node].multiply_pj
        own = self.number in numbers or None not in (self.mac_pj, self.noc_pj_per_byte)
        if self.known and numbers and not own:
            allowed = f"{' or '.join(numbers)} at {self.node}, or mac_pj and noc_pj_per_byte"
            yield "number", f"{allowed} beside it"

    def prices(
        self, capacity_bytes: int | None, part: str | None, shared: float | None = None
    ) -> EnergyPrices | None:
        """Return all prices for a buffer's capacity and a DRAM part; None if the DRAM has none.

        ``shared``: pJ per byte of a buffer that cores share, if it is given.

        >>> EnergySpec(node="7nm", dram_pj_per_byte=30).prices(2**20, None).buffer_pj_per_byte
        1.75
        """
        dram = self.dram_pj_per_byte
        if dram is None and part is not None:
            dram = dram_pj_per_byte(part)
        if dram is None and self.known:
            return None
        prices = {**self._on_chip(capacity_bytes), DRAM: dram}
        known = {name: price or 0.0 for name, price in prices.items()}
        return EnergyPrices(**known, shared_pj_per_byte=shared)

    def unknown(self, part: str | None) -> tuple[str, ...]:
        """Return the unknown figures: neither given nor in a table, or all zero.

        >>> EnergySpec(known=False, mac_pj=1, node="7nm").unknown(None)
        ('dram_pj_per_byte',)
        """
        given = {**self._on_chip(None), DRAM: self.dram_pj_per_byte}
        dram = given[DRAM] if part is None else part
        unknown = tuple(name for name, price in {**given, DRAM: dram}.items() if price is None)
        is_free = not (part or any(given.values()))  # all prices are 0: none was given
        return unknown or (tuple(given) if is_free else ())

    def _on_chip(self, capacity_bytes: int | None) -> dict[str, float | None]:
        found = {name: getattr(self, name) for name in (*_BY_NODE, "leakage_pj_per_cycle")}
        if self.node is None:
            return found
        table = {
            "sfu_pj_per_element": mac_pj(self.node, "fp32"),  # a multiplication and an addition
            "buffer_pj_per_byte": sram_pj_per_byte(self.node, capacity_bytes),
        }
        if self.number in NODES[self.node].multiply_pj:
            table["mac_pj"] = mac_pj(self.node, self.number)
            table["noc_pj_per_byte"] = noc_pj_per_byte(self.node, self.number)
        return {name: table[name] if value is None else value for name, value in found.items()}


def place_of(level: str) -> str:
    """Return the memory of a counted level: its name without direction and tensor.

    >>> place_of("dram_read"), place_of("pe.input_write"), place_of("buffer")
    ('dram', 'pe', 'buffer')
    """
    return level.partition("_")[0].partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class EnergyPrices:
    """Energies per action in pJ, all of them known."""

    mac_pj: float
    sfu_pj_per_element: float
    buffer_pj_per_byte: float
    noc_pj_per_byte: float
    dram_pj_per_byte: float
    leakage_pj_per_cycle: float = 0.0
    shared_pj_per_byte: float | None = None
    """Of the buffer that cores share; None: the price of a core's buffer."""
