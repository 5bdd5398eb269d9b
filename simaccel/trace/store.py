"""Writing the datasets of a trace file: those before the rows, with the rows, and after them.

The file is in HDF5's single-writer multiple-reader mode, so that the file of a killed run can be
read up to the last checkpoint. In this mode all datasets exist from the beginning and grow.

They are made by h5py's low-level interface: the other one makes property lists for each of 35
datasets and opens each again before it writes, half the time of a short trace.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t

from simaccel.machine.accounts import NO_WAIT, EngineCycles, Wait
from simaccel.numbers import plain
from simaccel.trace.guard import FORMAT
from simaccel.trace.schema import (
    CAUSES,
    EVENT,
    PARTS,
    READ_ME,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    Cycles,
    Events,
    TraceHeader,
    descriptions,
)
from simaccel.units import Cause

LEVEL: Final = 1
"""Level of DEFLATE: files are a fifth larger than by default and take half as long."""

File = Any
"""An open ``h5py.File`` or ``h5py.Group`` (h5py has no types)."""
Growing = Any
"""An open, growing dataset of h5py's low-level interface."""
Parts = Mapping[str, Any]
"""The datasets of an open file by ``group/name``."""
_FEW = 64
"""Entries of a chunk of datasets that grow slowly."""
_TEXT_BYTES = 64
"""Least width in bytes of a text of a table."""
_FIGURES_BYTES = 4096


@dataclass(frozen=True)
class BlockIndex:
    """The number of rows, first start and last end of each lane, by block and lane number."""

    rows: Cycles
    first_start: Cycles
    last_end: Cycles


def block_index(lanes: Cycles, starts: Cycles, ends: Cycles, n_lanes: int) -> BlockIndex:
    """Return the index of one block from columns of its rows, those of a lane in order of time.

    A lane without rows has three zeros.
    """
    lanes = lanes.astype(np.intp)
    rows = np.bincount(lanes, minlength=n_lanes)
    first, last = np.zeros((2, len(rows)), dtype=np.int64)
    first[lanes[::-1]] = starts[::-1]  # of a lane's rows, the last assigned stays
    last[lanes] = ends
    return BlockIndex(rows, first, last)


def write_beginning(file: File, block_rows: int, header: TraceHeader) -> dict[str, Growing]:
    """Write the attributes and the header, and make the growing datasets.

    Returns:
        The growing datasets by ``group/name``.
    """
    file.attrs["format"] = FORMAT
    file.attrs["read_me"] = READ_ME
    file.attrs["schema_version"] = SCHEMA_VERSION
    file.attrs["complete"] = False
    for name in ("cycles", "rows", "segments"):
        file.attrs[name] = 0
    file.attrs["block_rows"] = block_rows
    file.attrs["seed"] = header.seed
    file.attrs["code"] = header.code
    texts = file.create_group("header")
    for name in TEXTS:
        write_texts(texts, name, [getattr(header, name)])
    sites = file.create_group("sites")
    write_array(sites, "site", np.array(list(header.sites), dtype="<i4"))
    write_texts(sites, "operator", [site.operator for site in header.sites.values()])
    write_texts(sites, "command", [site.command for site in header.sites.values()])
    grows = _make_growing(file, block_rows, header.program)
    write_more(grows, "tables", {"causes": CAUSES}, 0)
    describe(file, descriptions())
    file.swmr_mode = True
    return grows


def _make_growing(file: File, block_rows: int, program: str) -> dict[str, Growing]:
    width = max([_TEXT_BYTES, *map(len, program.encode().split())])
    chunks = {"events": (block_rows,), "index": (_FEW, _FEW), "totals/cycles": (_FEW, len(CAUSES))}
    chunks["header/figures"] = (_FIGURES_BYTES,)
    grows: dict[str, Growing] = {}
    new = ("events", "segments", "tables", "index", "totals")
    groups = {"header": file["header"], **{name: file.create_group(name) for name in new}}
    for name, part in PARTS.items():
        group, _, leaf = name.partition("/")
        if name == "header/figures" or group in new:
            kind = h5py.string_dtype("utf-8", width) if part.kind == TEXT else part.kind
            chunk = chunks.get(name) or chunks.get(group, (_FEW,))
            space = h5s.create_simple((0,) * len(chunk), (h5s.UNLIMITED,) * len(chunk))
            grows[name] = _make(groups[group], leaf, kind, space, chunk)
    return grows


