"""The formats, read by what does not come from simaccel, back into events."""

import io
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from vcd.reader import Token, TokenKind, tokenize

from simaccel.trace import Event
from simaccel.trace.exports import FORMATS, Excerpt

RESERVED_COLOURS = [
    *("thread_state_uninterruptible", "thread_state_iowait", "thread_state_running"),
    *("thread_state_runnable", "thread_state_sleeping", "thread_state_unknown"),
    *("background_memory_dump", "light_memory_dump", "detailed_memory_dump"),
    *("vsync_highlight_color", "generic_work", "good", "bad", "terrible", "black", "grey"),
    *("white", "yellow", "olive", "rail_response", "rail_animation", "rail_idle"),
    *("rail_load", "startup"),
]
"""The colour names that chrome://tracing knows (catapult's colour scheme)."""


class _Strict(BaseModel):
    """Fields and types as the Trace Event Format has them, and none besides."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Metadata(_Strict):
    """A name or a place in the order, of a process or a thread."""

    ph: Literal["M"]
    name: Literal["process_name", "thread_name", "process_sort_index", "thread_sort_index"]
    pid: int
    tid: int | None = None
    args: dict[Literal["name", "sort_index"], str | int]


class Slice(_Strict):
    """A complete event; times in microseconds."""

    ph: Literal["X"]
    name: Annotated[str, Field(min_length=1)]
    cat: str
    pid: int
    tid: int
    ts: Annotated[int, Field(ge=0)]
    dur: Annotated[int, Field(gt=0)]
    cname: str
    args: dict[str, str | int]


class Flow(_Strict):
    """One end of an arrow."""

    ph: Literal["s", "f"]
    bp: Literal["e"] | None = None
    name: str
    cat: str
    id: int
    pid: int
    tid: int
    ts: Annotated[float, Field(ge=0)]


class Counter(_Strict):
    """Values from a time on; series of one counter are stacked."""

    ph: Literal["C"]
    name: str
    pid: int
    ts: Annotated[int, Field(ge=0)]
    args: dict[str, int | float]


Entry = Annotated[Metadata | Slice | Flow | Counter, Field(discriminator="ph")]


class TraceEventFile(_Strict):
    """The object form of the format."""

    displayTimeUnit: Literal["ms", "ns"]  # noqa: N815 - the format's name
    otherData: dict[str, str | int]  # noqa: N815 - the format's name
    traceEvents: list[Entry]  # noqa: N815 - the format's name


@dataclass(frozen=True)
class Shown:
    """What the Perfetto UI shows."""

    about: dict[str, str | int]
    slices: dict[str, list[Slice]]
    """By thread name, in order of time."""
    arrows: set[tuple[str, int, str, int, str]]
    """Thread and cycle where one starts, thread and cycle where it ends, tile."""
    counters: list[Counter]


def text(name: str, part: Excerpt) -> str:
    """Write an excerpt in a format that is text."""
    stream = io.StringIO(newline="")
    FORMATS[name](stream, part)
    return stream.getvalue()


def parquet(part: Excerpt) -> bytes:
    """Write an excerpt as Parquet."""
    stream = io.BytesIO()
    FORMATS["parquet"](stream, part)
    return stream.getvalue()


def read_frame(written: str) -> pd.DataFrame:
    """Read CSV with pandas, as the documentation says."""
    return pd.read_csv(io.StringIO(written, newline=""), keep_default_na=False)


def read_table(written: str) -> list[dict[str, Any]]:
    """Give a dictionary for each row of CSV."""
    frame = read_frame(written)
    return [{str(name): row[name] for name in row} for row in frame.to_dict("records")]


def read_perfetto(written: str) -> Shown:
    """Check a file against the rules of the Trace Event Format and give what it shows."""
    file = TraceEventFile.model_validate_json(written)
    assert json.loads(written).keys() == {"displayTimeUnit", "otherData", "traceEvents"}
    names = _names(file.traceEvents)
    slices: dict[str, list[Slice]] = defaultdict(list)
    for entry in file.traceEvents:
        if isinstance(entry, Slice):
            assert entry.cname in RESERVED_COLOURS
            slices[names[entry.pid, entry.tid]].append(entry)
    for row in slices.values():
        row.sort(key=lambda one: one.ts)
        for before, after in pairwise(row):
            assert before.ts + before.dur <= after.ts
    counters = [entry for entry in file.traceEvents if isinstance(entry, Counter)]
    flows = [entry for entry in file.traceEvents if isinstance(entry, Flow)]
    return Shown(file.otherData, slices, _arrows(flows, names, slices), counters)


def _names(entries: list[Entry]) -> dict[tuple[int, int], str]:
    """Give the thread names; every process and thread has one name and one place."""
    known: dict[tuple[str, int, int | None], str | int] = {}
    for entry in entries:
        if isinstance(entry, Metadata):
            kind, _, what = entry.name.partition("_")
            key = entry.name, entry.pid, entry.tid
            assert (entry.tid is None) == (kind == "process")
            assert key not in known
            (known[key],) = entry.args.values()
            assert isinstance(known[key], str if what == "name" else int)
    assert {pid for _, pid, _ in known} >= {entry.pid for entry in entries}
    for what, pid, tid in list(known):
        assert (what.replace("name", "sort_index"), pid, tid) in known
        assert ("process_name", pid, None) in known
    return {
        (pid, tid): str(name)
        for (what, pid, tid), name in known.items()
        if what == "thread_name" and tid is not None
    }


def _arrows(
    flows: list[Flow], names: dict[tuple[int, int], str], slices: dict[str, list[Slice]]
) -> set[tuple[str, int, str, int, str]]:
    """Join the ends of arrows; both must lie in a slice."""
    ends: dict[int, list[Flow]] = defaultdict(list)
    for flow in flows:
        ends[flow.id].append(flow)
        row = slices[names[flow.pid, flow.tid]]
        assert any(one.ts < flow.ts < one.ts + one.dur for one in row)
        assert (flow.bp == "e") == (flow.ph == "f")
    found = set()
    for first, last in ends.values():
        assert (first.ph, last.ph) == ("s", "f")
        assert (first.name, first.cat) == (last.name, last.cat)
        assert first.ts <= last.ts
        where = [(names[flow.pid, flow.tid], math.floor(flow.ts)) for flow in (first, last)]
        found.add((*where[0], *where[1], first.name))
    return found


def slice_event(lane: str, one: Slice) -> Event:
    """Turn a slice back into the whole event."""
    absent = {"operator": "", "command": "", "site": 0, "tile": "", "kind": "", "waits_for": ""}
    whole = {"lane": lane, "start": one.ts, "end": one.ts + one.dur, **absent, **one.args}
    return TypeAdapter(Event).validate_json(json.dumps(whole), strict=True)


@dataclass
class Signals:
    """What a VCD file says: the values of each variable by time."""

    header: dict[str, str]
    types: dict[tuple[str, str], tuple[str, int]]
    """Type and bits, by scope (``engines.array``) and name."""
    values: dict[tuple[str, str], list[tuple[int, str | int]]]
    """Time and new value, by scope and name."""
    end: int


def read_vcd(written: str) -> Signals:
    """Read VCD with the tokenizer of pyvcd."""
    found = Signals({}, {}, defaultdict(list), 0)
    idents: dict[str, tuple[str, str]] = {}
    scopes: list[str] = []
    for token in tokenize(io.BytesIO(written.encode("ascii"))):
        if token.kind is TokenKind.SCOPE:
            scopes.append(token.scope.ident)
        elif token.kind is TokenKind.UPSCOPE:
            scopes.pop()
        elif token.kind is TokenKind.VAR:
            var = token.var
            idents[var.id_code] = key = ".".join(scopes), var.reference
            found.types[key] = var.type_.value, var.size
        elif token.kind in (TokenKind.COMMENT, TokenKind.VERSION, TokenKind.TIMESCALE):
            found.header[token.kind.name.lower()] = str(token.data)
        elif token.kind is TokenKind.CHANGE_TIME:
            assert token.time_change >= found.end
            found.end = token.time_change
        elif (change := _change(token)) is not None:
            found.values[idents[change[0]]].append((found.end, change[1]))
        else:
            assert token.kind in (
                TokenKind.ENDDEFINITIONS, TokenKind.DUMPVARS, TokenKind.END,
            )  # fmt: skip
    return found


def _change(token: Token) -> tuple[str, str | int] | None:
    if token.kind is TokenKind.CHANGE_SCALAR:
        return token.scalar_change.id_code, int(token.scalar_change.value)
    if token.kind is TokenKind.CHANGE_VECTOR:
        return token.vector_change.id_code, token.vector_change.value
    if token.kind is TokenKind.CHANGE_STRING:
        value = token.string_change.value
        plain = value.encode("ascii").decode("unicode_escape")
        return token.string_change.id_code, plain.encode("ascii").decode("unicode_escape")
    return None
