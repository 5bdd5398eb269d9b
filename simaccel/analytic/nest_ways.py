"""What moves between the memories of a nest, and how long one tile of it takes, if alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simaccel.analytic.work import Traffic, ints
from simaccel.hardware import Accelerator
from simaccel.hardware.levels import Role

_STREAM_SLOTS: Final = 2
Use = Mapping[str, float]
"""Cycles by resource."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """What one role moves between two neighbours that keep it, or to the MACs.

    ``outer`` and ``inner``: (down, up) bytes at the memory outside and over all PEs inside.
    ``times``: how often a tile comes. ``slots``: of the tile inside. ``position``: the place of
    the innermost loop that brings another tile.
    """

    role: Role
    tensor: str
    source: str
    target: str
    outer: tuple[int, int]
    inner: tuple[int, int]
    times: int
    slots: int
    position: int

    @property
    def streams(self) -> bool:
        """Whether it comes from DRAM for each pass anew, and stays nowhere."""
        return self.target == "mac" and self.source == "dram"

    @property
    def accesses(self) -> bool:
        """Whether the MACs access the buffer during a pass."""
        return self.target == "mac" and self.source == "buffer"


@dataclass(frozen=True, kw_only=True)
class Moving:
    """The mean tile of a way: what it uses to come and to go, in cycles.

    ``arrives`` and ``leaves``: latencies after that.
    """

    role: Role
    slots: int
    down: Use
    up: Use
    arrives: int
    leaves: int

    def comes(self, beside: tuple[Use, ...] = (), rival: str = "") -> float:
        """Give the cycles until it has come."""
        return shared(self.down, beside, rival) + self.arrives

    def goes(self, beside: tuple[Use, ...] = (), rival: str = "") -> float:
        """Give the cycles until it has gone."""
        return shared(self.up, beside, rival) + self.leaves


def shared(use: Use, beside: tuple[Use, ...], rival: str) -> float:
    """Give when the last of ``use`` has been served, if all start at once and take turns.

    >>> shared({"dram": 10}, ({"dram": 4}, {"dram": 30}), "")
    24
    >>> shared({"dram": 10}, (), "dram")
    20
    """
    return max(
        (
            cycles * (1 + (name == rival)) + sum(min(cycles, one.get(name, 0)) for one in beside)
            for name, cycles in use.items()
        ),
        default=0.0,
    )


def moving(way: Way, times: int, accelerator: Accelerator, *, skewed: bool) -> Moving:
    """Give the mean of ``times`` tiles; ``skewed``: they have to wait for the last MACs' sums."""
    array = accelerator.array
    arrives = accelerator.dram.latency_cycles if way.source == "dram" else 0
    leaves = array.tail_latency_cycles if skewed else 0
    if way.target == "pe":
        arrives += accelerator.lead_latency_cycles + array.lead_latency_cycles
        leaves += accelerator.tail_latency_cycles if way.source == "buffer" else 0
    return Moving(
        role=way.role,
        slots=_STREAM_SLOTS if way.streams else way.slots,
        down=down(way, times, accelerator),
        up=up(way, times, accelerator),
        arrives=arrives if way.outer[0] else 0,
        leaves=leaves if way.outer[1] else 0,
    )


def down(way: Way, times: int, accelerator: Accelerator) -> Use:
    """Give the cycles of what the mean of ``times`` tiles uses on its way in."""
    n_bytes = -(-way.outer[0] // times)
    if way.source == "dram":
        used = {"dram": int(Traffic(accelerator).dram(ints(n_bytes)))}
    else:
        used = {"read_port": accelerator.read_rate.cycles(n_bytes)}
    if way.target == "buffer":
        used["write_port"] = accelerator.write_rate.cycles(n_bytes)
    else:
        multicasts = accelerator.noc.distribution.multicasts
        sent = n_bytes if multicasts else -(-way.inner[0] // times)
        used["distribution"] = accelerator.distribution_rate.cycles(sent)
    return {name: cycles for name, cycles in used.items() if cycles}


def up(way: Way, times: int, accelerator: Accelerator) -> Use:
    """Give the cycles of what the mean of ``times`` tiles uses on its way out."""
    n_bytes = -(-way.outer[1] // times)
    if way.source == "dram":
        used = {"dram": int(Traffic(accelerator).dram(ints(n_bytes)))}
    else:
        used = {"write_port": accelerator.write_rate.cycles(n_bytes)}
    if way.target == "buffer":
        used["read_port"] = accelerator.read_rate.cycles(n_bytes)
    else:
        used["collection"] = accelerator.collection_rate.cycles(n_bytes)
    return {name: cycles for name, cycles in used.items() if cycles}
