"""CSV (RFC 4180): one line for each event, for pandas and spreadsheets."""

from __future__ import annotations

import csv
from dataclasses import fields
from typing import TextIO

from simaccel.trace.events import Event
from simaccel.trace.exports.excerpt import Excerpt

COLUMNS = tuple(field.name for field in fields(Event))


def write_csv(stream: TextIO, part: Excerpt) -> None:
    """Write a line of column names and a line for each event, in the order of the events."""
    writer = csv.writer(stream)
    writer.writerow([*COLUMNS, "lane_kind"])
    for event in part.events():
        values = [getattr(event, name) for name in COLUMNS]
        writer.writerow([*values, part.lanes[event.lane]])
