"""Passes over the leaves of several lanes, block by block, so that each block is read once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np

from simaccel.trace.schema import Cycles, Measures
from simaccel.trace.track import ChainTrack, RowTrack


def visit(
    tracks: Iterable[ChainTrack], look: Callable[[RowTrack], object], start: int, end: int
) -> None:
    """Call ``look`` on the leaves of several lanes in a window, block by block."""
    leaves = {leaf: leaf.block for track in tracks for leaf, *_ in track.pieces(start, end)}
    for leaf in sorted(leaves, key=leaves.__getitem__):
        look(leaf)


def sum_rows(tracks: Iterable[ChainTrack], cycles: int, accounted: Container[int]) -> None:
    """Compute and cache in the leaves of some lanes their sums by measure, and gaps.

    ``accounted``: numbers of the lanes that are also summed by activity.
    """

    def look(leaf: RowTrack) -> object:
        return leaf.total, leaf.faults, leaf.lane in accounted and leaf.account

    visit(tracks, look, 0, cycles)


def measure_tracks(tracks: Sequence[ChainTrack], edges: Cycles) -> list[Measures]:
    """Return the sums of several lanes up to each edge.

    Two descents: the first collects the edges that are needed of each leaf, the second returns the
    sums, which were computed block by block in between.
    """
    visit(tracks, lambda leaf: leaf.total, 0, max((track.end for track in tracks), default=0))
    within = [(track, np.clip(edges, track.start, track.end)) for track in tracks]
    requests: list[tuple[RowTrack, Cycles]] = []

    def collect(leaf: RowTrack, inside: Cycles) -> Measures:
        requests.append((leaf, inside))
        return np.broadcast_to(leaf.total, (len(inside), len(leaf.total)))

    for track, inside in within:
        track.measure_edges(inside, collect)
    sums_of = dict[int, Measures]()
    for number in sorted(range(len(requests)), key=lambda number: requests[number][0].block):
        leaf, inside = requests[number]
        sums_of[number] = leaf.measure_rows(inside)
    answers = (sums_of[number] for number in range(len(requests)))
    return [track.measure_edges(inside, lambda *_: next(answers)) for track, inside in within]
