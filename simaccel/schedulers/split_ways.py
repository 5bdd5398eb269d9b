"""Ways to split a workload over chips: degrees of a transformer, ranks, rows, columns, channels.

Not all of them are legal: which exchanges the cuts need is found in `simaccel.schedulers.splits`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from simaccel.errors import Fault, InputError
from simaccel.hardware.chips import ChipAxis
from simaccel.mapping.chips.uncuttable import uncuttable_ranks
from simaccel.mapping.classes import RankClasses
from simaccel.schedulers.parallel import (
    BATCH,
    GROUPS,
    KINDS,
    ParallelDegrees,
    Spreads,
    spread_over,
)
from simaccel.workload import AffineDimension, Einsum, Operator, Vector, Workload
from simaccel.workload.language.experts import GROUPED, parts_of
from simaccel.workload.roles import window_ranks
from simaccel.workload.stages import with_parameters

_TOKENS: Final = "n"
"""The rank of a transformer's tokens."""
_MOST_RANKS: Final = 3
"""Ranks of activations that are tried, of a graph in which no two operators have the same."""


def _rank(dim: AffineDimension) -> str:
    """Return the rank that a dimension is; nothing if it is a sum of several."""
    return dim.terms[0][0] if dim.is_unit else ""


@dataclass(frozen=True)
class RankCuts:
    """Cuts of a workload's operators along one rank each, in ``count`` pieces."""

    workload: Workload
    count: int

    @cached_property
    def classes(self) -> RankClasses:
        """The ranks of all operators that are one, as they index the same dimension."""
        return RankClasses(self.workload.operators)

    @cached_property
    def free_ranks(self) -> dict[str, int]:
        """Ranks of most products' outputs that no weights have, those of most operators first.

        With the size of each. Those on which windows move are `rows`, or columns.
        """
        sizes: dict[str, int] = {}
        numbers: Counter[str] = Counter()
        products: Counter[str] = Counter()
        moving = set[str]()
        for at, operator in enumerate(self.workload.operators):
            moving.update(self.classes.name((at, rank)) for rank in window_ranks(operator))
            for rank in self._free(operator):
                name = self.classes.name((at, rank))
                numbers[name] += 1
                sizes[name] = operator.ranks[rank]
                products[name] += isinstance(operator, Einsum)
        most = max(products.values(), default=0)
        names = [
            name
            for name, _ in numbers.most_common()
            if 2 * products[name] > most and name not in moving
        ]
        return {name: sizes[name] for name in names[:_MOST_RANKS]}

    def spreads_along(self, name: str) -> Spreads:
        """Return cuts of operators along a rank, of products without it along another such."""
        cuts = {}
        for at, operator in enumerate(self.workload.operators):
            own = [rank for rank in operator.ranks if self.classes.name((at, rank)) == name]
            if not own and isinstance(operator, Einsum):
                own = [rank for rank in self._free(operator) if self._is_cut(operator, rank)][:1]
            cuts[operator.name] = tuple((rank, self.count) for rank in own)
        return cuts

    @cached_property
    def channels(self) -> Spreads:
        """Cuts of products by ranks of outputs that weights have, of others as they read."""
        ranks, dimensions = dict[str, str](), dict[str, int]()
        for operator in self.workload.operators:
            outermost = [dim.outermost(operator.ranks) for dim in operator.output.projection]
            rank = None
            if isinstance(operator, Vector):
                at = dimensions.get(operator.input.tensor)
                rank = None if at is None else operator.input.projection[at].terms[0][0]
            else:
                weighted = self._weight_ranks(operator)
                wide = [r for r in outermost if r in weighted and self._is_cut(operator, str(r))]
                rank = max(wide, key=lambda r: operator.ranks[str(r)], default=None)
            if rank in outermost and rank is not None and self._is_cut(operator, rank):
                dimensions[operator.output.tensor] = outermost.index(rank)
                ranks[operator.name] = rank
        return self._spreads(ranks)

    @cached_property
    def tokens(self) -> Spreads:
        """Cuts of a transformer's operators along its tokens, except attention.

        Attention and operators that write a cache have all tokens, as each token sees another part
        of the keys.
        """
        attended, ranks, tensors = set[str](), dict[str, str](), self.workload.tensors
        for operator in self.workload.operators:
            name = operator.output.tensor
            weighted = bool(self._weight_ranks(operator))
            is_attention = isinstance(operator, Einsum) and not weighted
            if is_attention or (isinstance(operator, Vector) and operator.input.tensor in attended):
                attended.add(name)
            elif tensors[name].kind != "cache" and operator.ranks.get(_TOKENS, 1) > 1:
                ranks |= {operator.name: _TOKENS} if self._is_cut(operator, _TOKENS) else {}
        return self._spreads(ranks)

    @cached_property
    def rows(self) -> Spreads:
        """Cuts along rows: the first dimension in which most products have windows.

        Windows overlap, skip elements or leave a border. Poolings, sums and the like have the same
        dimension.
        """
        return self._cuts_at(0)

    @cached_property
    def columns(self) -> Spreads:
        """Cuts along columns: the second such dimension."""
        return self._cuts_at(1)

    @cached_property
    def _window_places(self) -> list[int]:
        """Dimensions in which products have windows, counted from the last one, most first."""
        numbers: Counter[int] = Counter()
        for operator in self.workload.operators:
            windows = window_ranks(operator) if isinstance(operator, Einsum) else set[str]()
            dims = operator.output.projection
            numbers.update(at - len(dims) for at, dim in enumerate(dims) if _rank(dim) in windows)
        return sorted(numbers, key=lambda at: (-numbers[at], at))

    def _cuts_at(self, number: int) -> Spreads:
        """Return cuts along one of the dimensions with windows, of what it can be cut of."""
        ranks: dict[str, str] = {}
        for place in self._window_places[number : number + 1]:
            for operator in self.workload.operators:
                dims = operator.output.projection
                rank = _rank(dims[place]) if len(dims) >= -place else ""
                if rank in self._free(operator) and self._is_cut(operator, rank):
                    ranks[operator.name] = rank
        return self._spreads(ranks)

    def _spreads(self, ranks: Mapping[str, str]) -> Spreads:
        """Return cuts of the operators that have a rank to cut, none of the others."""
        names = self.workload.by_name
        return {name: ((ranks[name], self.count),) if name in ranks else () for name in names}

    def _weight_ranks(self, operator: Operator) -> set[str]:
        """Return the ranks of an operator's weights."""
        kinds = self.workload.tensors
        weights = (one for one in operator.inputs if kinds[one.tensor].kind == "weight")
        return {rank for one in weights for rank in one.ranks}

    def _free(self, operator: Operator) -> Iterator[str]:
        """Yield the ranks of an operator's output that no weights of it have."""
        weighted = self._weight_ranks(operator) if isinstance(operator, Einsum) else set[str]()
        yield from (rank for rank in operator.output.ranks if rank not in weighted)

    def _is_cut(self, operator: Operator, rank: str) -> bool:
        """Return whether an operator can be cut along a rank."""
        cuts = {rank: (ChipAxis(1, self.count),)}
        whole = operator.ranks[rank] % self.count == 0
        return whole and not any(uncuttable_ranks(operator, cuts, self.workload))


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


