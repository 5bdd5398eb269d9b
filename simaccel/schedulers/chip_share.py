"""The share of a workload on one of several chips.

A *split* cuts the ranks of all operators over the chips. It follows from the user's degrees of
parallelism (tensor, data, expert, sequence), or is the fastest of the legal ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, Self

from simaccel.analytic.prediction import predict
from simaccel.dataflows import DEPLOYED
from simaccel.errors import InputError, SimaccelError
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipPod
from simaccel.hardware.links import ONE_CHIP
from simaccel.machine.machine import Machine
from simaccel.mapping.chips.sharding import Pod, pod_of
from simaccel.program.exchanges import lower_pod
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.chip_work import ChipWork
from simaccel.schedulers.fastest import MappedSplit
from simaccel.schedulers.kernels import compile_graph
from simaccel.schedulers.parallel import (
    KeptOnce,
    Spreads,
    degrees_of,
    expert_count,
    sharded_weights,
    share_of,
    with_spreads,
)
from simaccel.schedulers.split_ways import divisors, spread_by_degrees
from simaccel.schedulers.splits import (
    LegalSplit,
    fastest_split,
    name_legal_splits,
    settle_degrees,
    split_by_name,
)
from simaccel.workload import Workload
from simaccel.workload.language.experts import EXPECTED, GROUPED, parts_of
from simaccel.workload.stages import with_parameters

UNSEARCHED: Final = "naive"
"""The family of dataflows with fixed tile sizes, which need no search: naive, naive-...."""


@dataclass(frozen=True, kw_only=True)
class ChipShare:
    """The workload of one of several chips, and an accelerator of that chip alone."""

    spreads: Spreads
    pod: Pod
    accelerator: Accelerator
    options: Options
    once: KeptOnce
    """Weights, by operator, that are sharded over all chips, not replicated."""


def chip_share(
    workload: Workload, accelerator: Accelerator, options: Options, dataflow: str | None = ""
) -> ChipShare | None:
    """Return the share of one chip, for which a mapping is searched; None on a single chip.

    Without degrees it is that of the fastest split for ``dataflow``: by runs where it needs no
    search (or the chip's compiler is known), else by estimated cycles; None: by these alone.

    Raises:
        InputError: degrees don't fit the chips, or don't divide the workload.
    """
    degrees, sequence, copies = options.degrees, options.sequence_parallel, options.copies
    if accelerator.pod.count == 1 and {*degrees} <= {None, 1} and not sequence:
        return None
    if (split := _split_of(workload, accelerator, options, dataflow)) is not None:
        spreads, pod = split.spreads, split.pod
    else:
        try:
            whole = degrees_of(accelerator.pod, *degrees, sequence=sequence, copies=copies)
            spreads = spread_by_degrees(workload, whole)
            pod = share_of(workload, spreads, accelerator.pod)
        except InputError as error:
            raise name_legal_splits(error, workload, accelerator) from None
    return _share_of(workload, spreads, pod, accelerator, options)


def _share_of(
    workload: Workload, spreads: Spreads, pod: Pod, accelerator: Accelerator, options: Options
) -> ChipShare:
    """Return the share of a chip by a split, with its weights sharded if ``options`` say so."""
    once: KeptOnce = {}
    if options.shard_weights:
        once = sharded_weights(workload, spreads, len(pod.places[0]))
        pod = share_of(workload, spreads, accelerator.pod, once)
    return ChipShare(
        spreads=spreads,
        pod=pod,
        accelerator=accelerator.with_sections(chips=ONE_CHIP),
        options=replace(options.with_degrees(), sequence_parallel=False, shard_weights=False),
        once=once,
    )


def with_split(
    workload: Workload, accelerator: Accelerator, options: Options, dataflow: str
) -> Workload:
    """Return a workload in the form that is fastest on its chips, with the name of its split.

    Tokens of experts may come in groups, unless degrees of parallelism, or the tokens of each
    expert, are given. With a degree of ``expert_parallel`` groups are made for that many chips,
    with other degrees the workload stays as it is.
    """
    if options.expert_parallel:
        return _group_for_ways(workload, options.expert_parallel)
    if options.has_degrees:
        return workload
    others = [] if workload.split else [*grouped_experts(workload, accelerator.pod)]
    split = _split_of(workload, accelerator, options, dataflow, *others)
    return workload if split is None else replace(split.workload, split=split.name)


def _split_of(
    workload: Workload,
    accelerator: Accelerator,
    options: Options,
    dataflow: str | None,
    *others: Workload,
) -> LegalSplit | None:
    """Return the split that a workload was compiled for, if these chips can; else the fastest.

    None if ``options`` have degrees, or want sequence parallelism where no split has it.
    ``others``: forms of the workload.
    """
    if options.has_degrees:
        return None
    if workload.split:
        with suppress(InputError):
            return split_by_name(workload.split, workload, accelerator)
    runs = DataflowRuns.for_dataflow(accelerator, dataflow, options)
    try:
        return fastest_split(workload, accelerator, *others, runs=runs, options=options)
    except InputError:
        if not options.sequence_parallel:
            raise
        return None


def settle_loads(
    options: Options,
    accelerator: Accelerator,
    loads: Iterable[tuple[Workload, Fraction]],
    dataflow: str,
) -> Options:
    """Return options with the degrees that are fastest over all ``loads``; given ones stay.

    ``loads``: workloads, and how many times each runs.
    """
    runs = DataflowRuns.for_dataflow(accelerator, dataflow, options)
    works = []
    for load, times in loads:
        slowdowns = runs.slowdowns(load, accelerator) if runs else {}
        works.append((ChipWork(load, accelerator, slowdowns, options.shard_weights), times))
    return settle_degrees(options, accelerator, works, runs)


def _plain_dataflow(dataflow: str | None, chip: Accelerator) -> str:
    """Return a dataflow that needs no search: the given one, else the compiler's; "" if none."""
    if dataflow is None:
        return ""
    if dataflow.partition("-")[0] == UNSEARCHED:
        return dataflow
    return DEPLOYED if chip.compiler.described else ""


@dataclass(frozen=True)
class DataflowRuns:
    """Runs of splits by a dataflow that needs no search, as of `fastest_split`."""

    dataflow: str
    shard_weights: bool

    @classmethod
    def for_dataflow(
        cls, accelerator: Accelerator, dataflow: str | None, options: Options
    ) -> Self | None:
        """Return the runs for a dataflow; None where mappings need a search."""
        unsearched = _plain_dataflow(dataflow, accelerator)
        return cls(unsearched, options.shard_weights) if unsearched else None

    def slowdowns(self, workload: Workload, accelerator: Accelerator) -> Mapping[str, Fraction]:
        """Return the slowdowns of operators by the dataflow, as of `ChipWork`."""
        chip, parameters = accelerator.with_sections(chips=ONE_CHIP), repr(workload.parameters)
        return _slowdowns(workload, chip, self.dataflow, parameters)

    def map_split(self, split: LegalSplit, accelerator: Accelerator) -> MappedSplit:
        """Return a split, mapped on the chips of an accelerator; of endless cycles if it can't be.

        For `deployed` the compiler sees the workload that this split leaves on a chip.
        """
        options = Options(shard_weights=self.shard_weights)

        def share_of_chip(part: Workload) -> ChipShare:
            spreads, pod = split.spreads, split.pod
            if part.operators != split.workload.operators:
                cut = split_by_name(split.name, part, accelerator)
                spreads, pod = cut.spreads, cut.pod
            elif part.tensors != split.workload.tensors:
                pod = share_of(part, spreads, accelerator.pod)
            return _share_of(part, spreads, pod, accelerator, options)

        def run(below: float) -> float:
            try:
                machine = Machine(accelerator, lower_pod(pod, accelerator), accounts=False)
                cycles = machine.cycles_below(below)
            except SimaccelError:  # a run of the split reports it
                return math.inf
            return math.inf if cycles is None else cycles

        workload = split.workload
        try:
            if self.dataflow == DEPLOYED:
                workload = compile_graph(
                    workload, accelerator, lambda part: share_of_chip(part).pod
                )
            share = share_of_chip(workload)
            mapping = make_mapping(share.pod.workload, share.accelerator, self.dataflow)
            whole = with_spreads(workload, share.spreads, share.pod, mapping, share.once)
            pod = pod_of(workload, whole, accelerator)
            made = predict(pod.workload, pod.mapping, accelerator, pod.exchanges, pod.parts)
        except SimaccelError:
            return MappedSplit(math.inf, lambda _: math.inf)
        return MappedSplit(made.bound_cycles, run)


@lru_cache(8)
def _slowdowns(
    workload: Workload, chip: Accelerator, dataflow: str, _parameters: str
) -> dict[str, Fraction]:
    """Return the factor of each operator's cycles over `ChipWork`'s estimate, by a dataflow.

    The cycles are the closed form's on one chip, by a mapping that needs no search. Empty where one
    chip can't run the workload. The key of the cache has parameters, from which a compiler takes
    blocks of rows.
    """
    slowdowns = dict[str, Fraction]()
    if dataflow == DEPLOYED:
        workload = compile_graph(workload, chip, lambda _: None)
    try:
        mapping = make_mapping(workload, chip, dataflow)
        predicted = predict(workload, mapping, chip)
    except SimaccelError:
        return slowdowns
    work = ChipWork(workload, chip)
    groups = sum(group.bound_cycles for group in predicted.groups)
    overlap = Fraction(predicted.bound_cycles, max(groups, 1))  # together they take less than alone
    for group, alone in zip(mapping.groups, predicted.groups, strict=True):
        estimate = sum(work.operator_cycles(name, ()) for name in group.operators)
        bound = overlap * alone.bound_cycles
        slowdowns |= dict.fromkeys(group.operators, bound / max(estimate, 1))
    return slowdowns


def _group_for_ways(workload: Workload, ways: int) -> Workload:
    """Return a workload whose tokens in groups go to experts on ``ways`` chips.

    Each of these chips has equally many experts in use; they are padded to a multiple of ``ways``.
    """
    spread, experts = workload.parameters.get("experts", ""), expert_count(workload)
    parts, divides = parts_of(spread), experts % ways == 0
    wrong = not parts or not experts or not _is_plain(workload)
    if wrong or (divides and spread != GROUPED):
        return workload
    return with_parameters(workload, experts=f"{GROUPED}:{parts}:{ways}")


def _is_plain(workload: Workload) -> bool:
    """Return whether it is the whole workload of its parameters, and no compiler has changed it."""
    return with_parameters(workload).fingerprint == workload.fingerprint


def grouped_experts(workload: Workload, chips: ChipPod) -> Iterator[Workload]:
    """Yield a workload with its tokens in groups for each number of chips that can share experts.

    None for a part of a model, a workload that a compiler has changed, or one with given tokens per
    expert. Experts are padded where the number of chips doesn't divide them.
    """
    parameters, experts = workload.parameters, expert_count(workload)
    if parameters.get("experts") not in (EXPECTED, GROUPED) or not experts:
        return
    if not _is_plain(workload):
        return
    known = {workload.fingerprint}
    for parts in (1, *chips.split_counts[::-1]):
        ways = [n for n in divisors(parts)[:-1] if n <= experts]
        forms = [f"{GROUPED}:{parts}"] if any(experts % n == 0 for n in (*ways, parts)) else []
        if ways and experts % ways[0]:
            forms.append(f"{GROUPED}:{parts}:{ways[0]}")
        for form in forms:
            grouped = with_parameters(workload, experts=form)
            if grouped.fingerprint not in known:
                known.add(grouped.fingerprint)
                yield grouped
