"""Cycles of a window by any fields, counted event by event: the slow way, for comparison."""

from collections import Counter
from collections.abc import Sequence

from simaccel.trace import Stall, Trace

BY = ("engine", "operator", "site", "cause", "tile", "kind", "waits_for")


def count_events(
    trace: Trace, by: Sequence[str], start: int = 0, end: int | None = None
) -> Counter[tuple[object, ...]]:
    """Expand the window and clip each event to it; the key has the fields in the order of BY."""
    end = trace.cycles if end is None else end
    sums: Counter[tuple[object, ...]] = Counter()
    for event in trace.decode(trace.events(start, end)):
        cycles = min(event.end, end) - max(event.start, start)
        if cycles > 0:
            sums[tuple(getattr(event, name) for name in BY if name in by)] += cycles
    return sums


def as_rows(trace: Trace, by: Sequence[str], start: int = 0, end: int | None = None) -> list[Stall]:
    """Give the same as ``Trace.account`` does."""
    found = []
    for key, cycles in count_events(trace, by, start, end).items():
        fields = dict.fromkeys(("engine", "operator", "cause", "tile", "kind", "waits_for"), "")
        names = [name for name in BY if name in by]
        found.append(Stall(**(fields | dict(zip(names, key, strict=True))), cycles=cycles))
    return sorted(found, key=lambda stall: (-stall.cycles, str(stall)))
