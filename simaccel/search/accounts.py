"""Accounts of searches: the size of the space, what was pruned and why, what ran, the runner-up.

A scheduler passes the account of each group that it searches to `Goal.on_account`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Counts
from dataclasses import dataclass, field
from typing import Final

from simaccel.analytic.family import Family, FamilyLoops, all_true
from simaccel.analytic.floor.floor import floor_of, on_chip_bytes
from simaccel.analytic.native import least_fold_cycles
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group, Mapping, WorkloadReference, nodes
from simaccel.search.effort import Objective
from simaccel.workload import Einsum, Workload

SAME: Final = "same"
NOT_ALLOWED: Final = "not asked"
ROOM: Final = "too large"
BOUND: Final = "by bound"
RULES: Final = (SAME, NOT_ALLOWED, ROOM, BOUND)
"""Rules that prune a candidate without a run: it differs from another only in the order of loops of
one iteration, violates the user's constraints, is too large for a memory, or has a lower bound that
is no better than the best so far.
"""
Curve = tuple[tuple[int, float], ...]
"""(candidates run so far, best objective) at each improvement."""


@dataclass(frozen=True, kw_only=True)
class SearchAccount:
    """The account of one search. Objectives are in cycles, pJ, pJ cycles (EDP) or bytes.

    ``space``: number of candidates. ``pruned``: how many each rule excluded. ``ran``: how many ran
    on the machine, of which ``outside`` aren't in the space: neighbours, and candidates of all tile
    sizes that prove nothing. ``value``: objective of the chosen candidate, which is ``better`` than
    the best of the space if it is outside. ``runner_up``: that of the next best that ran.
    ``rest_bound``: lower bound of those of the space that did not run. ``floor``: lower bound of
    any mapping of the operators. Both are 0 if unknown. ``complete``: the space has all tile
    sizes that its scheduler allows, not a grid of them. ``by_product``: trees compute the products
    of a batched einsum one at a time. ``ended``: why the search ended.
    """

    name: str
    operators: tuple[str, ...]
    space: int
    pruned: Counts[str, int] = field(default_factory=dict)
    outside: int = 0
    ran: int = 0
    value: float = float("inf")
    better: bool = False
    runner_up: float | None = None
    rest_bound: float = 0.0
    complete: bool = False
    by_product: bool = False
    floor: float = 0.0
    ended: str = ""
    curve: Curve = ()
    unfused_reason: str = ""
    """Why no tree fuses these operators; then nothing else is set."""

    @property
    def none_below(self) -> float:
        """Lower bound of all candidates of the space, those that ran included; 0 if unknown."""
        return min(self.rest_bound, self.value) or self.floor

    @property
    def gap(self) -> float | None:
        """Optimality gap: an upper bound of the chosen over the best of the space, less 1."""
        return max(self.value / self.rest_bound - 1, 0.0) if self.rest_bound > 0 else None

    @property
    def choices(self) -> int:
        """Number of distinct candidates that satisfy the user's constraints."""
        return self.space - self.pruned.get(SAME, 0) - self.pruned.get(NOT_ALLOWED, 0)

    @property
    def searched(self) -> str:
        """Contents of the space in words: all sizes and orders of the dataflow, or a grid."""
        space = "all its tile sizes and orders" if self.complete else "a grid of tile sizes"
        return f"{space}, one product at a time" if self.by_product else space

    @property
    def gap_text(self) -> str:
        """Optimality gap of the chosen candidate in words, or the reason why it is unknown."""
        if self.unfused_reason:
            return f"left out: {self.unfused_reason}"
        is_best = self.rest_bound >= self.value
        of_any = self.value / self.floor - 1 if self.floor > 0 else math.inf
        if is_best and self.choices <= 1:
            return "the only candidate"
        above = ""
        if of_any < math.inf:
            above = f"at most {excess_text(1 + of_any, 2)} above any mapping"
        if is_best and (self.complete or of_any > _SMALL_EXCESS):
            more = f", {above}" if above and not self.complete else ""
            relation = "better than the best" if self.better else "optimal"
            return f"{relation} of {self.searched}{more}"
        if of_any <= _SMALL_EXCESS or (self.rest_bound <= 0 and above):
            return above
        if self.rest_bound > 0:
            excess = excess_text(self.value / self.rest_bound, 2)
            return f"at most {excess} above the best of {self.searched}"
        return "not known"


