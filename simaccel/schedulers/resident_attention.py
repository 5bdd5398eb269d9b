"""L, softmax and A one after the other, with rows of the intermediate that stay on chip.

Between them the intermediate of the whole batch is alive. As much of it stays as fits, in units of
a granularity (FLAT, sections 5.1 and 5.3): all samples and heads (M), whole samples (B), whole
heads (H), or any number of rows (R). The rest crosses DRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group, Keep, Part, ResidentScope, Span, Tree
from simaccel.schedulers.attention import AttentionProblem
from simaccel.schedulers.sequences import score
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.candidate_set import ScoredTree, capacity
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Body, key_of_body
from simaccel.search.near_ties import preferred_index
from simaccel.search.walk import GAIN, GAP

GRANULARITIES: Final = "mbhr"
_ALL: Final = 16
"""So many numbers of resident units, beside none, are all tried (as sizes of ranks are)."""
_IDLE: Final = 4
"""Numbers of rows without a gain after which no more are tried, where not all are."""
_SHARES: Final = (0.0, 0.25, 0.5, 0.75, 0.875, 0.9375, 0.96875, 1.0)
"""Shares of the largest possible resident part that a front has."""

Placed = tuple[Group, str, Tree]
"""An operator's group, the intermediate that it reads or makes, and its tree where that spills."""
Trees = Callable[[int, int], Sequence[Placed] | None]
"""Returns L, softmax and A by the rows that stay on chip and the bytes beside them, if they fit."""


@dataclass(frozen=True)
class ResidentAttention:
    """L, softmax and A with ``rows`` of the intermediate on chip, and their figures."""

    rows: int
    body: Body
    scored: ScoredTree


