"""The parts of a trace file: what is written before the rows, with them, and after them.

The file is written as one that others may read meanwhile (HDF5's single-writer multiple-reader
mode), so that what a killed run leaves can be read up to the last checkpoint. All datasets exist
from the beginning then, and grow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from simaccel.machine.accounts import EngineCycles
from simaccel.trace.chunks import LEVEL
from simaccel.trace.opening import FORMAT
from simaccel.trace.schema import (
    CAUSES,
    COLUMNS,
    EVENT,
    SCHEMA_VERSION,
    SEGMENT_FIELDS,
    TABLES,
    TEXTS,
    Cycles,
    Events,
    TraceHeader,
)

File = Any
"""An open ``h5py.File`` or ``h5py.Group`` (h5py has no types)."""
Parts = Mapping[str, Any]
"""The data sets of an open file by their names, ``group/name``."""
_PACKED = {
    "compression": "gzip",
    "compression_opts": LEVEL,
    "shuffle": True,
    "fletcher32": True,
    "track_times": False,
}
_FEW = 64
"""Entries of one chunk of what grows slowly."""
_TEXT_BYTES = 64
"""Least width of a text of a table."""
_FIGURES_BYTES = 4096


@dataclass(frozen=True)
class BlockIndex:
    """Where a block lies in time, by lane number: its rows, first start and last end."""

    rows: Cycles
    first_start: Cycles
    last_end: Cycles


def block_index(rows: Events, n_lanes: int) -> BlockIndex:
    """Summarise a block; lanes without a row in it have three zeros."""
    first, last = np.zeros((2, n_lanes), dtype=np.int64)
    first[rows["lane"][::-1]] = rows["start"][::-1]  # of a lane's rows, the last assigned stays
    last[rows["lane"]] = rows["end"]
    return BlockIndex(np.bincount(rows["lane"], minlength=n_lanes), first, last)


def write_beginning(file: File, block_rows: int, header: TraceHeader) -> None:
    """Write what says what the file is and reproduces the run, and make what grows."""
    file.attrs["format"] = FORMAT
    file.attrs["schema_version"] = SCHEMA_VERSION
    file.attrs["complete"] = False
    for name in ("cycles", "rows", "segments"):
        file.attrs[name] = 0
    file.attrs["block_rows"] = block_rows
    file.attrs["seed"] = header.seed
    file.attrs["code"] = header.code
    group = file.create_group("header")
    for name in TEXTS:
        _write_texts(group, name, [getattr(header, name)])
    sites = file.create_group("sites")
    _write_array(sites, "site", np.array(list(header.sites), dtype="<i4"))
    _write_texts(sites, "operator", [site.operator for site in header.sites.values()])
    _write_texts(sites, "command", [site.command for site in header.sites.values()])
    for name in COLUMNS:
        _growing(file, f"events/{name}", EVENT[name], (block_rows,))
    for name in SEGMENT_FIELDS:
        _growing(file, f"segments/{name}", "<i8", (_FEW,))
    width = max([_TEXT_BYTES, *map(len, header.program.encode().split())])
    for name in (*TABLES, "lane_kinds"):
        _growing(file, f"tables/{name}", h5py.string_dtype("utf-8", width), (_FEW,))
    for name in ("rows", "first_start", "last_end"):
        _growing(file, f"index/{name}", "<i8", (_FEW, _FEW))
    for name, dtype in (("engine", "<u2"), ("channel", "<u2"), ("served", "<i8")):
        _growing(file, f"totals/{name}", dtype, (_FEW,))
    _growing(file, "totals/cycles", "<i8", (_FEW, len(CAUSES)))
    _growing(file, "header/figures", "<u1", (_FIGURES_BYTES,))
    write_more(file, "tables", {"causes": CAUSES}, 0)
    file.swmr_mode = True


def _growing(file: File, name: str, dtype: object, chunks: tuple[int, ...]) -> None:
    nothing, unlimited = (0,) * len(chunks), (None,) * len(chunks)
    file.create_dataset(
        name, shape=nothing, maxshape=unlimited, chunks=chunks, dtype=dtype, **_PACKED
    )


def write_more(
    file: File, group: str, columns: Mapping[str, Sequence[Any] | Events], first: int
) -> None:
    """Write entries from number ``first`` on of some columns that grow."""
    for name, values in columns.items():
        if not len(values):
            continue
        column = file[f"{group}/{name}"]
        column.resize(first + len(values), axis=0)
        is_text = isinstance(values[0], str)
        encoded = [text.encode() for text in values] if is_text else values
        column[first:] = np.array(encoded, dtype=column.dtype)


def write_index(file: File, first: int, blocks: Sequence[BlockIndex], n_lanes: int) -> None:
    """Write the index of blocks from number ``first`` on."""
    for name in ("rows", "first_start", "last_end"):
        table = np.zeros((len(blocks), n_lanes), dtype=np.int64)
        for row, block in zip(table, blocks, strict=True):
            found = getattr(block, name)
            row[: len(found)] = found
        dataset = file[f"index/{name}"]
        dataset.resize((first + len(blocks), n_lanes))
        dataset[first:] = table


def header_bytes(header: TraceHeader) -> int:
    """Return the bytes of a header, before they are packed."""
    texts = sum(len(getattr(header, name).encode()) for name in TEXTS)
    sites = header.sites.values()
    width = max((len(site.operator) + len(site.command) for site in sites), default=0)
    return texts + 4 * width * len(header.sites)


def figures_text(figures: Mapping[str, object]) -> bytes:
    """Return the figures of a run as JSON."""
    return json.dumps(dict(figures), sort_keys=True, separators=(",", ":")).encode()


def write_end(
    file: File,
    lanes: Sequence[str],
    engines: Mapping[str, EngineCycles],
    served: Mapping[str, int],
    figures: bytes,
) -> None:
    """Write the run's own sums, against which a reader can check the rows, and its figures."""
    table = [
        [{"busy": t.busy, "idle": t.idle, **t.stalls}.get(cause, 0) for cause in CAUSES]
        for t in engines.values()
    ]
    file["totals/cycles"].resize(len(CAUSES), axis=1)
    columns: dict[str, Sequence[Any]] = {
        "engine": [lanes.index(name) for name in engines],
        "cycles": table,
        "channel": [lanes.index(name) for name in served],
        "served": [*served.values()],
    }
    write_more(file, "totals", columns, 0)
    write_more(file, "header", {"figures": np.frombuffer(figures, dtype=np.uint8)}, 0)
    file.flush()
    file.attrs.modify("complete", np.True_)


def _write_array(group: File, name: str, values: np.ndarray) -> None:
    packed = {"chunks": values.shape, **_PACKED} if values.size else {"track_times": False}
    group.create_dataset(name, data=values, **packed)


def _write_texts(group: File, name: str, texts: Sequence[str]) -> None:
    """Write texts as UTF-8 of a fixed width: h5py's ``asstr`` reads them."""
    encoded = [text.encode() for text in texts]
    width = max([1, *map(len, encoded)])
    _write_array(group, name, np.array(encoded, dtype=h5py.string_dtype("utf-8", width)))
