"""Checks of a trace file's datasets before they are read, and of the sums of its rows.

A file may declare more than it holds, or link to other files. Only HDF5's description of a dataset
is looked at here: no link is followed and nothing is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import h5py

from simaccel.machine.accounts import EngineCycles
from simaccel.trace import schema
from simaccel.trace.guard import FORMAT, MAX_CYCLE, TraceError, damaged_error, no_trace
from simaccel.trace.store import File, Parts
from simaccel.trace.track import ChainTrack

MAX_PART_BYTES: Final = 64 * 2**20
"""The largest part that is read whole; a column of events is read in blocks."""
MAX_ENTRIES: Final = 2**20
"""The most segments, sites, or texts of a table."""
MAX_BLOCK_ROWS: Final = 2**20
_MOST_COMPRESSION = 1100
"""Bytes per stored byte, at most; DEFLATE's limit is 1032."""
_SLACK_BYTES = 2**20
"""Bytes that a file may declare before it holds them, while it is being written."""
_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
_COUNTS: Final = {
    "cycles": (0, MAX_CYCLE),
    "rows": (0, MAX_CYCLE),
    "segments": (0, MAX_ENTRIES),
    "block_rows": (1, MAX_BLOCK_ROWS),
    "seed": (-MAX_CYCLE, MAX_CYCLE),
}
"""Attributes that are integers, and what they may be."""


def require_layout(path: Path, file: File) -> Parts:
    """Refuse a file whose parts are not those of a trace; return them, each opened once.

    Raises:
        TraceError: it is no trace or of another version, or a part is missing, lies in another
            file, has another type, or declares more than the file holds.
    """
    _require_attributes(path, file)
    complete = bool(file.attrs["complete"])
    n_bytes = path.stat().st_size
    groups: dict[str, Any] = {}
    parts: dict[str, h5py.Dataset] = {}
    faults: list[str] = []
    for name in (name for name, part in schema.PARTS.items() if complete or not part.at_end):
        group, _, leaf = name.partition("/")
        if group not in groups:
            groups[group] = _open_own(file, group, h5py.Group)
        part = groups[group]
        part = part if isinstance(part, str) else _open_own(part, leaf, h5py.Dataset)
        problem = part if isinstance(part, str) else "; ".join(_part_faults(part, name, n_bytes))
        faults += [f"{name} {problem}"] * bool(problem)
        parts[name] = part
    if not faults:
        faults = [*_event_faults(file, parts), *_length_faults(parts)]
    if faults:
        raise damaged_error(path, faults[0])
    return parts


def _require_attributes(path: Path, file: File) -> None:
    """Refuse other files, other versions, and attributes that are not numbers in their range."""
    version = _attribute(file, "schema_version", "iu")
    if _attribute(file, "format", "O") != FORMAT or version is None:
        raise no_trace(path)
    if version not in schema.OPENED:
        age = "a newer" if version > schema.SCHEMA_VERSION else "an older"
        problem = f"has schema version {version}, of {age} simaccel"
        raise TraceError(path, problem, f"schema version {' or '.join(map(str, schema.OPENED))}")
    if _attribute(file, "complete", "b") is None:
        raise damaged_error(path, "its attribute complete is not true or false")
    for name, (low, high) in _COUNTS.items():
        value = _attribute(file, name, "iu")
        if value is None or not low <= value <= high:
            problem = f"its attribute {name} is not an integer from {low} to {high}"
            raise damaged_error(path, problem)


def _attribute(file: File, name: str, kinds: str) -> Any:  # noqa: ANN401 - h5py has no types
    """Return one number or text with a type of some of numpy's kinds; None without such a one."""
    attribute = file.attrs.get_id(name) if name in file.attrs else None
    if attribute is None or attribute.shape != () or attribute.dtype.kind not in kinds:
        return None
    value = file.attrs[name]
    if kinds == "O":  # of texts, references and lists
        return value if isinstance(value, str) else None
    return value.item()


def code_of(file: File) -> str:
    """Return the digest of the code that ran; empty if the file has none."""
    return str(_attribute(file, "code", "O") or "")


def _open_own(parent: h5py.Group, child: str, kind: type) -> Any:  # noqa: ANN401 - h5py has no types
    """Return a part that lies in this very file, or a text with its fault; follow no link."""
    link = parent.get(child, getlink=True)
    if link is None:
        return "is missing"
    if not isinstance(link, h5py.HardLink):
        return "is a link, perhaps to another file"
    found = parent[child]
    if isinstance(found, kind):
        return found
    return "is missing" if kind is h5py.Group else "is no dataset"


