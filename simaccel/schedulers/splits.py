"""Splits of any workload over chips: all legal ones, and the fastest of them.

A transformer is cut by its degrees of parallelism (`simaccel.schedulers.parallel`). Any other
workload is cut along a rank that no weights have, such as the batch or tokens, or by channels: each
product along the output dimension of its weights, and vector operators as their inputs. Operators
that can't be cut are replicated. Collectives follow from the cuts; illegal splits are reported with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from simaccel.analytic.link_work import link_works
from simaccel.errors import Fault, InputError, MistakeError
from simaccel.hardware import Accelerator
from simaccel.mapping.chips.sharding import Pod
from simaccel.schedulers.chip_work import ChipWork
from simaccel.schedulers.parallel import (
    BATCH,
    GROUPS,
    KINDS,
    ParallelDegrees,
    Spreads,
    degrees_of,
    share_of,
    spread_over,
)
from simaccel.schedulers.rank_cuts import RankCuts
from simaccel.search.problems import Options
from simaccel.workload import Workload
from simaccel.workload.language.experts import parts_of

_CHANNELS: Final = "channels"
_ROWS: Final = "rows"
_COLUMNS: Final = "columns"
_UNDIVIDED: Final = "undivided"
_MOST_REPAIRS: Final = 8
"""Most rounds in which operators that can't be cut are left whole."""


class SplitCost(NamedTuple):
    """Cost of a split, in the order of importance.

    Bytes of weights and caches beyond a chip's capacity, a lower bound of the cycles, and the MACs
    of all chips, which are fewer if fewer chips repeat the same work.
    """

    beyond: int
    cycles: Fraction
    macs: int


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


def fastest_split(workload: Workload, accelerator: Accelerator, *others: Workload) -> LegalSplit:
    """Return the split with the fewest cycles of a chip, the first of equals.

    Splits that fit a chip's memory come first, then those that exceed it least. If fewer chips, or
    a single one, are as fast as all, the others replicate their work. ``others``: equivalent forms
    of the workload, such as with tokens in groups.
    """
    workloads = workload, *others
    return _fastest(workloads, accelerator, repr([way.parameters for way in workloads]))


@lru_cache(1)
def _fastest(
    workloads: tuple[Workload, ...], accelerator: Accelerator, _parameters: str
) -> LegalSplit:
    """Return the same; workloads with other parameters are equal, but their pods aren't.

    Splits are tried in the order of what a chip has to do without collectives, the least first,
    until that alone takes longer than the best.
    """
    reasons, best = dict[str, str](), _share_nothing(workloads[0], accelerator)
    possible = list[tuple[tuple[int, Fraction], ChipWork, str, Spreads]]()
    for workload in workloads:
        work = ChipWork(workload, accelerator)
        ways = {n: RankCuts(workload, n) for n in _divisors(accelerator.pod.count)}
        splits = _possible_splits if workload is workloads[0] else _group_splits
        possible += [
            ((work.bytes_beyond(spreads), work.cycles(spreads)), work, name, spreads)
            for count in _divisors(accelerator.pod.count)[:-1]
            for name, spreads in splits(ways, count, reasons)
        ]
    for least, work, name, spreads in sorted(possible, key=itemgetter(0)):
        if least > best[0][:2]:
            break
        with suppress(InputError):
            split = _make_legal(name, work.workload, spreads, accelerator)
            if (cost := split.cost(work)) < best[0]:
                best = cost, split
    return best[1]


def _share_nothing(workload: Workload, accelerator: Accelerator) -> tuple[SplitCost, LegalSplit]:
    """Return a workload that all chips replicate, as one chip runs it, and its cost."""
    spreads: Spreads = dict.fromkeys(workload.by_name, ())
    pod = share_of(workload, spreads, accelerator.pod)
    split = LegalSplit(_UNDIVIDED, workload, spreads, pod)
    return split.cost(ChipWork(workload, accelerator)), split