def cuts_of(workload: Workload, counts: Iterable[int]) -> dict[int, RankCuts]:
    """Return the cuts of a workload in each number of pieces that divides one of ``counts``."""
    numbers = {1, *(part for count in counts for part in divisors(count))}
    return {number: RankCuts(workload, number) for number in numbers}


def possible_splits(
    ways: Mapping[int, RankCuts], count: int, reasons: dict[str, str]
) -> Iterator[tuple[str, Spreads]]:
    """Yield splits by name, and note those that a size doesn't allow.

    ``ways``: cuts into each number of pieces that divides ``count``.
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
        seconds = {_ROWS: rows, _CHANNELS: channels}
        if any(rows.values()):
            seconds[f"{_ROWS} or {_CHANNELS}"] = _prefer_cuts(rows, channels)
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


def degrees_of_fewer_groups(
    workload: Workload, degrees: ParallelDegrees, groups: int
) -> ParallelDegrees | None:
    """Return legal degrees by which so many groups of chips share the experts; None if none are.

    ``groups``: a divisor of the present degree. Chips that it leaves share each expert's products,
    or the batch.
    """
    spread = f"{GROUPED}:{parts_of(workload.parameters['experts'])}:{groups}"
    fewer = with_parameters(workload, experts=spread)
    for name in ("tensor", "data"):
        wider = {name: getattr(degrees, name) * degrees.expert // groups, "expert": groups}
        with suppress(InputError):
            spread_over(fewer, replace(degrees, **wider))
            return replace(degrees, **wider)
    return None
