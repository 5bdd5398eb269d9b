"""Cuts of any workload over chips, operator by operator: along a rank, along rows or channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from simaccel.hardware.chips import ChipAxis
from simaccel.mapping.chips.uncuttable import uncuttable_ranks
from simaccel.mapping.classes import RankClasses
from simaccel.schedulers.parallel import Spreads
from simaccel.workload import AffineDimension, Einsum, Operator, Vector, Workload
from simaccel.workload.roles import window_ranks

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
        cuts: dict[str, tuple[tuple[str, int], ...]] = {}
        dimensions: dict[str, int] = {}
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
                cuts[operator.name] = ((rank, self.count),)
            else:
                cuts[operator.name] = ()
        return cuts

    @cached_property
    def tokens(self) -> Spreads:
        """Cuts of a transformer's operators along its tokens, but for those of attention.

        Attention, in which each token has another part of the keys, is for all tokens; so is what
        goes to a cache.
        """
        attended, cuts = set[str](), dict[str, tuple[tuple[str, int], ...]]()
        tensors = self.workload.tensors
        for operator in self.workload.operators:
            name, cuts[operator.name] = operator.output.tensor, ()
            weighted = bool(self._weight_ranks(operator))
            is_attention = isinstance(operator, Einsum) and not weighted
            if is_attention or (isinstance(operator, Vector) and operator.input.tensor in attended):
                attended.add(name)
            elif tensors[name].kind != "cache" and _TOKENS in operator.ranks:
                is_cut = operator.ranks[_TOKENS] > 1 and self._is_cut(operator, _TOKENS)
                cuts[operator.name] = ((_TOKENS, self.count),) if is_cut else ()
        return cuts

    @cached_property
    def rows(self) -> Spreads:
        """Cuts along rows: the first dimension in which most products have windows.

        Windows overlap, skip elements or leave a border. Poolings, sums and the like have the same
        dimension.
        """
        return self._cuts_at(self._window_places[:1])

    @cached_property
    def columns(self) -> Spreads:
        """Cuts along columns: the second such dimension."""
        return self._cuts_at(self._window_places[1:2])

    @cached_property
    def _window_places(self) -> list[int]:
        """Dimensions in which products have windows, counted from the last one, most first."""
        numbers: Counter[int] = Counter()
        for operator in self.workload.operators:
            windows = window_ranks(operator) if isinstance(operator, Einsum) else set[str]()
            dims = operator.output.projection
            numbers.update(at - len(dims) for at, dim in enumerate(dims) if _rank(dim) in windows)
        return sorted(numbers, key=lambda at: (-numbers[at], at))

    def _cuts_at(self, places: Sequence[int]) -> Spreads:
        """Return cuts along the dimension at a place, of what it can be cut of."""
        cuts: dict[str, tuple[tuple[str, int], ...]] = dict.fromkeys(self.workload.by_name, ())
        for place in places:
            for operator in self.workload.operators:
                dims = operator.output.projection
                rank = _rank(dims[place]) if len(dims) >= -place else ""
                if rank in self._free(operator) and self._is_cut(operator, rank):
                    cuts[operator.name] = ((rank, self.count),)
        return cuts

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
