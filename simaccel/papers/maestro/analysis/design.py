"""The design space of a dataflow: PEs, NoC bandwidth, L1 and L2 under limits of area and power.

What a dataflow does on some PEs is analysed once; times for all bandwidths, and area and power
of all combinations, are arrays. A design whose L1 or L2 is smaller than the analysis demands does
not run; one with more pays for it and gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from simaccel.errors import SimaccelError
from simaccel.papers.maestro.analysis.analysis import analyse_layer
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.paper import PAPER, DirectiveReading
from simaccel.papers.maestro.analysis.prices import DesignPrices
from simaccel.papers.maestro.analysis.states import Bools, Ints
from simaccel.papers.maestro.dataflows.dataflow import Dataflow, pes_of_cluster
from simaccel.papers.maestro.dataflows.described import DescribedLayer

Floats = NDArray[np.float64]
Objective = Literal["throughput", "energy", "edp"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("throughput", "energy", "edp")
FIRST_STEP: Final[DirectiveReading] = replace(PAPER, resident=False)
"""The reading of the paper's design space: L2 holds two first steps, not what is used again."""


class NoDesignError(SimaccelError):
    """A design space has no design within the limits."""


@dataclass(frozen=True, kw_only=True)
class DirectiveSpace:
    """The designs of a sweep; L1 and L2 in bytes, of elements of ``element_bytes``.

    Without sizes of L1 or L2, each design has exactly what the analysis demands.
    """

    pes: Sequence[int]
    bandwidths: Sequence[int]
    l1_bytes: Sequence[int] = ()
    l2_bytes: Sequence[int] = ()
    element_bytes: int = 1
    lanes: int = 1
    cycles_per_mac: int = 1
    noc_latency: int = 1
    offchip_bandwidth: int = DirectiveHardware.offchip_bandwidth


@dataclass(frozen=True, kw_only=True)
class DesignLimits:
    """The most area in um2 and power in mW."""

    area_um2: float
    power_mw: float


@dataclass(frozen=True, kw_only=True)
class Designs:
    """All points of a space: arrays by PEs, bandwidth, L1 and L2, or by what they depend on.

    ``macs``, ``energy_xmac`` and the demands in bytes are by PEs; ``cycles`` by PEs and
    bandwidth; area, power and ``is_valid`` by all four.
    """

    pes: Ints
    bandwidths: Ints
    l1_bytes: Ints
    l2_bytes: Ints
    macs: int
    energy_xmac: Floats
    l1_demand: Ints
    l2_demand: Ints
    cycles: Ints
    area_um2: Floats
    power_mw: Floats
    is_valid: Bools

    @property
    def count(self) -> int:
        """Number of points of the space, valid or not."""
        return int(self.is_valid.size)

    def values(self, objective: Objective) -> Floats:
        """Return the objective's values, of which less is better, by PEs and bandwidth."""
        cycles = self.cycles.astype(float)
        if objective == "throughput":
            return cycles
        energy = np.broadcast_to(self.energy_xmac[:, None], cycles.shape)
        return energy if objective == "energy" else energy * cycles

    def best(self, objective: Objective) -> Design:
        """Return the best valid design; of equal ones the faster, then the smaller.

        Raises:
            NoDesignError: none is valid.
        """
        return self.best_few(objective, 1)[0]

    def best_few(self, objective: Objective, most: int) -> list[Design]:
        """Return the best valid designs that differ in PEs or bandwidth, each in smallest buffers.

        Raises:
            NoDesignError: none is valid.
        """
        area = np.where(self.is_valid, self.area_um2, np.inf)
        area = area.reshape(*self.cycles.shape, -1)
        least = area.min(axis=2)
        pes, bandwidth = np.nonzero(np.isfinite(least))
        if not len(pes):
            raise NoDesignError(
                "no design within the limits of area and power, and with L1 and L2 large enough "
                f"({int(self.l1_demand.min()):,} B and {int(self.l2_demand.min()):,} B or more)"
            )
        able = pes, bandwidth
        order = np.lexsort((least[able], self.cycles[able], self.values(objective)[able]))[:most]
        designs = []
        for number in order:
            at = int(pes[number]), int(bandwidth[number])
            buffers = np.unravel_index(int(area[at].argmin()), self.is_valid.shape[2:])
            designs.append(self.design((*at, *map(int, buffers))))
        return designs

    def columns(self, at: tuple[Ints, ...]) -> dict[str, NDArray[Any]]:
        """Return the figures of designs by name; ``at``: their indices on the four axes."""
        pes, bandwidth, l1, l2 = at
        sizes = (self.l1_bytes, self.l1_demand, l1), (self.l2_bytes, self.l2_demand, l2)
        l1_bytes, l2_bytes = (
            sizes_of[place] if len(sizes_of) else demand[pes] for sizes_of, demand, place in sizes
        )
        cycles = self.cycles[pes, bandwidth]
        return {
            "pes": self.pes[pes],
            "bandwidth": self.bandwidths[bandwidth],
            "l1_bytes": l1_bytes,
            "l2_bytes": l2_bytes,
            "cycles": cycles,
            "throughput": self.macs / np.maximum(cycles, 1),
            "energy_xmac": self.energy_xmac[pes],
            "area_um2": self.area_um2[at],
            "power_mw": self.power_mw[at],
        }

    def design(self, at: tuple[int, ...]) -> Design:
        """Return the design at four indices."""
        found = self.columns(tuple(np.array([place]) for place in at))
        return Design(**{name: values.tolist()[0] for name, values in found.items()})


