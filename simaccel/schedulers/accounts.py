"""How a search went: what its space was, what left it and why, who was judged, and who came second.

A scheduler hands an account of each group that it searches to `Goal.note`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Counts
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.analytic.bounds.floor import floor_of, on_chip_bytes
from simaccel.analytic.native import native_macs
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group, Mapping, WorkloadReference
from simaccel.mapspace.costs import Objective
from simaccel.workload import Workload

SAME: Final = "same"
ASKED: Final = "not asked"
ROOM: Final = "too large"
BOUND: Final = "by bound"
RULES: Final = (SAME, ASKED, ROOM, BOUND)
"""By which a candidate leaves a search without being judged.

It is the same as another but for loops of one trip, not as asked, too large for a memory, or its
bound is no better than what is found.
"""
Curve = tuple[tuple[int, float], ...]
"""(candidates judged until then, best objective) at each improvement."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """One search. The objective is smaller where it is better.

    ``space``: candidates, all of them; ``pruned``: how many a rule took out; ``judged``: those
    priced by the closed form, among them those ``near`` the best; ``ran``: on the machine, which
    ``refused`` some. ``estimate`` and ``value``: objective of the chosen one by the closed form,
    and on the machine where it ran; ``runner_up``: of the next best that ran, else by the closed
    form. ``left``: no candidate of the space is below; one ``near`` it, with sizes that the space
    lacks, may be. ``complete``: the space has all sizes that its scheduler
    allows. ``floor``: no mapping at
    all is below. Both are 0 where nothing is known.
    """

    name: str
    operators: tuple[str, ...]
    space: int
    pruned: Counts[str, int] = field(default_factory=dict)
    judged: int = 0
    near: int = 0
    ran: int = 0
    refused: int = 0
    estimate: float = float("inf")
    value: float = float("inf")
    runner_up: float | None = None
    left: float = 0.0
    complete: bool = False
    floor: float = 0.0
    ended: str = ""
    curve: Curve = ()
    left_out: str = ""
    """Why no tree of these operators is in the search; then there is nothing else."""

    @property
    def none_below(self) -> float:
        """What neither the chosen one nor any candidate of the space is below; 0 if not known."""
        return min(self.left, self.estimate) or self.floor

    @property
    def says(self) -> str:
        """How far from optimal the chosen one can be, or why there is none."""
        if self.left_out:
            return f"left out: {self.left_out}"
        if self.left >= self.estimate:
            kind = "space" if self.complete else "grid"
            return f"optimal in its {kind} by the closed form"
        if self.left > 0:
            return f"at most {self.estimate / self.left - 1:.2%} above its space"
        if self.floor > 0:
            return f"at most {self.estimate / self.floor - 1:.1%} above any mapping"
        return "not known"


Note = Callable[[Account], None]


def unnoted(_account: Account) -> None:
    """Tell nobody."""


def together(name: str, operators: Sequence[str], parts: Sequence[Account]) -> Account:
    """Return the account of several spaces that were searched for the same operators."""
    judged, best, curve = 0, float("inf"), []
    for one in parts:
        for at, value in one.curve:
            if value < best:
                best = value
                curve.append((judged + at, value))
        judged += one.judged
    return Account(
        name=name,
        operators=tuple(operators),
        space=sum(one.space for one in parts),
        pruned={rule: sum(one.pruned.get(rule, 0) for one in parts) for rule in RULES},
        judged=judged,
        near=sum(one.near for one in parts),
        left=min((one.left for one in parts), default=0.0),
        complete=all(one.complete for one in parts),
        ended=", ".join(dict.fromkeys(one.ended for one in parts)),
        curve=tuple(curve),
    )


def decided(
    account: Account, estimates: Sequence[float], ran: Counts[int, float], refused: int
) -> Account:
    """Return an account with what the machine decided.

    ``estimates``: the objectives of the finalists by the closed form; ``ran``: of those that the
    machine took, by their numbers (none if it was not asked); ``refused`` by it.
    """
    known = dict(ran) or dict(enumerate(estimates))
    best = min(known, key=lambda at: (known[at], at))
    others = [value for at, value in known.items() if at != best]
    return replace(
        account,
        ran=len(ran),
        refused=refused,
        estimate=min(account.estimate, *estimates),
        value=known[best],
        runner_up=min(others, default=None),
    )


def floor_of_group(
    workload: Workload, operators: Sequence[str], accelerator: Accelerator, objective: Objective
) -> float:
    """Return what no mapping of operators as one group is below; 0 where nothing is known.

    Cycles: those of the MACs on all PEs, or of the bytes that cross DRAM, and the memories beside
    it, at least.
    """
    if objective not in ("cycles", "dram-bytes"):
        return 0.0
    alone = workload.alone(operators)
    reference = WorkloadReference(name=alone.name, fingerprint=alone.fingerprint)
    group = Group(operators=tuple(operators), tree=())
    mapping = Mapping(workload=reference, dataflow="", body=(group,))
    least = floor_of(alone, mapping, on_chip_bytes(accelerator)).least_bytes
    if objective == "dram-bytes":
        return float(least)
    rate = accelerator.bytes_per_cycle
    moved = 0 if rate is None else math.ceil(least / rate)
    return float(max(-(-native_macs(alone, accelerator) // accelerator.array.pes), moved))
