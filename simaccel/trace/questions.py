"""Queries of a trace: the events of a window, and its cycles by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simaccel.trace.schema import CAUSES, KEY, CommandSite, Events, merge_rows, same_activity
from simaccel.trace.track import NOTHING, ChainTrack, visit

BY = ("engine", "operator", "site", "cause", "tile", "kind", "waits_for")


@dataclass(frozen=True)
class Stall:
    """Cycles of an engine in an activity; fields that rows were summed over are empty."""

    engine: str
    operator: str
    cause: str
    tile: str
    kind: str
    waits_for: str
    cycles: int
    site: int = 0


def count_rows(tracks: Sequence[ChainTrack], start: int, end: int) -> int:
    """Return the number of rows that overlap the cycles, before equal neighbours are joined."""
    return sum(track.count(start, end) for track in tracks)


def fitting_end(tracks: Sequence[ChainTrack], start: int, end: int, at_most: int) -> int:
    """Return the end of a window of at most ``at_most`` rows; ``start`` if a cycle has more."""
    length = end - start
    while length and count_rows(tracks, start, start + length) > at_most:
        length //= 2
    return start + length


def window(track: ChainTrack, start: int, end: int) -> Events:
    """Return a lane's events that overlap the cycles from ``start`` up to ``end``, as a whole."""
    rows = merge_rows(track.expand(start, end))
    if len(rows) == 0 or start >= end:
        return NOTHING
    while rows["start"][0] > track.start:
        before = merge_rows(track.expand(int(rows["start"][0]) - 1, int(rows["start"][0])))
        if len(before) != 1 or not same_activity(before, rows[:1]).all():
            break
        rows["start"][0] = before["start"][0]
        rows["served"][0] += before["served"][0]
    while rows["end"][-1] < track.end:
        after = merge_rows(track.expand(int(rows["end"][-1]), int(rows["end"][-1]) + 1))
        if len(after) != 1 or not same_activity(after, rows[-1:]).all():
            break
        rows["end"][-1] = after["end"][0]
        rows["served"][-1] += after["served"][0]
    return rows


def account(
    tracks: Mapping[str, ChainTrack],
    tables: Mapping[str, Sequence[str]],
    sites: Mapping[int, CommandSite],
    by: Sequence[str],
    window: tuple[int, int],
) -> list[Stall]:
    """Return the engines' cycles in a window, one sum for each value of the fields ``by``.

    The largest sum is first.
    """
    visit(tracks.values(), lambda leaf: leaf.account, *window)
    sums: Counter[tuple[str | int, ...]] = Counter()
    nowhere = CommandSite("", "")
    for engine, track in tracks.items():
        for activity, cycles in track.account_cycles(*window).items():
            row = dict(zip(KEY, activity, strict=True))
            fields: dict[str, str | int] = {
                "engine": engine,
                "operator": sites.get(row["site"], nowhere).operator,
                "site": row["site"],
                "cause": CAUSES[row["cause"]],
                "tile": tables["tiles"][row["wait_tile"]],
                "kind": tables["kinds"][row["wait_kind"]],
                "waits_for": tables["lanes"][row["wait_engine"]],
            }
            key = ((fields[name] if name in by else type(fields[name])()) for name in BY)
            sums[tuple(key)] += cycles
    table = [Stall(**dict(zip(BY, key, strict=True)), cycles=n) for key, n in sums.items()]  # type: ignore[arg-type]
    return sorted(table, key=lambda stall: (-stall.cycles, str(stall)))


def sum_stalls(accounts: Sequence[Stall], by: Sequence[str]) -> list[Stall]:
    """Return the stalls among ``accounts``, summed by the fields ``by``, largest sum first."""
    stalled = [stall for stall in accounts if stall.cause not in ("busy", "idle")]
    if "cause" in by:
        return stalled
    sums = Counter[Stall]()
    for stall in stalled:
        sums[replace(stall, cause="", cycles=0)] += stall.cycles
    table = [replace(stall, cycles=n) for stall, n in sums.items()]
    return sorted(table, key=lambda stall: (-stall.cycles, str(stall)))
