"""The times of a family's engines and tiles, by candidate, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from simaccel.analytic.bodies import TRUE
from simaccel.analytic.family import Bools, Floats, Ints
from simaccel.analytic.pointwise import plain

Times = dict[object, Floats]
Sizes = dict[str, Ints]
ZERO: Final[Floats] = plain(np.zeros(()))
UNASKED: Final[Floats] = plain(np.full((), -1.0))
"""When a tile comes that has not been asked for."""
ARRAY, SFU, DMA_OUT, NOC_OUT = "at array", "at sfu", "at dma_out", "at noc_out"
"""Where engines are; those of queues have a number behind them."""
FREE: Final = "stationary operand"
"""Since when a next stationary operand may shift into the array."""
LEFT: Final = "sums in the rows"
"""Since when the last output-stationary sums are not in the way of others."""
OUT: Final = "at the foot of the array"
"""When the last result has left the array."""
EARLIER: Final = (-1, -2, -3, -4)
"""The tiles of the last stores of the group before, the latest first."""
CHANNEL: Final = "channel"
"""When the DRAM channel has served all loads so far."""
DRAM, STORES = "dram", "stores"
READ, WRITE = "read port", "write port"
DOWN, UP = "down the NoC", "up the NoC"
COUNTERS: Final = frozenset({DRAM, STORES, READ, WRITE, DOWN, UP})


@dataclass(frozen=True, eq=False)
class Gate:
    """The ``cycle`` at which the group before has ended.

    Loads of tensors that are not ``early`` wait for it, and any loader that has brought a tile, but
    for those that are ``ahead``.
    """

    cycle: Floats
    early: frozenset[str]
    ahead: frozenset[str]


@dataclass(frozen=True, eq=False)
class Begin:
    """What a group finds when it begins early: where engines are, and channels with work."""

    x: Times
    gate: Gate | None
    wrote: frozenset[str]
    """Memories whose last transfer was a store."""
    slots: dict[str, list[Floats]]
    """Tensors with slots that the group before had: when it released them, the latest first."""


class Reached(dict[object, Floats]):
    """What each engine and tile has reached, in cycles by candidate; 0 where nothing has."""

    def __missing__(self, key: object) -> Floats:
        """Return 0 for what nothing has reached."""
        return ZERO


class State:
    """What each engine and tile has reached (``x``), in cycles by candidate."""

    def __init__(self, begin: Begin | None = None) -> None:
        self.x = Reached() if begin is None else Reached(begin.x)

    def add(self, key: str, where: Bools, amount: Ints) -> None:
        """Count an amount where something holds."""
        self.x[key] = self.x[key] + (amount if where is TRUE else where * amount)
