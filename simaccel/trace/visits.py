"""Visits: leaves of several lanes by block, so that each block is read once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np

from simaccel.trace.schema import Cycles, Measures
from simaccel.trace.track import ChainTrack, RowTrack


def visit(
    tracks: Iterable[ChainTrack], look: Callable[[RowTrack], object], start: int, end: int
) -> None:
    """Visit the leaves of several lanes in a window, those of a block one after the other."""
    leaves = [leaf for track in tracks for leaf in track.leaves(start, end)]
    for leaf in sorted(leaves, key=lambda leaf: leaf.block):
        look(leaf)


def sum_rows(tracks: Iterable[ChainTrack], cycles: int, accounted: Container[int]) -> None:
    """Sum all rows of some lanes by measure, and find gaps; sum some lanes by activity too.

    ``accounted``: the numbers of those lanes. The leaves keep what is found.
    """

    def look(leaf: RowTrack) -> object:
        return leaf.total, leaf.found_faults, leaf.lane in accounted and leaf.account

    visit(tracks, look, 0, cycles)


def measure_tracks(tracks: Sequence[ChainTrack], edges: Cycles) -> list[Measures]:
    """Return the sums of several lanes to each edge.

    Each lane says first which edges it needs of which leaf, and descends again when these are
    known.
    """
    visit(tracks, lambda leaf: leaf.total, 0, max((track.end for track in tracks), default=0))
    within = [(track, np.clip(edges, track.start, track.end)) for track in tracks]
    asked: list[tuple[RowTrack, Cycles]] = []

    def ask(leaf: RowTrack, inside: Cycles) -> Measures:
        asked.append((leaf, inside))
        return np.broadcast_to(leaf.total, (len(inside), len(leaf.total)))

    for track, inside in within:
        track.measure_edges(inside, ask)
    sums_of = dict[int, Measures]()
    for number in sorted(range(len(asked)), key=lambda number: asked[number][0].block):
        leaf, inside = asked[number]
        sums_of[number] = leaf.measure_rows(inside)
    answers = (sums_of[number] for number in range(len(asked)))
    return [track.measure_edges(inside, lambda *_: next(answers)) for track, inside in within]
