"""What a trace is asked: the events of a window, cycles by bin, stalls by what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simaccel.machine.accounts import STALLS
from simaccel.trace.schema import CAUSES, KEY, Cycles, Events, Site, merged, same_activity
from simaccel.trace.track import NOTHING, Chain

DIRECT = ("tile", "kind", "waits_for")
BY = ("engine", "operator", "cause", *DIRECT)


@dataclass(frozen=True)
class Stall:
    """Cycles that an engine waited, and for what; a field that wasn't asked for is empty."""

    engine: str
    operator: str
    cause: str
    tile: str
    kind: str
    waits_for: str
    cycles: int


@dataclass(frozen=True)
class Utilisation:
    """Cycles of each engine by cause (``busy``, ``idle`` and the stalls) in bins of time."""

    edges: Cycles
    """First cycle of each bin, and the cycle after the last bin."""
    engines: tuple[str, ...]
    causes: tuple[str, ...]
    cycles: Cycles
    """By engine, cause and bin."""

    def share(self, engine: str, cause: str = "busy") -> npt.NDArray[np.float64]:
        """Cycles of one cause of one engine, as a share of each bin's cycles."""
        at = self.engines.index(engine), self.causes.index(cause)
        shares: npt.NDArray[np.float64] = self.cycles[at] / np.diff(self.edges)
        return shares


def window(track: Chain, start: int, end: int, at_most: int) -> Events:
    """Give an engine's events that overlap the cycles from ``start`` up to ``end``, whole."""
    rows = merged(track.expand(start, end, at_most))
    if len(rows) == 0 or start >= end:
        return NOTHING
    while rows["start"][0] > track.start:
        before = merged(track.expand(int(rows["start"][0]) - 1, int(rows["start"][0]), at_most))
        if len(before) != 1 or not same_activity(before, rows[:1]).all():
            break
        rows["start"][0] = before["start"][0]
    while rows["end"][-1] < track.end:
        after = merged(track.expand(int(rows["end"][-1]), int(rows["end"][-1]) + 1, at_most))
        if len(after) != 1 or not same_activity(after, rows[-1:]).all():
            break
        rows["end"][-1] = after["end"][0]
    return rows


def utilisation(tracks: Mapping[str, Chain], edges: Sequence[int]) -> Utilisation:
    """Count cycles by engine, cause and bin, exactly.

    Each track gives the cycles by cause before every edge at once; neighbours are subtracted.
    A repeat divides the edges by its period, so the work is bounded by rows plus edges times
    the depth of nesting, whatever the repeats.
    """
    at = np.array(edges, dtype=np.int64)
    cycles = np.zeros((len(tracks), len(CAUSES), len(at) - 1), dtype=np.int64)
    for engine, track in enumerate(tracks.values()):
        booked = track.booked(np.clip(at, track.start, track.end))
        cycles[engine] = np.diff(booked, axis=0).T
    return Utilisation(at, tuple(tracks), CAUSES, cycles)


def stalls(
    tracks: Mapping[str, Chain],
    tables: Mapping[str, Sequence[str]],
    sites: Mapping[int, Site],
    by: Sequence[str],
) -> list[Stall]:
    """Sum the stalled cycles by the given fields, the largest first."""
    sums: Counter[tuple[str, ...]] = Counter()
    nowhere = Site("", "")
    for engine, track in tracks.items():
        for (cause, tile, kind, waits_for, site), cycles in _stalled(track).items():
            found = {
                "engine": engine,
                "operator": sites.get(site, nowhere).operator,
                "cause": CAUSES[cause],
                "tile": tables["tiles"][tile],
                "kind": tables["kinds"][kind],
                "waits_for": tables["engines"][waits_for],
            }
            sums[tuple(found[name] if name in by else "" for name in BY)] += cycles
    table = [Stall(**dict(zip(BY, key, strict=True)), cycles=n) for key, n in sums.items()]
    return sorted(table, key=lambda stall: (-stall.cycles, str(stall)))


def _stalled(track: Chain) -> Counter[tuple[int, ...]]:
    """Stalled cycles of a track by the columns that make an activity."""
    sums: Counter[tuple[int, ...]] = Counter()
    for rows, times in track.leaves(1):
        waits = rows[np.isin(rows["cause"], STALLS)]
        keys, at = np.unique(waits[list(KEY)], return_inverse=True)
        cycles = np.zeros(len(keys), dtype=np.int64)
        np.add.at(cycles, at, waits["end"] - waits["start"])
        for key, n in zip(keys.tolist(), cycles.tolist(), strict=True):
            sums[key] += n * times
    return sums
