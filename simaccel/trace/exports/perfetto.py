"""Trace Event Format (JSON) for the Perfetto UI and chrome://tracing.

The format counts in microseconds. A cycle is written as one of them, whatever the clock: whole
numbers arrive exactly, where fractions of a microsecond are rounded to nanoseconds by the
Perfetto UI and to floats by chrome://tracing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from simaccel.trace.exports.excerpt import Excerpt
from simaccel.trace.reader import Event
from simaccel.trace.schema import TraceError

LAST_CYCLE = 2**52
"""Beyond it chrome://tracing, which counts in floats, doesn't know every half cycle."""
PROCESSES = {"engine": (1, "engines")}
"""Number and name of the process that shows the lanes of a kind."""
COLOURS: Mapping[str, str] = {
    "busy": "thread_state_running",
    "idle": "thread_state_sleeping",
    "dram_bandwidth": "terrible",
    "dram_latency": "bad",
    "dram_queue": "thread_state_iowait",
    "buffer_port": "yellow",
    "noc": "olive",
    "array": "background_memory_dump",
    "sfu": "rail_response",
    "drain": "thread_state_uninterruptible",
}
"""Colours of chrome://tracing, by cause; the Perfetto UI colours by name."""

Json = dict[str, Any]


def write_perfetto(stream: TextIO, part: Excerpt) -> None:
    """Write a process for each kind of lane, a thread for each lane, a slice for each event.

    Slices are cut at the window, so that it fills the screen; where one is cut its arguments
    have ``start`` and ``end``, its own cycles. An arrow goes from the slice of the engine that
    hands over a tile to the first slice after the wait for it.

    Raises:
        TraceError: the window goes beyond cycle 2^52.

    """
    if part.end > LAST_CYCLE:
        allowed = f"windows up to cycle {LAST_CYCLE}"
        raise TraceError(part.trace.path, f"cycles {part.start} to {part.end}", allowed)
    head = json.dumps({"displayTimeUnit": "ns", "otherData": _about(part)}, separators=(",", ":"))
    stream.write(f'{head[:-1]},"traceEvents":[')
    separator = "\n"
    for one in _trace_events(part):
        stream.write(separator + json.dumps(one, separators=(",", ":")))
        separator = ",\n"
    stream.write("\n]}\n")


def _about(part: Excerpt) -> Json:
    trace = part.trace
    known = {name: trace.figures.get(name) for name in ("accelerator", "workload", "dataflow")}
    return {
        "time": "1 us stands for 1 cycle of the accelerator clock",
        **{name: value for name, value in known.items() if value is not None},
        "simaccel": trace.header.version,
        "cycles": trace.cycles,
        "from": part.start,
        "to": part.end,
    }


def _trace_events(part: Excerpt) -> Iterator[Json]:
    threads = {lane: 101 + number for number, lane in enumerate(part.lanes)}
    yield from _names(part, threads)
    arrows = _Arrows()
    for event in part.events():
        where = {"pid": PROCESSES[part.lanes[event.engine]][0], "tid": threads[event.engine]}
        yield _slice(part, event, where)
        yield from arrows.at_start_of(event, where)


def _names(part: Excerpt, threads: Mapping[str, int]) -> Iterator[Json]:
    for kind in dict.fromkeys(part.lanes.values()):
        pid, name = PROCESSES[kind]
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for lane, kind in part.lanes.items():
        where = {"pid": PROCESSES[kind][0], "tid": threads[lane]}
        yield {"ph": "M", "name": "thread_name", **where, "args": {"name": lane}}
        index = {"sort_index": threads[lane]}
        yield {"ph": "M", "name": "thread_sort_index", **where, "args": index}


def _slice(part: Excerpt, event: Event, where: Json) -> Json:
    start, end = max(event.start, part.start), min(event.end, part.end)
    own = {"start": event.start, "end": event.end}
    names = ("cause", "operator", "command", "site", "tile", "kind", "waits_for")
    args = {name: getattr(event, name) for name in names}
    return {
        "ph": "X",
        "name": _title(event),
        "cat": event.cause,
        **where,
        "ts": start,
        "dur": end - start,
        "cname": COLOURS[event.cause],
        "args": {name: value for name, value in args.items() if value}
        | (own if own != {"start": start, "end": end} else {}),
    }


def _title(event: Event) -> str:
    if event.cause == "busy":
        return event.command or event.engine
    if event.cause == "idle":
        return "idle"
    waits = f"waits: {event.tile} {event.kind}" if event.tile else "waits"
    return f"{waits} ({event.cause})"


@dataclass
class _Arrows:
    """Who handed over the tiles that others waited for: arrows from slice to slice.

    While an engine waits for a tile it shares the cause of the engine that holds it; when that
    one hands over, the wait ends, or goes on as DRAM latency until the data have arrived. So
    the tile was handed over where the last part of the wait that isn't latency ends. There the
    arrow starts, in the slice before, if that slice is of a command and no wait itself.

    Both ends lie half a cycle inside their slices: at a border the viewers choose differently.
    """

    count: int = 0
    latest: dict[str, tuple[Event, Json]] = field(default_factory=dict)
    before: dict[str, tuple[Event, Json]] = field(default_factory=dict)
    begun: dict[str, Json] = field(default_factory=dict)
    """Where the arrow to an engine that still waits starts."""

    def at_start_of(self, event: Event, where: Json) -> Iterator[Json]:
        """Give the two ends of an arrow; events come in the order of their first cycles."""
        lane = event.engine
        if lane in self.latest:
            self.before[lane] = self.latest[lane]
            waited = self.before[lane][0]
            if waited.waits_for and waited.cause != "dram_latency":
                self._begin(waited)
            if lane in self.begun and _wait(waited) != _wait(event):
                self.count += 1
                arrow = {"name": waited.tile, "cat": waited.kind, "id": self.count}
                yield {"ph": "s", **arrow, **self.begun.pop(lane)}
                yield {"ph": "f", "bp": "e", **arrow, **where, "ts": event.start + 0.5}
        self.latest[lane] = event, where

    def _begin(self, waited: Event) -> None:
        self.begun.pop(waited.engine, None)
        last = waited.end - 1
        for known in (self.latest, self.before):
            giver, where = known.get(waited.waits_for, (waited, {}))
            works = giver.site and not giver.waits_for and giver.cause not in ("idle", "drain")
            if works and giver.start <= last < giver.end:
                self.begun[waited.engine] = {**where, "ts": last + 0.5}


def _wait(event: Event) -> tuple[str, str, str]:
    return event.tile, event.kind, event.waits_for
