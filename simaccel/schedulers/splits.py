"""Splits of any workload over chips: all legal ones, and the fastest of them.

A transformer is cut by its degrees of parallelism (`simaccel.schedulers.parallel`). Any other
workload is cut along a rank that no weights have, such as the batch or tokens, or by channels: each
product along the output dimension of its weights, and vector operators as their inputs. Operators
that can't be cut are replicated. Collectives follow from the cuts; illegal splits are reported with
the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain
from typing import Final, NamedTuple, Protocol

from simaccel.analytic.link_work import link_works
from simaccel.errors import Fault, InputError, MistakeError
from simaccel.hardware import Accelerator
from simaccel.mapping.chips.sharding import Pod
from simaccel.schedulers.chip_work import ChipWork
from simaccel.schedulers.fastest import Candidate, MappedSplit, SplitCost, fastest_of
from simaccel.schedulers.parallel import (
    KINDS,
    SEQUENCE,
    KeptOnce,
    ParallelDegrees,
    Spreads,
    degrees_of,
    share_of,
)
from simaccel.schedulers.split_ways import (
    cuts_of,
    degrees_of_chips,
    divisors,
    possible_splits,
    spread_by_degrees,
)
from simaccel.search.problems import Options
from simaccel.workload import Workload

_UNDIVIDED: Final = "undivided"
_MOST_REPAIRS: Final = 8
"""Most rounds in which operators that can't be cut are left whole."""


class SplitRuns(Protocol):
    """Maps splits by a dataflow; a key of `fastest_split`'s cache."""

    def __hash__(self) -> int:
        """Return the same for equal ones."""

    def slowdowns(self, workload: Workload, accelerator: Accelerator) -> Mapping[str, Fraction]:
        """Return the slowdowns of operators by the dataflow, as of `ChipWork`."""

    def map_split(self, split: LegalSplit, accelerator: Accelerator) -> MappedSplit:
        """Return a split, mapped on the chips of an accelerator."""


@dataclass(frozen=True)
class LegalSplit:
    """A legal cut of a workload over chips, and the share of each chip."""

    name: str
    workload: Workload
    spreads: Spreads
    pod: Pod

    def cost(self, work: ChipWork) -> SplitCost:
        """Return the cost by which splits are compared: the work of a chip and its collectives."""
        workload, sent, gathered = self.pod.workload, Fraction(), Fraction()
        for exchange in self.pod.exchanges:
            for link in link_works(exchange, work.accelerator, workload.times(exchange.after)):
                if exchange.is_stored:  # comes beside compute
                    gathered += link.times * max(link.path.values())
                else:
                    sent += link.times * max(link.path.values())
        cycles = max(work.cycles(self.spreads), gathered) + sent
        return SplitCost(work.bytes_beyond(self.spreads), cycles, workload.macs)


def fastest_split(
    workload: Workload,
    accelerator: Accelerator,
    *others: Workload,
    runs: SplitRuns | None = None,
    options: Options | None = None,
) -> LegalSplit:
    """Return the split with the fewest cycles of a chip, the first of equals.

    Splits that fit a chip's memory come first, then those that exceed it least. If fewer chips, or
    a single one, are as fast as all, the others replicate their work, or are idle where the number
    of pieces doesn't divide that of the chips. ``others``: equivalent forms of the workload, such
    as with tokens in groups, any split of which may be the fastest. ``runs``: of splits with
    estimates up to 10% above the fewest cycles, all with a lower bound below these; None: estimates
    decide. ``options``: whether weights are sharded, and whether only splits are wanted that cut
    norms and residuals by tokens.

    Raises:
        InputError: there is none.
    """
    workloads = workload, *others
    parameters = repr([way.parameters for way in workloads])
    asked = options or Options()
    switches = asked.sequence_parallel, asked.shard_weights
    return _fastest(workloads, accelerator, parameters, runs, switches)


@lru_cache(1)
def _fastest(
    workloads: tuple[Workload, ...],
    accelerator: Accelerator,
    _parameters: str,
    runs: SplitRuns | None,
    switches: tuple[bool, bool],
) -> LegalSplit:
    """Return what `fastest_split` does; the key of the cache has parameters, which decide pods."""
    possible, (sequence, shard_weights) = list[Candidate[LegalSplit]](), switches
    for workload in workloads:
        slowdowns = runs.slowdowns(workload, accelerator) if runs else {}
        work = ChipWork(workload, accelerator, slowdowns, shard_weights)
        if not sequence:
            alone: Spreads = dict.fromkeys(workload.by_name, ())  # tried before all splits
            make = partial(_legal_split, _UNDIVIDED, work, alone)
            possible.append((SplitCost(0, Fraction(), 0), make))
        counts = accelerator.pod.split_counts
        ways = cuts_of(workload, counts)
        possible += [
            (_least_cost(work, spreads), partial(_legal_split, name, work, spreads))
            for count in counts
            for name, spreads in possible_splits(ways, count, {})
            if not sequence or name.endswith(SEQUENCE)
        ]
    if runs is None:
        return fastest_of(possible, None)
    return fastest_of(possible, lambda split: runs.map_split(split, accelerator))


