"""The share of a workload on one of several chips, by given degrees or by the fastest split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final

from simaccel.analytic.prediction import predict
from simaccel.dataflows import DEPLOYED
from simaccel.errors import InputError, SimaccelError
from simaccel.hardware import Accelerator
from simaccel.hardware.links import ONE_CHIP
from simaccel.machine.machine import Machine
from simaccel.mapping.chips.sharding import Pod, pod_of
from simaccel.program.exchanges import lower_pod
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.chip_work import ChipWork
from simaccel.schedulers.kernels import compile_graph
from simaccel.schedulers.parallel import (
    KeptOnce,
    Spreads,
    degrees_of,
    expert_count,
    sharded_weights,
    share_of,
    whole_mapping,
)
from simaccel.schedulers.split_ways import divisors, spread_by_degrees
from simaccel.schedulers.splits import (
    LegalSplit,
    RunSplit,
    fastest_split,
    name_legal_splits,
    settle_degrees,
    split_by_name,
)
from simaccel.workload import Workload
from simaccel.workload.files import parse_workload
from simaccel.workload.language.experts import EXPECTED, GROUPED, parts_of

UNSEARCHED: Final = "naive"
"""The family of dataflows that chooses no tile sizes."""


@dataclass(frozen=True, kw_only=True)
class ChipShare:
    """The workload of one of several chips, and an accelerator of that chip alone."""

    spreads: Spreads
    pod: Pod
    accelerator: Accelerator
    options: Options
    once: KeptOnce
    """Weights that lie once on all chips."""


def chip_share(
    workload: Workload, accelerator: Accelerator, options: Options, dataflow: str = ""
) -> ChipShare | None:
    """Return the share for which a mapping is searched; None on a single chip.

    The fastest split is that of the ``dataflow``, as far as its cycles are known without a search.

    Raises:
        InputError: degrees don't fit the chips, or don't divide the workload.
    """
    degrees = options.degrees
    on_one = accelerator.pod.count == 1 and {*degrees} <= {None, 1}
    if on_one and not options.sequence_parallel:
        return None
    if {*degrees} == {None} and not options.sequence_parallel:
        split = _split_of(workload, accelerator, dataflow)
        spreads, pod = split.spreads, split.pod
    else:
        sequence, copies = options.sequence_parallel, options.copies
        try:
            whole = degrees_of(accelerator.pod, *degrees, sequence=sequence, copies=copies)
            spreads = spread_by_degrees(workload, whole)
            pod = share_of(workload, spreads, accelerator.pod)
        except InputError as error:
            raise name_legal_splits(error, workload, accelerator) from None
    once: KeptOnce = {}
    if options.shard_weights:
        once = sharded_weights(workload, spreads, accelerator.pod.count)
        pod = share_of(workload, spreads, accelerator.pod, once)
    return ChipShare(
        spreads=spreads,
        pod=pod,
        accelerator=accelerator.with_sections(chips=ONE_CHIP),
        options=replace(options.with_degrees(), sequence_parallel=False, shard_weights=False),
        once=once,
    )


def with_split(workload: Workload, accelerator: Accelerator, options: Options) -> Workload:
    """Return a workload that says how its chips share it, unless ``options`` do."""
    if accelerator.pod.count == 1 or {*options.degrees} != {None} or options.sequence_parallel:
        return workload
    return replace(workload, split=_split_of(workload, accelerator, DEPLOYED).name)


def _split_of(workload: Workload, accelerator: Accelerator, dataflow: str) -> LegalSplit:
    """Return the split that a workload was compiled for, if these chips can; else the fastest."""
    if workload.split:
        with suppress(InputError):
            return split_by_name(workload.split, workload, accelerator)
    slowdowns = _chip_work(workload, accelerator, dataflow).slowdowns
    run = _run_of(accelerator, dataflow)
    return fastest_split(workload, accelerator, slowdowns=slowdowns, run=run)


def settle_loads(
    options: Options,
    accelerator: Accelerator,
    loads: Iterable[tuple[Workload, Fraction]],
    dataflow: str,
) -> Options:
    """Return options with the degrees that are fastest over workloads, each so many times.

    Degrees that are given stay (`settle_degrees`).
    """
    works = [(_chip_work(workload, accelerator, dataflow), times) for workload, times in loads]
    return settle_degrees(options, accelerator, works, _run_of(accelerator, dataflow))


def _plain_dataflow(dataflow: str, chip: Accelerator) -> str:
    """Return a dataflow without a search: that one, else the compiler's; empty if there is none."""
    if dataflow.partition("-")[0] == UNSEARCHED:
        return dataflow
    return DEPLOYED if chip.compiler.described else ""


@lru_cache(8)
def _run_of(accelerator: Accelerator, dataflow: str) -> RunSplit | None:
    """Return what runs splits for a dataflow; None where mappings need a search."""
    unsearched = _plain_dataflow(dataflow, accelerator)
    return partial(_split_cycles, unsearched) if unsearched else None


