"""The design space of a MAESTRO description: swept by the analysis, the best designs run.

The analysis gives cycles, energy and the required sizes of L1 and L2. The machine runs the same
dataflow with as many PEs and as wide a NoC, and with memories as large as its mapping needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from simaccel.errors import Fault, InputError, SimaccelError
from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.numbers import BYTE
from simaccel.papers.maestro.analysis.design import (
    DesignLimits,
    Designs,
    DirectiveSpace,
    Objective,
    sweep,
)
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.analysis.prices import DesignPrices
from simaccel.papers.maestro.dataflows.reading import DirectedLayer
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.study.experiment import simulate
from simaccel.study.points import Record
from simaccel.workload import Workload

SHOWN: Final = 3
"""Best designs by each objective."""


@dataclass(frozen=True, kw_only=True)
class DirectedSpace:
    """A described layer, the accelerator that gives its NoC and lanes, and the swept values.

    Empty values are those of the accelerator (PEs, elements per cycle) or what the analysis
    requires (bytes of L1 and L2).
    """

    directed: DirectedLayer
    workload: Workload
    accelerator: Accelerator
    pes: Sequence[int] = ()
    bandwidths: Sequence[int] = ()
    l1_bytes: Sequence[int] = ()
    l2_bytes: Sequence[int] = ()

    @property
    def element_bytes(self) -> int:
        """Bytes of an element.

        Raises:
            InputError: tensors of the layer differ.
        """
        bits = {tensor.bits for tensor in self.workload.tensors.values()}
        if len(bits) > 1 or min(bits) % BYTE:
            sizes = ", ".join(f"{width / BYTE:g}" for width in sorted(bits))
            allowed = "one size of whole bytes for all tensors: the analysis counts elements"
            raise InputError([Fault(self.workload.name, "bytes of an element", sizes, allowed)])
        return bits.pop() // BYTE

    def space(self) -> DirectiveSpace:
        """Return the space that the analysis sweeps."""
        width = self.element_bytes
        (layer,) = self.workload.operators
        tensors = (self.workload.tensors[operand.tensor] for operand in layer.inputs)
        base = hardware_of(self.accelerator, [(tensor.bits, tensor.number) for tensor in tensors])
        return DirectiveSpace(
            pes=self.pes or (base.pes,),
            bandwidths=self.bandwidths or base.noc_bandwidth,
            l1_bytes=self.l1_bytes,
            l2_bytes=self.l2_bytes,
            element_bytes=width,
            lanes=base.simd_lanes,
            cycles_per_mac=base.cycles_per_mac,
            noc_latency=base.noc_latency[0],
            offchip_bandwidth=base.offchip_bandwidth,
        )


@dataclass(frozen=True)
class DirectedDesigns:
    """A space that was swept, and its best designs by objective.

    Each of ``best`` has an ``objective``, the ``rank`` by it (1: the best), the ``design``, and its
    ``machine_cycles``, which are None if it doesn't run, for the reason ``problem``.
    """

    space: DirectedSpace
    prices: DesignPrices
    limits: DesignLimits
    designs: Designs
    best: tuple[Record, ...]


def sweep_directed(
    space: DirectedSpace,
    prices: DesignPrices,
    limits: DesignLimits,
    objectives: Sequence[Objective],
) -> DirectedDesigns:
    """Sweep a space, and run the best few designs by each objective on the machine.

    Raises:
        NoDesignError: no design is within the limits, or has PEs enough for a cluster.
        InputError: the accelerator hasn't what is swept.
    """
    described = space.directed
    designs = sweep(described.layer, described.dataflow, space.space(), prices, limits)
    few = {objective: designs.best_few(objective, SHOWN) for objective in objectives}

    @cache
    def run(pes: int, bandwidth: int) -> Record:
        try:
            return {"machine_cycles": on_the_machine(space, pes, bandwidth), "problem": None}
        except SimaccelError as error:
            return {"machine_cycles": None, "problem": str(error).partition("\n")[0]}

    best = tuple(
        {"objective": objective, "rank": rank, "design": design} | run(design.pes, design.bandwidth)
        for objective, ranked in few.items()
        for rank, design in enumerate(ranked, 1)
    )
    return DirectedDesigns(space, prices, limits, designs, best)


def on_the_machine(space: DirectedSpace, pes: int, bandwidth: int) -> int:
    """Return the machine's cycles of a design with these PEs and elements per cycle.

    Raises:
        SimaccelError: no tree says the dataflow, or the accelerator hasn't such an array or NoC.
    """
    link = bandwidth * space.element_bytes
    values = {
        "array.rows": 1,
        "array.cols": pes,
        "noc.distribution.link_bytes_per_cycle": link,
        "noc.collection.link_bytes_per_cycle": link,
    }
    accelerator = with_values(space.accelerator, values, "design")
    mapping = directed_mapping([space.directed], space.workload, accelerator)
    return simulate(space.workload, accelerator, mapping).run.cycles
