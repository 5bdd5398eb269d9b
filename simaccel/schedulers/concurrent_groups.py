"""Concurrent groups: groups that don't depend on each other run at once, each on some of the cores.

In a window of consecutive groups, those connected by a tensor form a strand. If a window has
several strands, the cores are divided among them in proportion to the cycles that each takes on one
core. If there are more strands than cores, they run one after the other: the longest goes first,
each to the core with the least work so far. Each group is searched for the number of cores that it
gets and their part of the memory bandwidth. The new schedule is kept only if it is faster on the
machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product

from simaccel.analytic.prediction import predict
from simaccel.errors import SimaccelError
from simaccel.hardware.core_share import share_bandwidth
from simaccel.mapping.cores import core_spreads
from simaccel.mapping.tree import Group, ResidentScope
from simaccel.schedulers.chains import epilogue, search_epilogue
from simaccel.schedulers.group_place import repetition_of
from simaccel.schedulers.sequences import measure_groups, value_of_groups
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import ignore
from simaccel.search.judge import Body, Judge, mapping_of
from simaccel.workload import Workload

_LONGEST = 8
"""Most groups of a window."""


Unit = tuple[Group | None, int]
"""A group for a part of the cores, and the index in the body of what it is a part of.

None: fused operators that share a kept tensor with others.
"""
Strand = dict[int, Group]
"""The groups of a strand by the indices of their units."""


def parallelise_groups(workload: Workload, bodies: Sequence[Body], search: TreeSearch) -> Body:
    """Return the schedule with independent groups run concurrently, if that is faster.

    Each of ``bodies`` is tried, window by window; without a gain the result is the first of them.
    """
    best, goal = bodies[0], search.goal
    if not goal.is_shared or goal.objective != "cycles" or goal.constraints or goal.is_over:
        return best
    least = measure_groups(workload, best, goal).value
    for body, is_open in product(bodies, (False, True)):
        divided, value = _CoreDivision(workload, body, search, is_open=is_open).best()
        if value < least:
            best, least = divided, value
    return best


def _units(workload: Workload, body: Body, *, is_open: bool) -> list[Unit]:
    """Return the units of a body; ``is_open``: operators of an epilogue are units of their own."""
    units: list[Unit] = []
    for at, part in enumerate(body):
        for group in part.groups:
            names = group.operators
            if len(names) == 1 or epilogue(workload, names) is not None:
                each = [(name,) for name in names] if is_open else [names]
                units += [(Group(operators=few, tree=()), at) for few in each]
            else:
                units.append((group if isinstance(part, Group) else None, at))
    return units


def _windows(workload: Workload, units: Sequence[Unit]) -> Iterator[list[Strand]]:
    """Yield the strands of each window; windows don't overlap."""
    at = 0
    while at < len(units):
        window: list[Strand] = []
        for stop in range(at + 2, min(len(units), at + _LONGEST) + 1):
            groups = {n: group for n in range(at, stop) if (group := units[n][0]) is not None}
            sections = {repetition_of(workload, group) for group in groups.values()}
            if len(groups) < stop - at or len(sections) > 1:
                break
            strands = _strands(workload, groups)
            window = strands if len(strands) > 1 else window
        if window:
            yield window
        at = max((n for strand in window for n in strand), default=at) + 1


def _strands(workload: Workload, groups: Map[int, Group]) -> list[Strand]:
    """Return groups as strands that pass nothing to the first operators of one another, in order.

    Operators fused behind a first operator wait for what they read of other strands.
    """
    strands: list[tuple[list[int], set[str]]] = []
    for number, group in groups.items():
        operators = [workload.operator(name) for name in group.operators]
        made = {operator.output.tensor for operator in operators}
        uses = made | {operand.tensor for operand in operators[0].inputs}
        joins = [strand for strand in strands if strand[1] & uses]
        strands = [strand for strand in strands if strand not in joins]
        joined = sorted(n for numbers, _ in joins for n in numbers)
        strands.append(([*joined, number], made.union(*(tensors for _, tensors in joins))))
    return [{n: groups[n] for n in numbers} for numbers in sorted(at for at, _ in strands)]


