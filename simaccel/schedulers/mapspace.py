"""The mapspace of an einsum on a hierarchy: all mappings, counted, by number and at random.

A mapping is a chain of tiles per rank, a loop order per memory and the roles that each memory
keeps; the mapspace is their product. It is never made: chains have numbers (`ChainTable`), orders
and keeps too, so any block of mappings can be made by itself.

What is left out because something else costs the same: of two chains with the same numbers of tiles
the one with larger tiles (`chains.imperfect`), orders of loops of one trip, and orders that make
the same loops move the same tensors (`orders`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from simaccel.hardware.dataflow import Constraints
from simaccel.hardware.levels import ROLES, Hierarchy, Spatial
from simaccel.mapping.chain_table import ChainTable, chain_table
from simaccel.mapping.chains import MAPSPACES, Mapspace
from simaccel.mapping.nest import Ints, Nests
from simaccel.schedulers.limits import Limits, limits
from simaccel.schedulers.orders import Dependence, dependences, distinct_orders, moves
from simaccel.workload import Einsum

Strategy = Literal["pfm", "ruby", "ruby-s", "ruby-t", "padded"]
STRATEGIES: Final[tuple[Strategy, ...]] = (*MAPSPACES, "padded")
_INSIDE: Final[dict[Mapspace, tuple[Mapspace, ...]]] = {
    "pfm": (),
    "ruby-s": ("pfm",),
    "ruby-t": ("pfm",),
    "ruby": ("ruby-s", "ruby-t"),
}
_PERFECT: Final = 0.5
_FAR: Final = 0.5
"""How often a chain that moves gets any number of pieces at a level, not one near the old."""
_LISTED: Final = 1 << 15
"""Chains of a rank that are held as a list; of more, only the table."""
_KEYS: Final = 2**40
"""Random numbers of orders: far more than orders, so that all are about as likely."""


@dataclass(frozen=True)
class Genes:
    """Mappings as numbers, a row each.

    ``chains`` (rank) of the table of each rank, ``orders`` (temporal level) modulo the number of
    distinct orders, ``keeps`` of `Limits.keeps`.
    """

    chains: Ints
    orders: Ints
    keeps: Ints

    def __len__(self) -> int:
        """Count the mappings."""
        return len(self.chains)

    def take(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> Genes:
        """Give some of them."""
        return Genes(self.chains[which], self.orders[which], self.keeps[which])

    @classmethod
    def concatenate(cls, parts: list[Genes]) -> Genes:
        """Put several behind each other."""
        return cls(
            np.concatenate([part.chains for part in parts]),
            np.concatenate([part.orders for part in parts]),
            np.concatenate([part.keeps for part in parts]),
        )


@dataclass(frozen=True, kw_only=True)
class Space:
    """A mapspace; small, hashable, and the same in every process.

    ``einsum`` has the sizes that are run, padding included.
    """

    einsum: Einsum
    hierarchy: Hierarchy
    mapspace: Mapspace
    limits: Limits

    def chain_counts(self) -> tuple[int, ...]:
        """Count the chains of each rank, within the constraints and the fan-out of each level."""
        return tuple(table.count for table in book(self).tables)

    def size(self) -> int:
        """Count the mappings: chains, distinct orders and keeps.

        Capacities, and fan-outs that several ranks share, may make some of them invalid.
        """
        return book(self).size

    def random(self, rng: np.random.Generator, n: int, *, perfect: bool = False) -> Genes:
        """Draw mappings, uniformly over the chains of each rank.

        ``perfect``: every other chain is a perfect one where there are any. They are few among
        chains with remainders, and good more often.
        """
        chains = np.zeros((len(self.einsum.ranks), n), dtype=np.int64)
        for rank, table in enumerate(book(self).tables):
            if table.count > 1:
                chains[rank] = rng.integers(0, table.count, n)
                if perfect and self.mapspace != "pfm":
                    drawn = book(self).draw_perfect(rng, rank, n)
                    np.copyto(chains[rank], drawn, where=rng.random(len(drawn)) < _PERFECT)
        return Genes(
            chains.T,
            rng.integers(0, _KEYS, (n, len(self.hierarchy.memories))),
            rng.integers(0, len(self.limits.keeps), n),
        )

    @property
    def inside(self) -> tuple[Space, ...]:
        """The mapspaces that are part of this one, and of none that is smaller than this."""
        return tuple(replace(self, mapspace=name) for name in _INSIDE[self.mapspace])

    def moved(self, rng: np.random.Generator, rank: int, numbers: Ints) -> Ints:
        """Draw chains of a rank that are near the given ones.

        One level makes more or fewer pieces; what it loses another one gets, or the outermost.
        """
        table, n = book(self).tables[rank], len(numbers)
        rows = book(self).chains(rank, numbers)
        levels = np.flatnonzero([split.exactly is None for split in self.limits.splits[rank]])
        each, level = np.arange(n), levels[rng.integers(0, len(levels), n)]
        other = rng.integers(0, rows.shape[1], n)
        old = rows[each, level]
        near = old * np.exp2(rng.normal(size=n))
        new = np.where(rng.random(n) < _FAR, table.size ** rng.random(n), near)
        gets = np.maximum(np.rint(rows[each, other] * (old / new)), 1)
        rows[each, other] = gets
        rows[each, level] = np.maximum(np.rint(new), 1)
        return table.numbers(rows)

    def near(self, nests: Nests) -> Genes:
        """Give the mappings of this mapspace that are nearest to given ones.

        A mapping that is in the mapspace, or costs the same as one that is, gives that one.
        """
        known = book(self)
        chains = np.stack(
            [
                table.numbers(nests.factors[:, ::-1, rank])
                for rank, table in enumerate(known.tables)
            ],
            axis=1,
        )
        keeps = [np.flatnonzero((known.keeps == row).all(axis=(1, 2))) for row in nests.keeps]
        return Genes(
            chains,
            known.keys(known.factors(chains), nests.orders),
            np.array([found[0] if len(found) else 0 for found in keeps], dtype=np.int64),
        )

    def fitting(self, genes: Genes) -> tuple[Genes, Ints]:
        """Keep the mappings within the fan-outs; give them with their factors."""
        factors = book(self).factors(genes.chains)
        fits: npt.NDArray[np.bool_] = np.ones(len(genes), dtype=bool)
        for at in self.hierarchy.spatial:
            level = self.hierarchy.levels[at]
            assert isinstance(level, Spatial)  # noqa: S101 - narrows the type
            pieces = factors[:, at].prod(axis=1, dtype=np.float64)
            fits[pieces > level.fanout] = False
        return genes.take(fits), factors[fits]

    def nests(self, genes: Genes, factors: Ints) -> Nests:
        """Write mappings out as arrays for the closed form."""
        return Nests(
            factors=factors,
            orders=book(self).orders(factors, genes.orders),
            keeps=book(self).keeps[genes.keeps],
            sizes=np.broadcast_to(book(self).extents, (len(genes), len(self.einsum.ranks))),
        )

    def blocks(self, block: int = 1 << 14) -> Iterator[tuple[int, Nests]]:
        """Give all mappings within the fan-outs, and how many were gone through, block by block."""
        for start in range(0, self.combinations, block):
            gone, genes, factors = self.block(start, min(start + block, self.combinations))
            yield gone, self.nests(genes, factors)

    @property
    def combinations(self) -> int:
        """The number of combinations of chains: what `block` counts."""
        return prod(self.chain_counts())

    @property
    def widest(self) -> int:
        """The most mappings that one combination of chains stands for."""
        loops = np.array([[size > 1 for size in self.einsum.ranks.values()]])
        return book(self).most(loops) * len(self.limits.keeps)

    def block(self, start: int, stop: int) -> tuple[int, Genes, Ints]:
        """Give the mappings of some combinations of chains that are within the fan-outs.

        First how many of `size` are gone through, then as of `fitting`.
        """
        left = np.arange(start, stop, dtype=np.int64)
        chains = np.empty((len(left), len(self.chain_counts())), dtype=np.int64)
        for rank, count in reversed(list(enumerate(self.chain_counts()))):
            left, chains[:, rank] = np.divmod(left, count)
        nothing = np.zeros((len(chains), 0), dtype=np.int64)
        every = book(self).counts(book(self).factors(chains)).prod(axis=1)
        genes, factors = self.fitting(Genes(chains, nothing, nothing[:, :0].sum(axis=1)))
        counts = book(self).counts(factors)
        whole = np.concatenate([counts, np.full((len(counts), 1), len(self.limits.keeps))], axis=1)
        copies = whole.prod(axis=1)
        row = np.repeat(np.arange(len(genes)), copies)
        within = np.arange(len(row)) - np.repeat(np.cumsum(copies) - copies, copies)
        digits = np.empty((len(row), whole.shape[1]), dtype=np.int64)
        for at in range(whole.shape[1]):
            within, digits[:, at] = np.divmod(within, whole[row, at])
        found = Genes(genes.chains[row], digits[:, :-1], digits[:, -1])
        gone = int(every.sum()) * len(self.limits.keeps)
        return gone, found, factors[row]


class Book:
    """The tables of a mapspace: chains by rank, orders by level and active ranks."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.tables: tuple[ChainTable, ...] = tuple(
            chain_table(size, splits, space.mapspace)
            for size, splits in zip(space.einsum.ranks.values(), space.limits.splits, strict=True)
        )
        self.extents = np.array(list(space.einsum.ranks.values()), dtype=np.int64)
        self.keeps = np.array(space.limits.keeps, dtype=bool)
        memories = space.hierarchy.memories
        operands = dependences(space.einsum)
        self._levels = tuple(
            _Orders(
                tuple(
                    operands[role]
                    for role in range(len(ROLES))
                    if self.keeps[:, at + 1 :, role].any()
                ),
                space.limits.fixed[at],
                len(self.extents),
            )
            for at in range(len(memories))
        )

    @cached_property
    def _listed(self) -> list[Ints | None]:
        """The chains of each rank, a column each from the outermost level in, if they are few."""
        few = [table.count <= _LISTED for table in self.tables]
        return [
            np.ascontiguousarray(table.at(np.arange(table.count))[:, ::-1].T) if is_few else None
            for table, is_few in zip(self.tables, few, strict=True)
        ]

    def chains(self, rank: int, numbers: Ints) -> Ints:
        """Give chains of a rank by number, a row each as of `ChainTable.at`."""
        listed = self._listed[rank]
        if listed is None:
            return self.tables[rank].at(numbers)
        return listed[::-1, numbers].T

    def draw_perfect(self, rng: np.random.Generator, rank: int, n: int) -> Ints:
        """Draw perfect chains of a rank; nothing if there is none."""
        table, numbers = self.tables[rank], self._perfect[rank]
        perfect = chain_table(table.size, table.splits, "pfm")
        drawn = rng.integers(0, perfect.count, n) if perfect.count else np.zeros(0, dtype=np.int64)
        return table.numbers(perfect.at(drawn)) if numbers is None else numbers[drawn]

    @cached_property
    def _perfect(self) -> list[Ints | None]:
        """The numbers of the perfect chains of each rank, if they are few."""
        found: list[Ints | None] = []
        for table in self.tables:
            perfect = chain_table(table.size, table.splits, "pfm")
            few = perfect.count <= _LISTED
            found.append(table.numbers(perfect.at(np.arange(perfect.count))) if few else None)
        return found

    def factors(self, chains: Ints) -> Ints:
        """Give the factors (mapping, level, rank) of chains by number (mapping, rank)."""
        n_levels = len(self.space.hierarchy.levels)
        found = np.empty((n_levels, len(self.tables), len(chains)), dtype=np.int64)
        for rank in range(len(self.tables)):
            found[::-1, rank] = self.chains(rank, chains[:, rank]).T
        return found.transpose(2, 0, 1)

    def keys(self, factors: Ints, orders: Ints) -> Ints:
        """Give the keys of orders (mapping, temporal level, rank), as of `orders`."""
        temporal = self.space.hierarchy.temporal
        found = [
            self._levels[at].find(factors[:, level] > 1, orders[:, at])
            for at, level in enumerate(temporal)
        ]
        return np.stack(found, axis=1)

    def orders(self, factors: Ints, keys: Ints) -> Ints:
        """Give the orders (mapping, temporal level, rank): of all that differ, number ``key``."""
        temporal = self.space.hierarchy.temporal
        found = np.empty((len(factors), len(temporal), factors.shape[2]), dtype=np.int64)
        for at, level in enumerate(temporal):
            found[:, at] = self._levels[at].pick(factors[:, level] > 1, keys[:, at])
        return found

    def counts(self, factors: Ints) -> Ints:
        """Count the distinct orders of each mapping at each temporal level."""
        temporal = self.space.hierarchy.temporal
        found = [self._levels[at].count(factors[:, i] > 1) for at, i in enumerate(temporal)]
        return np.stack(found, axis=1)

    def most(self, active: npt.NDArray[np.bool_]) -> int:
        """Count the combinations of orders where these ranks have loops at every level."""
        return prod(int(orders.count(active)[0]) for orders in self._levels)

    @cached_property
    def size(self) -> int:
        """The number of mappings, from the chains of each rank by the levels where they loop."""
        marked = [at for at, orders in enumerate(self._levels) if orders.tensors]
        bit = {self.space.hierarchy.temporal[at]: 1 << i for i, at in enumerate(marked)}
        n_levels = len(self.space.hierarchy.levels)
        marks = [bit.get(level, 0) for level in reversed(range(n_levels))]
        ranks = [table.by_loops(marks) for table in self.tables]
        total = 0
        for unions in product(*ranks):
            chains = prod(found[union] for found, union in zip(ranks, unions, strict=True))
            for i, at in enumerate(marked):
                active = np.array([[bool(union >> i & 1) for union in unions]])
                chains *= int(self._levels[at].count(active)[0])
            total += chains
        return total * len(self.keeps)


