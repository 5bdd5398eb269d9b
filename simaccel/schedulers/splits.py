"""Splits of any workload over chips: all legal ones, and the fastest of them.

A transformer is cut by its degrees of parallelism (`simaccel.schedulers.parallel`). Any other
workload is cut along a rank that no weights have, such as the batch or tokens, or by channels: each
product along the output dimension of its weights, and vector operators as their inputs. Operators
that can't be cut are replicated. Collectives follow from the cuts; illegal splits are reported with
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from simaccel.analytic.link_work import link_works
from simaccel.errors import Fault, InputError, MistakeError
from simaccel.hardware import Accelerator
from simaccel.mapping.chips.sharding import Pod
from simaccel.schedulers.chip_work import ChipWork
from simaccel.schedulers.parallel import (
    KINDS,
    ParallelDegrees,
    Spreads,
    degrees_of,
    share_of,
)
from simaccel.schedulers.split_ways import (
    RankCuts,
    degrees_of_chips,
    divisors,
    group_splits,
    possible_splits,
    spread_by_degrees,
)
from simaccel.search.problems import Options
from simaccel.workload import Workload

_UNDIVIDED: Final = "undivided"
_MOST_REPAIRS: Final = 8
"""Most rounds in which operators that can't be cut are left whole."""


_Found = TypeVar("_Found")


class SplitCost(NamedTuple):
    """Cost of a split, in the order of importance.

    Bytes of weights and caches beyond a chip's capacity, a lower bound of the cycles, and the MACs
    of all chips, which are fewer if fewer chips repeat the same work.
    """

    beyond: int
    cycles: Fraction
    macs: Fraction | int


_NEAR: Final = Fraction(5, 4)
"""Estimates up to which splits are judged, by the least."""
_MOST_JUDGED: Final = 4
Judge = Callable[["LegalSplit", Accelerator], float]
"""Returns the cycles of a split on the chips of an accelerator."""
_Candidate = tuple[SplitCost, Callable[[], tuple[SplitCost, _Found]]]
"""A lower bound of the cost, and a function that returns the cost and what has it."""


@dataclass(frozen=True)
class LegalSplit:
    """A legal cut of a workload over chips, and the share of each chip."""

    name: str
    workload: Workload
    spreads: Spreads
    pod: Pod

    def cost(self, work: ChipWork) -> SplitCost:
        """Return the cost by which splits are compared: the work of a chip and its collectives."""
        workload, sent = self.pod.workload, Fraction()
        for exchange in self.pod.exchanges:
            for link in link_works(exchange, work.accelerator, workload.times(exchange.after)):
                sent += link.times * max(link.path.values())
        cycles = work.cycles(self.spreads) + sent
        return SplitCost(work.bytes_beyond(self.spreads), cycles, workload.macs)


def fastest_split(
    workload: Workload,
    accelerator: Accelerator,
    *others: Workload,
    slowdowns: Mapping[str, Fraction] | None = None,
    judge: Judge | None = None,
) -> LegalSplit:
    """Return the split with the fewest cycles of a chip, the first of equals.

    Splits that fit a chip's memory come first, then those that exceed it least. If fewer chips, or
    a single one, are as fast as all, the others replicate their work. ``others``: equivalent forms
    of the workload, such as with tokens in groups. ``slowdowns``: of operators by a dataflow, as of
    `ChipWork`. ``judge``: returns the cycles of a split better than these estimates, of a few whose
    estimates are near the least.
    """
    workloads = workload, *others
    parameters = repr([way.parameters for way in workloads])
    known = tuple((slowdowns or {}).items())
    return _fastest(workloads, accelerator, parameters, known, judge)


@lru_cache(1)
def _fastest(
    workloads: tuple[Workload, ...],
    accelerator: Accelerator,
    _parameters: str,
    slowdowns: tuple[tuple[str, Fraction], ...],
    judge: Judge | None,
) -> LegalSplit:
    """Return what `fastest_split` does; the key of the cache has parameters, which decide pods."""
    reasons = dict[str, str]()
    possible = list[_Candidate[LegalSplit]]()
    for workload in workloads:
        work = ChipWork(workload, accelerator, dict(slowdowns))
        if workload is workloads[0]:
            alone: Spreads = dict.fromkeys(workload.by_name, ())  # tried before all splits
            make = partial(_legal_split, _UNDIVIDED, work, alone)
            possible = [(SplitCost(0, Fraction(), 0), make)]
        ways = {n: RankCuts(workload, n) for n in divisors(accelerator.pod.count)}
        splits = possible_splits if workload is workloads[0] else group_splits
        possible += [
            (_least_cost(work, spreads), partial(_legal_split, name, work, spreads))
            for count in divisors(accelerator.pod.count)[:-1]
            for name, spreads in splits(ways, count, reasons)
        ]
    if judge is None:
        return _nearest(possible)[0]
    near = _nearest(possible, _NEAR)[:_MOST_JUDGED]
    return min(near, key=lambda split: judge(split, accelerator)) if near[1:] else near[0]


def _nearest(possible: Iterable[_Candidate[_Found]], near: Fraction = Fraction(1)) -> list[_Found]:
    """Return the legal split with the least cost, the first of equals, then others in their order.

    ``near``: how many times its cycles these take at most; they exceed memories as much. Candidates
    are tried in the order of what chips have to do without collectives, the least first, until that
    alone takes longer.

    Raises:
        InputError: nothing is legal.

    """
    made = list[tuple[SplitCost, _Found]]()
    best: SplitCost | None = None
    failure = InputError([Fault("chips", "splits", "none", "a legal split")])
    for least, make in sorted(possible, key=itemgetter(0)):
        if best is not None and least[:2] > (best.beyond, near * best.cycles):
            break
        try:
            made.append(make())
        except InputError as error:
            failure = error
            continue
        best = made[-1][0] if best is None else min(best, made[-1][0])
    if best is None:
        raise failure
    most = best.beyond, near * best.cycles
    return [split for cost, split in sorted(made, key=itemgetter(0)) if cost[:2] <= most]


