"""L, softmax and A one after the other, with rows of the intermediate that stay on chip.

Between them the intermediate of the whole batch is alive. As much of it stays as fits, in units of
a granularity (FLAT, sections 5.1 and 5.3): all samples and heads (M), whole samples (B), whole
heads (H), or any number of rows (R). The rest crosses DRAM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from simaccel.analytic.estimate import estimate
from simaccel.hardware import Accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Around, Group, Keep, Part, Span, Tree
from simaccel.schedulers.attention import Problem
from simaccel.schedulers.choosing import CLOSE, Chosen, capacity
from simaccel.schedulers.problems import mapping_of
from simaccel.schedulers.search import Goal
from simaccel.workload import Workload

GRANULARITIES: Final = "mbhr"
_ALL: Final = 16
"""So many numbers of resident units, beside none, are all tried (as sizes of ranks are)."""
ERROR: Final = 0.005
"""What estimates may err otherwise by how much of the intermediate stays."""
_FEW: Final = 3
"""Resident parts of a granularity that are run on the machine."""
_SHARES: Final = (0.0, 0.25, 0.5, 0.75, 0.875, 0.9375, 0.96875, 1.0)
"""Shares of the largest possible resident part that a front has."""

Body = tuple[Group | Around, ...]
Staged = tuple[int, tuple[Body, Chosen]]
"""Rows that stay on chip, and the groups with their figures."""
Placed = tuple[Group, str, Tree]
"""An operator's group, the intermediate that it reads or makes, and its tree where that spills."""
Trees = Callable[[int, int, float], Sequence[Placed] | None]
"""Returns L, softmax and A by the rows that stay on chip, the bytes beside them, and a limit.

What is surely not below the limit may be missing.
"""