@dataclass(frozen=True, kw_only=True)
class Design:
    """One design: its parts, and its figures; throughput in MACs per cycle."""

    pes: int
    bandwidth: int
    l1_bytes: int
    l2_bytes: int
    cycles: int
    throughput: float
    energy_xmac: float
    area_um2: float
    power_mw: float

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all L1 and of L2."""
        return self.pes * self.l1_bytes + self.l2_bytes


def sweep(
    layer: DescribedLayer,
    dataflow: Dataflow,
    space: DirectiveSpace,
    prices: DesignPrices,
    limits: DesignLimits,
    reading: DirectiveReading = FIRST_STEP,
) -> Designs:
    """Return all designs of a space for a layer with a dataflow.

    PEs that are fewer than a cluster has are left out.

    Raises:
        NoDesignError: no number of PEs is enough for a cluster.
    """
    pes = np.array([n for n in sorted({*space.pes}) if n >= pes_of_cluster(dataflow)], dtype=int)
    if not len(pes):
        needed = pes_of_cluster(dataflow)
        raise NoDesignError(f"layer {layer.name}: a cluster has {needed} PEs, more than any design")
    bandwidths = np.array(sorted({*space.bandwidths}), dtype=int)
    hardware = [
        DirectiveHardware(
            pes=int(n),
            noc_bandwidth=(int(bandwidth),),
            noc_latency=(space.noc_latency,),
            simd_lanes=space.lanes,
            cycles_per_mac=space.cycles_per_mac,
            offchip_bandwidth=space.offchip_bandwidth,
        )
        for n in pes
        for bandwidth in bandwidths
    ]
    columns = analyse_layer(layer, dataflow, hardware, reading).columns
    shape = len(pes), len(bandwidths)
    by_pes = {name: columns[name].reshape(shape)[:, 0] for name in _BY_PES}
    l1_demand = by_pes["l1_size_req_total"] * space.element_bytes
    l2_demand = by_pes["l2_size_req_total"] * space.element_bytes
    l1 = _sizes(space.l1_bytes, l1_demand, axis=2)
    l2 = _sizes(space.l2_bytes, l2_demand, axis=3)
    parts = pes[:, None, None, None], space.lanes, bandwidths[None, :, None, None], l1, l2
    area, power = prices.area_um2(*parts), prices.power_mw(*parts)
    is_enough = (l1 >= l1_demand[:, None, None, None]) & (l2 >= l2_demand[:, None, None, None])
    return Designs(
        pes=pes,
        bandwidths=bandwidths,
        l1_bytes=np.array(space.l1_bytes, dtype=int),
        l2_bytes=np.array(space.l2_bytes, dtype=int),
        macs=layer.macs,
        energy_xmac=by_pes["energy_total_xmac"],
        l1_demand=l1_demand,
        l2_demand=l2_demand,
        cycles=columns["runtime_cycles"].reshape(shape),
        area_um2=area,
        power_mw=power,
        is_valid=is_enough & (area <= limits.area_um2) & (power <= limits.power_mw),
    )


_BY_PES = ("l1_size_req_total", "l2_size_req_total", "energy_total_xmac")


def _sizes(given: Sequence[int], demand: Ints, axis: int) -> Ints:
    """Return the sizes of a memory along an axis, or exactly what each number of PEs demands."""
    if not given:
        return demand[:, None, None, None]
    return np.array(given, dtype=int).reshape([-1 if at == axis else 1 for at in range(4)])
