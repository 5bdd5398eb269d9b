"""Ways to split a workload over chips: degrees of a transformer, ranks, rows, columns, channels.

Not all of them are legal: which exchanges the cuts need is found in `simaccel.schedulers.splits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from simaccel.errors import Fault, InputError
from simaccel.schedulers.parallel import (
    BATCH,
    GROUPS,
    KINDS,
    ParallelDegrees,
    Spreads,
    spread_over,
)
from simaccel.schedulers.rank_cuts import RankCuts
from simaccel.workload import Workload
from simaccel.workload.language.experts import parts_of

_CHANNELS: Final = "channels"
_ROWS: Final = "rows"
_COLUMNS: Final = "columns"


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


def divisors(count: int) -> list[int]:
    """Return the divisors of a number, itself first."""
    return [n for n in range(count, 0, -1) if count % n == 0]


def possible_splits(
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
    for first_count in divisors(count)[1:-1]:
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
    for used in divisors(count):
        tokens = ways[count // used].tokens if used < count else {}
        if used < count and not any(tokens.values()):
            continue
        for degrees in degrees_of_chips(used, with_experts=has_groups and not tokens):
            name = f"tokens {count // used} x " * bool(tokens) + degrees.name
            try:
                cuts = spread_over(workload, degrees)
            except InputError as error:
                if not tokens and not degrees.sequence:
                    reasons[name] = error.faults[0].allowed
                continue
            yield name, _join_cuts(tokens, cuts) if tokens else cuts


def degrees_of_chips(count: int, *, with_experts: bool) -> Iterator[ParallelDegrees]:
    """Yield degrees whose product is a number of chips, those of tensor parallelism first."""
    for tensor in divisors(count):
        left = count // tensor
        for expert in divisors(left)[::-1] if with_experts else (1,):
            yield ParallelDegrees(tensor, left // expert, expert)
            if tensor > 1:
                yield ParallelDegrees(tensor, left // expert, expert, sequence=True)


def group_splits(
    ways: Mapping[int, RankCuts], count: int, reasons: dict[str, str]
) -> Iterator[tuple[str, Spreads]]:
    """Yield splits in which as many parts of a batch as its tokens are in are on chips."""
    workload = ways[count].workload
    parts = parts_of(workload.parameters["experts"])
    for degrees in degrees_of_chips(count, with_experts=True):
        if degrees.batch == parts:
            try:
                yield degrees.name, spread_over(workload, degrees)
            except InputError as error:
                reasons[degrees.name] = error.faults[0].allowed
