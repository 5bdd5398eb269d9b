"""The mapspace of an einsum on a hierarchy: all mappings, counted, by number and at random.

A mapping is a chain of tiles per rank, a loop order per memory and the roles that each memory
keeps; the mapspace is their product. It is never made: chains have numbers (`ChainTable`), orders
and keeps too, so any block of mappings can be made by itself.

What is left out because something else costs the same: of two chains with the same numbers of tiles
the one with larger tiles (`chains.choices`), orders of loops of one trip, and orders that make
the same loops move the same tensors (`orders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Ints
from simaccel.hardware.dataflow import Constraints
from simaccel.hardware.levels import Hierarchy
from simaccel.search.effort import Strategy
from simaccel.search.mapspace.chains import Mapspace
from simaccel.search.mapspace.limits import MappingLimits, limits
from simaccel.search.mapspace.mapspace_tables import MapspaceTables
from simaccel.search.mapspace.tiling_batch import TilingBatch, rows
from simaccel.workload import Einsum

INSIDE: Final[dict[Mapspace, tuple[Mapspace, ...]]] = {
    "pfm": (),
    "ruby-s": ("pfm",),
    "ruby-t": ("pfm",),
    "ruby": ("ruby-s", "ruby-t"),
}
"""Maximal proper sub-mapspaces of each mapspace."""
_PERFECT: Final = 0.5
_FAR: Final = 0.5
"""Probability that a chain gets any number of pieces at a level, instead of a similar one."""
_KEYS: Final = 2**40
"""Random keys of orders: far more than orders, so that all are about equally likely."""


@dataclass(frozen=True)
class Genes:
    """Mappings as numbers, a row each.

    ``chains`` (rank): in the table of each rank. ``orders`` (temporal level): modulo the number of
    distinct orders. ``keeps``: index in `MappingLimits.keeps`.
    """

    chains: Ints
    orders: Ints
    keeps: Ints

    def __len__(self) -> int:
        """Count the mappings."""
        return len(self.chains)

    def take(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> Self:
        """Return the mappings with these indices."""
        columns = (getattr(self, column.name) for column in fields(self))
        if isinstance(which, slice):
            return type(self)(*(column[which] for column in columns))
        at = np.flatnonzero(which) if which.dtype == np.bool_ else which
        return type(self)(*(column.take(at, axis=0) for column in columns))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the mappings of several parts, one after the other."""
        columns = ([getattr(part, column.name) for part in parts] for column in fields(cls))
        return cls(*map(np.concatenate, columns))