def spread_by_degrees(workload: Workload, degrees: ParallelDegrees) -> Spreads:
    """Return how each operator is cut by degrees of parallelism, of any workload.

    Transformers as in `spread_over`. Otherwise data parallelism cuts the rank without weights that
    most operators have and that is divisible (images, tokens, rows of a product), and tensor
    parallelism cuts the channels.

    Raises:
        InputError: a size can't be divided by a degree, or there is nothing to cut so.

    """
    if workload.parameters.get("kind") in KINDS:
        return spread_over(workload, degrees)
    for option, is_asked in (
        ("--expert-parallel", degrees.expert > 1),
        ("--sequence-parallel", degrees.sequence),
    ):
        if is_asked:
            allowed = "nothing, as the workload is no transformer"
            raise InputError([Fault(option, "workload", workload.name, allowed)])
    cuts: dict[str, tuple[tuple[str, int], ...]] = dict.fromkeys(workload.by_name, ())
    if degrees.data > 1:
        ways = RankCuts(workload, degrees.data)
        name = next((rank for rank, n in ways.free_ranks.items() if n % degrees.data == 0), None)
        rows = ways.rows if name is None else {}
        if name is None and not any(rows.values()):
            sizes = ", ".join(f"{rank} of {n}" for rank, n in ways.free_ranks.items())
            allowed = f"a degree that divides a rank that no weights have: {sizes or 'none'}"
            raise InputError([Fault("--data-parallel", "data", degrees.data, allowed)])
        cuts.update(rows if name is None else ways.spreads_along(name))
    if degrees.tensor > 1:
        channels = RankCuts(workload, degrees.tensor).channels
        if not any(channels.values()):
            allowed = f"a degree that divides channels of {workload.name}"
            raise InputError([Fault("--tensor-parallel", "tensor", degrees.tensor, allowed)])
        cuts = {name: (*own, *channels[name]) for name, own in cuts.items()}
    return cuts


def settle_degrees(
    options: Options, accelerator: Accelerator, workloads: Sequence[Workload]
) -> Options:
    """Return options with all degrees set, shared by several runs of a transformer.

    If none are given, all chips share each layer; if that isn't legal, the degrees that are fastest
    over all workloads.
    """
    degrees = degrees_of(accelerator.pod, *options.degrees, sequence=options.sequence_parallel)
    is_open = accelerator.pod.count > 1 and {*options.degrees} == {None}
    if is_open and _cost_of_degrees(degrees, accelerator, workloads) is None:
        costs = dict[ParallelDegrees, tuple[int, Fraction]]()
        for other in _degrees_of(accelerator.pod.count, with_experts=False):
            cost = _cost_of_degrees(other, accelerator, workloads)
            if other.sequence == degrees.sequence and cost is not None:
                costs[other] = cost
        degrees = min(costs, key=lambda way: costs[way], default=degrees)
    return options.with_degrees(degrees.tensor, degrees.data, degrees.expert)


def _cost_of_degrees(
    degrees: ParallelDegrees, accelerator: Accelerator, workloads: Sequence[Workload]
) -> tuple[int, Fraction] | None:
    """Return the cost of degrees over all workloads: bytes beyond a chip's memory, and cycles.

    None if the degrees aren't legal.
    """
    costs = list[SplitCost]()
    for workload in workloads:
        try:
            spreads = spread_by_degrees(workload, degrees)
            split = _make_legal(degrees.name, workload, spreads, accelerator)
        except InputError:
            return None
        costs.append(split.cost(ChipWork(workload, accelerator)))
    return max(cost.beyond for cost in costs), sum((cost.cycles for cost in costs), Fraction())


def legal_splits(
    workload: Workload, accelerator: Accelerator, count: int
) -> tuple[list[LegalSplit], dict[str, str]]:
    """Return the legal splits into ``count`` pieces, and by name what the other splits lack."""
    legal, reasons = list[LegalSplit](), dict[str, str]()
    ways = {n: RankCuts(workload, n) for n in _divisors(count)}
    for name, spreads in _possible_splits(ways, count, reasons):
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
    for count in _divisors(accelerator.pod.count)[:-1]:
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


def _divisors(count: int) -> list[int]:
    """Return the divisors of a number, itself first."""
    return [n for n in range(count, 0, -1) if count % n == 0]


