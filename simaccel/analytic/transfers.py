"""The time that transfers with the DRAM take at least, for the candidates of a family."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.family import Ints, ints
from simaccel.hardware import Accelerator


@dataclass
class TransferSeries:
    """Bytes that come from DRAM and go to it, one transfer after the other."""

    accelerator: Accelerator
    read: Ints = field(default_factory=lambda: ints(0))
    written: Ints = field(default_factory=lambda: ints(0))
    loads: Ints = field(default_factory=lambda: ints(0))

    def add(self, read: Ints, written: Ints, tile_bytes: Ints) -> None:
        """Add bytes, in tiles of so many at most; less than nothing is nothing."""
        read, written = (ints(one.clip(0) * (tile_bytes > 0)) for one in (read, written))
        self.read, self.written = self.read + read, self.written + written
        self.loads = np.maximum(self.loads, -(-read // tile_bytes.clip(1)))

    def cycles(self) -> Ints:
        """Return the cycles of the channel."""
        channels = self.accelerator.dram.channels
        going = self.accelerator.channel_rate.cycles(self.written // channels)
        return ints(self.load_cycles() + going - 1).clip(0)

    def load_cycles(self) -> Ints:
        """Return the cycles of the channel for what comes."""
        channels = self.accelerator.dram.channels
        return ints(self.accelerator.channel_read_rate.cycles(self.read // channels))

    def serial_cycles(self) -> Ints:
        """Return the cycles without work, as each tile is waited for."""
        latency = self.accelerator.dram.latency_cycles
        return ints(np.maximum(self.cycles(), self.load_cycles() + latency * self.loads))
