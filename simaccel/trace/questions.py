"""Queries of a trace: events of a window, cycles by cause, and figures in bins of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from simaccel.hardware import Accelerator
from simaccel.hardware.chips import LINK_CHANNEL
from simaccel.hardware.cores import CORE_NOC, HOPS_READ, HOPS_WRITE
from simaccel.hardware.links import LINK_SENT
from simaccel.hardware.resources import resource
from simaccel.numbers import SHARED
from simaccel.trace.schema import (
    CAUSES,
    HELD,
    KEY,
    MEASURES,
    SERVED,
    CommandSite,
    Cycles,
    Events,
    Measures,
    merge_rows,
    same_activity,
)
from simaccel.trace.track import NOTHING, ChainTrack, measure_tracks, visit
from simaccel.units import Cause

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
    for edge, at, limit in (("start", 0, track.start), ("end", -1, track.end)):
        while (cycle := int(rows[edge][at])) != limit:
            outside = cycle - (edge == "start")
            beside = merge_rows(track.expand(outside, outside + 1))
            if len(beside) != 1 or not same_activity(beside, rows[at:][:1]).all():
                break
            rows[edge][at] = beside[edge][0]
            rows["served"][at] += beside["served"][0]
    return rows


def account(
    tracks: Mapping[str, ChainTrack],
    tables: Mapping[str, Sequence[str]],
    sites: Mapping[int, CommandSite],
    by: Sequence[str],
    window: tuple[int, int],
    *,
    stalled: bool,
) -> list[Stall]:
    """Return the engines' cycles in a window, one sum for each value of the fields ``by``.

    The largest sum is first. With ``stalled`` busy and idle cycles are left out.
    """
    visit(tracks.values(), lambda leaf: leaf.account, *window)
    sums: Counter[tuple[str | int, ...]] = Counter()
    nowhere = CommandSite("", "")
    for engine, track in tracks.items():
        for activity, cycles in track.account_cycles(*window).items():
            row = dict(zip(KEY, activity, strict=True))
            if stalled and row["cause"] in (Cause.BUSY, Cause.IDLE):
                continue
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


Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class UtilisationSeries:
    """Cycles of each engine by cause (``busy``, ``idle`` and the stalls) in bins of time."""

    edges: Cycles
    """First cycle of each bin, and the end of the last one."""
    engines: tuple[str, ...]
    causes: tuple[str, ...]
    cycles: Cycles
    """By engine, cause and bin."""

    def share(self, engine: str, cause: str = "busy") -> Shares:
        """Return the cycles of one cause of one engine as a share of each bin."""
        at = self.engines.index(engine), self.causes.index(cause)
        shares: Shares = self.cycles[at] / np.diff(self.edges)
        return shares


@dataclass(frozen=True)
class BandwidthSeries:
    """Bytes and service of the channels in bins of time; the DRAM's channels are one resource."""

    edges: Cycles
    """First cycle of each bin, and the end of the last one."""
    channels: tuple[str, ...]
    """``dram``, ``buffer_read``, ``buffer_write``, ``noc_distribution``, ``noc_collection``."""
    served: Cycles
    """Cycles of service by channel and bin, summed over the channels of the DRAM."""
    moved: Cycles
    """Bytes by channel and bin.

    Over the whole run they sum to the bytes moved. A request takes whole cycles, so its last cycle
    may move fewer bytes; the difference is spread over all cycles of service of the run.
    """
    bytes_per_cycle: Mapping[str, float | None]
    """The limit of each channel; None if unlimited."""
    n_channels: Mapping[str, int]
    """Channels that each entry stands for: the most cycles of service in a cycle."""

    def share(self, channel: str) -> Shares:
        """Return the cycles of service as a share of those that a bin has room for."""
        served = self.served[self.channels.index(channel)]
        shares: Shares = served / (np.diff(self.edges) * self.n_channels[channel])
        return shares


@dataclass(frozen=True)
class OccupancySeries:
    """Mean bytes of the buffer that tiles hold, in bins of time."""

    edges: Cycles
    """First cycle of each bin, and the end of the last one."""
    tiles: tuple[str, ...]
    mean_bytes: npt.NDArray[np.float64]
    """By tile and bin."""