def write_more(
    grows: Mapping[str, Growing],
    group: str,
    columns: Mapping[str, Sequence[Any] | Events],
    first: int,
) -> None:
    """Write entries from number ``first`` on to the growing columns of a group."""
    for name, values in columns.items():
        if not len(values):
            continue
        column = grows[f"{group}/{name}"]
        is_text = isinstance(values[0], str)
        encoded = [text.encode() for text in values] if is_text else values
        grow(column, first, np.array(encoded, dtype=column.dtype))


def write_index(
    grows: Mapping[str, Growing], first: int, blocks: Sequence[BlockIndex], n_lanes: int
) -> None:
    """Write the index of blocks from number ``first`` on."""
    for name in ("rows", "first_start", "last_end"):
        table = np.zeros((len(blocks), n_lanes), dtype=np.int64)
        for row, block in zip(table, blocks, strict=True):
            found = getattr(block, name)
            row[: len(found)] = found
        grow(grows[f"index/{name}"], first, table)


def header_bytes(header: TraceHeader) -> int:
    """Return the bytes of a header before compression."""
    texts = sum(len(getattr(header, name).encode()) for name in TEXTS)
    sites = header.sites.values()
    width = max((len(site.operator) + len(site.command) for site in sites), default=0)
    return texts + 4 * width * len(header.sites)


def figures_text(figures: Mapping[str, object]) -> bytes:
    """Return the figures of a run as JSON."""
    return json.dumps(plain(figures), sort_keys=True, separators=(",", ":")).encode()


def write_end(
    file: File,
    grows: Mapping[str, Growing],
    lanes: Sequence[str],
    engines: Mapping[str, EngineCycles],
    served: Mapping[str, int],
    figures: bytes,
) -> None:
    """Write the run's figures, and its sums, which readers compare with sums over the rows."""
    table = [
        [{"busy": t.busy, "idle": t.idle, **t.stalls}.get(cause, 0) for cause in CAUSES]
        for t in engines.values()
    ]
    columns: dict[str, Sequence[Any]] = {
        "engine": [lanes.index(name) for name in engines],
        "cycles": table,
        "channel": [lanes.index(name) for name in served],
        "served": [*served.values()],
    }
    grows["totals/cycles"].set_extent((0, len(CAUSES)))
    write_more(grows, "totals", columns, 0)
    write_more(grows, "header", {"figures": np.frombuffer(figures, dtype=np.uint8)}, 0)
    file.flush()
    file.attrs.modify("complete", np.True_)


@cache
def _properties(chunks: tuple[int, ...] | None) -> Any:  # noqa: ANN401 - h5py has no types
    """Return how a dataset is stored: packed and with checksums if it has chunks."""
    stored = h5p.create(h5p.DATASET_CREATE)
    if chunks is not None:
        stored.set_chunk(chunks)
        stored.set_shuffle()
        stored.set_deflate(LEVEL)
        stored.set_fletcher32()
    stored.set_obj_track_times(False)
    return stored


def _make(group: File, name: str, dtype: Any, space: Any, chunks: tuple[int, ...] | None) -> Any:  # noqa: ANN401 - h5py has no types
    kind = h5t.py_create(np.dtype(dtype), logical=True)
    return h5d.create(group.id, name.encode(), kind, space, _properties(chunks))


