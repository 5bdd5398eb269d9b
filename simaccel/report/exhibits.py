"""FLAT's exhibits as tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from simaccel.report.tables import Column, Row, Table, figure_columns, tabulate, texts
from simaccel.report.units import rate_text
from simaccel.study.exhibits import Exhibit
from simaccel.units import LIMITS

_ONE_PLACE: Final = "{:,.1f}".format
_COLUMNS: Final = (
    Column("seq-len", "seq_len"),
    Column("buffer", "buffer_bytes", "B"),
    *texts("dataflow", "operator", "part"),
    Column("limit", "limit", LIMITS.__getitem__, "text"),
    *figure_columns("cycles", "utilisation", "dram_bytes", "footprint_bytes"),
    Column("MACs/B", "macs_per_byte", _ONE_PLACE),
    Column("at most", "most_macs_per_byte", _ONE_PLACE),
    Column("roof", "roof_macs_per_cycle", _ONE_PLACE),
    Column("array roof", "array_macs_per_cycle", _ONE_PLACE),
    Column("MACs/cycle", "macs_per_cycle", _ONE_PLACE),
    Column("share", "share", "share"),
    Column("x ideal", "normalised", "{:.2f}".format),
    Column("bandwidth", "bytes_per_second", lambda value: rate_text(round(value))),
    Column("less than first", "saved", "share"),
)
_KNOWN: Final = {column.path: column for column in _COLUMNS}


def exhibit_table(rows: Sequence[Row]) -> Table:
    """Return an exhibit as a table, without columns that are constant."""
    hidden = {"macs", *["seq_len"] * (len({row["seq_len"] for row in rows}) == 1)}
    shown = [_KNOWN.get(name, Column(name, name)) for name in rows[0] if name not in hidden]

    def key(row: Row) -> tuple[object, ...]:
        return row["seq_len"], row["dataflow"]

    several = len(rows) > len({*map(key, rows)})
    return tabulate(rows, shown, apart=key if several else bool)


def exhibit_json(name: Exhibit, rows: Sequence[Row]) -> dict[str, Any]:
    """Return an exhibit as one JSON object; infinite values (no traffic) are null."""
    plain = [{k: None if v == float("inf") else v for k, v in row.items()} for row in rows]
    return {"exhibit": name, "rows": plain}
