"""The area of an accelerator with a spatial array: MACs, PE memories and the buffer.

A sum of three products, for comparing configurations of one family. Control, NoC, wiring and
pads are not in it, so only ratios mean something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from simaccel.errors import SimaccelError
from simaccel.hardware.memory import BufferSpec
from simaccel.hardware.quantity import SquareMicrometres
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.hardware.spec import Spec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Pes = TypeVar("Pes", int, "npt.NDArray[np.int64]")


class NoAreaError(SimaccelError):
    """A memory without a capacity has no area; the message says which."""


class AreaSpec(Spec):
    """Area in um2: of one MAC, and per byte of the memories in PEs and of the buffer."""

    mac_um2: SquareMicrometres
    pe_memory_um2_per_byte: SquareMicrometres
    buffer_um2_per_byte: SquareMicrometres


def pe_um2(area: AreaSpec, array: SpatialArraySpec) -> float:
    """Return the area of one PE in um2: its MACs and its memories.

    Raises:
        NoAreaError: a memory has no limit.

    """
    n_bytes = [_limited(f"array.memories.{'/'.join(sorted(roles))}", memory.capacity_bytes)
               for roles, memory in array.memories.by_roles().items()]  # fmt: skip
    macs = array.vectors * array.lanes
    return macs * area.mac_um2 + sum(n_bytes) * area.pe_memory_um2_per_byte


def area_um2(
    area: AreaSpec, array: SpatialArraySpec, buffer: BufferSpec, pes: Pes
) -> float | npt.NDArray[np.floating[Any]]:
    """Return the area in um2 of ``pes`` PEs, a number or an array, and the buffer.

    >>> from simaccel.hardware.load import load_accelerator
    >>> found = load_accelerator("eyeriss_like")
    >>> round(area_um2(found.area, found.array, found.buffer, 12 * 14) * 1e-6, 2)
    2.22

    Raises:
        NoAreaError: a memory has no limit.

    """
    n_bytes = 0
    if set(array.bypass_buffer) != {"input", "weight", "output"}:
        n_bytes = _limited("buffer", buffer.capacity_bytes)
    return n_bytes * area.buffer_um2_per_byte + pes * pe_um2(area, array)


def _limited(name: str, capacity_bytes: int | None) -> int:
    if capacity_bytes is None:
        raise NoAreaError(f"{name}.capacity_bytes: got unlimited; allowed: a capacity")
    return capacity_bytes