def units(problem: Problem, granularity: str, accelerator: Accelerator) -> tuple[int, int]:
    """Return the rows of a unit of a granularity, and how many units fit if nothing else does."""
    g, q = problem.size(problem.heads), problem.size(problem.rows)
    unit = {"m": g * q, "b": problem.per_sample * q, "h": q, "r": 1}[granularity]
    if len(problem.heads) > 1 or len(problem.rows) != 1:
        return unit, 0  # what is kept would be more boxes than two
    return unit, min(g * q, capacity(accelerator) // problem.row_bytes) // unit


def few_counts(problem: Problem, granularity: str, accelerator: Accelerator) -> list[int]:
    """Return numbers of rows that may stay: all if they are few, else some shares of the most."""
    unit, most = units(problem, granularity, accelerator)
    if most <= _ALL:
        return [unit * count for count in range(most + 1)]
    side = accelerator.array.rows if unit == 1 and most >= 2 * accelerator.array.rows else 1
    return sorted({int(most * share) // side * side * unit for share in _SHARES})


def staged(problem: Problem, rows: int, placed: Sequence[Placed]) -> Body:
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
    found = []
    for group, held, spilled in placed:
        resident = tuple(
            node for node in spilled if not isinstance(node, Keep) or node.tensor != held
        )
        view = next(
            view
            for _, view in space_of(problem.workload, group).operators[0].uses
            if view.name in problem.intermediates
        )
        tree = _parted(view.ranks, (heads, part, g), spilled, resident)
        found.append(replace(group, tree=tree))
    return (Around(keeps=tuple(keeps), groups=tuple(found)),)


def _region(
    problem: Problem, heads: tuple[int, int], rows: tuple[int, int], c: int
) -> tuple[Span, ...]:
    spans = [Span(*heads)] if problem.heads else []
    return (*spans, Span(*rows), Span(0, c))


def _parted(
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


@dataclass(frozen=True)
class Stage:
    """Looks for the number of rows that stay on chip.

    ``trees`` gives L, softmax and A beside them, which need ``least`` bytes if anything spills;
    ``promise`` is what no objective of so many rows is below, and what is not below ``limit`` by it
    is left out.
    """

    problem: Problem
    goal: Goal
    trees: Trees
    least: int = 0
    promise: Callable[[int], float] = lambda _rows: 0.0
    limit: float = float("inf")
    known: dict[int, tuple[Body, Chosen] | None] = field(default_factory=dict)

    def few(self, granularity: str) -> dict[int, tuple[Body, Chosen]]:
        """Return the best few numbers of rows of a granularity, with their groups."""
        unit, most = units(self.problem, granularity, self.goal.accelerator)
        tried = self._all(unit, most) if most <= _ALL else self._halved(unit, most)
        some: list[Staged] = [(n, body) for n in tried if (body := self.known[n]) is not None]
        return dict(sorted(some, key=lambda one: one[1][1].rank)[:_FEW])

    def _all(self, unit: int, most: int) -> list[int]:
        counts = [unit * count for count in range(most + 1)]
        for rows in counts:
            self._value(rows)
        return counts

    def _halved(self, unit: int, most: int) -> list[int]:
        """Try counts, and look between those where more rows beside larger tiles would be better.

        Between two counts nothing has more rows than the larger one, or more room than the smaller.
        """
        fits = min(most, (self.goal.room - self.least) // (unit * self.problem.row_bytes))
        tried = sorted({0, fits * unit, most * unit})
        best = min(map(self._value, tried))
        between = [(0, fits)]
        while between:
            low, high = between.pop()
            if high - low <= 1 or self._relaxed(low, high, unit) >= best * (1 - CLOSE):
                continue
            middle = self._middle(low, high, unit)
            tried.append(middle * unit)
            best = min(best, self._value(middle * unit))
            between += [(low, middle), (middle, high)]
        return tried

    def _middle(self, low: int, high: int, unit: int) -> int:
        """Return a count between two others; of rows one that fills the array, if there is one."""
        middle, side = (low + high) // 2, self.goal.accelerator.array.rows
        even = -(-middle // side) * side
        return even if unit == 1 and even < high else middle

    def _value(self, rows: int) -> float:
        if rows not in self.known:
            self.known[rows] = None
            if self.limit == float("inf") or self.promise(rows) < self.limit:
                limit = min(self.limit, self._best() * (1 + ERROR))
                body = self._body(rows, self._room(rows), limit)
                self.known[rows] = body and self._fitting(body)
        one = self.known[rows]
        return one[1].value if one else float("inf")

    def _best(self) -> float:
        """Return the best objective so far."""
        return min((one[1].value for one in self.known.values() if one), default=float("inf"))

    def _relaxed(self, low: int, high: int, unit: int) -> float:
        """Return the objective of the most rows of a range beside the tiles of the fewest."""
        body = self._body((high - 1) * unit, self._room((low + 1) * unit), self._best())
        return body[1].value if body else float("inf")

    def _body(self, rows: int, room: int, limit: float) -> tuple[Body, Chosen] | None:
        placed = self.trees(rows, room, limit)
        if placed is None:
            return None
        body = staged(self.problem, rows, placed)
        return body, figures(self.problem.workload, body, self.goal)

    def _fitting(self, one: tuple[Body, Chosen]) -> tuple[Body, Chosen] | None:
        return one if one[1].buffer_bytes <= self.goal.room else None

    def _room(self, rows: int) -> int:
        """Return the bytes that ``rows`` of the intermediate leave of the buffer."""
        return self.goal.room - rows * self.problem.row_bytes


@dataclass(frozen=True)
class Finalists:
    """The best few of each granularity, some of several, by the rows that stay on chip.

    Where L, softmax and A have several trees, by which these are, too.
    """

    kinds: Sequence[dict[Any, tuple[Body, Chosen]]]

    @property
    def bodies(self) -> list[tuple[Body, Chosen]]:
        """All of them, each once."""
        return list({rows: one for kind in self.kinds for rows, one in kind.items()}.values())

    @property
    def numbers(self) -> list[list[int]]:
        """Where those of each granularity stand in ``bodies``."""
        every = {
            rows: at for at, rows in enumerate(dict.fromkeys(r for k in self.kinds for r in k))
        }
        return [[every[rows] for rows in kind] for kind in self.kinds if kind]


def figures(workload: Workload, body: Body, goal: Goal) -> Chosen:
    """Return the objective of some groups by the closed form."""
    whole = estimate(workload, mapping_of(workload, "", body), goal.accelerator)
    moved = sum(n for (level, _), n in whole.moved.items() if level.startswith("dram"))
    energy = sum(whole.energy_pj.values())
    value = {
        "cycles": whole.cycles,
        "energy": energy,
        "edp": energy * whole.cycles,
        "dram-bytes": moved,
        "footprint": whole.buffer_bytes,
    }[goal.objective]
    return Chosen((), float(value), whole.cycles, moved, whole.buffer_bytes)


def parts_of(problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield L, softmax and A, each with the intermediate that it reads or makes."""
    logit, softmax, attend = problem.part
    s, weights = problem.tensors[2], problem.workload.operator(softmax).output.tensor
    yield from ((logit, s), (softmax, s), (attend, weights))
