"""Limits of a chip: its peak, and the resources that move bytes with the rate of each."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.array import ArraySpec
from simaccel.hardware.chips import LINK_CHANNEL
from simaccel.hardware.cores import CHIP, CORE_NOC, PIPELINE, core_of_name, without_core
from simaccel.numbers import BITS, TOLD_APART


def resource(channel: str) -> str:
    """Return the resource of a channel: its name without the channel's, link's or core's number.

    >>> resource("dram1"), resource("core_noc_0_1"), resource("core2.buffer_read")
    ('dram', 'core_noc', 'buffer_read')
    """
    if channel.startswith(CORE_NOC):
        return CORE_NOC
    return without_core(channel).rstrip("0123456789")


def channel_rates(accelerator: Accelerator, channels: Iterable[str]) -> dict[str, Fraction | None]:
    """Return the bytes per cycle of each of some channels; None: no limit."""
    rates = _rates(accelerator)
    return {
        name: rates.get(without_core(name), rates.get(resource(name)))  # of a link, else of a kind
        for name in channels
    }


def _rates(accelerator: Accelerator) -> dict[str, Fraction | None]:
    """Return the bytes per cycle of a channel of each resource, and of links by dimension."""
    pod, cores = accelerator.pod, accelerator.cores
    rates = {
        "buffer_read": (accelerator.read_rate, Fraction(1)),
        "buffer_write": (accelerator.write_rate, Fraction(1)),
        "noc_distribution": (accelerator.distribution_rate, Fraction(1)),
        "noc_collection": (accelerator.collection_rate, Fraction(1)),
        LINK_CHANNEL: (pod.link_rate, Fraction(1)),
        **pod.links_of_chip,
        **({CORE_NOC: (cores.noc.rate, Fraction(1))} if cores.every_link else {}),
        **{
            name: (memory.channel_rate, Fraction(1))
            for name, memory in accelerator.every_backing.items()
        },
    }
    return {
        name: None if rate.unlimited else times * Fraction(rate.n_bytes, rate.n_cycles)
        for name, (rate, times) in rates.items()
    }


def limits_of(accelerator: Accelerator, engines: Iterable[str]) -> dict[str, Fraction | None]:
    """Return the limit of each resource in bytes per cycle; None: no limit.

    Over all channels of the chips, and all ports of the cores, that some engines are on.
    """
    places = {core_of_name(engine) for engine in engines}
    chips = len({core // CHIP for core in places}) or 1
    cores = sum(core % CHIP < PIPELINE for core in places) or 1
    backing = accelerator.every_backing
    counts = {name: chips * memory.dram.channels for name, memory in backing.items()}
    counts |= {CORE_NOC: chips * len(accelerator.cores.every_link)}
    rates = _rates(accelerator)
    links = [rates.pop(name) for name in accelerator.pod.links_of_chip]
    limited = [rate for rate in links if rate is not None]
    return {
        name: None if rate is None else rate * counts.get(name, cores)
        for name, rate in rates.items()
    } | {LINK_CHANNEL: chips * sum(limited, Fraction(0)) if len(limited) == len(links) else None}


def peak_macs_per_second(accelerator: Accelerator) -> float:
    """Return the peak MACs per second of a chip, in its own precision.

    >>> from simaccel import load_accelerator
    >>> 2 * peak_macs_per_second(load_accelerator("edge_tpu")) / 1e12
    3.93216
    """
    numbers, array = accelerator.precision.by_class.values(), accelerator.array
    elements = [(BITS[name], name if name in TOLD_APART else "") for name in numbers]
    pace = array.pace(elements) if isinstance(array, ArraySpec) and elements else 1
    return float(accelerator.pes * accelerator.clock_hz / pace)
