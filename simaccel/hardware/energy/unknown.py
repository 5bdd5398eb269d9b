"""Energies that nobody gives: what they are, and what can't be made small without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simaccel.errors import Fault, InputError
from simaccel.hardware.array import ArraySpec
from simaccel.hardware.energy.spec import EnergySpec
from simaccel.hardware.spatial import SpatialArraySpec

if TYPE_CHECKING:
    from simaccel.hardware.accelerator import Accelerator

_NEEDING: Final = ("energy", "edp", "power")


def unknown_energies(
    energy: EnergySpec, part: str | None, array: ArraySpec | SpatialArraySpec
) -> tuple[str, ...]:
    """Return the fields of an accelerator's energies that nobody gives.

    Memories of PEs without any price count as one, where not all are known.
    """
    found = [f"energy.{name}" for name in energy.unknown(part)]
    if isinstance(array, SpatialArraySpec) and not energy.known:
        prices = array.memories.prices()
        found += ["array.memories"] if prices and not any(prices.values()) else []
    return tuple(found)


def require_energies(accelerator: Accelerator, objective: str) -> None:
    """Refuse an objective that needs energies which nobody gives.

    Raises:
        InputError: names them, and what can be made small without them.

    """
    unknown = accelerator.unknown_energies
    if objective in _NEEDING and unknown:
        allowed = (
            f"cycles, dram-bytes or footprint, as {accelerator.name} gives no energies: "
            f"{', '.join(unknown)} are unknown (a file has a section energy; also --set "
            "energy.node=45nm and --set energy.dram_pj_per_byte=NUMBER)"
        )
        raise InputError([Fault("--objective", "objective", objective, allowed)])
