"""The parts of a trace file that are written once: before the rows and after them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from simaccel.machine.machine import EngineCycles
from simaccel.trace.schema import (
    CAUSES,
    COLUMNS,
    EVENT,
    FORMAT,
    SCHEMA_VERSION,
    SEGMENT_FIELDS,
    TEXTS,
    Cycles,
    Events,
    TraceHeader,
)

File = Any
"""An open ``h5py.File`` or ``h5py.Group`` (h5py has no types)."""


@dataclass(frozen=True)
class BlockIndex:
    """Where a block lies in time, by engine number: its rows, first start and last end."""

    rows: Cycles
    first_start: Cycles
    last_end: Cycles


def block_index(rows: Events, n_engines: int) -> BlockIndex:
    """Summarise a block; engines without a row in it have three zeros."""
    first, last = np.zeros((2, n_engines), dtype=np.int64)
    engines, at = np.unique(rows["engine"], return_index=True)
    first[engines] = rows["start"][at]
    engines, at = np.unique(rows["engine"][::-1], return_index=True)
    last[engines] = rows["end"][::-1][at]
    return BlockIndex(np.bincount(rows["engine"], minlength=n_engines), first, last)


def write_beginning(file: File, block_rows: int) -> None:
    """Write what says what the file is, and make the columns."""
    file.attrs["format"] = FORMAT
    file.attrs["schema_version"] = SCHEMA_VERSION
    file.attrs["complete"] = False
    file.attrs["block_rows"] = block_rows
    events = file.create_group("events")
    for name in COLUMNS:
        events.create_dataset(
            name,
            shape=(0,),
            maxshape=(None,),
            chunks=(block_rows,),
            dtype=EVENT[name],
            compression="gzip",
            shuffle=True,
            fletcher32=True,
            track_times=False,
        )
    file.flush()


def write_header(file: File, header: TraceHeader) -> None:
    """Write the texts that reproduce the run, and its sites."""
    file.attrs["seed"] = header.seed
    group = file.create_group("header")
    for name in TEXTS:
        _write_texts(group, name, [getattr(header, name)])
    sites = file.create_group("sites")
    _write_array(sites, "site", np.array(list(header.sites), dtype="<i4"))
    _write_texts(sites, "operator", [site.operator for site in header.sites.values()])
    _write_texts(sites, "command", [site.command for site in header.sites.values()])


def write_rest(
    file: File,
    tables: Mapping[str, Sequence[str]],
    segments: Sequence[int],
    index: Sequence[BlockIndex],
) -> None:
    """Write the tables, the segments and the index of the blocks."""
    group = file.create_group("tables")
    for name, texts in {**tables, "causes": CAUSES}.items():
        _write_texts(group, name, texts)
    group = file.create_group("segments")
    rows = np.array(segments, dtype="<i8").reshape(-1, len(SEGMENT_FIELDS))
    for at, name in enumerate(SEGMENT_FIELDS):
        _write_array(group, name, rows[:, at])
    group = file.create_group("index")
    for name in ("rows", "first_start", "last_end"):
        columns = np.zeros((len(index), len(tables["engines"])), dtype="<i8")
        for at, block in enumerate(index):
            known = getattr(block, name)
            columns[at, : len(known)] = known
        _write_array(group, name, columns)


def write_totals(
    file: File,
    engines: Sequence[str],
    cycles: int,
    totals: Mapping[str, EngineCycles],
    figures: Mapping[str, object],
) -> None:
    """Write the run's own sums, against which a reader can check the rows."""
    file.attrs["cycles"] = cycles
    group = file.create_group("totals")
    _write_array(group, "engine", np.array([engines.index(e) for e in totals], dtype="<u2"))
    table = [
        [{"busy": t.busy, "idle": t.idle, **t.stalls}.get(cause, 0) for cause in CAUSES]
        for t in totals.values()
    ]
    _write_array(group, "cycles", np.array(table, dtype="<i8").reshape(-1, len(CAUSES)))
    text = json.dumps(dict(figures), sort_keys=True, separators=(",", ":"))
    _write_texts(file["header"], "figures", [text])


def _write_array(group: File, name: str, values: np.ndarray) -> None:
    packed = {"chunks": values.shape, "compression": "gzip", "shuffle": True, "fletcher32": True}
    group.create_dataset(name, data=values, track_times=False, **(packed if values.size else {}))


def _write_texts(group: File, name: str, texts: Sequence[str]) -> None:
    """Write texts as UTF-8 of a fixed width: h5py's ``asstr`` reads them."""
    encoded = [text.encode() for text in texts]
    width = max([1, *map(len, encoded)])
    _write_array(group, name, np.array(encoded, dtype=h5py.string_dtype("utf-8", width)))
