"""Arrows of a time line: from the engine that hands over a tile to the one that waited for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from simaccel.trace.events import Event

Json = dict[str, Any]


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
