"""Near-ties of whole workloads: the least costly mapping within the tolerance of the best.

The cost is energy where it is known, else DRAM bytes, if the objective is cycles; it is cycles for
other objectives. Whole mappings are compared by runs, so the choice is never worse than the best by
more than the tolerance. What is left of the tolerance is spent on the groups that save most: each
has alternative trees that are cheaper and slower, and the combination of the least cost is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simaccel.errors import SimaccelError
from simaccel.mapping.tree import ResidentScope
from simaccel.pareto import keep_cheaper
from simaccel.schedulers.group_search import Part
from simaccel.schedulers.schedule_steps import PartSearch, ScheduleStep, value_of
from simaccel.schedulers.sequences import measure_groups, unique, value_of_groups
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.effort import EFFORT, Objective
from simaccel.search.judge import FOREVER, Body, key_of_body, operators_of
from simaccel.search.near_ties import has_near_ties, losses
from simaccel.search.scored_tree import ScoredTree, main_cost
from simaccel.workload import Workload


def choose(workload: Workload, bodies: Sequence[Body], search: TreeSearch) -> Body:
    """Return the least costly mapping within the tolerance of the fastest.

    The losses against the fastest are reported to ``Goal.on_losses``.

    Raises:
        SimaccelError: the machine refuses all of them.

    """
    goal, few = search.goal, unique(bodies)
    is_decided = has_near_ties(goal.objective, goal.tolerance)
    if len(few) == 1 and (not is_decided or goal.is_over):
        return few[0]
    scored = dict(_measure(workload, few, search))
    fastest = min(scored, key=lambda at: scored[at].rank)
    if not is_decided:
        return few[fastest]
    least = scored[fastest]
    limit = least.value * (1 + goal.tolerance)
    near = [at for at, figures in scored.items() if figures.value <= limit]
    cheapest = min(near, key=lambda at: scored[at].cost(goal.objective))
    saved = [
        _save_within(workload, few[at], scored[at], limit, search)
        for at in dict.fromkeys((cheapest, fastest))
    ]
    body, chosen = min(saved, key=lambda pair: pair[1].cost(goal.objective))
    goal.on_losses(losses(chosen, min(least, chosen, key=lambda figures: figures.rank)))
    return body


def _measure(
    workload: Workload, bodies: Sequence[Body], search: TreeSearch
) -> Iterator[tuple[int, ScoredTree]]:
    refused: SimaccelError | None = None
    taken = False
    search.goal.judge.judge(workload, bodies, FOREVER)  # all of them, perhaps side by side
    for at, body in enumerate(bodies):
        try:
            yield at, measure_groups(workload, body, search.goal)
            taken = True
        except SimaccelError as error:  # the machine takes fewer trees than the closed form
            refused = error
    if not taken and refused is not None:
        raise refused


# -- other fusions


def cheapest_near_tie(
    steps: Sequence[ScheduleStep], path: Sequence[ScheduleStep], search: TreeSearch
) -> list[ScheduleStep]:
    """Return the least costly path of steps within the tolerance of the cheapest path ``path``.

    Steps that were not searched, as others have slightly lower bounds, are searched for their least
    costly tree if they may move fewer bytes.
    """
    goal = search.goal
    limit = value_of(path, sum) * (1 + goal.tolerance)
    saving_steps = sorted(
        _steps_of_fewer_bytes(steps, path, limit, goal.room), key=lambda saving: saving[0]
    )
    new = [step.find_least_costly(most) for _, step, most in saving_steps[: EFFORT.fewer_bytes]]
    searched = [step for step in (*steps, *new) if step and step.scored]
    states: dict[int, list[_State]] = {0: [_State(0.0, 0.0, ())]}
    for stop in range(1, path[-1].stop + 1):
        paths = [
            _State(state.value + step.value, state.cost + _cost_of_step(step), (*state.taken, step))
            for step in searched
            if step.stop == stop
            for state in states.get(step.start, ())
        ]
        states[stop] = _keep_undominated(paths, limit)
    return list(states[path[-1].stop][-1].taken)


def _cost_of_step(step: ScheduleStep) -> float:
    assert step.scored is not None  # noqa: S101 - callers have looked
    return _cost(step.scored, "cycles") * step.times


def _steps_of_fewer_bytes(
    steps: Sequence[ScheduleStep], path: Sequence[ScheduleStep], limit: float, room: int
) -> Iterator[tuple[float, ScheduleStep, float]]:
    """Yield the steps that may move fewer bytes than the part of a path that they replace.

    With each the difference in bytes, and its highest objective in a path within the limit.
    """
    left = limit - value_of(path, sum)
    for step in steps:
        inside = [part for part in path if step.start <= part.start and part.stop <= step.stop]
        whole = sum(part.stop - part.start for part in inside) == step.stop - step.start
        if step.body is not None or not whole:
            continue
        most = left + value_of(inside, sum)
        fewest = step.candidates.fewest_bytes(room, most / step.times)
        more = (fewest - sum(part.ties[0] for part in inside)) * step.times
        if more < 0:
            yield more, step, most


@dataclass(frozen=True)
class _State:
    """A combination of choices: its objective, its cost, and the choices."""

    value: float
    cost: float
    taken: tuple[Any, ...]


def _keep_undominated(states: Sequence[_State], limit: float) -> list[_State]:
    """Return the states within a limit, each of less cost than those of a better objective."""
    kept = keep_cheaper(
        (state for state in states if state.value <= limit),
        rank=lambda state: (state.value, state.cost),
        cost=lambda state: state.cost,
    )
    return kept[:: -(-len(kept) // EFFORT.states) or 1] + kept[-1:]


def _cost(scored: ScoredTree, objective: Objective) -> float:
    return main_cost(scored.cost(objective))


# -- other trees of the same groups


@dataclass
class _Kind:
    """Parts of a mapping that the same search chose, while ``held_bytes`` of the buffer were held.

    ``members``: each part with its search. ``times``: how often they run in all.
    """

    origin: PartSearch
    held_bytes: int
    now: ScoredTree
    members: list[tuple[Part, PartSearch]] = field(default_factory=list)
    times: int = 0

    def saving(self, limit: float, objective: Objective) -> float:
        """Return the most that another choice may save in each run."""
        return _cost(self.now, objective) - self.origin.least_cost(limit, self.held_bytes)


def _save_within(
    workload: Workload, body: Body, known: ScoredTree, limit: float, search: TreeSearch
) -> tuple[Body, ScoredTree]:
    """Return a mapping with less costly groups whose objective is at most ``limit``."""
    goal = search.goal
    is_sum, left = goal.objective != "footprint", limit - known.value
    if left <= 0 or goal.is_over:
        return body, known

    def limit_of(kind: _Kind) -> float:
        return kind.now.value + left / kind.times if is_sum else limit

    kinds, objective = _kinds_of(workload, body, search), goal.objective
    saving = [
        (kind.saving(limit_of(kind), objective) * kind.times, at) for at, kind in enumerate(kinds)
    ]
    worth = [pair for pair in saving if pair[0] > EFFORT.least_saving * _cost(known, objective)]
    most_first = sorted(worth, key=lambda pair: (-pair[0], pair[1]))
    few = [kinds[at] for _, at in most_first[: EFFORT.kinds]]
    choices = [(kind, kind.origin.cheaper_choices(limit_of(kind), kind.held_bytes)) for kind in few]
    for _ in range(EFFORT.tries):
        taken = _cheapest_choices(choices, left if is_sum else float("inf"), objective)
        changed = _with_parts(body, taken)
        if changed == body:
            break
        value = value_of_groups(workload, changed, goal)
        if value <= limit:
            after = measure_groups(workload, changed, goal)
            better = after.cost(objective) < known.cost(objective)
            return (changed, after) if better else (body, known)
        left -= value - limit
        if left <= 0:
            break
    return body, known


def _cheapest_choices(
    choices: Sequence[tuple[_Kind, Sequence[tuple[object, ScoredTree]]]],
    left: float,
    objective: Objective,
) -> dict[tuple[str, ...], Part]:
    """Return the parts of least cost that raise the objective by at most ``left``, by operators."""
    states = [_State(0.0, 0.0, ())]
    for kind, every in choices:
        more = [
            _State(
                max(figures.value - kind.now.value, 0.0) * kind.times,
                (_cost(figures, objective) - _cost(kind.now, objective)) * kind.times,
                (made,),
            )
            for made, figures in every
        ]
        more.append(_State(0.0, 0.0, (None,)))
        states = _keep_undominated(
            [
                _State(old.value + new.value, old.cost + new.cost, (*old.taken, *new.taken))
                for old in states
                for new in more
            ],
            left,
        )
    return {
        tuple(operators_of((part,))): origin.choose(part, made)
        for (kind, _), made in zip(choices, states[-1].taken, strict=True)
        if made is not None
        for part, origin in kind.members
    }


def _kinds_of(workload: Workload, body: Body, search: TreeSearch) -> list[_Kind]:
    """Return the parts of a mapping that searches of the same goal have chosen."""
    kinds: dict[object, _Kind] = {}
    for part in _parts(body, search):
        origin, held_bytes = search.goal.origins[key_of_body((part,))]
        key = id(origin.known), held_bytes
        if key not in kinds:
            now = origin.figures_of(part, held_bytes)
            if now is None:
                continue
            kinds[key] = _Kind(origin, held_bytes, now)
        kinds[key].members.append((part, origin))
        kinds[key].times += workload.times(operators_of((part,))[0])
    return list(kinds.values())


def _parts(body: Body, search: TreeSearch) -> Iterator[Part]:
    """Yield the parts with a known search; those inside a scope if that of the scope is unknown."""
    for part in body:
        if key_of_body((part,)) in search.goal.origins:
            yield part
        elif isinstance(part, ResidentScope):
            yield from _parts(part.groups, search)


def _with_parts(body: Body, parts: dict[tuple[str, ...], Part]) -> Body:
    """Return a body with some groups replaced, by their operators."""
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
