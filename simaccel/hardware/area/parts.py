"""The area of a whole accelerator by its parts, and the average power of a run.

For comparing designs: control, NoC, wiring, interfaces and pads are not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.area.spec import NODE, multiplier_of
from simaccel.hardware.levels import ROLES
from simaccel.hardware.spatial import SpatialArraySpec

_MW_PER_PJ_PER_S = 1e-9


@dataclass(frozen=True)
class ChipArea:
    """Area by part in um2; ``unlimited``: memories of unlimited capacity, which have none."""

    by_part: Mapping[str, float]
    unlimited: tuple[str, ...]

    @property
    def mm2(self) -> float | None:
        """The area of all parts in mm2; None if a part has none."""
        return None if self.unlimited else sum(self.by_part.values()) * 1e-6


def area_of(accelerator: Accelerator) -> ChipArea:
    """Return the area of MACs, memories in PEs, accumulators, buffers and SFUs of all cores.

    >>> from simaccel import load_accelerator
    >>> found = area_of(load_accelerator("toy", ["area.number=int8"]))
    >>> found.by_part["mac"], found.by_part["buffer"]
    (6704.0, 9082.88)
    """
    number, array = multiplier_of(accelerator.precision.by_class.values()), accelerator.array
    areas = accelerator.area.areas(accelerator.energy.node or NODE, number)
    um2 = {
        "mac": array.pes * areas["mac_um2"],
        "sfu": accelerator.sfu.lanes * areas["sfu_um2_per_lane"],
    }
    memories: list[tuple[str, str, float, int | None]] = []
    if isinstance(array, SpatialArraySpec):
        each = array.rows * array.cols * areas["pe_memory_um2_per_byte"]
        for roles, memory in array.memories.by_roles().items():
            name = f"array.memories.{'/'.join(sorted(roles))}"
            memories.append(("pe", name, each, memory.capacity_bytes))
    elif array.accumulator is not None:
        n_bytes = array.accumulator.capacity_bytes
        memories.append(("accumulator", "array.accumulator", areas["buffer_um2_per_byte"], n_bytes))
    if not (isinstance(array, SpatialArraySpec) and {*array.bypass_buffer} == {*ROLES}):
        n_bytes = accelerator.buffer.capacity_bytes
        memories.append(("buffer", "buffer", areas["buffer_um2_per_byte"], n_bytes))
    for part, _, um2_per_byte, capacity in memories:
        if capacity is not None:
            um2[part] = um2.get(part, 0.0) + capacity * um2_per_byte
    unlimited = tuple(name for _, name, _, capacity in memories if capacity is None)
    um2 = {part: n * accelerator.cores.count for part, n in um2.items()}
    if (shared := accelerator.cores.shared_buffer) is not None:
        um2["shared"] = areas["buffer_um2_per_byte"] * shared.capacity_bytes
    return ChipArea(um2, unlimited)


def area_and_power(
    accelerator: Accelerator, energy_pj: Mapping[str, float], cycles: int
) -> dict[str, Any]:
    """Return area and average power of a run (`power_figures`).

    The area is None if a memory is unlimited.
    """
    area, power = area_of(accelerator), power_figures(energy_pj, accelerator.seconds(cycles))
    return {"area_mm2": area.mm2, "area_um2": dict(area.by_part), **power}


def edp_js(energy_pj: float, seconds: float) -> float:
    """Return the energy-delay product in joule seconds.

    >>> edp_js(2e12, 0.5)
    1.0
    """
    return energy_pj * 1e-12 * seconds


def power_mw(energy_pj: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return the average power in mW by level, from the energy in pJ by level.

    >>> power_mw({"mac": 5e9, "dram": 2e9}, 0.01)
    {'mac': 500.0, 'dram': 200.0}
    """
    return {level: n * _MW_PER_PJ_PER_S / seconds for level, n in energy_pj.items()}


def power_figures(energy_pj: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return the average power in mW of all levels; ``chip_power_mw`` excludes the DRAM."""
    power = power_mw(energy_pj, seconds)
    total_mw = sum(power.values())
    return {"power_mw": total_mw, "chip_power_mw": total_mw - power.get("dram", 0.0)}
