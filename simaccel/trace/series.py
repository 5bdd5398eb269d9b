"""Figures of a trace in bins of time, computed from segments without expanding them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simaccel.hardware import Accelerator
from simaccel.hardware.chips import LINK_CHANNEL
from simaccel.hardware.cores import CORE_NOC, HOPS_READ, HOPS_WRITE, without_core
from simaccel.hardware.links import LINK_SENT
from simaccel.numbers import SHARED
from simaccel.trace.schema import CAUSES, HELD, MEASURES, SERVED, Cycles, Measures
from simaccel.trace.track import ChainTrack, measure_tracks
from simaccel.workload import Workload
from simaccel.workload.names import tensor_of

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


def resource(channel: str) -> str:
    """Return the resource of a channel: its name without the channel's, link's or core's number.

    >>> resource("dram1"), resource("core_noc_0_1"), resource("core2.buffer_read")
    ('dram', 'core_noc', 'buffer_read')
    """
    if channel.startswith(CORE_NOC):
        return CORE_NOC
    return without_core(channel).rstrip("0123456789")


def bandwidth(
    tracks: Mapping[str, ChainTrack],
    edges: Cycles,
    limits: Mapping[str, float | None],
    moved: Mapping[str, int],
) -> BandwidthSeries:
    """Return the cycles of service and bytes of each resource by bin.

    ``limits``: bytes per cycle by resource. ``moved``: bytes of the whole run by resource; a
    resource without an entry moves its limit in each cycle of service.
    """
    names = [resource(channel) for channel in tracks]
    counts = {name: names.count(name) for name in names}
    resources = tuple(counts)
    shape = (len(resources), len(edges))
    served, totals = np.zeros(shape, dtype=np.int64), np.zeros(len(resources), dtype=np.int64)
    sums = measure_tracks([*tracks.values()], edges)
    for name, track, measured in zip(names, tracks.values(), sums, strict=True):
        at = resources.index(name)
        served[at] += measured[:, SERVED]
        totals[at] += track.total[SERVED]
    by = [
        _bytes(served[at], int(totals[at]), moved.get(name), (limits.get(name) or 0) / counts[name])
        for at, name in enumerate(resources)
    ]
    return BandwidthSeries(
        edges,
        resources,
        np.diff(served, axis=1),
        np.diff(np.array(by, dtype=np.int64).reshape(shape), axis=1),
        {name: limits.get(name) for name in resources},
        counts,
    )


def _bytes(served: Cycles, total: int, moved: int | None, rate: float) -> Sequence[int]:
    """Return the bytes moved up to each edge, in Python's integers, as the products are large.

    ``rate``: bytes per cycle of service of one channel, where ``moved`` is None.
    """
    if moved is None:
        return [int(cycles * rate) for cycles in served.tolist()]
    return [moved * cycles // max(total, 1) for cycles in served.tolist()]


def bytes_by_resource(
    bytes_of: Mapping[str, Mapping[str, Mapping[str, int]]],
    accelerator: Accelerator,
    workload: Callable[[], Workload],
) -> dict[str, int]:
    """Return the bytes of a run by resource, from its bytes by level, direction and tensor.

    ``workload`` is called only if there are memories beside the DRAM.
    """
    moved = {
        f"{level}_{way}": sum(tensors.values())
        for level, ways in bytes_of.items()
        for way, tensors in ways.items()
    }
    if "dram_read" not in moved:
        return moved
    moved[LINK_CHANNEL] = moved.get(LINK_SENT, 0)
    moved[CORE_NOC] = sum(moved.get(way, 0) for way in (HOPS_READ, HOPS_WRITE))
    names, alone = accelerator.every_backing, {"dram": moved["dram_read"] + moved["dram_write"]}
    if len(names) == 1:
        return moved | alone
    known, backing = workload().tensors, dict.fromkeys(names, 0)
    for tensors in bytes_of["dram"].values():
        for name, n_bytes in tensors.items():
            tensor = known.get(tensor_of(name))  # what chips exchange is none of them
            kind = "intermediate" if tensor is None else tensor.kind
            backing[accelerator.memory(kind)] += n_bytes
    if SHARED in backing:
        ways = bytes_of.get(SHARED, {}).values()
        backing[SHARED] = sum(sum(tensors.values()) for tensors in ways)
    return moved | backing


def limits_of(accelerator: Accelerator) -> dict[str, float | None]:
    """Return the limit of each resource in bytes per cycle, over all channels and all cores.

    None if unlimited.
    """
    rates = {
        "buffer_read": accelerator.read_rate,
        "buffer_write": accelerator.write_rate,
        "noc_distribution": accelerator.distribution_rate,
        "noc_collection": accelerator.collection_rate,
    }
    cores = accelerator.cores.count
    limits = {n: None if r.unlimited else cores * r.n_bytes / r.n_cycles for n, r in rates.items()}
    for name, backing in accelerator.every_backing.items():
        rate = backing.channel_rate
        whole = backing.dram.channels * rate.n_bytes / max(rate.n_cycles, 1)
        limits[name] = None if rate.unlimited else whole
    if links := accelerator.cores.every_link:
        limits[CORE_NOC] = float(len(links) * accelerator.cores.noc.rate.n_bytes)
    rate, pod = accelerator.links.rate(accelerator.clock_hz), accelerator.pod
    whole = pod.links_of_chip * rate.n_bytes / max(rate.n_cycles, 1)
    limits[LINK_CHANNEL] = None if rate.unlimited else whole
    return limits
