"""Near-ties of whole workloads: of all about as good as the best, what costs least.

Of those about as fast as the fastest that is less energy where it is known, else fewer bytes; of
those about as good in another objective fewer cycles. Whole mappings are compared by their runs, so
what is chosen is never worse than the best by more than the tolerance. What is left of it goes to
the groups that save most with it: each has some trees that cost less and take longer, and of all
combinations of them the one with the least cost is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simaccel.errors import SimaccelError
from simaccel.mapping.tree import Group, ResidentScope
from simaccel.pareto import keep_cheaper
from simaccel.schedulers.schedule_steps import ScheduleStep, value_of
from simaccel.schedulers.sequences import measure_groups, unique, value_of_groups
from simaccel.schedulers.staged_attention import StagedAttention
from simaccel.schedulers.tree_search import GroupSearch, TreeSearch
from simaccel.search.candidate_set import ScoredTree
from simaccel.search.canonical import rename_tree
from simaccel.search.effort import EFFORT, Objective
from simaccel.search.judge import Body, key_of_body, operators_of
from simaccel.search.near_ties import cost_of, decides, losses
from simaccel.workload import Workload

Part = Group | ResidentScope


def choose(workload: Workload, bodies: Sequence[Body], search: TreeSearch) -> Body:
    """Return what a user would choose of several mappings of a workload, or a cheaper near-tie.

    What that gives up is told to the goal.

    Raises:
        SimaccelError: the machine refuses all of them.

    """
    goal, few = search.goal, unique(bodies)
    is_decided = decides(goal.objective, goal.tolerance)
    if len(few) == 1 and (not is_decided or goal.is_over):
        return few[0]
    scored = dict(_measure(workload, few, search))
    fastest = min(scored, key=lambda at: scored[at].rank)
    if not is_decided:
        return few[fastest]
    least = scored[fastest]
    limit = least.value * (1 + goal.tolerance)
    near = [at for at, figures in scored.items() if figures.value <= limit]
    cheapest = min(near, key=lambda at: cost_of(scored[at], goal.objective))
    saved = [
        _save_within(workload, few[at], scored[at], limit, search)
        for at in dict.fromkeys((cheapest, fastest))
    ]
    body, chosen = min(saved, key=lambda pair: cost_of(pair[1], goal.objective))
    goal.gave(losses(chosen, min(least, chosen, key=lambda figures: figures.rank)))
    return body


def _measure(
    workload: Workload, bodies: Sequence[Body], search: TreeSearch
) -> Iterator[tuple[int, ScoredTree]]:
    refused: SimaccelError | None = None
    taken = False
    for at, body in enumerate(bodies):
        try:
            yield at, measure_groups(workload, body, search.goal)
            taken = True
        except SimaccelError as error:  # the machine takes fewer trees than the closed form
            refused = error
    if not taken and refused is not None:
        raise refused


# -- other ways to fuse


def frugal_way(
    steps: Sequence[ScheduleStep], way: Sequence[ScheduleStep], search: TreeSearch
) -> list[ScheduleStep]:
    """Return the way that costs least of those that are not slower than the fastest by more.

    ``way``: the fastest. Of steps that weren't searched, as others have slightly lower bounds, the
    least costly tree is looked for if they may move fewer bytes.
    """
    goal = search.goal
    limit = value_of(way, sum) * (1 + goal.tolerance)
    promising = sorted(_promising(steps, way, limit, goal.room), key=lambda promise: promise[0])
    new = [step.find_least_costly(most) for _, step, most in promising[: EFFORT.frugal]]
    searched = [step for step in (*steps, *new) if step and step.scored]
    states: dict[int, list[_State]] = {0: [_State(0.0, 0.0, ())]}
    for stop in range(1, way[-1].stop + 1):
        ways = [
            _State(state.value + step.value, state.cost + _cost_of_step(step), (*state.taken, step))
            for step in searched
            if step.stop == stop
            for state in states.get(step.start, ())
        ]
        states[stop] = _keep_undominated(ways, limit)
    return list(states[way[-1].stop][-1].taken)


def _cost_of_step(step: ScheduleStep) -> float:
    assert step.scored is not None  # noqa: S101 - callers have looked
    return _cost(step.scored, "cycles") * step.times


def _promising(
    steps: Sequence[ScheduleStep], way: Sequence[ScheduleStep], limit: float, room: int
) -> Iterator[tuple[float, ScheduleStep, float]]:
    """Yield how many bytes more steps move, if fewer, than the part of a way that they replace.

    With each the objective that it is not above in a way within the limit.
    """
    left = limit - value_of(way, sum)
    for step in steps:
        inside = [part for part in way if step.start <= part.start and part.stop <= step.stop]
        whole = sum(part.stop - part.start for part in inside) == step.stop - step.start
        if step.body is not None or isinstance(step.candidates, StagedAttention) or not whole:
            continue
        most = left + value_of(inside, sum)
        fewest = min(grid.fewest(room, most / step.times) for grid in step.candidates.sets)
        more = (fewest - sum(part.ties[0] for part in inside)) * step.times
        if more < 0:
            yield more, step, most


@dataclass(frozen=True)
class _State:
    """A combination: what it takes of the objective, its cost, and what was taken."""

    value: float
    cost: float
    taken: tuple[Any, ...]


def _keep_undominated(states: Sequence[_State], limit: float) -> list[_State]:
    """Return states within a limit, each of less cost than those of a better objective."""
    kept = keep_cheaper(
        (state for state in states if state.value <= limit),
        rank=lambda state: (state.value, state.cost),
        cost=lambda state: state.cost,
    )
    return kept[:: -(-len(kept) // EFFORT.states) or 1] + kept[-1:]


def _cost(scored: ScoredTree, objective: Objective) -> float:
    """Return the cycles; of about equal cycles pJ where they are known, else bytes."""
    if objective != "cycles":
        return float(scored.cycles)
    return scored.energy_pj or float(scored.dram_bytes)


# -- other trees of the same groups


@dataclass
class _Kind:
    """Parts of a mapping that have one origin: what may stand in each one's place.

    ``members``: each part's operators, and what makes the part of a choice. ``times``: how often
    they run in all. ``saving``: what they may save at most.
    """

    now: ScoredTree
    choices: Callable[[float], Sequence[tuple[object, ScoredTree]]]
    saving: Callable[[float], float]
    members: dict[tuple[str, ...], Callable[[object], Part]] = field(default_factory=dict)
    times: int = 0


def _save_within(
    workload: Workload, body: Body, known: ScoredTree, limit: float, search: TreeSearch
) -> tuple[Body, ScoredTree]:
    """Return a mapping with groups that cost less, whose objective is not above a limit."""
    goal = search.goal
    is_sum, left = goal.objective != "footprint", limit - known.value
    if left <= 0 or goal.is_over:
        return body, known

    def limit_of(kind: _Kind) -> float:
        return kind.now.value + left / kind.times if is_sum else limit

    kinds = _kinds_of(workload, body, search)
    saving = [(kind.saving(limit_of(kind)) * kind.times, at) for at, kind in enumerate(kinds)]
    worth = [pair for pair in saving if pair[0] > EFFORT.worth * _cost(known, goal.objective)]
    most_first = sorted(worth, key=lambda pair: (-pair[0], pair[1]))
    few = [kinds[at] for _, at in most_first[: EFFORT.kinds]]
    choices = [(kind, kind.choices(limit_of(kind))) for kind in few]
    for _ in range(EFFORT.tries):
        taken = _cheapest_choices(choices, left if is_sum else float("inf"), goal.objective)
        changed = _with_parts(body, taken)
        if changed == body:
            break
        value = value_of_groups(workload, changed, goal)
        if value <= limit:
            after = measure_groups(workload, changed, goal)
            better = cost_of(after, goal.objective) < cost_of(known, goal.objective)
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
    """Return parts by their operators: the least cost for ``left`` more of the objective."""
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
        operators: make(made)
        for (kind, _), made in zip(choices, states[-1].taken, strict=True)
        if made is not None
        for operators, make in kind.members.items()
    }


def _kinds_of(workload: Workload, body: Body, search: TreeSearch) -> list[_Kind]:
    """Return the parts of a mapping that a search of the same goal has chosen."""
    kinds: dict[object, _Kind] = {}
    for part in _parts(body, search):
        origin, held_bytes = search.goal.origins[key_of_body((part,))]
        is_staged = isinstance(origin, StagedAttention)
        key = id(origin if is_staged else origin.known), held_bytes
        if key not in kinds:
            new = _staged_kind(origin, part) if is_staged else _alike_kind(origin, held_bytes)
            if new is None:
                continue
            kinds[key] = new
        kind, make = kinds[key], _same_part if is_staged else _tree_maker(part, origin)
        kind.members[tuple(operators_of((part,)))] = make
        kind.times += workload.times(operators_of((part,))[0])
    return list(kinds.values())


def _parts(body: Body, search: TreeSearch) -> Iterator[Part]:
    """Yield parts whose origin is known, those inside of scopes if not that of the whole."""
    for part in body:
        if key_of_body((part,)) in search.goal.origins:
            yield part
        elif isinstance(part, ResidentScope):
            yield from _parts(part.groups, search)


def _alike_kind(origin: GroupSearch, held_bytes: int) -> _Kind | None:
    best = origin.find(held_bytes).best
    if best is None:
        return None
    room = origin.goal.room - held_bytes

    def saving(limit: float) -> float:
        least = min(grid.least_cost(room, limit) for grid in origin.sets)
        return _cost(best, origin.goal.objective) - least

    def choices(limit: float) -> list[tuple[object, ScoredTree]]:
        return [(scored.tree, scored) for scored in origin.find_cheaper(limit, held_bytes)]

    return _Kind(best, choices, saving)


def _staged_kind(origin: StagedAttention, part: Part) -> _Kind | None:
    goal = origin.search.goal

    def choices(limit: float) -> list[tuple[object, ScoredTree]]:
        return [(body[0], one) for body, one in origin.find_cheaper(limit) if len(body) == 1]

    now = next((one for body, one in origin.find_cheaper(float("inf")) if body == (part,)), None)
    if now is None:
        return None
    return _Kind(now, choices, lambda _: _cost(now, goal.objective))


def _same_part(made: object) -> Part:
    assert isinstance(made, Group | ResidentScope)  # noqa: S101 - narrows the type
    return made


def _tree_maker(part: Part, origin: GroupSearch) -> Callable[[object], Part]:
    assert isinstance(part, Group)  # noqa: S101 - narrows the type

    def make(made: object) -> Group:
        assert isinstance(made, tuple)  # noqa: S101 - narrows the type
        return replace(part, tree=rename_tree(made, origin.names))

    return make


def _with_parts(body: Body, parts: dict[tuple[str, ...], Part]) -> Body:
    """Return groups with others in the place of some, by their operators."""
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