_SMALL_EXCESS: Final = 0.005
"""Gap to the floor of any mapping up to which it is reported instead of the gap to the space."""


def excess_text(ratio: float, places: int) -> str:
    """Return the excess of a ratio over 1 in percent, rounded up, so that only 1 gives 0%.

    >>> excess_text(1.00002, 2), excess_text(1.05, 2), excess_text(1.0, 1)
    ('0.01%', '5.00%', '0.0%')
    """
    scale: int = 100 * 10**places
    steps = round((ratio - 1) * scale, 6)
    return f"{max(math.ceil(steps), int(ratio > 1)) / scale:.{places}%}"


@dataclass(frozen=True)
class ObjectiveLosses:
    """Losses of each figure against the best mapping, by a near-tie that is better in others."""

    cycles: float = 0.0
    dram_bytes: float = 0.0
    energy_pj: float = 0.0

    def __add__(self, other: ObjectiveLosses) -> ObjectiveLosses:
        """Return both together."""
        return ObjectiveLosses(
            self.cycles + other.cycles,
            self.dram_bytes + other.dram_bytes,
            self.energy_pj + other.energy_pj,
        )

    def times(self, count: int) -> ObjectiveLosses:
        """Return the losses of ``count`` runs."""
        return ObjectiveLosses(count * self.cycles, count * self.dram_bytes, count * self.energy_pj)


OnLosses = Callable[[ObjectiveLosses], None]
OnAccount = Callable[[SearchAccount], None]


def ignore(*_reported: object) -> None:
    """Do nothing: the default of a callback."""


def merge_accounts(name: str, parts: Sequence[SearchAccount]) -> SearchAccount:
    """Return one account of several spaces that were searched for the same operators."""
    ran, best, curve = 0, float("inf"), []
    for part in parts:
        for at, value in part.curve:
            if value < best:
                best = value
                curve.append((ran + at, value))
        ran += part.ran
    values = sorted(
        value
        for account in parts
        for value in (account.value, account.runner_up)
        if value is not None
    )
    return SearchAccount(
        name=name,
        operators=parts[0].operators,
        space=sum(account.space for account in parts),
        pruned={rule: sum(account.pruned.get(rule, 0) for account in parts) for rule in RULES},
        outside=sum(account.outside for account in parts),
        ran=ran,
        value=values[0],
        better=any(account.better and account.value == values[0] for account in parts),
        runner_up=next((value for value in values[1:] if math.isfinite(value)), None),
        rest_bound=min(account.rest_bound for account in parts),
        complete=all(account.complete for account in parts),
        by_product=all(account.by_product for account in parts),
        ended=", ".join(dict.fromkeys(account.ended for account in parts)),
        curve=tuple(curve),
    )


def has_single_products(family: Family) -> bool:
    """Return whether trees of a single batched einsum compute one product of it at a time."""
    einsums = [op for op in family.space.operators if isinstance(op.operator, Einsum)]
    if len(einsums) != 1:
        return False
    (op,), space = einsums, family.space
    sizes = space.widen(space.sizes)
    batch = {rank for rank, part in op.parts.items() if part == "g" and sizes[rank] > 1}
    loops = (node for node in nodes(family.branch) if isinstance(node, FamilyLoops))
    tiles = [pair for node in loops for pair in zip(node.ranks, node.tiles, strict=True)]
    return bool(batch) and batch <= {rank for rank, tile in tiles if all_true(tile == 1)}


def floor_of_group(
    workload: Workload, operators: Sequence[str], accelerator: Accelerator, objective: Objective
) -> float:
    """Return a lower bound of the objective of operators as one group; 0 if there is none.

    For cycles it is the folds of the array, or the bytes that have to cross DRAM and the memories
    beside it, whichever takes longer.
    """
    if objective not in ("cycles", "dram-bytes"):
        return 0.0
    alone = workload.select_operators(operators)
    reference = WorkloadReference(name=alone.name, fingerprint=alone.fingerprint)
    group = Group(operators=tuple(operators), tree=())
    mapping = Mapping(workload=reference, dataflow="", body=(group,))
    least = floor_of(alone, mapping, on_chip_bytes(accelerator)).least_bytes
    if objective == "dram-bytes":
        return float(least)
    rate = accelerator.bytes_per_cycle(tensor.lives for tensor in alone.tensors.values())
    moved = 0 if rate is None else math.ceil(least / rate)
    return float(max(math.ceil(least_fold_cycles(alone, accelerator)), moved))
