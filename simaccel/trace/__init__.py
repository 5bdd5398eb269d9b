"""What happened in a run, cycle by cycle: an HDF5 file, its writer and its reader."""

from typing import TYPE_CHECKING

from simaccel.later import of_modules

if TYPE_CHECKING:
    from simaccel.trace.events import Event
    from simaccel.trace.forest import Stretch
    from simaccel.trace.opening import TraceError
    from simaccel.trace.questions import Stall
    from simaccel.trace.reader import Trace
    from simaccel.trace.schema import SCHEMA_VERSION, Site, TraceHeader
    from simaccel.trace.series import Bandwidth, Occupancy, Utilisation
    from simaccel.trace.sites import program_sites
    from simaccel.trace.writer import TraceWriter

__getattr__ = of_modules(
    __name__,
    {
        "events": ("Event",),
        "forest": ("Stretch",),
        "opening": ("TraceError",),
        "questions": ("Stall",),
        "reader": ("Trace",),
        "schema": ("SCHEMA_VERSION", "Site", "TraceHeader"),
        "series": ("Bandwidth", "Occupancy", "Utilisation"),
        "sites": ("program_sites",),
        "writer": ("TraceWriter",),
    },
)
"""Loaded when they are used: a file that is no trace is refused without h5py."""

__all__ = [
    "SCHEMA_VERSION",
    "Bandwidth",
    "Event",
    "Occupancy",
    "Site",
    "Stall",
    "Stretch",
    "Trace",
    "TraceError",
    "TraceHeader",
    "TraceWriter",
    "Utilisation",
    "program_sites",
]
