"""The tables behind a mapspace: chains by rank, orders by level and ranks that have loops there."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Ints
from simaccel.hardware.levels import ROLES, Hierarchy
from simaccel.mapspace.chain_table import ChainTable, chain_table
from simaccel.mapspace.chains import Mapspace
from simaccel.mapspace.limits import Limits
from simaccel.mapspace.orders import Dependence, dependences, distinct_orders, moves
from simaccel.workload import Einsum

_LISTED: Final = 1 << 15
"""Chains of a rank that are held as a list; of more, only the table."""


class Book:
    """The tables of one mapspace; what they hold is made when it is first asked for."""

    def __init__(
        self, einsum: Einsum, hierarchy: Hierarchy, mapspace: Mapspace, limits: Limits
    ) -> None:
        self.hierarchy = hierarchy
        self.tables: tuple[ChainTable, ...] = tuple(
            chain_table(size, splits, mapspace)
            for size, splits in zip(einsum.ranks.values(), limits.splits, strict=True)
        )
        self.extents = np.array(list(einsum.ranks.values()), dtype=np.int64)
        self.keeps = np.array(limits.keeps, dtype=bool)
        memories = hierarchy.memories
        operands = dependences(einsum)
        self._levels = tuple(
            _Orders(
                tuple(
                    operands[role]
                    for role in range(len(ROLES))
                    if self.keeps[:, at + 1 :, role].any()
                ),
                limits.fixed[at],
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
        """Return chains of a rank by number, a row each as of `ChainTable.at`."""
        listed = self._listed[rank]
        if listed is None:
            return self.tables[rank].at(numbers)
        return listed[::-1, numbers].T

    def draw_perfect(self, rng: np.random.Generator, rank: int, n: int) -> Ints:
        """Draw perfect chains of a rank that has some."""
        perfect, numbers = self.perfect[rank], self._perfect_numbers[rank]
        drawn = rng.integers(0, perfect.count, n)
        return self.tables[rank].numbers(perfect.at(drawn)) if numbers is None else numbers[drawn]

    @cached_property
    def perfect(self) -> list[ChainTable]:
        """The perfect chains of each rank."""
        return [chain_table(table.size, table.splits, "pfm") for table in self.tables]

    @cached_property
    def _perfect_numbers(self) -> list[Ints | None]:
        """The numbers of the perfect chains of each rank, if they are few."""
        return [
            table.numbers(perfect.at(np.arange(perfect.count)))
            if perfect.count <= _LISTED
            else None
            for table, perfect in zip(self.tables, self.perfect, strict=True)
        ]

    def factors(self, chains: Ints) -> Ints:
        """Return the factors (mapping, level, rank) of chains by number (mapping, rank)."""
        n_levels = len(self.hierarchy.levels)
        found = np.empty((n_levels, len(self.tables), len(chains)), dtype=np.int64)
        for rank in range(len(self.tables)):
            found[::-1, rank] = self.chains(rank, chains[:, rank]).T
        return found.transpose(2, 0, 1)

    def keys(self, factors: Ints, orders: Ints) -> Ints:
        """Return the keys of orders (mapping, temporal level, rank), as of `orders`."""
        temporal = self.hierarchy.temporal
        found = [
            self._levels[at].find(factors[:, level] > 1, orders[:, at])
            for at, level in enumerate(temporal)
        ]
        return np.stack(found, axis=1)

    def orders(self, factors: Ints, keys: Ints) -> Ints:
        """Return the orders (mapping, temporal level, rank): of all that differ, number ``key``."""
        temporal = self.hierarchy.temporal
        found = np.empty((len(temporal), factors.shape[2], len(factors)), dtype=np.int64)
        for at, level in enumerate(temporal):
            found[at] = self._levels[at].pick(factors[:, level] > 1, keys[:, at]).T
        return found.transpose(2, 0, 1)

    def counts(self, factors: Ints) -> Ints:
        """Count the distinct orders of each mapping at each temporal level."""
        temporal = self.hierarchy.temporal
        found = [self._levels[at].count(factors[:, i] > 1) for at, i in enumerate(temporal)]
        return np.stack(found, axis=1)

    def most(self, active: npt.NDArray[np.bool_]) -> int:
        """Count the combinations of orders where these ranks have loops at every level."""
        return prod(int(orders.count(active)[0]) for orders in self._levels)

    @cached_property
    def size(self) -> int:
        """The number of mappings, from the chains of each rank by the levels where they loop."""
        marked = [at for at, orders in enumerate(self._levels) if orders.tensors]
        bit = {self.hierarchy.temporal[at]: 1 << i for i, at in enumerate(marked)}
        n_levels = len(self.hierarchy.levels)
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
        """Return an order of all ranks for each row: the active ones first."""
        sets = self._known(active)
        found: Ints = self._rows[self._first[sets] + keys % self._counts[sets]]
        return found

    def find(self, active: npt.NDArray[np.bool_], orders: Ints) -> Ints:
        """Return for each row the number of the order that costs the same, 0 if there is none."""
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