def grow(column: Growing, first: int, values: np.ndarray) -> None:
    """Write entries from number ``first`` on; other axes become as long as those of ``values``."""
    column.set_extent((first + len(values), *values.shape[1:]))
    space = column.get_space()
    space.select_hyperslab((first,) + (0,) * (values.ndim - 1), values.shape)
    column.write(h5s.create_simple(values.shape), space, np.ascontiguousarray(values))


def write_texts(group: File, name: str, texts: Sequence[str]) -> None:
    """Write texts as a new dataset of a group."""
    encoded = [text.encode() for text in texts]
    kind = h5py.string_dtype("utf-8", max([1, *map(len, encoded)]))
    write_array(group, name, np.array(encoded, dtype=kind))


def write_array(group: File, name: str, values: np.ndarray) -> None:
    """Write numbers as a new dataset of a group."""
    space, chunks = h5s.create_simple(values.shape), values.shape if values.size else None
    _make(group, name, values.dtype, space, chunks).write(h5s.ALL, h5s.ALL, values)


def describe(file: File, descriptions: Mapping[str, Mapping[str, str]]) -> None:
    """Attach text attributes to groups and datasets, both by name."""
    text, alone = h5t.py_create(h5py.string_dtype(), logical=True), h5s.create(h5s.SCALAR)
    for part, attributes in descriptions.items():
        for name, value in attributes.items():
            made = h5a.create(file.id, name.encode(), text, alone, obj_name=part.encode())
            made.write(np.array(value.encode(), dtype=object))


_MODULUS = 0xFFFF
_OFFSETS: Final = {name: int(field[1]) for name, field in (EVENT.fields or {}).items()}


@dataclass(slots=True, eq=False)
class LastRow:
    """The last row of one lane, which the next interval extends if it is the same activity."""

    number: int
    row: int = -1
    end: int = 0
    cause: Cause = Cause.IDLE
    wait: Wait = NO_WAIT
    ids: tuple[int, int, int] = (0, 0, 0)
    """The numbers of the wait's texts."""
    site: int = 0
    held: int = 0
    served: int = 0


class EventBlock:
    """The rows that are written next, and their columns.

    A chunk of each column is shuffled, deflated and has a checksum. HDF5 does the same, but column
    by column, in twice the time: here a single transposition shuffles all columns.
    """

    __slots__ = ("_turned", "bytes", "ends", "rows", "served")

    def __init__(self, n_rows: int) -> None:
        self.rows: Events = np.zeros(n_rows, EVENT)
        self.bytes: memoryview = self.rows.view(np.uint8).data
        self.ends, self.served = self.rows["end"], self.rows["served"]
        self._turned = np.zeros((EVENT.itemsize, n_rows), np.uint8)

    def write(self, columns: Mapping[str, Growing], used: int, first: int) -> None:
        """Write the first ``used`` rows to the columns' chunk at row ``first``.

        ``columns``: open datasets by name, made with DEFLATE, shuffle and Fletcher's checksum.
        The rest of the chunk becomes zero.
        """
        turned = self._turned
        turned[:] = self.rows.view(np.uint8).reshape(len(self.rows), EVENT.itemsize).T
        turned[:, used:] = 0
        for name, column in columns.items():
            at = _OFFSETS[name]
            packed = zlib.compress(turned[at : at + EVENT[name].itemsize].data, LEVEL)
            column.set_extent((first + used,))
            column.write_direct_chunk((first,), packed + checksum(packed))


def checksum(data: bytes) -> bytes:
    """Return Fletcher's checksum as HDF5 appends it: two sums over big-endian 16-bit words.

    Sums are in ones' complement: 0 if all words are 0, else 1 to 65,535.

    >>> checksum(b"abcde").hex()  # 0xF04FC729 with words of the other byte order
    'c729f04f'
    """
    words = np.frombuffer(data + bytes(len(data) % 2), ">u2").astype(np.int64)
    sums = int(words.sum()), int(words @ np.arange(len(words), 0, -1))
    low, high = ((n - 1) % _MODULUS + 1 if n else 0 for n in sums)
    return (high << 16 | low).to_bytes(4, "little")
