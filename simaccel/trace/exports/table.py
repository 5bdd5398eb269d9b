"""Tables with a row for each event: CSV (RFC 4180) for spreadsheets, Parquet for data frames."""

from __future__ import annotations

import csv
from typing import BinaryIO, TextIO

from simaccel.trace.events import COLUMNS, NamedColumn
from simaccel.trace.exports.excerpt import Excerpt


def write_csv(stream: TextIO, part: Excerpt) -> None:
    """Write a line of column names and a line for each event, in the order of the events."""
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    *names, _, _ = COLUMNS
    for event in part.events():
        values = [getattr(event, name) for name in names]
        cycles = min(event.end, part.end) - max(event.start, part.start)
        writer.writerow([*values, part.lanes[event.lane], cycles])


def write_parquet(stream: BinaryIO, part: Excerpt) -> None:
    """Write the table that `write_csv` writes; columns of texts are dictionaries."""
    import pyarrow as pa  # noqa: PLC0415 - optional
    import pyarrow.parquet as pq  # noqa: PLC0415 - optional

    columns = part.trace.columns(part.rows, (part.start, part.end))
    table = {
        name: pa.DictionaryArray.from_arrays(pa.array(column.numbers), pa.array(column.texts))
        if isinstance(column, NamedColumn)
        else pa.array(column)
        for name, column in columns.items()
    }
    pq.write_table(pa.table(table), stream)