def _bin_tracks(tracks: Mapping[str, ChainTrack], edges: Cycles) -> list[Measures]:
    """Return the sums of each track by measure and bin.

    Differences of the cumulative sums at the edges. A repeat divides the edges by its period, so
    the work is bounded by rows plus edges times the depth of nesting, for any number of repeats.
    """
    return [np.diff(sums, axis=0).T for sums in measure_tracks([*tracks.values()], edges)]


def utilisation(tracks: Mapping[str, ChainTrack], edges: Cycles) -> UtilisationSeries:
    """Return the cycles by engine, cause and bin, exactly."""
    shape = (len(tracks), len(MEASURES), len(edges) - 1)
    sums = np.array(_bin_tracks(tracks, edges), dtype=np.int64).reshape(shape)
    return UtilisationSeries(edges, tuple(tracks), CAUSES, sums[:, : len(CAUSES)])


def occupancy(tracks: Mapping[str, ChainTrack], edges: Cycles) -> OccupancySeries:
    """Return the mean bytes that each tile holds by bin."""
    sums = np.array([binned[HELD] for binned in _bin_tracks(tracks, edges)], dtype=np.float64)
    return OccupancySeries(edges, tuple(tracks), sums.reshape(len(tracks), -1) / np.diff(edges))


def bandwidth(
    tracks: Mapping[str, ChainTrack],
    edges: Cycles,
    rates: Mapping[str, Fraction | None],
    moved: Mapping[str, int],
) -> BandwidthSeries:
    """Return the cycles of service and bytes of each resource by bin.

    ``rates``: bytes per cycle by channel. ``moved``: bytes of the whole run by resource; one
    without an entry moves the mean rate of its channels in each cycle of service.
    """
    names, limits = [resource(channel) for channel in tracks], dict[str, Fraction | None]()
    for name, channel in zip(names, tracks, strict=True):
        rate, before = rates[channel], limits.get(name, Fraction(0))
        limits[name] = None if rate is None or before is None else before + rate
    counts = {name: names.count(name) for name in names}
    resources = tuple(counts)
    shape = (len(resources), len(edges))
    served, totals = np.zeros(shape, dtype=np.int64), np.zeros(len(resources), dtype=np.int64)
    sums = measure_tracks([*tracks.values()], edges)
    for name, track, measured in zip(names, tracks.values(), sums, strict=True):
        at = resources.index(name)
        served[at] += measured[:, SERVED]
        totals[at] += track.total[SERVED]
    by = []  # in Python's integers, as the products are large
    for name, cycles, total in zip(resources, served.tolist(), totals.tolist(), strict=True):
        if (whole := moved.get(name)) is not None:
            by.append([whole * n // max(total, 1) for n in cycles])
        else:
            by.append([int(n * float(limits[name] or 0) / counts[name]) for n in cycles])
    return BandwidthSeries(
        edges,
        resources,
        np.diff(served, axis=1),
        np.diff(np.array(by, dtype=np.int64).reshape(shape), axis=1),
        {name: None if limit is None else float(limit) for name, limit in limits.items()},
        counts,
    )


def bytes_by_resource(figures: Mapping[str, Any], accelerator: Accelerator) -> dict[str, int]:
    """Return the bytes of a run by resource, from its figures.

    Those of the DRAM and of memories beside it follow from the class of their tensors.
    """
    bytes_of = figures.get("bytes", {})
    moved = {
        f"{level}_{way}": sum(tensors.values())
        for level, ways in bytes_of.items()
        for way, tensors in ways.items()
    }
    if "dram_read" not in moved:
        return moved
    moved[LINK_CHANNEL] = moved.get(LINK_SENT, 0)
    moved[CORE_NOC] = sum(moved.get(way, 0) for way in (HOPS_READ, HOPS_WRITE))
    by_class = figures.get("dram_by_class") or {"": moved["dram_read"] + moved["dram_write"]}
    backing = dict.fromkeys(accelerator.every_backing, 0)
    for name, n_bytes in by_class.items():
        backing[accelerator.memory({"weights": "weight"}.get(name, name))] += n_bytes
    if SHARED in backing:
        backing[SHARED] = sum(
            sum(tensors.values()) for tensors in bytes_of.get(SHARED, {}).values()
        )
    return moved | backing