@dataclass(frozen=True, kw_only=True)
class EinsumMapspace:
    """A mapspace; small, hashable, and equal in every process.

    ``einsum`` has the sizes that run, padding included.
    """

    einsum: Einsum
    hierarchy: Hierarchy
    mapspace: Mapspace
    limits: MappingLimits

    @cached_property
    def book(self) -> MapspaceTables:
        """The tables, made once in a process."""
        return _book(self)

    def __getstate__(self) -> dict[str, object]:
        """Return the fields; another process makes tables of its own."""
        return {name: value for name, value in self.__dict__.items() if name != "book"}

    def chain_counts(self) -> tuple[int, ...]:
        """Count the chains of each rank, within the constraints and the fan-out of each level."""
        return tuple(table.count for table in self.book.tables)

    def size(self) -> int:
        """Count the mappings: chains, distinct orders and keeps.

        Capacities, and fan-outs that several ranks share, may make some of them invalid.
        """
        return self.book.size

    def random(self, rng: np.random.Generator, n: int, *, perfect: bool = False) -> Genes:
        """Draw random mappings, uniform over the chains of each rank.

        ``perfect``: every other chain is a perfect one, if there are any. They are few among chains
        with remainders, and more often good.
        """
        chains = np.zeros((len(self.einsum.ranks), n), dtype=np.int64)
        perfect = perfect and self.mapspace != "pfm"
        for rank, table in enumerate(self.book.tables):
            if table.count > 1:
                chains[rank] = rng.integers(0, table.count, n)
            if table.count > 1 and perfect and (exact := self.book.perfect[rank]).count:
                drawn = table.numbers(exact.chains_at(rng.integers(0, exact.count, n)))
                np.copyto(chains[rank], drawn, where=rng.random(n) < _PERFECT)
        orders = rng.integers(0, _KEYS, (n, len(self.hierarchy.memories)))
        return Genes(np.ascontiguousarray(chains.T), orders, self.random_keeps(rng, n))

    def random_keeps(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw at random what memories keep."""
        return rng.integers(0, len(self.limits.keeps), n)

    @property
    def inside(self) -> tuple[EinsumMapspace, ...]:
        """The maximal proper sub-mapspaces."""
        return tuple(replace(self, mapspace=name) for name in INSIDE[self.mapspace])

    def move_chains(self, rng: np.random.Generator, rank: int, numbers: Ints) -> Ints:
        """Draw chains of a rank that are similar to given ones.

        One level makes more or fewer pieces; another one, or the outermost, makes up for it.
        """
        table, n = self.book.tables[rank], len(numbers)
        chains = table.chains_at(numbers)
        levels = np.flatnonzero([split.exactly is None for split in self.limits.splits[rank]])
        each, level = np.arange(n), levels[rng.integers(0, len(levels), n)]
        other = rng.integers(0, chains.shape[1], n)
        old = chains[each, level]
        near = old * np.exp2(rng.normal(size=n))
        new = np.where(rng.random(n) < _FAR, table.size ** rng.random(n), near)
        gets = np.maximum(np.rint(chains[each, other] * (old / new)), 1)
        chains[each, other] = gets
        chains[each, level] = np.maximum(np.rint(new), 1)
        return table.numbers(chains)

    def nearest_tilings(self, candidates: TilingBatch) -> Genes:
        """Return the tilings of this mapspace that are most similar to given ones, in any order.

        A tiling that is in the mapspace, or costs the same as one that is, becomes that one.
        """
        known = self.book
        chains = np.stack(
            [
                table.numbers(candidates.factors[:, ::-1, rank])
                for rank, table in enumerate(known.tables)
            ],
            axis=1,
        )
        keeps = [np.flatnonzero((known.keeps == row).all(axis=(1, 2))) for row in candidates.keeps]
        kept = np.array([keep[0] if len(keep) else 0 for keep in keeps], dtype=np.int64)
        return Genes(chains, np.zeros(candidates.orders.shape[:2], dtype=np.int64), kept)

    def fitting(self, genes: Genes) -> tuple[Genes, Ints]:
        """Return the mappings within the fan-outs, with their factors."""
        factors = self.book.factors(genes.chains)
        fits = self.within_fan_outs(factors)
        return genes.take(fits), rows(factors, fits)

    def within_fan_outs(self, factors: Ints) -> npt.NDArray[np.bool_]:
        """Return which tilings make no more pieces than there are instances."""
        fits: npt.NDArray[np.bool_] = np.ones(len(factors), dtype=bool)
        for at, level in zip(self.hierarchy.spatial, self.hierarchy.fanouts, strict=True):
            fits &= factors[:, at].prod(axis=1, dtype=np.float64) <= level.fanout
        return fits

    def candidates(self, genes: Genes, factors: Ints, *, ordered: bool = True) -> TilingBatch:
        """Return mappings as arrays of factors, orders (none unless ``ordered``) and keeps."""
        orders = self.book.orders(factors, genes.orders) if ordered else genes.orders[..., :0]
        return TilingBatch(factors=factors, orders=orders, keeps=self.book.keeps[genes.keeps])

    @property
    def combinations(self) -> int:
        """The number of combinations of chains, which `block` enumerates."""
        return prod(self.chain_counts())

    def block(self, start: int, stop: int) -> tuple[int, Genes, Ints]:
        """Return the tilings of a range of combinations of chains that are within the fan-outs.

        The first result is the number of mappings of `size` in the range; the others are as of
        `fitting`.
        """
        left = np.arange(start, stop, dtype=np.int64)
        chains = np.empty((len(left), len(self.chain_counts())), dtype=np.int64)
        for rank, count in reversed(list(enumerate(self.chain_counts()))):
            left, chains[:, rank] = np.divmod(left, count)
        keeps, orders = len(self.limits.keeps), len(self.hierarchy.memories)
        factors = self.book.factors(chains)
        tried = int(self.book.counts(factors).prod(axis=1).sum()) * keeps
        fits = self.within_fan_outs(factors)
        chains, factors = chains[fits], rows(factors, fits)
        row = np.repeat(np.arange(len(chains)), keeps)
        kept = np.tile(np.arange(keeps), len(chains))
        none = np.zeros((len(row), orders), dtype=np.int64)
        return tried, Genes(chains[row], none, kept), rows(factors, row)


@lru_cache(64)
def _book(space: EinsumMapspace) -> MapspaceTables:
    """Return the tables of a mapspace; they are made once."""
    return MapspaceTables(space.einsum, space.hierarchy, space.mapspace, space.limits)


def spaces(
    einsum: Einsum,
    hierarchy: Hierarchy,
    strategy: Strategy,
    dataflow: Constraints | None = None,
    constraints: Constraints | None = None,
) -> tuple[EinsumMapspace, ...]:
    """Return the mapspaces of a strategy: one, or for padding one for each choice of padded ranks.

    Padding: at each spatial level, one rank that may be split there is padded to a multiple of the
    fan-out, and everything is factorised perfectly.

    Raises:
        InputError: constraints that can't be.
    """
    allowed = limits(einsum, hierarchy, dataflow or {}, constraints or {})
    if strategy != "padded":
        return (
            EinsumMapspace(einsum=einsum, hierarchy=hierarchy, mapspace=strategy, limits=allowed),
        )
    return tuple(
        EinsumMapspace(
            einsum=padded,
            hierarchy=hierarchy,
            mapspace="pfm",
            limits=limits(padded, hierarchy, dataflow or {}, constraints or {}),
        )
        for padded in _pad_einsums(einsum, hierarchy, allowed)
    )


def _pad_einsums(einsum: Einsum, hierarchy: Hierarchy, allowed: MappingLimits) -> list[Einsum]:
    """Pad one rank for each spatial level, in all ways."""
    n_levels = len(hierarchy.levels)
    choices: list[list[tuple[int, int]]] = []
    for at, level in zip(hierarchy.spatial, hierarchy.fanouts, strict=True):
        able = [
            (rank, level.fanout)
            for rank, (splits, size) in enumerate(
                zip(allowed.splits, einsum.ranks.values(), strict=True)
            )
            if splits[n_levels - 1 - at].exactly is None and size > 1
        ]
        choices.append(able or [(0, 1)])
    by_sizes: dict[tuple[int, ...], Einsum] = {}
    for chosen in product(*choices):
        multiples = dict.fromkeys(range(len(einsum.ranks)), 1)
        for rank, fanout in chosen:
            multiples[rank] *= fanout
        sizes = {
            rank: -(-size // multiples[at]) * multiples[at]
            for at, (rank, size) in enumerate(einsum.ranks.items())
        }
        by_sizes.setdefault(tuple(sizes.values()), replace(einsum, ranks=sizes))
    return list(by_sizes.values())