def _least_cost(work: ChipWork, spreads: Spreads) -> SplitCost:
    """Return the cost of a split without its collectives."""
    return SplitCost(work.bytes_beyond(spreads), work.cycles(spreads), 0)


def _legal_split(name: str, work: ChipWork, spreads: Spreads) -> tuple[SplitCost, LegalSplit]:
    """Return a split if it is legal, and its cost."""
    split = _make_legal(name, work.workload, spreads, work.accelerator, work.weights_kept_once)
    return split.cost(work), split


def settle_degrees(
    options: Options,
    accelerator: Accelerator,
    works: Sequence[tuple[ChipWork, Fraction]],
    runs: SplitRuns | None = None,
) -> Options:
    """Return options with all degrees set: the fastest over runs of a transformer, if none is.

    ``works``: of each workload, and how many times it runs. Chips may do the same
    (`Options.copies`). ``runs``: as of `fastest_split`.
    """
    pod, copies, sequence = accelerator.pod, options.copies, options.sequence_parallel
    degrees = degrees_of(pod, *options.degrees, sequence=sequence, copies=copies)

    def map_all(ways: _Ways) -> MappedSplit:
        each = [runs.map_split(split, accelerator) for split in ways.splits] if runs else []
        weights = [times for _, times in works]
        bounds = [times * mapped.bound for times, mapped in zip(weights, each, strict=True)]

        def run(below: float) -> float:
            cycles = sum(bounds)
            for mapped, bound, times in zip(each, bounds, weights, strict=True):
                if cycles >= below:
                    return math.inf
                cycles += times * mapped.run((below - cycles + bound) / times) - bound
            return cycles

        return MappedSplit(sum(bounds), run)

    if pod.count > 1 and not options.has_degrees:
        with suppress(InputError):  # the run names what is wrong
            ways = fastest_of(
                (
                    candidate
                    for used in (*pod.split_counts, 1)
                    for way in degrees_of_chips(used, with_experts=False)
                    if way.sequence or not sequence
                    for candidate in _candidates_of(
                        way, 1 if pod.count % used else pod.count // used, works
                    )
                ),
                map_all if runs else None,
            )
            degrees, copies = ways.degrees, ways.copies
    settled = options.with_degrees(degrees.tensor, degrees.data, degrees.expert)
    return replace(settled, sequence_parallel=degrees.sequence, copies=copies)


class _Ways(NamedTuple):
    """Splits of several workloads by equal degrees; ``copies`` of these are on all chips."""

    degrees: ParallelDegrees
    copies: int
    splits: Sequence[LegalSplit]


def _candidates_of(
    degrees: ParallelDegrees, copies: int, works: Sequence[tuple[ChipWork, Fraction]]
) -> Iterator[Candidate[_Ways]]:
    """Yield splits by degrees, if their sizes divide all workloads."""
    is_cut = max(degrees.tensor, degrees.data, degrees.expert) > 1

    def make() -> tuple[SplitCost, _Ways]:
        name = degrees.name if is_cut else _UNDIVIDED
        made = [_legal_split(name, work, cuts) for (work, _), cuts in ways]
        cost = _sum_costs((cost, times) for (cost, _), (_, times) in zip(made, works, strict=True))
        return cost, _Ways(degrees, copies, [split for _, split in made])

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
    ways = cuts_of(workload, [count])
    for name, spreads in possible_splits(ways, count, reasons):
        try:
            legal.append(_make_legal(name, workload, spreads, accelerator))
        except InputError as error:
            reasons[name] = error.faults[0].allowed
    return legal, reasons


def split_by_name(name: str, workload: Workload, accelerator: Accelerator) -> LegalSplit:
    """Return the legal split with a name.

    Raises:
        InputError: there is none.
    """
    counts = accelerator.pod.split_counts
    ways = cuts_of(workload, counts)
    possible = chain(
        [(_UNDIVIDED, dict.fromkeys(workload.by_name, ()))],
        *(possible_splits(ways, count, {}) for count in counts),
    )
    for other, spreads in possible:
        if other == name:
            return _make_legal(name, workload, spreads, accelerator)
    raise InputError([Fault("chips", "split", name, "a legal split")])


def _make_legal(
    name: str,
    workload: Workload,
    spreads: Spreads,
    accelerator: Accelerator,
    kept_once: Callable[[Spreads], KeptOnce] | None = None,
) -> LegalSplit:
    """Return a split in which the operators that can't be cut are replicated.

    Degrees of a transformer are kept as they are, or refused. ``kept_once``: returns the weights of
    which each chip has a part.

    Raises:
        InputError: nothing is left to cut.
    """
    repairs = 0 if workload.parameters.get("kind") in KINDS else _MOST_REPAIRS
    for left in range(repairs, -1, -1):
        try:
            once = kept_once(spreads) if kept_once else None
            pod = share_of(workload, spreads, accelerator.pod, once)
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