class _Orders:
    """The distinct orders of one level for each set of ranks that have loops there."""

    def __init__(
        self, tensors: tuple[Dependence, ...], fixed: tuple[int, ...], n_ranks: int
    ) -> None:
        self.tensors = tensors
        self.fixed = fixed
        self._bits = 1 << np.arange(n_ranks, dtype=np.int64)
        self._counts = np.zeros(1 << n_ranks, dtype=np.int64)
        self._first = np.zeros(1 << n_ranks, dtype=np.int64)
        self._rows = np.zeros((0, n_ranks), dtype=np.int64)

    def count(self, active: npt.NDArray[np.bool_]) -> Ints:
        """Count the orders for each row of active ranks."""
        found: Ints = self._counts[self._known(active)]
        return found

    def pick(self, active: npt.NDArray[np.bool_], keys: Ints) -> Ints:
        """Give an order of all ranks for each row: the active ones first."""
        sets = self._known(active)
        found: Ints = self._rows[self._first[sets] + keys % self._counts[sets]]
        return found

    def find(self, active: npt.NDArray[np.bool_], orders: Ints) -> Ints:
        """Give for each row the number of the order that costs the same, 0 if there is none."""
        found = np.zeros(len(orders), dtype=np.int64)
        for row, one in enumerate(self._known(active).tolist()):
            inside = [rank for rank in orders[row].tolist() if one >> rank & 1]
            first, count = int(self._first[one]), int(self._counts[one])
            kinds = [
                moves(tuple(order[: len(inside)]), self.tensors)
                for order in self._rows[first : first + count].tolist()
            ]
            wanted = moves(tuple(inside), self.tensors)
            found[row] = kinds.index(wanted) if wanted in kinds else 0
        return found

    def _known(self, active: npt.NDArray[np.bool_]) -> Ints:
        sets = np.zeros(len(active), dtype=np.int64)
        for rank, bit in enumerate(self._bits.tolist()):
            sets += active[:, rank] * np.int64(bit)
        missing = np.unique(sets[self._counts[sets] == 0])
        for one in missing.tolist():
            inside = tuple(rank for rank in range(len(self._bits)) if one >> rank & 1)
            outside = [rank for rank in range(len(self._bits)) if not one >> rank & 1]
            orders = distinct_orders(inside, self.tensors, self.fixed)
            rest = np.broadcast_to(np.array(outside, dtype=np.int64), (len(orders), len(outside)))
            self._first[one], self._counts[one] = len(self._rows), len(orders)
            self._rows = np.concatenate([self._rows, np.concatenate([orders, rest], axis=1)])
        return sets


