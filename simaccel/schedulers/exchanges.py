"""Exchanges in small spaces: one operator's tree for another, as long as the machine takes less.

L, softmax and A one after the other have each the best tree by the closed form. What it errs by,
and how much the three overlap, may be more than others of their trees are behind: where these are
so few that the machine may run them all, they are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simaccel.mapping.tree import Group
from simaccel.schedulers.attention import Problem
from simaccel.schedulers.choosing import Chosen
from simaccel.schedulers.confirming import fastest
from simaccel.schedulers.resident import ERROR, Body, staged
from simaccel.schedulers.search import Goal

Kind = Mapping[int, tuple[Body, Chosen]]
"""The best few of a granularity by the rows that stay on chip."""


@dataclass(frozen=True)
class Chances:
    """All trees of an operator in some room, the best first; ``held``: the intermediate it uses."""

    group: Group
    held: str
    trees: Sequence[Chosen]


@dataclass(frozen=True)
class Exchange:
    """Tries the trees that ``chances`` gives of L, softmax and A by the rows that stay on chip."""

    problem: Problem
    goal: Goal
    chances: Callable[[int], Sequence[Chances]]

    def better(self, kinds: Sequence[Kind]) -> list[tuple[Body, Chosen]]:
        """Return what is better than the best of a kind; none in large spaces.

        Each kind has its own, so that several are never worse than one.
        """
        if self.goal.judge is None or not self.goal.timed or not self._few(0):
            return []
        starts = dict.fromkeys(self._start(kind) for kind in kinds if kind)
        found = map(self._from, starts)
        return [one for one in found if one is not None]

    def _start(self, kind: Kind) -> int:
        """Return the rows that stay on chip in the best of a kind."""
        at, _ = self._fastest(list(kind.values()))
        return list(kind)[at]

    def _from(self, rows: int) -> tuple[Body, Chosen] | None:
        """Return what no exchange makes better, from the best of each operator on; None if that."""
        some = self._few(rows)
        if not some:
            return None
        now, found = [one.trees[0] for one in some], None
        _, value = self._fastest([self._body(rows, some, now)])
        while ways := list(_exchanges(now, some)):
            bodies = [self._body(rows, some, way) for way in ways]
            at, new = self._fastest(bodies)
            if new >= value:
                break
            now, value = ways[at], new
            body, chosen = bodies[at]
            found = body, replace(chosen, measured=value)
        return found

    def _few(self, rows: int) -> Sequence[Chances]:
        """Return the trees of each operator; nothing if there are none or many of one."""
        found = self.chances(rows)
        return found if all(one.trees for one in found) else []

    def _fastest(self, bodies: Sequence[tuple[Body, Chosen]]) -> tuple[int, float]:
        return fastest(self.goal, self.problem.workload, bodies, error=ERROR)

    def _body(
        self, rows: int, some: Sequence[Chances], way: Sequence[Chosen]
    ) -> tuple[Body, Chosen]:
        """Return L, softmax and A with these trees, and their figures one after the other."""
        pairs = zip(some, way, strict=True)
        placed = [(one.group, one.held, chosen.tree) for one, chosen in pairs]
        cycles = sum(one.cycles for one in way)
        energy = sum(one.value / max(one.cycles, 1) for one in way)  # where edp is asked for
        chosen = Chosen(
            tree=(),
            value=energy * cycles if self.goal.objective == "edp" else float(cycles),
            cycles=cycles,
            dram_bytes=sum(one.dram_bytes for one in way),
            buffer_bytes=max(one.buffer_bytes for one in way),
        )
        return staged(self.problem, rows, placed), chosen


def _exchanges(now: Sequence[Chosen], some: Sequence[Chances]) -> Iterator[list[Chosen]]:
    """Yield all in which one operator has another of its trees."""
    for at, chances in enumerate(some):
        for one in chances.trees:
            if one is not now[at]:
                yield [*now[:at], one, *now[at + 1 :]]
