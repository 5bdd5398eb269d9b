"""Accelerators: their units, the costs of these, and the hwconfigs."""

from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.accumulator import AccumulatorSpec
from simaccel.hardware.array import ArraySpec
from simaccel.hardware.energy.spec import EnergySpec
from simaccel.hardware.fold_grid import (
    PLACES,
    STATIONARITIES,
    FoldGrid,
    Gang,
    Stationarity,
    spatial,
)
from simaccel.hardware.memory import BufferSpec, DmaSpec, DramSpec
from simaccel.hardware.noc import DistributionSpec, NocPipes, NocSpec, Topology
from simaccel.hardware.quantity import Rate
from simaccel.hardware.sfu import SfuSpec
from simaccel.hardware.spatial import SpatialArraySpec

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
    "spatial",
]