def units(problem: AttentionProblem, granularity: str, accelerator: Accelerator) -> tuple[int, int]:
    """Return the rows of a unit of a granularity, and how many units fit if nothing else does."""
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    unit = {"m": g * q, "b": problem.per_sample * q, "h": q, "r": 1}[granularity]
    if len(problem.heads) > 1 or len(problem.rows) != 1:
        return unit, 0  # what is kept would be more boxes than two
    return unit, min(g * q, capacity(accelerator) // problem.row_bytes) // unit


def few_counts(problem: AttentionProblem, granularity: str, accelerator: Accelerator) -> list[int]:
    """Return numbers of rows that may stay: all if they are few, else some shares of the most."""
    unit, most = units(problem, granularity, accelerator)
    if most <= _ALL:
        return [unit * count for count in range(most + 1)]
    side = accelerator.array.rows if unit == 1 and most >= 2 * accelerator.array.rows else 1
    return sorted({int(most * share) // side * side * unit for share in _SHARES})


def stage_attention(problem: AttentionProblem, rows: int, placed: Sequence[Placed]) -> Body:
    """Return L, softmax and A one after the other, with ``rows`` of the intermediate kept on chip.

    Resident rows have the tiles of the others, so that they share their slots.
    """
    if not rows:
        return tuple(replace(group, tree=spilled) for group, _, spilled in placed)
    q, c = problem.size(problem.rows), problem.size((problem.c,))
    g = problem.size(problem.heads)
    heads, part = divmod(rows, q)
    s = problem.tensors[2]
    keeps = []
    if heads:
        keeps.append(Keep(s, slots=1, region=_region(problem, (0, heads), (0, q), c)))
    if part:
        keeps.append(Keep(s, slots=1, region=_region(problem, (heads, heads + 1), (0, part), c)))
    groups = []
    for group, held, spilled in placed:
        resident = tuple(
            node for node in spilled if not isinstance(node, Keep) or node.tensor != held
        )
        view = next(
            view
            for _, view in space_of(problem.workload, group).operators[0].uses
            if view.name in problem.intermediates
        )
        tree = _part_tree(view.ranks, (heads, part, g), spilled, resident)
        groups.append(replace(group, tree=tree))
    return (ResidentScope(keeps=tuple(keeps), groups=tuple(groups)),)


def _region(
    problem: AttentionProblem, heads: tuple[int, int], rows: tuple[int, int], c: int
) -> tuple[Span, ...]:
    spans = [Span(*heads)] if problem.heads else []
    return (*spans, Span(*rows), Span(0, c))


def _part_tree(
    ranks: Sequence[str], kept: tuple[int, int, int], spilled: Tree, resident: Tree
) -> Tree:
    """Return the tree of whole heads kept, of a part of one, and of the rest.

    ``ranks`` of the intermediate: of heads if there are any, of rows, of keys.
    """
    heads, part, g = kept
    q = ranks[-2]
    branches: list[Tree] = []
    sizes: list[int] = []
    if heads:
        branches.append(resident)
        sizes.append(heads)
    if part:
        branches.append((Part(q, (part,), (resident, spilled)),))
        sizes.append(1)
    if heads + bool(part) < g:
        branches.append(spilled)
        sizes.append(g - heads - bool(part))
    if len(branches) == 1:
        return branches[0]
    return (Part(ranks[0], tuple(sizes[:-1]), tuple(branches)),)


def choose_mapping(
    residents: Sequence[ResidentAttention | None], goal: Goal
) -> ResidentAttention | None:
    """Return the best of some mappings, or the near-tie that a user would choose."""
    able = [resident for resident in residents if resident is not None]
    if not able:
        return None
    scored = [resident.scored for resident in able]
    weight = goal.objective == "cycles"
    lowest = min(
        resident.scored.value - weight * goal.trades.sum_losses(resident.body).cycles
        for resident in able
    )
    best = able[preferred_index(scored, goal.objective, goal.tolerance, lowest)]
    least = min(able, key=lambda resident: resident.scored.rank)
    if best is not least:
        goal.trades.note(best.body, replace(best.scored, instead=least.scored), "together")
    return best


@dataclass(frozen=True)
class ResidentSearch:
    """Looks for the number of rows that stay on chip.

    ``trees`` gives L, softmax and A beside them, which need ``least`` bytes if anything spills;
    ``promise`` returns what no objective of so many rows beside so many bytes is below, and what is
    not below ``limit`` by it is left out.
    """

    problem: AttentionProblem
    goal: Goal
    trees: Trees
    promise: Callable[[int, int], float]
    least: int = 0
    limit: float = float("inf")
    known: dict[int, ResidentAttention | None] = field(default_factory=dict)

    def best(self, granularity: str) -> ResidentAttention | None:
        """Return the best of a granularity; None if nothing fits, or is below the limit."""
        unit, most = units(self.problem, granularity, self.goal.accelerator)
        tried = self._try_all(unit, most) if most <= _ALL else self._try_halves(unit, most)
        return choose_mapping([self.known[rows] for rows in tried], self.goal)

    def _try_all(self, unit: int, most: int) -> list[int]:
        counts = [unit * count for count in range(most, -1, -1)]
        for rows in counts:
            self._value(rows)
        return counts

    def _try_halves(self, unit: int, most: int) -> list[int]:
        """Try counts, and look between those where more rows beside larger tiles would be better.

        Then around the best of a coarser granularity, if that was not among them.
        """
        spilled = (self.goal.room - self.least) // (unit * self.problem.row_bytes)
        fits = max(min(most, spilled), 0)
        tried = sorted({0, fits * unit, most * unit}, reverse=True)
        for rows in tried:
            self._value(rows)
        tried += self._look_between([(0, fits)], unit)
        known = min(self._known_mappings(), key=lambda each: each.scored.rank, default=None)
        start = known.rows // unit if known else 0
        if 0 < start < fits and start * unit not in tried:
            low = max(rows for rows in tried if rows < start * unit) // unit
            high = min(rows for rows in tried if rows > start * unit) // unit
            self._value(start * unit)
            tried += [start * unit, *self._look_between([(low, start), (start, high)], unit)]
        return tried

    def _look_between(self, between: list[tuple[int, int]], unit: int) -> list[int]:
        """Try counts between others, where most is promised first, until some gain nothing.

        Between two counts nothing has more rows than the larger one, or more room than the smaller.
        """
        tried, best, idle = list[int](), self._best(), 0
        while between and idle < _IDLE:
            low, high = between.pop(0)
            if high - low <= 1:
                continue
            if self._promise_between(low, high, unit) >= best * (1 - GAP):
                break
            middle = self._middle(low, high, unit)
            tried.append(middle * unit)
            value = self._value(middle * unit)
            idle = 0 if value < best * (1 - GAIN) else idle + 1
            best = min(best, value)
            between += [(middle, high), (low, middle)]
            between.sort(key=lambda few: self._promise_between(few[0], few[1], unit))
        return tried

    def _promise_between(self, low: int, high: int, unit: int) -> float:
        """Return what nothing between two counts is below."""
        return self.promise((high - 1) * unit, self._room((low + 1) * unit))

    def _middle(self, low: int, high: int, unit: int) -> int:
        """Return a count between two others; of rows one that fills the array, if there is one."""
        middle, side = (low + high) // 2, self.goal.accelerator.array.rows
        even = -(-middle // side) * side
        return even if unit == 1 and even < high else middle

    def _value(self, rows: int) -> float:
        if rows not in self.known:
            self.known[rows] = None
            limit = min(self.limit, self._best() * (1 + self.goal.tolerance))
            late = limit < float("inf") and self.goal.is_over
            if not late and self.promise(rows, self._room(rows)) < limit:
                able = [
                    ResidentAttention(rows, body, scored)
                    for body in self._bodies(rows, self._room(rows))
                    if (scored := score(self.problem.workload, body, self.goal, limit))
                    and scored.buffer_bytes <= self.goal.room
                ]
                self.known[rows] = min(able, key=lambda each: each.scored.rank, default=None)
        resident = self.known[rows]
        return resident.scored.value if resident else float("inf")

    def _best(self) -> float:
        """Return the best objective so far."""
        return min(
            (resident.scored.value for resident in self._known_mappings()), default=float("inf")
        )

    def _known_mappings(self) -> Iterator[ResidentAttention]:
        """Yield the mappings that fit of all numbers of rows so far."""
        return (resident for resident in self.known.values() if resident)

    def _bodies(self, rows: int, room: int) -> Iterator[Body]:
        """Yield L, softmax and A by their best trees where rows spill, and with two slots or more.

        Where rows stay the array no longer waits for them, but for what has one slot.
        """
        placed, trades = self.trees(rows, room), self.goal.trades
        if placed is None:
            return
        body = stage_attention(self.problem, rows, placed)
        if rows:  # their trees are parts of those that gave up
            each = [trades.sum_losses((replace(group, tree=tree),)) for group, _, tree in placed]
            trades.known["alone", key_of_body(body)] = sum(each, start=ObjectiveLosses())
        yield body
        more = [(group, held, _with_two_slots(tree)) for group, held, tree in placed]
        if rows and more != placed:
            yield stage_attention(self.problem, rows, more)

    def _room(self, rows: int) -> int:
        """Return the bytes that ``rows`` of the intermediate leave of the buffer."""
        return self.goal.room - rows * self.problem.row_bytes


def _with_two_slots(tree: Tree) -> Tree:
    return tuple(
        replace(node, slots=max(node.slots, 2)) if isinstance(node, Keep) else node for node in tree
    )


def parts_of(problem: AttentionProblem) -> Iterator[tuple[str, str]]:
    """Yield L, softmax and A, each with the intermediate that it reads or makes."""
    logit, softmax, attend = problem.part
    s, weights = problem.tensors[2], problem.workload.operator(softmax).output.tensor
    yield from ((logit, s), (softmax, s), (attend, weights))
