"""Generators: the steps of a dataflow, each a way to map some consecutive operators.

The search for one mapping and the search for a front use the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    steps = _StepGenerator(workload, search, options, dataflow)
    if dataflow != "best":
        return list(steps.dataflow_steps())
    return [step for at in range(len(workload.operators)) for step in steps.from_operator(at)]


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


@dataclass(frozen=True)
class _StepGenerator:
    """The steps of a dataflow."""

    workload: Workload
    search: TreeSearch
    options: Options
    dataflow: str

    def dataflow_steps(self) -> Iterator[ScheduleStep]:
        """Yield the steps of `naive`, `flex`, `flat` or `flash`, or of one granularity of them."""
        fuses = len(self.workload.operators) > 1 and self.search.accelerator.compiler.epilogues
        is_fixed = self.dataflow.startswith("naive")
        behind, at = longest_epilogues(self.workload) if fuses and not is_fixed else {}, 0
        for part in parts(self.workload):
            if isinstance(part, tuple):
                yield from self._attention(part, at)
                at += len(part)
                continue
            yield self._single_step(at)
            if part in behind:
                chain = behind[part]
                together = search_epilogue(self.search, chain)
                yield self._step(at, len(chain.group.operators), "epilogue", together)
            at += 1

    def from_operator(self, start: int) -> Iterator[ScheduleStep]:
        """Yield the steps that begin with an operator: alone, and with those after it."""
        operators = self.workload.operators[start : start + EFFORT.longest]
        names = tuple(operator.name for operator in operators)
        alone = self._single_step(start)
        yield alone
        if alone.value < float("inf") and self.search.goal.is_over:
            return
        for count in range(2, len(names) + 1):
            fused = names[:count]
            part = attention_of(self.workload, fused)
            if part is not None:
                yield from self._attention(part, start)
            elif apart := fusion_fault(self.workload, fused):
                account = SearchAccount(
                    name=SHARED_ROWS, operators=fused, space=0, unfused_reason=apart
                )
                self.options.on_account(account)
            else:
                yield from self._chain(fused, start)

    def _step(
        self, start: int, count: int, kind: str, candidates: GroupSearch | StagedAttention
    ) -> ScheduleStep:
        times = self.workload.times(self.workload.operators[start].name)
        return ScheduleStep(start, start + count, kind, candidates, self.search.goal, times)

    def _single_step(self, start: int) -> ScheduleStep:
        name = self.workload.operators[start].name
        candidates = self.search.operator_candidates(self.workload, name)
        return self._step(start, 1, "alone", candidates)

    def _chain(self, names: Sequence[str], start: int) -> Iterator[ScheduleStep]:
        """Yield a run of operators with shared rows, if they are one."""
        if sum(isinstance(self.workload.operator(n), Einsum) for n in names) > EFFORT.einsums:
            return
        chain = chain_of(self.workload, names)
        if chain is None:
            return

        def families(space: IterationSpace) -> list[list[Family]]:
            piece, on = replace(chain, space=space), self.search.accelerator
            return [[family] for family in (chain_family(piece, on), *families_of(piece, on))]

        candidates = self.search.group_search(
            chain.group, chain.space, families, SHARED_ROWS, label=SHARED_ROWS
        )
        if candidates.bound(self.search.goal.room) < float("inf"):
            kind = "epilogue" if is_epilogue(chain) else SHARED_ROWS
            yield self._step(start, len(names), kind, candidates)

    def _attention(self, part: Attention, start: int) -> Iterator[ScheduleStep]:
        """Yield an attention as each kind of the dataflow maps it."""
        problem = problem_of(self.workload, part)
        staged = StagedAttention(problem, self.search)
        kinds = attention_kinds(self.dataflow)
        fitting = flat.fitting_kinds(problem, kinds, self.search.accelerator)
        for kind in kinds:
            if kind.startswith(STAGED):
                yield self._step(start, len(part), kind, staged)
            elif kind in fitting:
                candidates = flat.candidates(problem, self.search, self.options, kind)
                yield self._step(start, len(part), kind, candidates)