@lru_cache(64)
def book(space: Space) -> Book:
    """Give the tables of a mapspace; they are made once."""
    return Book(space)


def spaces(
    einsum: Einsum,
    hierarchy: Hierarchy,
    strategy: Strategy,
    dataflow: Constraints | None = None,
    asked: Constraints | None = None,
) -> tuple[Space, ...]:
    """Give the mapspaces of a strategy: one, except where there is a choice of what to pad.

    Padding: at every spatial level one rank that may be split there is padded to a multiple of the
    fan-out, and all is factorised perfectly; each choice of ranks is a mapspace.

    Raises:
        InputError: constraints that can't be.

    """
    allowed = limits(einsum, hierarchy, dataflow or {}, asked or {})
    if strategy != "padded":
        return (Space(einsum=einsum, hierarchy=hierarchy, mapspace=strategy, limits=allowed),)
    found = []
    for padded in _padded(einsum, hierarchy, allowed):
        again = limits(padded, hierarchy, dataflow or {}, asked or {})
        found.append(Space(einsum=padded, hierarchy=hierarchy, mapspace="pfm", limits=again))
    return tuple(found)


def _padded(einsum: Einsum, hierarchy: Hierarchy, allowed: Limits) -> list[Einsum]:
    """Pad one rank for each spatial level, in all ways."""
    n_levels = len(hierarchy.levels)
    choices: list[list[tuple[int, int]]] = []
    for at in hierarchy.spatial:
        level = hierarchy.levels[at]
        assert isinstance(level, Spatial)  # noqa: S101 - narrows the type
        able = [
            (rank, level.fanout)
            for rank, splits in enumerate(allowed.splits)
            if splits[n_levels - 1 - at].exactly is None
        ]
        choices.append(able or [(0, 1)])
    found: dict[tuple[int, ...], Einsum] = {}
    for chosen in product(*choices):
        multiples = dict.fromkeys(range(len(einsum.ranks)), 1)
        for rank, fanout in chosen:
            multiples[rank] *= fanout
        sizes = {
            rank: -(-size // multiples[at]) * multiples[at]
            for at, (rank, size) in enumerate(einsum.ranks.items())
        }
        found.setdefault(tuple(sizes.values()), replace(einsum, ranks=sizes))
    return list(found.values())
