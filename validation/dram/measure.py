"""Efficiency and latency of an access pattern on a DRAM part in the steady state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simaccel.hardware.dram.part import DramPart
from validation.dram.controller import BurstTraffic, Controller, ControllerSpec
from validation.dram.patterns import Pattern, traffic, useful_bytes
from validation.dram.window import WindowController

CONTROLLERS: Final[Mapping[str, type[Controller]]] = {
    "banks": Controller,
    "window": WindowController,
}
"""Memory controllers by name: with queues of banks, as DRAMsim3's; without, as Ramulator's."""
_BURSTS = 10_000
"""That are measured at least, if they take no more than `_LONGEST` refresh intervals."""
_LONGEST = 100
_SPARE = 3
"""Times as many are ready: what is served before, and what still waits at the end."""
_IDLE_READS = 200
_IDLE_CLOCKS = 1597
"""Clocks between two reads that are alone: a prime, so that they meet refreshes evenly."""
_NEIGHBOURS = 8


@dataclass(frozen=True)
class Measurement:
    """Efficiency is the share of the time that the data bus is busy."""

    efficiency: float
    useful_efficiency: float
    """The share of the peak that brings bytes that were asked for."""
    latency_ns: float | None
    """Mean over the reads, from when the controller takes one (with ``load``: from when it comes)
    to the end of its data; None without reads."""
    bytes_per_second: float
    activates_per_burst: float
    clocks: int
    """Measured: whole refresh intervals."""


def measure(
    part: DramPart,
    mapping: str,
    pattern: Pattern,
    controller: str | None = None,
    *,
    refresh: bool = True,
) -> Measurement:
    """Run a pattern until enough is served, and leave the first refresh interval out.

    ``controller``: one of ``CONTROLLERS``; None is the part's.

    >>> from simaccel.hardware.dram.parts import PARTS
    >>> found = measure(PARTS["DDR4-3200x64"], "bgil", Pattern(kind="sequential"))
    >>> round(found.efficiency, 2)
    0.95
    """
    asked = traffic(pattern, part, mapping, _SPARE * _BURSTS)
    running = CONTROLLERS[controller or part.controller](
        part, ControllerSpec(), asked, refresh=refresh
    )
    served = running.served
    running.run(part.refi)
    start, before = running.clock, (served.bursts, served.merged, served.activates)
    reads, latency = served.reads, served.latency
    for interval in range(2, _LONGEST + 2):
        if not running.run(part.refi * interval):
            break
        if served.bursts - before[0] >= _BURSTS or running.next > (_SPARE - 1) * _BURSTS:
            break
    clocks = running.clock - start
    bursts, merged, activates = (
        now - then
        for now, then in zip((served.bursts, served.merged, served.activates), before, strict=True)
    )
    most = clocks * part.pseudo_channels / part.burst
    useful = (bursts + merged) * useful_bytes(pattern, part)
    reads, latency = served.reads - reads, served.latency - latency
    return Measurement(
        efficiency=bursts / most,
        useful_efficiency=useful / (most * part.burst_bytes),
        latency_ns=latency / reads * part.clock_ps / 1000 if reads else None,
        bytes_per_second=useful / (clocks * part.clock_ps) * 10**12,
        activates_per_burst=activates / max(1, bursts),
        clocks=clocks,
    )


def idle_latencies(part: DramPart) -> dict[str, float]:
    """Return the mean latency of a read that is alone, in ns, by the state of its bank.

    ``hit``: neighbouring bursts; ``conflict``: two rows of a bank in turn. A refresh that is due or
    under way delays some of them.
    """
    columns = part.page_bytes // part.burst_bytes
    latencies = {}
    for name, rows, keys in (
        ("hit", 1, min(_NEIGHBOURS, columns)),
        ("conflict", 2, 1),
    ):
        numbers = range(_IDLE_READS)
        asked = BurstTraffic(
            banks=[0] * _IDLE_READS,
            rows=[at % rows for at in numbers],
            writes=[0] * _IDLE_READS,
            keys=[at % rows * columns + at % keys for at in numbers],
            arrivals=[(at + 1) * _IDLE_CLOCKS for at in numbers],
        )
        controller = CONTROLLERS[part.controller](part, ControllerSpec(), asked)
        controller.run((_IDLE_READS + 2) * _IDLE_CLOCKS)
        latencies[name] = controller.served.latency / _IDLE_READS * part.clock_ps / 1000
    return latencies
