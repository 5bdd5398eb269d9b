"""Traces in the formats of other programs: one module for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simaccel.trace.exports.excerpt import LANES_SHOWN, MOST_EVENTS, Excerpt, excerpt
from simaccel.trace.exports.perfetto import write_perfetto
from simaccel.trace.exports.table import write_csv, write_parquet
from simaccel.trace.exports.vcd import write_vcd
from simaccel.trace.schema import WindowTooLargeError

Format = Callable[..., None]
"""Writes an excerpt to a stream: of text, which keeps line ends as they are; Parquet: of bytes."""

FORMATS: Mapping[str, Format] = {
    "perfetto": write_perfetto,
    "csv": write_csv,
    "vcd": write_vcd,
    "parquet": write_parquet,
}

__all__ = [
    "FORMATS",
    "LANES_SHOWN",
    "MOST_EVENTS",
    "Excerpt",
    "Format",
    "WindowTooLargeError",
    "excerpt",
]
