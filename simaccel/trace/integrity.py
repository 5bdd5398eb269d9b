"""Checks that a lane's rows are all there and add up to the sums that the run counted."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.trace.schema import CAUSES, SERVED
from simaccel.trace.track import ChainTrack


def tiling_faults(track: ChainTrack, cycles: int) -> list[str]:
    """Return where a lane's rows don't tile the run."""
    faults = list(track.faults())
    if (track.start, track.end) != (0, cycles):
        faults.append(f"its rows go from cycle {track.start} to {track.end}, not 0 to {cycles}")
    total = int(track.total[: len(CAUSES)].sum())
    if total != cycles:
        faults.append(f"busy + stalls + idle = {total}, not {cycles}")
    return faults


def cycle_faults(track: ChainTrack, counted: Sequence[int]) -> list[str]:
    """Compare an engine's cycles by cause with what the run counted."""
    pairs = zip(CAUSES, track.total.tolist(), counted, strict=False)
    return [
        f"its rows have {found} cycles of {cause}, the run counted {total}"
        for cause, found, total in pairs
        if found != total
    ]


def service_faults(track: ChainTrack, counted: int) -> list[str]:
    """Compare a channel's cycles of service with what the run counted."""
    served = int(track.total[SERVED])
    if served == counted:
        return []
    return [f"its rows served {served} cycles, the run counted {counted}"]
