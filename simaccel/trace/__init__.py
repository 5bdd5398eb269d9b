"""What happened in a run, cycle by cycle: an HDF5 file, its writer and its reader."""

from simaccel.trace.events import Event
from simaccel.trace.forest import Stretch
from simaccel.trace.questions import Stall
from simaccel.trace.reader import Trace
from simaccel.trace.schema import SCHEMA_VERSION, Site, TraceError, TraceHeader
from simaccel.trace.series import Bandwidth, Occupancy, Utilisation
from simaccel.trace.sites import program_sites
from simaccel.trace.writer import TraceWriter

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
