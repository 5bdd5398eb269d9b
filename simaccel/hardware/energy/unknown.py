"""Unknown energies: those that an accelerator does not give."""

from __future__ import annotations

from simaccel.hardware.array import ArraySpec
from simaccel.hardware.core_noc import CoreNocSpec
from simaccel.hardware.energy.spec import EnergySpec
from simaccel.hardware.links import LinksSpec
from simaccel.hardware.spatial import SpatialArraySpec


def unknown_energies(
    energy: EnergySpec,
    part: str | None,
    array: ArraySpec | SpatialArraySpec,
    noc: CoreNocSpec,
    links: LinksSpec | None,
) -> tuple[str, ...]:
    """Return the energy fields of an accelerator that are not given.

    With ``known: false`` PE memories without any price count as one field, as do the links of the
    cores' NoC and those between chips (``links``).
    """
    fields = [f"energy.{name}" for name in energy.unknown(part)]
    if isinstance(array, SpatialArraySpec) and not energy.known:
        prices = array.memories.prices()
        fields += ["array.memories"] if prices and not any(prices.values()) else []
    is_unknown = noc.topology is not None and noc.pj_per_bit_hop is None
    fields += ["cores.noc.pj_per_bit_hop"] if is_unknown else []
    fields += ["links.pj_per_bit"] if links is not None and links.pj_per_bit is None else []
    return tuple(fields)
