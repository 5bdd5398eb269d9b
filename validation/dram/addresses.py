"""Address maps: which bits of an address are the column, bank group, bank, rank and row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from simaccel.hardware.dram.part import DramPart
from simaccel.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

Ints: TypeAlias = "npt.NDArray[np.int64]"

MAPS: Final[Mapping[str, tuple[str, ...]]] = {
    "rbc": ("column", "group", "bank", "rank", "row"),
    "rgbc": ("column", "bank", "group", "rank", "row"),
    "bgil": ("group", "column", "bank", "rank", "row"),
    "lowil": ("rank", "group", "column", "bank", "row"),
    "mopxor": ("low", "rank", "group", "bank", "column", "row"),
}
"""Fields from the least significant bit, above the bytes of a burst. Bursts go round the pseudo
channels one by one, whatever the map. ``low`` is the lowest two bits of the column. In ``mopxor``
the fields of the bank, and then the row, are mixed with the column's bits by XOR (Ramulator's
MOP4CLXOR: minimalist open page, four lines at a time; Kaseridis et al., MICRO 2011)."""

_MOP_BITS = 2


@dataclass(frozen=True)
class BurstPlaces:
    """Places of bursts: number of the bank in the channel, and row."""

    banks: Ints
    rows: Ints


def places(part: DramPart, name: str, bursts: Ints) -> BurstPlaces:
    """Return bank and row of bursts, which are numbered from address 0.

    Banks are numbered by rank, pseudo channel, bank group and bank.

    >>> from simaccel.hardware.dram.parts import PARTS
    >>> found = places(PARTS["DDR4-3200x64"], "bgil", np.array([0, 1, 4, 512, 2048]))
    >>> found.banks.tolist(), found.rows.tolist()
    ([0, 4, 0, 1, 0], [0, 0, 0, 0, 1])
    """
    columns = part.page_bytes // part.burst_bytes
    mixed = name == "mopxor"
    low = min(columns, 2**_MOP_BITS)
    sizes = {
        "low": low,
        "column": columns // low if mixed else columns,
        "group": part.bank_groups,
        "bank": part.banks_per_group,
        "rank": part.ranks,
        "row": part.rows,
    }
    fields: dict[str, Ints] = {}
    rest, pseudo = np.divmod(bursts, part.pseudo_channels)
    for field in MAPS[name]:
        rest, fields[field] = np.divmod(rest, sizes[field])
    if mixed:
        fields["column"] = fields["column"] * low + fields["low"]
        mixer = fields["column"]
        for field in ("rank", "group", "bank"):
            fields[field] = fields[field] ^ (mixer % sizes[field])
            mixer = mixer // sizes[field]
        fields["row"] = fields["row"] ^ mixer
    unit = fields["rank"] * part.pseudo_channels + pseudo
    banks = (unit * part.bank_groups + fields["group"]) * part.banks_per_group
    return BurstPlaces(banks + fields["bank"], fields["row"])
