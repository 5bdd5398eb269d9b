"""Schedulers of mapspaces: each einsum gets the best mapping of a mapspace.

On a systolic array there is a mapspace for each stationarity, of which the best mapping is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from simaccel.errors import Fault, InputError, WorkerDiedError
from simaccel.hardware import Accelerator, SpatialArraySpec, Stationarity
from simaccel.hardware.dataflow import Constraints, parse_constraints
from simaccel.hardware.hierarchy import levels
from simaccel.mapping.tree import Group
from simaccel.mapping.tree import Mapping as WholeMapping
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import ROOM, ObjectiveLosses, SearchAccount, merge_accounts
from simaccel.search.candidate_set import UNLIMITED, CandidateSet
from simaccel.search.effort import STRATEGIES, Strategy, has_near_ties
from simaccel.search.goal import Goal
from simaccel.search.judge import FOREVER, Judge, ScoredTree, mapping_of
from simaccel.search.mapspace.limits import dataflows, limits
from simaccel.search.mapspace.mapping_target import MappingTarget, rooms_of
from simaccel.search.mapspace.mapspace_search import MapspaceResult
from simaccel.search.mapspace.nests import EmptyMapspaceError, NestResult, map_einsum
from simaccel.search.mapspace.space import INSIDE
from simaccel.search.near_ties import choose_near_tie, losses
from simaccel.search.problems import Options, Scheduler
from simaccel.search.walk import CandidateWalk, StoppingRule
from simaccel.workload import Einsum, Vector, Workload

_FEW: Final = 16
"""Most mappings of a search that a front has."""
_RUNS: Final = 12
"""Runs of good mappings without a gain after which no more run."""


Choice = tuple[MappingTarget, ...]
"""The alternatives of an einsum: on a systolic array one target for each stationarity."""


def choices(
    workload: Workload,
    accelerator: Accelerator,
    strategy: Strategy,
    constraints: Constraints,
    held: Stationarity | None = None,
) -> list[Choice]:
    """Return the einsums to map, all of them checked before the first search.

    ``held``: the stationarity of a systolic array (None: free).

    Raises:
        NotNestableError: an einsum that mapspaces don't take.
        InputError: constraints that can't be.
    """
    every = []
    for operator in workload.operators:
        if not isinstance(operator, Einsum):
            continue
        array = accelerator.array
        limits(operator, levels(accelerator), {}, constraints)  # what no array knows is said first
        by_held: dict[Stationarity | None, Constraints] = (
            {None: parse_constraints(array.dataflow)}
            if isinstance(array, SpatialArraySpec)
            else dict(dataflows(operator, constraints).items())
        )
        target = partial(MappingTarget, einsum=operator, tensors=workload.tensors)
        target = partial(target, accelerator=accelerator, strategy=strategy)
        choice = tuple(
            target(dataflow=dataflow, constraints=constraints, stationarity=kind)
            for kind, dataflow in by_held.items()
            if held in (None, kind)
        )
        if not choice:
            allowed = f"one of {', '.join(map(str, by_held))}, which --constrain leaves"
            raise InputError([Fault("command line", "--stationarity", held, allowed)])
        for alternative in choice:
            alternative.spaces()
        every.append(choice)
    return every


def search_all(
    choices: list[Choice], options: Options, workload: Workload | None = None
) -> list[NestResult]:
    """Search a mapping for each einsum; einsums of the same shape are searched once.

    ``workload`` says how often each einsum runs, for the total losses of near-ties. Several shapes
    are tasks of ``options.each``, but with a budget of time, which they share one after the other.

    Raises:
        EmptyMapspaceError: an operator has no mapping within the constraints.
    """
    firsts: dict[object, Choice] = {}
    for choice in choices:
        firsts.setdefault(shape_of(choice[0]), choice)
    distinct = [*firsts.values()]
    if len(distinct) == 1 or options.end_time() is not None:
        results: Iterable[_Searched] = _in_turn(distinct, options)
    else:
        results = _side_by_side(distinct, options)
    known: dict[object, _Searched] = {}
    for number, (shape, result) in enumerate(zip(firsts, results, strict=True), start=1):
        known[shape] = result
        options.watch(number / len(distinct), f"{result.mapped.target.einsum.name} is searched")
        for account in result.accounts:
            options.on_account(account)
    total = ObjectiveLosses()
    best = []
    for target, *_ in choices:
        search = known[shape_of(target)]
        total += search.losses.times(1 if workload is None else workload.times(target.einsum.name))
        held = search.mapped.target.stationarity
        best.append(replace(search.mapped, target=replace(target, stationarity=held)))
    options.on_losses(total)
    return best


class _Searched(NamedTuple):
    """The best mapping of an einsum, what near-ties cost, and the accounts of its searches."""

    mapped: NestResult
    losses: ObjectiveLosses
    accounts: Sequence[SearchAccount]


def _search_choice(choice: Choice, options: Options) -> _Searched:
    """Search all targets of a choice, perhaps in another process."""
    accounts: list[SearchAccount] = []
    return _Searched(*_best(choice, replace(options, on_account=accounts.append)), accounts)


def _side_by_side(choices: Sequence[Choice], options: Options) -> Iterator[_Searched]:
    """Yield the results of searches that are tasks of ``options.each``.

    Raises:
        WorkerDiedError: its process died; it names the einsum.
    """
    search_one = partial(_search_choice, options=options.without_callbacks())
    names = iter([target.einsum.name for target, *_ in choices])
    try:
        for result in options.each(search_one, choices):
            next(names)
            yield result
    except WorkerDiedError as error:
        raise WorkerDiedError(f"{next(names)}: {error}") from None


def _in_turn(choices: Sequence[Choice], options: Options) -> Iterator[_Searched]:
    """Yield the results of searches one after the other, with their progress and share of time."""
    for at, choice in enumerate(choices):
        name = f"{choice[0].einsum.name} ({at + 1} of {len(choices)})"

        def watch(done: float, note: str, at: int = at, name: str = name) -> None:
            options.watch((at + done) / len(choices), f"{name}: {note}")

        yield _search_choice(choice, replace(options.share(len(choices) - at), watch=watch))


@dataclass(frozen=True)
class _Picked:
    """The choice among some mappings with as many slots as fit, and its figures.

    ``least``: figures of the best, over which the choice was perhaps preferred as a near-tie.
    """

    mapped: NestResult
    scored: ScoredTree
    least: ScoredTree


RoomResults = list[tuple[MappingTarget, MapspaceResult]]
"""Results for one einsum: a search for each stationarity and buffer room."""


def _best(choice: Choice, options: Options) -> tuple[NestResult, ObjectiveLosses]:
    """Search all targets of a choice, and take what is best with the slots that there is room for.

    Also return what that gives up against the best of the objective.

    A search assumes one slot for each tile, and that the busiest resource hides all others.
    Where memory outside takes time, it is also made within half of the memories, so that all
    tiles can have two; the machine chooses among the good ones. Those of smaller mapspaces inside
    are among them: so none is better than a larger one.

    Raises:
        EmptyMapspaceError: there is no mapping within the constraints.
    """
    searches = [(target, room) for target in choice for room in rooms_of(target.hierarchy)]
    strategy = choice[0].strategy
    every: dict[Strategy, RoomResults] = {}
    empty: EmptyMapspaceError | None = None
    for at, (target, room) in enumerate(searches):

        def watch(done: float, note: str, at: int = at) -> None:
            options.watch((at + done) / len(searches), note)

        inner = len(searches) > 1
        share = replace(options.share(len(searches) - at), watch=watch)
        try:
            results = _founds(replace(target, room=room), share, inner=inner)
        except EmptyMapspaceError as error:
            empty = empty or error
            continue
        for name, result in results.items():
            every.setdefault(name, []).append((target, result))
    if strategy not in every:
        assert empty is not None  # noqa: S101 - there was a search
        raise empty
    if len(searches) == 1 and not has_near_ties(options.effort.aim, options.tolerance):
        target, found_alone = every[strategy][0]
        options.on_account(_account(target, found_alone))
        return NestResult(target=target, found=found_alone), ObjectiveLosses()
    judge = Judge(choice[0].accelerator)
    picked = _pick(every, strategy, options, judge, {})
    return picked.mapped, losses(picked.scored, picked.least)


def _founds(
    target: MappingTarget, options: Options, *, inner: bool
) -> dict[Strategy, MapspaceResult]:
    """Search a mapspace; with ``inner`` also give what was found in those inside."""
    inside = INSIDE[target.strategy] if target.strategy != "padded" and inner else ()
    effort = options.share(1 + len(inside)).effort
    result = map_einsum(target, effort, options.watch).found
    known: dict[Strategy, MapspaceResult] = {target.strategy: result}
    if inside:
        known |= {inner_result.space.mapspace: inner_result for inner_result in result.inside}
    for at, name in enumerate(inside):
        if name in known:
            continue
        share = options.share(len(inside) - at)
        with suppress(EmptyMapspaceError):
            known = _founds(replace(target, strategy=name), share, inner=True) | known
    return known


def _pick(
    every: Mapping[Strategy, RoomResults],
    strategy: Strategy,
    options: Options,
    judge: Judge,
    known: dict[Strategy, _Picked],
) -> _Picked:
    """Return the best of a mapspace and of those inside it.

    ``known``: what was picked from smaller ones.
    """
    if strategy in known:
        return known[strategy]
    inside = [name for name in INSIDE[strategy] if name in every] if strategy != "padded" else []
    best = min(
        (_pick(every, name, options, judge, known) for name in inside),
        key=lambda picked: picked.least.rank,
        default=None,
    )
    accounts, refused = [], None
    for target, result in every[strategy]:
        walk = _walk(target, result, options, judge, best)
        accounts.append(replace(_account(target, result), ran=len(walk.cycles), value=walk.best))
        for number in walk.numbers()[:1]:
            least, good = walk.score(number), result.good
            if good is not None and (best is None or least.rank < best.least.rank):
                chosen, scored = choose_near_tie(walk.candidates, number, least)
                at = int(walk.candidates.columns.place[chosen])
                picked_result = replace(result, best=good.take(slice(at, at + 1)))
                best = _Picked(NestResult(target=target, found=picked_result), scored, least)
        refused = refused or judge.refusal
    if best is None:
        assert refused is not None  # noqa: S101 - the machine took none
        raise refused
    options.on_account(replace(merge_accounts(strategy, accounts), value=best.scored.value))
    known[strategy] = best
    return best


def _walk(
    target: MappingTarget,
    result: MapspaceResult,
    options: Options,
    judge: Judge,
    best: _Picked | None,
) -> CandidateWalk:
    """Run the good mappings of a search, with two slots a tile where there is room."""
    assert result.good is not None  # noqa: S101 - narrows the type
    family = target.family(result.space, result.good, double=True)
    group, aim = target.empty(result.space), options.effort.aim
    candidates = CandidateSet(group, [family], judge, aim, tolerance=options.tolerance)
    walk = CandidateWalk(candidates)
    below = best.scored.value if best else FOREVER
    walk.go(UNLIMITED, StoppingRule(gap=0.0, patience=_RUNS), below)
    return walk


def _account(target: MappingTarget, result: MapspaceResult) -> SearchAccount:
    """Return the account of a search; its score is a lower bound if the search was exhaustive."""
    return SearchAccount(
        name=target.strategy,
        operators=(target.einsum.name,),
        space=result.size,
        pruned={ROOM: result.tried - result.valid},
        rest_bound=result.score if result.complete else 0.0,
        complete=True,
        ended=result.ended,
        curve=result.curve,
        value=result.score,
    )


def shape_of(target: MappingTarget) -> object:
    """Return a key that einsums of the same search have in common."""
    einsum = target.einsum
    operands = (*einsum.inputs, einsum.output)
    widths = tuple(target.tensors[one.tensor].bits for one in operands)
    return tuple(einsum.ranks.items()), tuple(one.projection for one in operands), widths


def mapping_from(
    workload: Workload, accelerator: Accelerator, strategy: Strategy, mapped: list[NestResult]
) -> WholeMapping:
    """Combine the results into a mapping; vector operators get their fastest blocks.

    Raises:
        NothingFitsError: not even the smallest block of a vector operator fits the buffer.
    """
    known = {each.target.einsum.name: each for each in mapped}
    search = TreeSearch(Goal(Judge(accelerator)))
    groups = [
        search.group(workload, operator.name)
        if isinstance(operator, Vector)
        else double_buffered(known[operator.name])
        for operator in workload.operators
    ]
    return mapping_of(workload, strategy, groups)


def double_buffered(mapped: NestResult) -> Group:
    """Return the mapping with two slots for tiles where they fit, inputs first."""
    found = mapped.found
    assert found.best is not None  # noqa: S101 - narrows the type
    return mapped.target.group(found.space, found.best, double=True)


def elite(mapped: NestResult) -> Iterator[tuple[Group]]:
    """Yield the best mappings of each spatial distribution, with two slots a tile."""
    found, target = mapped.found, mapped.target
    assert found.good is not None  # noqa: S101 - narrows the type
    for at in range(min(len(found.good), _FEW)):
        yield (target.group(found.space, found.good.take(slice(at, at + 1)), double=True),)


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, strategy: Strategy
) -> WholeMapping:
    constraints = parse_constraints(options.constraints)
    found = choices(workload, accelerator, strategy, constraints, options.stationarity)
    mapped = search_all(found, options, workload)
    return mapping_from(workload, accelerator, strategy, mapped)


SCHEDULERS: dict[str, Scheduler] = {
    strategy: partial(_schedule, strategy=strategy) for strategy in STRATEGIES
}
