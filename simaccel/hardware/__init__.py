"""Accelerators: their units, the cost of a piece of work on each, and the hwconfigs."""

from typing import TYPE_CHECKING

from simaccel.lazy import lazy_attributes

if TYPE_CHECKING:
    from simaccel.hardware.accelerator import Accelerator
    from simaccel.hardware.array import ArraySpec
    from simaccel.hardware.energy.spec import EnergySpec
    from simaccel.hardware.fold_grid import (
        PLACES,
        STATIONARITIES,
        AccumulatorSpec,
        FoldGrid,
        Gang,
        Stationarity,
    )
    from simaccel.hardware.memory import BufferSpec, DmaSpec, DramSpec
    from simaccel.hardware.noc import DistributionSpec, NocPipes, NocSpec, Topology
    from simaccel.hardware.quantity import Rate
    from simaccel.hardware.sfu import SfuSpec
    from simaccel.hardware.spatial import SpatialArraySpec

__getattr__ = lazy_attributes(__name__, __file__)
"""Specs that are imported when used, as tables of units and helps of commands need none."""

__all__ = [
    "PLACES",
    "STATIONARITIES",
    "Accelerator",
    "AccumulatorSpec",
    "ArraySpec",
    "BufferSpec",
    "DistributionSpec",
    "DmaSpec",
    "DramSpec",
    "EnergySpec",
    "FoldGrid",
    "Gang",
    "NocPipes",
    "NocSpec",
    "Rate",
    "SfuSpec",
    "SpatialArraySpec",
    "Stationarity",
    "Topology",
]
