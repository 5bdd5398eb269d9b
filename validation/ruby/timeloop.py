"""Timeloop's results and mappings: read, and put onto our hierarchies."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from simaccel.analytic.nest import Costs, evaluate
from simaccel.hardware.levels import ROLES
from simaccel.mapping.choices import NestLevel, NestMapping
from simaccel.mapping.nest import Nests
from simaccel.mapspace.nests import Target

DATA = Path(__file__).parent / "data"
_LOOP = re.compile(r"(?P<rank>[A-Z])(?P<pieces>\d+)(;(?P<last>\d+))?(?P<axis>[XY])?")
_TOY = {"L1": "dram", "L1X": "pes", "L0": "pad"}
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


def mapping(goal: Target, text: str) -> NestMapping:
    """Translate a mapping such as ``L1[AZ] D17 D6;4X - L0[AZ] D1``.

    Eyeriss' three scratchpads are three levels there and one here; the order of their loops moves
    nothing, as all that they use is there.
    """
    places = _TOY if "pad" in goal.hierarchy.names else _EYERISS
    factors: dict[str, dict[str, int]] = {name: {} for name in goal.hierarchy.names}
    orders: dict[str, list[str]] = {name: [] for name in goal.hierarchy.names}
    for part in text.split(" - "):
        head, *loops = part.split()
        for loop in loops:
            found = _LOOP.fullmatch(loop)
            assert found is not None, loop
            rank, pieces = found["rank"].lower(), int(found["pieces"])
            place = places[head.partition("[")[0] + (found["axis"] or "")]
            if pieces > 1:
                factors[place][rank] = factors[place].get(rank, 1) * pieces
                orders[place] += [rank] if rank not in orders[place] else []
    (keeps,) = goal.problem().spaces[0].limits.keeps[:1]
    return NestMapping(levels=tuple(_levels(goal, factors, orders, keeps)))


def _levels(
    goal: Target,
    factors: dict[str, dict[str, int]],
    orders: dict[str, list[str]],
    keeps: tuple[tuple[bool, ...], ...],
) -> list[NestLevel]:
    kept = {
        level.name: tuple(role for role, here in zip(ROLES, row, strict=True) if here)
        for level, row in zip(goal.hierarchy.memories, keeps, strict=True)
    }
    return [
        NestLevel(
            level=name,
            factors=factors[name] if at else {},
            order=tuple(orders[name]) if name in kept else (),
            keep=kept.get(name, ()),
        )
        for at, name in enumerate(goal.hierarchy.names)
    ]


def in_our_model(goal: Target, text: str) -> Costs:
    """Evaluate a mapping of Timeloop's with our closed form."""
    nests = Nests.of(goal.einsum, goal.hierarchy, [mapping(goal, text)])
    return evaluate(goal.einsum, goal.tensors, goal.hierarchy, nests)
