"""Trace Event Format (JSON) for the Perfetto UI and chrome://tracing.

The format counts in microseconds. A cycle is written as one of them, whatever the clock: whole
numbers arrive exactly, where fractions of a microsecond are rounded to nanoseconds by the
Perfetto UI and to floats by chrome://tracing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, TextIO

from simaccel.trace.events import Event
from simaccel.trace.exports.excerpt import Excerpt
from simaccel.trace.guard import TraceError
from simaccel.trace.schema import IN_PES
from simaccel.units import CAUSES

Json = dict[str, Any]
LAST_CYCLE = 2**52
"""Beyond it chrome://tracing, which counts in floats, doesn't know every half cycle."""
PROCESSES = {"engine": (1, "engines"), "channel": (2, "channels"), "tile": (3, "tiles")}
"""Number and name of the process that shows the lanes of a kind."""
_HELD = {False: "bytes held", True: "bytes held in each PE"}


def write_perfetto(stream: TextIO, part: Excerpt) -> None:
    """Write a process for each kind of lane, with slices and counters.

    Engines and channels have a thread each, with a slice for each event (of channels: while they
    are in use). Slices are cut at the window, so that it fills the screen; where one is cut its
    arguments have ``start`` and ``end``, its own cycles. An arrow goes from the slice of the
    engine that hands over a tile to the first slice after the wait for it. Counters say the
    bytes that tiles hold, at each change, those in PEs apart, and the bytes per cycle of all
    channels by bin.

    Raises:
        TraceError: the window goes beyond cycle 2^52.
    """
    if part.end > LAST_CYCLE:
        allowed = f"windows up to cycle {LAST_CYCLE}"
        raise TraceError(part.trace.path, f"cycles {part.start} to {part.end}", allowed)
    trace = part.trace
    known = {name: trace.figures.get(name) for name in ("accelerator", "workload", "dataflow")}
    facts = {
        "time": "1 us stands for 1 cycle of the accelerator clock",
        **{name: value for name, value in known.items() if value is not None},
        **({"partial": "the run was killed; these are its stored events"} if trace.partial else {}),
        "simaccel": trace.header.version,
        "cycles": trace.cycles,
        "from": part.start,
        "to": part.end,
    }
    head = json.dumps({"displayTimeUnit": "ns", "otherData": facts}, separators=(",", ":"))
    stream.write(f'{head[:-1]},"traceEvents":[')
    separator = "\n"
    for event in _trace_events(part):
        stream.write(separator + json.dumps(event, separators=(",", ":")))
        separator = ",\n"
    stream.write("\n]}\n")


def _trace_events(part: Excerpt) -> Iterator[Json]:
    where = {
        lane: {"pid": PROCESSES[kind][0], "tid": 101 + number}
        for number, (lane, kind) in enumerate(part.lanes.items())
    }
    yield from _names(part, where)
    yield from _bandwidth(part)
    arrows = FlowArrows()
    held: dict[str, int] = {}
    for cycle, events in groupby(part.events(), lambda event: max(event.start, part.start)):
        before = dict(held)
        for event in events:
            kind = part.lanes[event.lane]
            if kind == "tile":
                held[event.lane] = event.held
            elif kind == "engine" or event.cause == "busy":
                yield _slice(part, event, where[event.lane])
            if kind == "engine":
                yield from arrows.at_start_of(event, where[event.lane])
        for in_pes, name in _HELD.items():
            now, then = (
                {tile: n for tile, n in tiles.items() if tile.startswith(IN_PES) == in_pes}
                for tiles in (held, before)
            )
            if now != then:
                yield _counter("tile", name, cycle, now)


def _names(part: Excerpt, where: Mapping[str, Json]) -> Iterator[Json]:
    kinds = {*part.lanes.values(), *(["channel"] if part.trace.channels else [])}
    for kind in sorted(kinds, key=lambda kind: PROCESSES[kind]):
        pid, name = PROCESSES[kind]
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for lane, kind in part.lanes.items():
        if kind != "tile":
            index = {"sort_index": where[lane]["tid"]}
            yield {"ph": "M", "name": "thread_name", **where[lane], "args": {"name": lane}}
            yield {"ph": "M", "name": "thread_sort_index", **where[lane], "args": index}


def _bandwidth(part: Excerpt) -> Iterator[Json]:
    if part.start == part.end or not part.trace.channels:
        return
    found = part.trace.bandwidth(bins=part.bins, start=part.start, end=part.end)
    for channel, moved in zip(found.channels, found.moved.tolist(), strict=True):
        limit = found.bytes_per_cycle[channel]
        name = f"{channel} ({'no limit' if limit is None else f'at most {limit:g}'})"
        for (start, end), n_bytes in zip(pairwise(found.edges.tolist()), moved, strict=True):
            rate = {"bytes per cycle": n_bytes / (end - start)}
            yield _counter("channel", name, start, rate)


def _counter(kind: str, name: str, cycle: int, values: Mapping[str, float]) -> Json:
    pid, _ = PROCESSES[kind]
    return {"ph": "C", "name": name, "pid": pid, "ts": cycle, "args": dict(values)}


def _slice(part: Excerpt, event: Event, where: Json) -> Json:
    start, end = max(event.start, part.start), min(event.end, part.end)
    own = {"start": event.start, "end": event.end}
    waits = f"waits: {event.tile} {event.kind}" if event.tile else "waits"
    titles = {"busy": event.command or event.cause, "idle": "idle"}
    names = ("cause", "operator", "command", "site", "tile", "kind", "waits_for", "served")
    args = {name: getattr(event, name) for name in names}
    return {
        "ph": "X",
        "name": titles.get(event.cause, f"{waits} ({event.cause})"),
        "cat": event.cause,
        **where,
        "ts": start,
        "dur": end - start,
        "cname": CAUSES[event.cause].slice_colour,
        "args": {name: value for name, value in args.items() if value}
        | (own if own != {"start": start, "end": end} else {}),
    }


@dataclass
class FlowArrows:
    """Arrows from slice to slice, in the Trace Event Format.

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
        """Return the two ends of an arrow; events come in the order of their first cycles."""
        lane = event.lane
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
        self.begun.pop(waited.lane, None)
        last = waited.end - 1
        for known in (self.latest, self.before):
            giver, where = known.get(waited.waits_for, (waited, {}))
            works = giver.site and not giver.waits_for and giver.cause not in ("idle", "drain")
            if works and giver.start <= last < giver.end:
                self.begun[waited.lane] = {**where, "ts": last + 0.5}


def _wait(event: Event) -> tuple[str, str, str]:
    return event.tile, event.kind, event.waits_for
