"""Traces: a run cycle by cycle in an HDF5 file, its writer and its reader."""

from typing import TYPE_CHECKING

from simaccel.lazy import lazy_attributes

if TYPE_CHECKING:
    from simaccel.trace.events import Event
    from simaccel.trace.forest import RepeatedSegment
    from simaccel.trace.guard import TraceError
    from simaccel.trace.questions import BandwidthSeries, OccupancySeries, Stall, UtilisationSeries
    from simaccel.trace.reader import TraceReader
    from simaccel.trace.schema import SCHEMA_VERSION, CommandSite, TraceHeader
    from simaccel.trace.sites import program_sites
    from simaccel.trace.writer import TraceWriter

__getattr__ = lazy_attributes(__name__, __file__)
"""Loaded when they are used: a file that is no trace is refused without h5py."""

__all__ = [
    "SCHEMA_VERSION",
    "BandwidthSeries",
    "CommandSite",
    "Event",
    "OccupancySeries",
    "RepeatedSegment",
    "Stall",
    "TraceError",
    "TraceHeader",
    "TraceReader",
    "TraceWriter",
    "UtilisationSeries",
    "program_sites",
]