def _least_cost(work: ChipWork, spreads: Spreads) -> SplitCost:
    """Return the cost of a split without its collectives."""
    return SplitCost(work.bytes_beyond(spreads), work.cycles(spreads), 0)


def _legal_split(name: str, work: ChipWork, spreads: Spreads) -> tuple[SplitCost, LegalSplit]:
    """Return a split if it is legal, and its cost."""
    split = _make_legal(name, work.workload, spreads, work.accelerator)
    return split.cost(work), split


def settle_degrees(
    options: Options, accelerator: Accelerator, works: Sequence[tuple[ChipWork, Fraction]]
) -> Options:
    """Return options with all degrees set: the fastest over runs of a transformer, if none is.

    ``works``: of each workload, and how many times it runs. Chips may do the same
    (`Options.copies`).
    """
    pod, copies, sequence = accelerator.pod, options.copies, options.sequence_parallel
    degrees = degrees_of(pod, *options.degrees, sequence=sequence, copies=copies)
    if pod.count > 1 and {*options.degrees} == {None}:
        with suppress(InputError):  # the run names what is wrong
            (degrees, copies), *_ = _nearest(
                candidate
                for used in divisors(pod.count)
                for way in degrees_of_chips(used, with_experts=False)
                if way.sequence or not sequence
                for candidate in _candidates_of(way, pod.count // used, works)
            )
    settled = options.with_degrees(degrees.tensor, degrees.data, degrees.expert)
    return replace(settled, sequence_parallel=degrees.sequence, copies=copies)


def _candidates_of(
    degrees: ParallelDegrees, copies: int, works: Sequence[tuple[ChipWork, Fraction]]
) -> Iterator[_Candidate[tuple[ParallelDegrees, int]]]:
    """Yield degrees, and the copies of them on all chips, if their sizes divide all workloads."""

    def make() -> tuple[SplitCost, tuple[ParallelDegrees, int]]:
        costs = (_legal_split(degrees.name, work, cuts)[0] for (work, _), cuts in ways)
        times = (times for _, times in works)
        return _sum_costs(zip(costs, times, strict=True)), (degrees, copies)

    with suppress(InputError):
        ways = [(work, spread_by_degrees(work[0].workload, degrees)) for work in works]
        yield _sum_costs((_least_cost(work, cuts), times) for (work, times), cuts in ways), make


def _sum_costs(costs: Iterable[tuple[SplitCost, Fraction]]) -> SplitCost:
    """Return the cost of several workloads: the most bytes beyond a memory, all cycles and MACs."""
    each = list(costs)
    return SplitCost(
        max(cost.beyond for cost, _ in each),
        sum((times * cost.cycles for cost, times in each), Fraction()),
        sum((times * cost.macs for cost, times in each), Fraction()),
    )


def legal_splits(
    workload: Workload, accelerator: Accelerator, count: int
) -> tuple[list[LegalSplit], dict[str, str]]:
    """Return the legal splits into ``count`` pieces, and by name what the other splits lack."""
    legal, reasons = list[LegalSplit](), dict[str, str]()
    ways = {n: RankCuts(workload, n) for n in divisors(count)}
    for name, spreads in possible_splits(ways, count, reasons):
        try:
            legal.append(_make_legal(name, workload, spreads, accelerator))
        except InputError as error:
            reasons[name] = error.faults[0].allowed
    return legal, reasons


def _make_legal(
    name: str, workload: Workload, spreads: Spreads, accelerator: Accelerator
) -> LegalSplit:
    """Return a split in which the operators that can't be cut are replicated.

    Degrees of a transformer are kept as they are, or refused.

    Raises:
        InputError: nothing is left to cut.

    """
    repairs = 0 if workload.parameters.get("kind") in KINDS else _MOST_REPAIRS
    for left in range(repairs, -1, -1):
        try:
            pod = share_of(workload, spreads, accelerator.pod)
            return LegalSplit(name, workload, spreads, pod)
        except InputError as error:
            uncut = _without_cuts(workload, spreads, error) if left else spreads
            if not any(uncut.values()) or uncut == spreads:
                raise
            spreads = uncut
    raise MistakeError(f"{name}: neither legal nor refused")


def _without_cuts(workload: Workload, spreads: Spreads, error: InputError) -> Spreads:
    """Return spreads without the cuts that an error is of, and of what makes the same tensors."""
    places = {f"groups[{at}]": one.output.tensor for at, one in enumerate(workload.operators)}
    wrong = {places.get(fault.field.partition(".")[0]) for fault in error.faults}
    return {
        one.name: () if one.output.tensor in wrong else spreads[one.name]
        for one in workload.operators
    }


def name_legal_splits(
    error: InputError, workload: Workload, accelerator: Accelerator
) -> InputError:
    """Return an error of a split extended by the names of all legal splits."""
    names = "none"
    for count in divisors(accelerator.pod.count)[:-1]:
        legal, _ = legal_splits(workload, accelerator, count)
        if legal:
            names = ", ".join(split.name for split in legal)
            break
    return InputError(
        [
            replace(fault, allowed=f"{fault.allowed}; legal on these chips: {names}")
            for fault in error.faults
        ]
    )
