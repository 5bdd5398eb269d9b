"""The part of a trace that an export shows: the events of a window of cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simaccel.trace.events import Event
from simaccel.trace.reader import TraceReader
from simaccel.trace.schema import Events

_CHUNK = 10_000


@dataclass(frozen=True, eq=False)
class Excerpt:
    """The events that overlap the cycles from ``start`` up to ``end``, whole."""

    trace: TraceReader
    start: int
    end: int
    lanes: dict[str, str]
    """Kind of each lane (engine, channel, tile), in the order in which they are shown."""
    rows: Events
    """Events of all lanes, in order of start cycle and lane."""
    bins: int
    """How many bins averages over time have, where a format has them."""

    def events(self) -> Iterator[Event]:
        """Return the events with their names, a chunk at a time."""
        for first in range(0, len(self.rows), _CHUNK):
            yield from self.trace.decode(self.rows[first : first + _CHUNK])


def excerpt(
    trace: TraceReader,
    start: int = 0,
    end: int | None = None,
    *,
    lanes: Sequence[str] = ("engine", "tile"),
    bins: int = 1000,
    at_most: int = 500_000,
) -> Excerpt:
    """Take the events of a window; the default is the whole run.

    ``lanes`` are names of lanes, or kinds (``engine``, ``channel``, ``tile``) for all of a kind.

    Raises:
        TraceError: there is no such lane, or the window is not a part of the run, or it holds
            more than ``at_most`` events; the message names one that doesn't.
    """
    start, end = trace.require_window(start, end) if trace.cycles else (0, 0)
    rows = trace.events(start, end, lanes, at_most=at_most)
    return Excerpt(trace, start, end, trace.lanes_of(lanes), rows, bins)
