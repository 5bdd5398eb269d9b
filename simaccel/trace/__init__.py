"""What happened in a run, cycle by cycle: an HDF5 file, its writer and its reader."""

from simaccel.trace.questions import Stall, Utilisation
from simaccel.trace.reader import Event, Trace
from simaccel.trace.schema import SCHEMA_VERSION, Site, TraceError, TraceHeader
from simaccel.trace.sites import program_sites
from simaccel.trace.target import require_target
from simaccel.trace.writer import TraceWriter

__all__ = [
    "SCHEMA_VERSION",
    "Event",
    "Site",
    "Stall",
    "Trace",
    "TraceError",
    "TraceHeader",
    "TraceWriter",
    "Utilisation",
    "program_sites",
    "require_target",
]
