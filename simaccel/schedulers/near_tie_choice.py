"""Near-ties of whole workloads: the least costly mapping within the tolerance of the best.

If the objective is cycles, the cost is energy, or DRAM bytes if energy is unknown; for other
objectives it is cycles. Whole mappings are compared by runs, so the choice never exceeds the best
by more than the tolerance. The rest of the tolerance is spent on the groups that save most: each
has alternative trees that cost less and are slower, and the combination of least cost is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from simaccel.mapping.tree import Group, ResidentScope, Tree
from simaccel.pareto import Label, undominated_labels
from simaccel.schedulers.group_search import GroupSearch, Part
from simaccel.schedulers.schedule_steps import PartSearch, ScheduleStep, value_of
from simaccel.schedulers.sequences import measure_all, measure_groups, measure_legal, unique
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.canonical import rename_tree
from simaccel.search.effort import EFFORT, Objective, has_near_ties
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, ScoredTree, key_of_body, main_cost, operators_of
from simaccel.search.near_ties import is_worth, losses
from simaccel.workload import Workload


def choose(workload: Workload, bodies: Sequence[Body], search: TreeSearch) -> Body:
    """Return the least costly mapping within the tolerance of the fastest.

    Losses against the fastest are reported to ``Goal.on_losses``.

    Raises:
        SimaccelError: the machine refuses all of them.
    """
    goal, distinct = search.goal, unique(bodies)
    is_decided = has_near_ties(goal.objective, goal.tolerance)
    may_overlap = goal.objective == "cycles" and len(workload.operators) > 1
    if len(distinct) == 1 and (goal.is_over or not (is_decided or may_overlap)):
        return distinct[0]
    scored = measure_all(workload, distinct, goal)
    least = min(figures.value for figures in scored.values())
    for at, figures in scored.items() if may_overlap else ():
        if figures.value <= least * EFFORT.overlap:
            distinct[at], scored[at] = _exchange_trees(workload, distinct[at], figures, search)
    if not is_decided:
        return distinct[min(scored, key=lambda at: scored[at].rank)]
    within = 1 + goal.tolerance
    limit = min(figures.value for figures in scored.values()) * within
    near = [(distinct[at], ran) for at, ran in scored.items() if ran.value <= limit * within]
    for body, ran in tuple(near):  # with less costly groups, which overlap in other ways
        most = limit if ran.value <= limit else ran.value * within
        near.append(_save_within(workload, body, ran, most, search))
    best = min((ran for _, ran in near), key=lambda ran: ran.rank)
    least_cost = _cost(best, goal.objective)
    able = (
        (body, ran)
        for body, ran in near
        if ran.value <= best.value * within
        and is_worth(
            ran.value - best.value, least_cost - _cost(ran, goal.objective), best, goal.objective
        )
    )
    body, chosen = min(able, key=lambda pair: pair[1].cost(goal.objective))
    if best is not chosen:
        goal.on_losses(losses(chosen, best))
    return body


# -- other fusions


def cheapest_near_tie(
    steps: Sequence[ScheduleStep], path: Sequence[ScheduleStep], search: TreeSearch
) -> list[ScheduleStep]:
    """Return the least costly path of steps within the tolerance of the cheapest path ``path``.

    Steps whose slightly higher bounds excluded them from the search are now searched for their
    least costly tree, if they may move fewer bytes.
    """
    goal = search.goal
    limit = value_of(path, sum) * (1 + goal.tolerance)
    saving_steps = sorted(
        _steps_of_fewer_bytes(steps, path, limit, goal.room), key=lambda saving: saving[0]
    )
    new = [(replace(step), most) for _, step, most in saving_steps[: EFFORT.fewer_bytes]]
    for step, most in new:
        step.find(most, cheaply=True)
    searched = [*steps, *(step for step, _ in new)]
    states: dict[int, list[Label]] = {0: [(0.0, 0.0, ())]}
    for stop in range(1, path[-1].stop + 1):
        paths = [
            (value + step.value, cost + _cost(step.scored, "cycles") * step.times, (*taken, step))
            for step in searched
            if step.stop == stop and step.scored
            for value, cost, taken in states.get(step.start, ())
        ]
        states[stop] = _keep_undominated(paths, limit)
    return list(states[path[-1].stop][-1][2])


def _steps_of_fewer_bytes(
    steps: Sequence[ScheduleStep], path: Sequence[ScheduleStep], limit: float, room: int
) -> Iterator[tuple[float, ScheduleStep, float]]:
    """Yield the steps that may move fewer bytes than the part of a path that they replace.

    Each as (difference in bytes, step, its highest objective in a path within the limit).
    """
    slack = limit - value_of(path, sum)
    for step in steps:
        inside = [part for part in path if step.start <= part.start and part.stop <= step.stop]
        whole = sum(part.stop - part.start for part in inside) == step.stop - step.start
        searched = step.candidates
        if step.body is not None or not whole or not isinstance(searched, GroupSearch):
            continue
        most = slack + value_of(inside, sum)
        fewest = searched.fewest_bytes(room, most / step.times)
        added_bytes = (fewest - sum(part.ties[0] for part in inside)) * step.times
        if added_bytes < 0:
            yield added_bytes, step, most


def _keep_undominated(labels: Sequence[Label], limit: float) -> list[Label]:
    """Return the Pareto-optimal labels within a limit, thinned to about `EFFORT.states`."""
    return undominated_labels((label for label in labels if label[0] <= limit), EFFORT.states)


def _cost(scored: ScoredTree, objective: Objective) -> float:
    return main_cost(scored.cost(objective))


# -- other trees of the same groups


@dataclass
class _Kind:
    """Parts of a mapping that the same search chose, while ``held_bytes`` of the buffer were held.

    ``now``: figures of the current choice. ``members``: each part with its search. ``times``: the
    number of their runs in all.
    """

    origin: PartSearch
    held_bytes: int
    now: ScoredTree
    members: list[tuple[Part, PartSearch]] = field(default_factory=list)
    times: int = 0

    def saving(self, limit: float, objective: Objective) -> float:
        """Return an upper bound of the cost that another choice saves in each run."""
        now, origin = _cost(self.now, objective), self.origin
        if isinstance(origin, GroupSearch):
            return now - origin.least_cost(limit, self.held_bytes)
        return now

    def trees_of_holdings(self) -> list[Tree]:
        """Return the tree that is likely the fastest of each combination of stationarities."""
        origin = self.origin
        return origin.trees_of_holdings(self.held_bytes) if isinstance(origin, GroupSearch) else []

    def parts_with(self, choice: Tree | Part) -> dict[tuple[str, ...], Part]:
        """Return the parts with another choice, by their operators."""
        return {
            tuple(operators_of((part,))): _choose(part, origin, choice)
            for part, origin in self.members
        }

    def cheaper(self, limit: float) -> list[tuple[Tree | Part, ScoredTree]]:
        """Return less costly choices and their figures, with objectives of at most ``limit``."""
        if isinstance(self.origin, GroupSearch):
            found = self.origin.find_cheaper(limit, self.held_bytes)
            return [(scored.tree, scored) for scored in found]
        staged = self.origin.find_cheaper(limit)
        return [(body[0], scored) for body, scored in staged if len(body) == 1]


def _exchange_trees(
    workload: Workload, body: Body, known: ScoredTree, search: TreeSearch
) -> tuple[Body, ScoredTree]:
    """Return a mapping with other trees of some groups where the whole then takes fewer cycles.

    Groups overlap: an array that holds weights loads them while the group before drains. Where
    this saves little, the trees that are fastest alone are the best. Other trees are tried in the
    whole if they are faster between the groups before and after.
    """
    goal, kinds = search.goal, _kinds_of(workload, body, search)
    alone = sum(kind.now.value * kind.times for kind in kinds)
    if alone <= known.value * EFFORT.overlap:
        return body, known
    best = known.value
    for kind, places in _between_the_same(body, kinds):
        if goal.is_over:
            break
        for tree in _faster_trees(workload, body, kind, places[0], goal):
            parts = kind.parts_with(tree)
            changed = _with_parts(body, {place: parts[place] for place in places})
            (cycles,) = goal.judge.cycles(workload, [changed], best)
            body, best = (changed, cycles) if cycles < best else (body, best)
    return body, measure_groups(workload, body, goal) if best < known.value else known


def _between_the_same(
    body: Body, kinds: Sequence[_Kind]
) -> Iterator[tuple[_Kind, list[tuple[str, ...]]]]:
    """Yield the groups of each kind, by their operators, that stand between the same kinds."""
    kind_of = {tuple(operators_of((part,))): kind for kind in kinds for part, _ in kind.members}
    groups = [group.operators for part in body for group in part.groups]
    names = [0, *(id(kind_of.get(operators)) for operators in groups), 0]
    alike: dict[tuple[int, ...], list[tuple[str, ...]]] = {}
    for at, operators in enumerate(groups):
        if operators in kind_of:
            alike.setdefault(tuple(names[at : at + 3]), []).append(operators)
    for places in alike.values():
        yield kind_of[places[0]], places


def _faster_trees(
    workload: Workload, body: Body, kind: _Kind, place: tuple[str, ...], goal: Goal
) -> list[Tree]:
    """Return the trees that save cycles between the groups before and after; the fastest first."""
    alone, neighbours = _neighbours(workload, body, place)
    (now,) = goal.judge.cycles(alone, [neighbours])
    faster = []
    for tree in kind.trees_of_holdings():
        changed = _with_parts(neighbours, {place: kind.parts_with(tree)[place]})
        (cycles,) = goal.judge.cycles(alone, [changed], now)
        if cycles < now:
            faster.append((cycles, tree))
    return [tree for _, tree in sorted(faster, key=itemgetter(0))]


def _neighbours(
    workload: Workload, body: Body, operators: tuple[str, ...]
) -> tuple[Workload, Body]:
    """Return a group with those before and after it, alone, and what is kept around them."""
    groups = [(group, part.keeps) for part in body for group in part.groups]
    at = next(at for at, (group, _) in enumerate(groups) if group.operators == operators)
    near = groups[max(at - 1, 0) : at + 2]
    alone = workload.select_operators(operators_of([group for group, _ in near]))
    parts: list[Part] = []
    for keeps, run in groupby(near, itemgetter(1)):
        kept = tuple(keep for keep in keeps if keep.tensor in alone.tensors)
        inside = tuple(group for group, _ in run)
        parts += [ResidentScope(keeps=kept, groups=inside)] if kept else inside
    return alone, parts


def _save_within(
    workload: Workload, body: Body, known: ScoredTree, limit: float, search: TreeSearch
) -> tuple[Body, ScoredTree]:
    """Return a mapping with less costly groups whose objective is at most ``limit``."""
    goal = search.goal
    is_sum, slack = goal.objective != "footprint", limit - known.value
    if slack <= 0 or goal.is_over:
        return body, known

    def limit_of(kind: _Kind) -> float:
        return kind.now.value + slack / kind.times if is_sum else limit

    kinds, objective = _kinds_of(workload, body, search), goal.objective
    saving = [
        (kind.saving(limit_of(kind), objective) * kind.times, at) for at, kind in enumerate(kinds)
    ]
    worth = [pair for pair in saving if pair[0] > EFFORT.least_saving * _cost(known, objective)]
    largest_first = sorted(worth, key=lambda pair: (-pair[0], pair[1]))
    tried = [kinds[at] for _, at in largest_first[: EFFORT.kinds]]
    choices = [(kind, kind.cheaper(limit_of(kind))) for kind in tried]
    for _ in range(EFFORT.tries):
        added, parts = _cheapest_choices(
            choices, known, slack if is_sum else float("inf"), objective
        )
        changed = _with_parts(body, parts)
        if changed == body:
            break
        after = measure_legal(workload, changed, goal)
        if after is not None and after.value <= limit:
            better = after.cost(objective) < known.cost(objective)
            return (changed, after) if better else (body, known)
        value = float("inf") if after is None else after.value
        slack = min(slack - (value - limit), math.nextafter(added, 0))  # another one next
        if slack <= 0:
            break
    return body, known


def _cheapest_choices(
    choices: Sequence[tuple[_Kind, Sequence[tuple[Tree | Part, ScoredTree]]]],
    known: ScoredTree,
    slack: float,
    objective: Objective,
) -> tuple[float, dict[tuple[str, ...], Part]]:
    """Return the cheapest parts by operators that raise the objective by at most ``slack``.

    With how much they raise it; that is worth it, compared with what is ``known`` of the whole.
    """
    labels: list[Label] = [(0.0, 0.0, ())]
    for kind, alternatives in choices:
        others: list[tuple[float, float, Tree | Part | None]] = [
            (
                max(figures.value - kind.now.value, 0.0) * kind.times,
                (_cost(figures, objective) - _cost(kind.now, objective)) * kind.times,
                choice,
            )
            for choice, figures in alternatives
        ]
        joined = [
            (value + more, cost + change, (*taken, choice))
            for value, cost, taken in labels
            for more, change, choice in (*others, (0.0, 0.0, None))
        ]
        labels = _keep_undominated(joined, slack)
    if slack < float("inf"):
        labels = [label for label in labels if is_worth(label[0], -label[1], known, objective)]
    added, _, chosen = labels[-1]
    parts: dict[tuple[str, ...], Part] = {}
    for (kind, _), choice in zip(choices, chosen, strict=True):
        parts |= kind.parts_with(choice) if choice is not None else {}
    return added, parts


def _choose(part: Part, origin: PartSearch, choice: Tree | Part) -> Part:
    """Return a part of a mapping with another choice in its place: a tree, or a part as it is."""
    if isinstance(choice, Group | ResidentScope):
        return choice
    assert isinstance(part, Group) and isinstance(origin, GroupSearch)  # noqa: S101, PT018
    return replace(part, tree=rename_tree(choice, origin.names))


def _kinds_of(workload: Workload, body: Body, search: TreeSearch) -> list[_Kind]:
    """Return the parts of a mapping that searches for the same goal have chosen, by search."""
    kinds: dict[object, _Kind] = {}
    for part in _parts(body, search):
        origin, held_bytes = search.goal.origins[key_of_body((part,))]
        key = id(origin.known), held_bytes
        if key not in kinds:
            is_group = isinstance(origin, GroupSearch)
            now = origin.find(held_bytes).best if is_group else origin.figures_of(part)
            if now is None:
                continue
            kinds[key] = _Kind(origin, held_bytes, now)
        kinds[key].members.append((part, origin))
        kinds[key].times += workload.times(operators_of((part,))[0])
    return list(kinds.values())


def _parts(body: Body, search: TreeSearch) -> Iterator[Part]:
    """Yield the parts whose search is known; of a scope without one, the parts inside it."""
    for part in body:
        if key_of_body((part,)) in search.goal.origins:
            yield part
        elif isinstance(part, ResidentScope):
            yield from _parts(part.groups, search)


def _with_parts(body: Body, parts: dict[tuple[str, ...], Part]) -> Body:
    """Return a body with groups replaced by those of ``parts`` with the same operators."""
    changed: list[Part] = []
    for part in body:
        new = parts.get(tuple(operators_of((part,))))
        if new is not None and isinstance(part, type(new)):
            changed.append(new)
        elif isinstance(part, ResidentScope):
            groups = _with_parts(part.groups, parts)
            changed.append(replace(part, groups=tuple(groups)))  # type: ignore[arg-type]
        else:
            changed.append(part)
    return tuple(changed)