@dataclass
class _CoreDivision:
    """A division of the cores among the strands of a body; ``searches``: by number of cores."""

    workload: Workload
    body: Body
    search: TreeSearch
    is_open: bool
    searches: dict[int, TreeSearch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the units."""
        self.units = _units(self.workload, self.body, is_open=self.is_open)

    def best(self) -> tuple[Body, float]:
        """Return the body with each window divided that is faster so, and its objective."""
        fastest, least, taken = self.body, float("inf"), dict[int, Group]()
        goal = self.search.goal
        for window in _windows(self.workload, self.units):
            more = self._divide(window)
            body = None if more is None else self._replace({**taken, **more})
            if more is None or body is None or goal.is_over:
                continue
            if least == float("inf"):
                least = value_of_groups(self.workload, self.body, goal)
            if (value := value_of_groups(self.workload, body, goal)) < least:
                fastest, least, taken = body, value, {**taken, **more}
        return fastest, least

    def _replace(self, placed: Map[int, Group]) -> Body | None:
        """Return the body with some units replaced, and everything else as it was.

        The rest of an element that is taken apart runs on all cores; None if that is impossible.
        """
        cores = self.search.accelerator.cores.count
        open_elements = {self.units[n][1] for n in placed}
        body: list[Group | ResidentScope] = []
        for at, part in enumerate(self.body):
            if at not in open_elements:
                body.append(part)
                continue
            for number, (group, element) in enumerate(self.units):
                if element == at:
                    whole = group and (placed.get(number) or self._group_for(group, cores))
                    if whole is None:
                        return None
                    body.append(whole)
        return tuple(body)

    def _divide(self, strands: Sequence[Strand]) -> dict[int, Group] | None:
        """Return the units of strands on their own cores; None if that is impossible for one."""

        def least_cycles(unit: Group) -> float:
            """Return a lower bound of a unit's cycles on one core; infinite if it can't run."""
            group = self._group_for(unit, 1)
            if group is None:
                return float("inf")
            alone = self.workload.select_operators(group.operators)
            on = self.search.accelerator.one_core
            return predict(alone, mapping_of(alone, "", (group,)), on).bound_cycles

        cycles = [sum(map(least_cycles, strand.values())) for strand in strands]
        if max(cycles) == float("inf"):
            return None
        placed: dict[int, Group] = {}
        places = divide(cycles, self.search.accelerator.cores.count)
        for strand, place in zip(strands, places, strict=True):
            for number, unit in strand.items():
                group = self._group_for(unit, len(place))
                if group is None:
                    return None
                placed[number] = replace(group, place=place)
        return placed

    def _group_for(self, group: Group, count: int) -> Group | None:
        """Return a group for ``count`` cores; None if it is fused and cut for another number."""
        if group.tree:
            return None if core_spreads(group) else group
        search = self._search_for(count)
        with suppress(SimaccelError):
            if len(group.operators) == 1:
                return search.group(self.workload, group.operators[0])
            chain = epilogue(self.workload, group.operators)
            if chain is not None:
                best = search_epilogue(search, chain).fastest()
                return None if best is None else replace(chain.group, tree=best.tree)
        return None

    def _search_for(self, count: int) -> TreeSearch:
        goal, cores = self.search.goal, self.search.accelerator.cores
        if count == cores.count:
            return self.search.quiet()
        if count not in self.searches:
            on = share_bandwidth(self.search.accelerator, cores.count // count)
            if count > 1:
                noc = cores.noc.model_copy(update={"shape": None})
                on = on.with_sections(cores=cores.model_copy(update={"count": count, "noc": noc}))
            goal = replace(goal, judge=Judge(on), on_account=ignore)
            self.searches[count] = TreeSearch(goal)
        return self.searches[count]


def divide(cycles: Sequence[float], cores: int) -> list[range]:
    """Return the cores of each strand, given the cycles that each strand takes on one core.

    >>> divide([600, 200], 4), divide([5, 4, 3], 2)
    ([range(0, 3), range(3, 4)], [range(0, 1), range(1, 2), range(1, 2)])
    """
    if len(cycles) >= cores:
        work = [0.0] * cores
        places: list[range] = [range(0)] * len(cycles)
        for at in sorted(range(len(cycles)), key=lambda at: -cycles[at]):
            core = work.index(min(work))
            work[core] += cycles[at]
            places[at] = range(core, core + 1)
        return places
    counts = [1] * len(cycles)
    for _ in range(cores - len(cycles)):
        shares = [n / count for n, count in zip(cycles, counts, strict=True)]
        counts[shares.index(max(shares))] += 1
    ends = [sum(counts[: at + 1]) for at in range(len(counts))]
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]
