"""The refusal of objectives whose energies are unknown."""

from __future__ import annotations

from typing import Final

from simaccel.errors import Fault, InputError
from simaccel.hardware.accelerator import Accelerator

_NEEDING: Final = ("energy", "edp", "power")


def require_energies(accelerator: Accelerator, objective: str) -> None:
    """Refuse an objective that needs unknown energies.

    Raises:
        InputError: the message names them, and the objectives that don't need them.

    """
    unknown = accelerator.unknown_energies
    if objective in _NEEDING and unknown:
        allowed = (
            f"cycles, dram-bytes or footprint, as {accelerator.name} gives no energies: "
            f"{', '.join(unknown)} are unknown (a file has a section energy; also --set "
            "energy.node=45nm and --set energy.dram_pj_per_byte=NUMBER)"
        )
        raise InputError([Fault("--objective", "objective", objective, allowed)])