def _part_faults(part: h5py.Dataset, name: str, n_bytes: int) -> Iterator[str]:
    """Yield faults of a dataset's place, type and size; ``n_bytes`` is the size of the file."""
    kind, n_dimensions = schema.PARTS[name].kind, schema.PARTS[name].dimensions
    plist = part.id.get_create_plist()
    if plist.get_layout() == h5py.h5d.VIRTUAL or plist.get_external_count():
        yield "lies in another file"
        return
    text = h5py.check_string_dtype(part.dtype) if kind == schema.TEXT else None
    is_text = text is not None and text.length is not None and text.encoding == "utf-8"
    if not (is_text if kind == schema.TEXT else part.dtype == kind):
        yield f"has the type {part.dtype}, not {kind}"
    if len(part.shape) != n_dimensions:
        yield f"has {len(part.shape)} dimensions, not {n_dimensions}"
    if {plist.get_filter(at)[0] for at in range(plist.get_nfilters())} - _FILTERS:
        yield "is packed in a way that no trace is"
    declared, stored = part.size * part.dtype.itemsize, part.id.get_storage_size()
    held = min(stored, n_bytes)
    if declared > held * _MOST_COMPRESSION + _SLACK_BYTES:
        yield f"declares {declared} bytes, of which the file can't hold more than {held} packed"
    chunk = math.prod(part.chunks or (0,)) * part.dtype.itemsize
    if max(chunk, 0 if name.startswith("events/") else declared) > MAX_PART_BYTES:
        yield f"declares {max(chunk, declared)} bytes, more than {MAX_PART_BYTES} at a time"


def _event_faults(file: File, parts: Parts) -> Iterator[str]:
    """Yield the columns of events and segments that are too short."""
    rows, segments = int(file.attrs["rows"]), int(file.attrs["segments"])
    complete = bool(file.attrs["complete"])
    for name in schema.COLUMNS:
        found = parts[f"events/{name}"].shape[0]
        if found < rows or (complete and found != rows):
            yield f"events/{name} has {found} rows of {rows}"
    for name in schema.SEGMENT_FIELDS:
        if parts[f"segments/{name}"].shape[0] < segments:
            yield f"segments/{name} has fewer entries than {segments}"


def _length_faults(parts: Parts) -> Iterator[str]:
    """Yield parts with too many entries, or with other lengths than the parts beside them."""
    for group, names in (("sites", ("site", "operator", "command")), ("header", schema.TEXTS)):
        lengths = {parts[f"{group}/{name}"].shape[0] for name in names}
        if len(lengths) > 1 or (group == "header" and lengths != {1}):
            yield f"{group} has parts of different lengths"
    for name, part in parts.items():
        if name.startswith(("sites/", "segments/", "tables/")) and part.shape[0] > MAX_ENTRIES:
            yield f"{name} has {part.shape[0]} entries, more than {MAX_ENTRIES}"


def lane_faults(track: ChainTrack, cycles: int, counted: Mapping[str, int]) -> list[str]:
    """Return the gaps and overlaps of a lane's rows in a run of ``cycles``, and wrong sums.

    ``counted``: sums by measure as the run counted them.
    """
    faults = [*track.faults]
    if (track.start, track.end) != (0, cycles):
        faults.append(f"its rows go from cycle {track.start} to {track.end}, not 0 to {cycles}")
    total = int(track.total[: len(schema.CAUSES)].sum())
    if total != cycles:
        faults.append(f"busy + stalls + idle = {total}, not {cycles}")
    for measure, number in zip(schema.MEASURES, track.total.tolist(), strict=True):
        wanted = counted.get(measure, number)
        if wanted != number:
            have = f"served {number} cycles" if measure == "served" else f"have {number} cycles of "
            have += measure * (measure != "served")
            faults.append(f"its rows {have}, the run counted {wanted}")
    return faults


def cycles_by_cause(total: schema.Cycles) -> EngineCycles:
    """Return an engine's cycles from an array by the number of the cause."""
    by_cause = {cause: n for cause, n in zip(schema.CAUSES, total.tolist(), strict=True) if n}
    busy, idle = by_cause.pop("busy", 0), by_cause.pop("idle", 0)
    return EngineCycles(busy, idle, by_cause)