def _split_cycles(
    dataflow: str, split: LegalSplit, accelerator: Accelerator, below: float
) -> float:
    """Return the cycles of a split by a dataflow that needs no search; infinite if not ``below``.

    By `deployed` as the chip's compiler sees a workload that is split so.
    """
    split_of = partial(split_by_name, split.name, accelerator=accelerator)
    chip = accelerator.with_sections(chips=ONE_CHIP)
    try:
        if dataflow == DEPLOYED:
            workload = compile_graph(split.workload, accelerator, lambda part: split_of(part).pod)
            split = split_of(workload)
        mapping = make_mapping(split.pod.workload, chip, dataflow)
        cuts = split.spreads, split.pod, mapping, accelerator.pod
        pod = pod_of(split.workload, whole_mapping(split.workload, *cuts), accelerator)
        machine = Machine(accelerator, lower_pod(pod, accelerator), accounts=False)
        cycles = machine.cycles_below(below)
    except SimaccelError:  # the run of the split says why
        return math.inf
    return math.inf if cycles is None else cycles


def _chip_work(workload: Workload, accelerator: Accelerator, dataflow: str) -> ChipWork:
    """Return the work of a workload's splits by a dataflow, as far as it is known unsearched."""
    slowdowns = _slowdowns(workload, accelerator.with_sections(chips=ONE_CHIP), dataflow)
    return ChipWork(workload, accelerator, slowdowns)


@lru_cache(8)
def _slowdowns(workload: Workload, chip: Accelerator, dataflow: str) -> dict[str, Fraction]:
    """Return how many times as long as estimated operators take by a dataflow without a search.

    By their bounds on one chip: of a chip whose compiler is known as that deploys them, whatever
    the dataflow. Empty for others that search, and for what one chip can't do.
    """
    slowdowns, unsearched = dict[str, Fraction](), _plain_dataflow(dataflow, chip)
    if not unsearched:
        return slowdowns
    if unsearched == DEPLOYED:
        workload = compile_graph(workload, chip, lambda _: None)
    try:
        mapping = make_mapping(workload, chip, unsearched)
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


def spread_experts(
    workload: Workload, accelerator: Accelerator, options: Options | None = None
) -> Workload:
    """Return a workload with tokens in groups by experts, if chips with part of these are faster.

    It is unchanged if degrees of parallelism, or the tokens of each expert, are given; but tokens
    in groups are told how many chips share experts.
    """
    requested, spread = options or Options(), workload.parameters.get("experts")
    if requested.expert_parallel:
        return _group_for_ways(workload, requested.expert_parallel)
    degrees = {*requested.degrees} != {None} or requested.sequence_parallel
    if degrees or spread not in (EXPECTED, GROUPED):
        return workload
    return _spread_fastest(workload, accelerator, repr(workload.parameters))


@lru_cache(8)
def _spread_fastest(workload: Workload, accelerator: Accelerator, _parameters: str) -> Workload:
    """Return the same, cached; the key includes parameters, by which workloads don't differ."""
    others = [*grouped_experts(workload, accelerator.pod.count)]
    return fastest_split(workload, accelerator, *others).workload if others else workload


def _group_for_ways(workload: Workload, ways: int) -> Workload:
    """Return a workload whose tokens in groups go to experts on ``ways`` chips.

    Few tokens use as many experts on each; experts are padded if ``ways`` doesn't divide them, or
    there are fewer.
    """
    spread, experts = workload.parameters.get("experts", ""), expert_count(workload)
    parts, divides = parts_of(spread), experts % ways == 0
    wrong = not parts or not experts or not _is_plain(workload)
    if wrong or (divides and spread != GROUPED):
        return workload
    return parse_workload({**workload.parameters, "experts": f"{GROUPED}:{parts}:{ways}"})


def _is_plain(workload: Workload) -> bool:
    """Return whether it is what its parameters say: no part of it, and in no compiler's form."""
    return parse_workload(workload.parameters).fingerprint == workload.fingerprint


def grouped_experts(workload: Workload, chips: int) -> Iterator[Workload]:
    """Yield a workload with its tokens in groups for each number of chips that can share experts.

    Nothing for a part of a model, or a workload in a compiler's form, or where it is said how many
    tokens each expert has. Where chips that share experts don't divide them, these are padded.
    """
    parameters, experts = workload.parameters, expert_count(workload)
    if parameters.get("experts") not in (EXPECTED, GROUPED) or not experts:
        return
    if not _is_plain(workload):
        return
    for parts in divisors(chips)[-2::-1]:
        ways = [n for n in divisors(parts)[:-1] if n <= experts]
        if any(experts % n == 0 for n in ways):
            yield parse_workload({**parameters, "experts": f"{GROUPED}:{parts}"})
        if ways and experts % ways[0]:
            yield parse_workload({**parameters, "experts": f"{GROUPED}:{parts}:{ways[0]}"})
