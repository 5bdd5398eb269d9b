"""Cores of a chip: how many there are, and how engines of each are named."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from simaccel.hardware.quantity import Count
from simaccel.hardware.spec import Spec

_MOST_CORES: Final = 256


class CoreNocSpec(Spec):
    """The way from memories to cores. ``multicast``: what cores load alike is read for all at once.

    That is, as soon as each of them has a free slot.
    """

    multicast: bool = False


class CoresSpec(Spec):
    """Cores of one kind behind the same DRAM channels.

    Each has all that the accelerator has but DRAM, memories beside it, and links: arrays, SFU, DMA
    queues, buffer with its ports, NoC.
    """

    count: Annotated[Count, Field(le=_MOST_CORES)] = 1
    noc: CoreNocSpec = Field(default_factory=CoreNocSpec)


def on_core(core: int, name: str) -> str:
    """Return the name of an engine, channel or tile of a core; core 0 has those of an only one.

    >>> on_core(0, "array"), on_core(3, "array")
    ('array', 'core3.array')
    """
    return f"core{core}.{name}" if core else name


def without_core(name: str) -> str:
    """Return the name that a thing has on core 0.

    >>> without_core("core3.array"), without_core("array")
    ('array', 'array')
    """
    core, dot, plain = name.partition(".")
    return plain if dot and core.startswith("core") and core[4:].isdigit() else name