def _possible_splits(
    ways: Mapping[int, RankCuts], count: int, reasons: dict[str, str]
) -> Iterator[tuple[str, Spreads]]:
    """Yield splits by name, and note those that a size doesn't allow.

    ``ways``: cuts into each number of pieces that divides the chips.
    """
    workload = ways[count].workload
    is_transformer = workload.parameters.get("kind") in KINDS
    if is_transformer:
        yield from _degrees(ways, count, reasons)
    free = [rank for rank in ways[count].free_ranks if not (is_transformer and rank == BATCH)]
    for rank in free:
        size = ways[count].free_ranks[rank]
        if size % count:
            reasons[f"{rank} {count}"] = f"a number that divides {size}, the size of {rank}"
        else:
            yield f"{rank} {count}", ways[count].spreads_along(rank)
    rows, channels = ways[count].rows, ways[count].channels
    if any(rows.values()):
        yield f"{_ROWS} {count}", rows
        yield f"{_ROWS} or {_CHANNELS} {count}", _prefer_cuts(rows, channels)
    if any(channels.values()):
        yield f"{_CHANNELS} {count}", channels
    else:
        reasons[f"{_CHANNELS} {count}"] = f"a number that divides channels of {workload.name}"
    if not is_transformer:
        yield from _two_cuts(count, ways, free)


def _two_cuts(
    count: int, ways: Mapping[int, RankCuts], free: Sequence[str]
) -> Iterator[tuple[str, Spreads]]:
    """Yield splits along two of a rank that no weights have, rows, columns, and channels."""
    for first_count in _divisors(count)[1:-1]:
        second_count = count // first_count
        rows, channels = ways[second_count].rows, ways[second_count].channels
        seconds = {_ROWS: rows, _CHANNELS: channels, f"{_ROWS} or {_CHANNELS}": {}}
        seconds[f"{_ROWS} or {_CHANNELS}"] = (
            _prefer_cuts(rows, channels) if any(rows.values()) else {}
        )
        firsts = {
            rank: ways[first_count].spreads_along(rank)
            for rank in free
            if ways[first_count].free_ranks[rank] % first_count == 0
        }
        for rank, cuts in firsts.items():
            for second, more in seconds.items():
                if any(more.values()):
                    yield f"{rank} {first_count} x {second} {second_count}", _join_cuts(cuts, more)
        rows = ways[first_count].rows
        for second, more in ((_CHANNELS, channels), (_COLUMNS, ways[second_count].columns)):
            if any(rows.values()) and any(more.values()):
                name = f"{_ROWS} {first_count} x {second} {second_count}"
                yield name, _join_cuts(rows, more)


def _prefer_cuts(first: Spreads, other: Spreads) -> Spreads:
    """Return cuts of the first kind; of the second kind for operators without them."""
    return {name: cuts or other[name] for name, cuts in first.items()}


def _join_cuts(first: Spreads, other: Spreads) -> Spreads:
    """Return cuts of both kinds, those of the first one outside."""
    return {name: (*cuts, *other[name]) for name, cuts in first.items()}


def _degrees(
    ways: Mapping[int, RankCuts], count: int, reasons: dict[str, str]
) -> Iterator[tuple[str, Spreads]]:
    """Yield the degrees of a transformer, and those beside which tokens are cut as well."""
    workload = ways[count].workload
    has_groups = any(GROUPS in operator.ranks for operator in workload.operators)
    for used in _divisors(count):
        tokens = ways[count // used].tokens if used < count else {}
        if used < count and not any(tokens.values()):
            continue
        for degrees in _degrees_of(used, with_experts=has_groups and not tokens):
            name = f"tokens {count // used} x " * bool(tokens) + degrees.name
            try:
                cuts = spread_over(workload, degrees)
            except InputError as error:
                if not tokens and not degrees.sequence:
                    reasons[name] = error.faults[0].allowed
                continue
            yield name, _join_cuts(tokens, cuts) if tokens else cuts


def _degrees_of(count: int, *, with_experts: bool) -> Iterator[ParallelDegrees]:
    """Yield degrees whose product is a number of chips, those of tensor parallelism first."""
    for tensor in _divisors(count):
        left = count // tensor
        for expert in _divisors(left)[::-1] if with_experts else (1,):
            yield ParallelDegrees(tensor, left // expert, expert)
            if tensor > 1:
                yield ParallelDegrees(tensor, left // expert, expert, sequence=True)


def _group_splits(
    ways: Mapping[int, RankCuts], count: int, reasons: dict[str, str]
) -> Iterator[tuple[str, Spreads]]:
    """Yield splits in which as many parts of a batch as its tokens are in are on chips."""
    workload = ways[count].workload
    parts = parts_of(workload.parameters["experts"])
    for degrees in _degrees_of(count, with_experts=True):
        if degrees.batch == parts:
            try:
                yield degrees.name, spread_over(workload, degrees)
            except InputError as error:
                reasons[degrees.name] = error.faults[0].allowed
