"""Resources that move bytes: their names, and the bytes per cycle of each."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.chips import LINK_CHANNEL
from simaccel.hardware.cores import CORE_NOC, core_of_name, without_core
from simaccel.units import COMPUTE_UNITS


def resource(channel: str) -> str:
    """Return the resource of a channel: its name without the channel's, link's or core's number.

    >>> resource("dram1"), resource("core_noc_0_1"), resource("core2.buffer_read")
    ('dram', 'core_noc', 'buffer_read')
    """
    if channel.startswith(CORE_NOC):
        return CORE_NOC
    return without_core(channel).rstrip("0123456789")


def computing_cores(busy: Mapping[str, int]) -> int:
    """Return the number of cores whose array or SFU is busy, from busy cycles by engine.

    >>> computing_cores({"array": 9, "sfu": 2, "core1.array": 8, "core2.array": 0})
    2
    """
    units = (name for name, n in busy.items() if n and without_core(name) in COMPUTE_UNITS)
    return len({core_of_name(name) for name in units})


def limits_of(accelerator: Accelerator, cores: int | None = None) -> dict[str, Fraction | None]:
    """Return the limit of each resource in bytes per cycle, over all its channels; None: no limit.

    ``cores``: how many have their ports counted, all by default.
    """
    count = accelerator.cores.count if cores is None else max(cores, 1)
    links = Fraction(accelerator.pod.links_of_chip)
    rates = {
        "buffer_read": (accelerator.read_rate, Fraction(count)),
        "buffer_write": (accelerator.write_rate, Fraction(count)),
        "noc_distribution": (accelerator.distribution_rate, Fraction(count)),
        "noc_collection": (accelerator.collection_rate, Fraction(count)),
        LINK_CHANNEL: (accelerator.links.rate(accelerator.clock_hz), links),
    }
    backing = accelerator.every_backing
    limits = {name: memory.bytes_per_cycle() for name, memory in backing.items()}
    for name, (rate, times) in rates.items():
        limits[name] = None if rate.unlimited else times * Fraction(rate.n_bytes, rate.n_cycles)
    if every := accelerator.cores.every_link:
        limits[CORE_NOC] = Fraction(len(every) * accelerator.cores.noc.rate.n_bytes)
    return limits
