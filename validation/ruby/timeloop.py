"""Timeloop's results and mappings: read, and put onto our accelerators."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.tiling_batch import TilingBatch

DATA = Path(__file__).parent / "data"
_LOOP = re.compile(r"(?P<rank>[A-Z])(?P<pieces>\d+)(;(?P<last>\d+))?(?P<axis>[XY])?")
_TOY = {"L1": "dram", "L1X": "cols", "L0": "pe"}
_EYERISS = {
    "L5": "dram",
    "L4": "buffer",
    "L4X": "cols",
    "L3": "buffer",
    "L3Y": "rows",
    "L2": "pe",
    "L1": "pe",
    "L0": "pe",
}


def results() -> dict[str, dict[str, str]]:
    """Read what Timeloop found, by the name of the run."""
    with (DATA / "timeloop.csv").open(encoding="utf-8") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def mapping(goal: MappingTarget, text: str) -> TilingBatch:
    """Translate a mapping such as ``L1[AZ] D17 D6;4X - L0[AZ] D1``.

    Eyeriss' three scratchpads are three levels there and one here; the order of their loops moves
    nothing, as all that they use is there.
    """
    places = _EYERISS if "buffer" in goal.hierarchy.names else _TOY
    factors: dict[str, dict[str, int]] = {name: {} for name in goal.hierarchy.names}
    orders: dict[str, list[str]] = {name: [] for name in goal.hierarchy.names}
    for part in text.split(" - "):
        head, *loops = part.split()
        for loop in loops:
            match = _LOOP.fullmatch(loop)
            assert match is not None, loop
            rank, pieces = match["rank"].lower(), int(match["pieces"])
            place = places[head.partition("[")[0] + (match["axis"] or "")]
            if pieces > 1:
                factors[place][rank] = factors[place].get(rank, 1) * pieces
                orders[place] += [rank] if rank not in orders[place] else []
    hierarchy, ranks = goal.hierarchy, list(goal.einsum.ranks)
    counts = np.ones((1, len(hierarchy.levels), len(ranks)), dtype=np.int64)
    for at, name in enumerate(hierarchy.names):
        for rank, n in factors[name].items():
            counts[0, at, ranks.index(rank)] = n
    rows = [
        [*orders[level.name], *(rank for rank in ranks if rank not in orders[level.name])]
        for level in hierarchy.memories
    ]
    (space,) = goal.spaces()
    return TilingBatch(
        factors=counts,
        orders=np.array([[[ranks.index(rank) for rank in row] for row in rows]]),
        keeps=np.array(space.limits.keeps[:1]),
    )


@dataclass(frozen=True)
class Ours:
    """A mapping of Timeloop's in our model."""

    cycles: int
    energy_pj: float
    macs: int
    valid: bool

    @property
    def edp(self) -> float:
        """Energy times delay in pJ cycles."""
        return self.energy_pj * self.cycles


def in_our_model(goal: MappingTarget, text: str) -> Ours:
    """Evaluate a mapping of Timeloop's with our closed form."""
    candidates = mapping(goal, text)
    (space,) = goal.spaces()
    totals = goal.totals(goal.group(space, candidates))
    spread = [
        candidates.factors[0, at].prod() <= fan.fanout
        for at, fan in zip(goal.hierarchy.spatial, goal.hierarchy.fanouts, strict=True)
    ]
    return Ours(
        cycles=int(totals.bound()),
        energy_pj=sum(float(level) for level in totals.energy_pj().values()),
        macs=int(totals.counts.macs),
        valid=all(spread) and bool(goal.fits(space, candidates)[0]),
    )
