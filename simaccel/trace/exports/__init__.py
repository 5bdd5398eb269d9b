"""Traces in the formats of other programs: one module for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simaccel.trace.exports.excerpt import Excerpt, excerpt
from simaccel.trace.exports.perfetto import write_perfetto
from simaccel.trace.exports.table import write_csv, write_parquet
from simaccel.trace.exports.vcd import write_vcd
from simaccel.trace.schema import WindowTooLargeError

FORMATS: Mapping[str, Callable[..., None]] = {
    "perfetto": write_perfetto,
    "csv": write_csv,
    "vcd": write_vcd,
    "parquet": write_parquet,
}
"""Write an excerpt to a stream: of text, which keeps line ends as they are; Parquet: of bytes."""

__all__ = ["FORMATS", "Excerpt", "WindowTooLargeError", "excerpt"]
