"""Address maps: the bits of the reference, and that no two bursts share a place."""

import numpy as np
import pytest

from simaccel.hardware.dram.parts import PARTS
from validation.dram.addresses import MAPS, places

_ROWS = 16


@pytest.mark.parametrize("mapping", MAPS)
@pytest.mark.parametrize("name", PARTS)
def test_rows_of_banks_are_filled_and_none_twice(name: str, mapping: str) -> None:
    part = PARTS[name]
    columns = part.page_bytes // part.burst_bytes
    found = places(part, mapping, np.arange(part.banks * columns * _ROWS))
    pairs, counts = np.unique(found.rows * part.banks + found.banks, return_counts=True)
    assert len(pairs) == _ROWS * part.banks
    assert set(counts.tolist()) == {columns}


# validation/dram/data/configs.csv: fields of an address from the least significant bit
@pytest.mark.parametrize(
    ("name", "mapping", "address", "bank", "row"),
    [
        ("DDR4-3200x64", "rbc", 1 << 13, 4, 0),  # burst 6, column 7, then the bank group
        ("DDR4-3200x64", "rbc", 1 << 15, 1, 0),
        ("DDR4-3200x64", "rbc", 1 << 17, 0, 1),
        ("DDR4-3200x64", "bgil", 1 << 6, 4, 0),
        ("DDR4-3200x64", "bgil", 1 << 15, 1, 0),
        ("DDR4-3200x64-2R", "rbc", 1 << 17, 16, 0),
        ("HBM2", "rgbc", 1 << 11, 1, 0),  # burst 6, column 5, then the bank
        ("HBM2", "rgbc", 1 << 13, 4, 0),
        ("HBM2", "bgil", 1 << 13, 1, 0),
    ],
)
def test_bits_stand_where_the_reference_has_them(
    name: str, mapping: str, address: int, bank: int, row: int
) -> None:
    part = PARTS[name]
    found = places(part, mapping, np.array([address // part.burst_bytes]))
    assert (found.banks.tolist(), found.rows.tolist()) == ([bank], [row])
