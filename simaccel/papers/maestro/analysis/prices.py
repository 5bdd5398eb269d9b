"""Energy, area and power of MAESTRO's building blocks, as its tool has them.

Energies in multiples of one MAC: from a CACTI run of the authors that is lost (28 nm, L1 2 KB, L2
1 MB; discussion 10 of the public repository); replace them for any real decision. Areas in um2,
powers in mW, of two versions of the tool: 2021-05 and later, and before (28 nm synthesis, the
paper's). Bus and arbiter are regressions over small bandwidths: at 1,000 elements per cycle the
bus alone would be 385 mm2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

L1_ENERGY: Final = 1.68
L2_ENERGY: Final = 18.61
_BUS = (14.662, 28.895)
_ARBITER = (1.2886, 5.5814, -23.711)

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class DesignPrices:
    """Area in um2 and power in mW of what a design is made of.

    ``mac`` is of a lane, ``l1`` and ``l2`` of a started block of ``l1_block``, ``l2_block`` bytes.
    """

    source: str
    mac: tuple[float, float]
    l1: tuple[float, float]
    l1_block: int
    l2: tuple[float, float]
    l2_block: int

    def area_um2(
        self, pes: ArrayLike, lanes: ArrayLike, bandwidth: ArrayLike, l1: ArrayLike, l2: ArrayLike
    ) -> Floats:
        """Return the area of designs: PEs, lanes, NoC elements per cycle, bytes of L1 and L2."""
        pes, bandwidth = np.asarray(pes, dtype=float), np.asarray(bandwidth, dtype=float)
        wires = 101.7938 * _bus(pes) * bandwidth + 395.473 * _arbiter(pes)
        found: Floats = self._blocks(0, pes, lanes, l1, l2) + wires
        return found

    def power_mw(
        self, pes: ArrayLike, lanes: ArrayLike, bandwidth: ArrayLike, l1: ArrayLike, l2: ArrayLike
    ) -> Floats:
        """Return the power of designs; arguments as for the area."""
        pes, bandwidth = np.asarray(pes, dtype=float), np.asarray(bandwidth, dtype=float)
        wires = 0.8 * _bus(pes) * bandwidth / 1000 + 0.34 * _arbiter(pes) / 1000
        found: Floats = self._blocks(1, pes, lanes, l1, l2) + wires
        return found

    def _blocks(
        self, which: int, pes: Floats, lanes: ArrayLike, l1: ArrayLike, l2: ArrayLike
    ) -> Floats:
        per_pe = self.mac[which] * np.asarray(lanes) + self.l1[which] * np.ceil(
            np.asarray(l1) / self.l1_block
        )
        return pes * per_pe + self.l2[which] * np.ceil(np.asarray(l2) / self.l2_block)


def _bus(pes: Floats) -> Floats:
    slope, base = _BUS
    return slope * pes + base


def _arbiter(pes: Floats) -> Floats:
    square, slope, base = _ARBITER
    return square * pes**2 + slope * pes + base


PRESENT: Final = DesignPrices(
    source="MAESTRO 4eb08d1 (2022): per byte of L1 and L2, and per lane",
    mac=(283.0, 1.2223),
    l1=(0.104, 0.00345),
    l1_block=1,
    l2=(0.104, 0.00345),
    l2_block=1,
)
PAPER_ERA: Final = DesignPrices(
    source="MAESTRO before 2021-05 (28 nm): SRAM by blocks of 64 B (L1) and 32 KiB (L2)",
    mac=(4470.9014, 1.2223),
    l1=(4505.1889, 0.2208),
    l1_block=64,
    l2=(4161.536, 4.0),
    l2_block=32 * 1024,
)
