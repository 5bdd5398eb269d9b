"""Generators: the steps of a dataflow, each a way to map some consecutive operators.

The search for one mapping and the search for a front use the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from simaccel.analytic.family import Family
from simaccel.mapping.space import IterationSpace
from simaccel.schedulers import flat
from simaccel.schedulers.attention import GRANULARITIES, problem_of
from simaccel.schedulers.chains import (
    chain_family,
    chain_of,
    families_of,
    fusion_fault,
    is_epilogue,
    longest_epilogues,
    search_epilogue,
)
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.schedule_steps import SHARED_ROWS, ScheduleStep
from simaccel.schedulers.staged_attention import StagedAttention
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import EFFORT
from simaccel.search.problems import Attention, Options, attention_of, parts
from simaccel.workload import Einsum, Workload

STAGED: Final = "flex"
"""The kind of attention whose operators run one after the other, with rows resident on chip."""
_ATTENTIONS: Final = {"naive": STAGED}
"""Kinds of attention of dataflows, if not of the same name."""
_FAMILIES: Final = ("flat", "flash", STAGED)


def steps_of(
    workload: Workload, search: TreeSearch, options: Options, dataflow: str = "best"
) -> list[ScheduleStep]:
    """Return all steps of a dataflow; nothing is searched yet.

    ``best`` may fuse any run of consecutive operators. Other dataflows have attentions at their
    granularities, single operators, and epilogues where the chip's compiler fuses them.
    """
    names = [operator.name for operator in workload.operators]
    if dataflow == "best":
        return [step for at in range(len(names)) for step in _steps(workload, at, search, options)]
    return list(_own_steps(workload, search, options, dataflow))


def attention_kinds(dataflow: str) -> list[str]:
    """Return the kinds of attention of a dataflow: its family, with each granularity if it has any.

    >>> attention_kinds("flat-h"), attention_kinds("flash"), attention_kinds("naive")
    (['flat-h'], ['flash'], ['flex-m', 'flex-b', 'flex-h', 'flex-r'])
    """
    name, _, granularity = dataflow.partition("-")
    if name == "best":
        return [kind for family in _FAMILIES for kind in attention_kinds(family)]
    family = _ATTENTIONS.get(name, name)
    if family == "flash":
        return [family]
    return [f"{family}-{letter}" for letter in granularity or GRANULARITIES]


def _own_steps(
    workload: Workload, search: TreeSearch, options: Options, dataflow: str
) -> Iterator[ScheduleStep]:
    """Yield the steps of `naive`, `flex`, `flat` or `flash`, or of one granularity of them."""
    several = len(workload.operators) > 1  # else there is nothing to fuse
    fuses = several and search.accelerator.compiler.epilogues and not dataflow.startswith("naive")
    behind, at = longest_epilogues(workload) if fuses else {}, 0
    for part in parts(workload):
        if isinstance(part, tuple):
            yield from _attention(workload, part, at, search, options, dataflow)
            at += len(part)
            continue
        yield _single_step(workload, at, search)
        if part in behind:
            chain = behind[part]
            together = search_epilogue(search, chain)
            yield _step(workload, at, len(chain.group.operators), "epilogue", together, search)
        at += 1


def _step(
    workload: Workload,
    start: int,
    count: int,
    kind: str,
    candidates: GroupSearch | StagedAttention,
    search: TreeSearch,
) -> ScheduleStep:
    times = workload.times(workload.operators[start].name)
    return ScheduleStep(start, start + count, kind, candidates, search.goal, times)


def _single_step(workload: Workload, start: int, search: TreeSearch) -> ScheduleStep:
    name = workload.operators[start].name
    candidates = search.operator_candidates(workload, name)
    return _step(workload, start, 1, "alone", candidates, search)


def _steps(
    workload: Workload, start: int, search: TreeSearch, options: Options
) -> Iterator[ScheduleStep]:
    """Yield the steps that begin with an operator: alone, and with those after it."""
    names = [operator.name for operator in workload.operators[start : start + EFFORT.longest]]
    alone = _single_step(workload, start, search)
    yield alone
    if alone.value < float("inf") and search.goal.is_over:
        return
    for count in range(2, len(names) + 1):
        part = attention_of(workload, names[:count])
        if part is not None:
            yield from _attention(workload, part, start, search, options, "best")
        elif apart := fusion_fault(workload, names[:count]):
            fused = tuple(names[:count])
            account = SearchAccount(name=SHARED_ROWS, operators=fused, space=0, left_out=apart)
            options.on_account(account)
        else:
            yield from _chain(workload, names[:count], start, search)


def _chain(
    workload: Workload, names: Sequence[str], start: int, search: TreeSearch
) -> Iterator[ScheduleStep]:
    """Yield a run of operators with shared rows, if they are one."""
    if sum(isinstance(workload.operator(name), Einsum) for name in names) > EFFORT.einsums:
        return
    chain = chain_of(workload, names)
    if chain is None:
        return

    def families(space: IterationSpace) -> list[list[Family]]:
        piece, on = replace(chain, space=space), search.accelerator
        return [[family] for family in (chain_family(piece, on), *families_of(piece, on))]

    candidates = search.group_search(
        chain.group, chain.space, families, SHARED_ROWS, label=SHARED_ROWS
    )
    if candidates.bound(search.goal.room) < float("inf"):
        kind = "epilogue" if is_epilogue(chain) else SHARED_ROWS
        yield _step(workload, start, len(names), kind, candidates, search)


def _attention(
    workload: Workload,
    part: Attention,
    start: int,
    search: TreeSearch,
    options: Options,
    dataflow: str,
) -> Iterator[ScheduleStep]:
    """Yield an attention as each kind of a dataflow maps it."""
    problem = problem_of(workload, part)
    staged = StagedAttention(problem, search)
    kinds = attention_kinds(dataflow)
    fitting = flat.fitting_kinds(problem, kinds, search.accelerator)
    for kind in kinds:
        if kind.startswith(STAGED):
            yield _step(workload, start, len(part), kind, staged, search)
        elif kind in fitting:
            candidates = flat.candidates(problem, search, options, kind)
            yield _step(workload, start, len(part), kind, candidates, search)
