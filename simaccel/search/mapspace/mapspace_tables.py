"""Tables of a mapspace: chains of each rank, and orders of each level by the ranks that loop.

The order of a level's loops decides one thing: for each tensor that is held further in, which loops
make it move. These are the innermost loop over one of the tensor's ranks and all loops outside of
it; where a sliding window runs along that innermost loop, the loop itself matters too. Two orders
with the same answer for every tensor cost the same, whatever the other levels do, so one of them is
enough. Loops of one trip have no order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import permutations, product

import numpy as np
import numpy.typing as npt

from simaccel.analytic.family import Ints, ints
from simaccel.hardware.levels import ROLES, Hierarchy
from simaccel.search.mapspace.chains import ChainTable, Mapspace, chain_table
from simaccel.search.mapspace.limits import MappingLimits
from simaccel.workload import Einsum

Moves = tuple[tuple[frozenset[int], int | None], ...]
"""By tensor: the loops that move it, and the loop of its sliding window among them, if any."""


@dataclass(frozen=True)
class Dependence:
    """Indices of the ranks of one tensor, and of those that share a dimension with another rank."""

    ranks: frozenset[int]
    sliding: frozenset[int] = frozenset()


def dependences(einsum: Einsum) -> tuple[Dependence, ...]:
    """Return the ranks that each operand of an einsum depends on; a second input may be missing."""
    index = {rank: at for at, rank in enumerate(einsum.ranks)}
    by_role = []
    for operand in (*einsum.inputs, einsum.output):
        windows: set[int] = set()
        for dim in operand.projection:
            several = [index[rank] for rank, _ in dim.terms if einsum.ranks[rank] > 1]
            windows.update(several if len(several) > 1 else ())
        ranks = frozenset(index[rank] for rank in operand.ranks)
        by_role.append(Dependence(ranks, frozenset(windows)))
    missing = [Dependence(frozenset())] * (len(ROLES) - len(by_role))
    return (*by_role[:-1], *missing, by_role[-1])


@lru_cache(1 << 12)
def distinct_orders(
    active: tuple[int, ...], tensors: tuple[Dependence, ...], fixed: tuple[int, ...] = ()
) -> npt.NDArray[np.int64]:
    """Return one order, outer to inner, of each kind that costs differently; a row each.

    ``active`` are the ranks with more than one trip, ``tensors`` those that are held further in,
    ``fixed`` ranks whose order among each other is given.

    >>> gemm = (Dependence(frozenset({0, 1})), Dependence(frozenset({1, 2})))
    >>> distinct_orders((0, 1, 2), gemm).tolist()
    [[0, 1, 2], [0, 2, 1], [1, 2, 0]]
    """
    fixed_inside = [rank for rank in fixed if rank in active]
    by_moves: dict[Moves, tuple[int, ...]] = {}
    for order in permutations(sorted(active)):
        if [rank for rank in order if rank in fixed_inside] == fixed_inside:
            by_moves.setdefault(moves(order, tensors), order)
    return np.array(sorted(by_moves.values()), dtype=np.int64).reshape(len(by_moves), len(active))


@lru_cache(1 << 12)
def undominated_orders(
    orders: tuple[tuple[int, ...], ...], tensors: tuple[Dependence, ...]
) -> tuple[int, ...]:
    """Return the indices of the orders that no other one dominates; of equal ones the first.

    An order dominates another if each tensor moves with a subset of the loops, along the same
    window: then nothing moves more bytes, whatever the tile sizes and the other levels are.

    >>> product = (Dependence(frozenset({0})), Dependence(frozenset({0, 1})))
    >>> undominated_orders(((0, 1), (1, 0)), product)
    (0,)
    """
    kinds = [moves(order, tensors) for order in orders]
    different = dict.fromkeys(kinds)
    best = {kind for kind in different if not any(_beats(other, kind) for other in different)}
    return tuple(kinds.index(kind) for kind in different if kind in best)


def _beats(one: Moves, other: Moves) -> bool:
    return one != other and all(
        mine <= theirs and window == along
        for (mine, window), (theirs, along) in zip(one, other, strict=True)
    )


def moves(order: tuple[int, ...], tensors: tuple[Dependence, ...]) -> Moves:
    """Return for each tensor the loops that move it, and the window that it moves along."""
    found: list[tuple[frozenset[int], int | None]] = []
    for tensor in tensors:
        at = max((i for i, rank in enumerate(order) if rank in tensor.ranks), default=-1)
        window = order[at] if at >= 0 and order[at] in tensor.sliding else None
        found.append((frozenset(order[: at + 1]), window))
    return tuple(found)


class MapspaceTables:
    """Tables of one mapspace, each made when it is first used."""

    def __init__(
        self, einsum: Einsum, hierarchy: Hierarchy, mapspace: Mapspace, limits: MappingLimits
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
                {
                    role: operands[role]
                    for role in range(len(ROLES))
                    if self.keeps[:, at + 1 :, role].any()
                },
                limits.fixed[at],
                len(self.extents),
            )
            for at in range(len(memories))
        )

    @cached_property
    def perfect(self) -> list[ChainTable]:
        """The perfect chains of each rank."""
        return [chain_table(table.size, table.splits, "pfm") for table in self.tables]

    def factors(self, chains: Ints) -> Ints:
        """Return the factors (mapping, level, rank) of chains by number (mapping, rank)."""
        n_levels = len(self.hierarchy.levels)
        found = np.empty((n_levels, len(self.tables), len(chains)), dtype=np.int64)
        for rank, table in enumerate(self.tables):
            found[::-1, rank] = table.chains_at(chains[:, rank]).T
        return found.transpose(2, 0, 1)

    def orders(self, factors: Ints, keys: Ints) -> Ints:
        """Return the orders (mapping, temporal level, rank) by keys, modulo the distinct ones."""
        temporal = self.hierarchy.temporal
        found = np.empty((len(temporal), factors.shape[2], len(factors)), dtype=np.int64)
        for at, level in enumerate(temporal):
            found[at] = self._levels[at].pick(factors[:, level] > 1, keys[:, at]).T
        return found.transpose(2, 0, 1)

    def best(self, factors: Ints, keeps: npt.NDArray[np.bool_]) -> list[BestOrders]:
        """Return the undominated orders of tilings, by temporal level."""
        temporal = self.hierarchy.temporal
        return [
            self._levels[at].best(factors[:, level] > 1, self._order_bits(at, factors, keeps))
            for at, level in enumerate(temporal)
        ]

    def _order_bits(self, at: int, factors: Ints, keeps: npt.NDArray[np.bool_]) -> Ints:
        """Return which tensors the order of a level has a say in, as bits by tiling.

        What the next memory that keeps a tensor gets is brought by loops outside of it; where
        those of a level further in bring another tile each time, the order here says nothing.
        """
        changes = np.zeros(len(factors), dtype=np.int64)
        for bit, (role, tensor) in enumerate(self._levels[at].tensors.items()):
            still = np.ones(len(factors), dtype=np.bool_)
            for inner in range(at + 1, keeps.shape[1]):
                changes |= (still & keeps[:, inner, role]).astype(np.int64) << bit
                active = factors[:, self.hierarchy.temporal[inner], sorted(tensor.ranks)] > 1
                still &= ~keeps[:, inner, role] & ~active.any(axis=1)
        return changes

    def counts(self, factors: Ints) -> Ints:
        """Count the distinct orders of each mapping at each temporal level."""
        temporal = self.hierarchy.temporal
        found = [self._levels[at].count(factors[:, i] > 1) for at, i in enumerate(temporal)]
        return np.stack(found, axis=1)

    @cached_property
    def size(self) -> int:
        """The number of mappings."""
        marked = [at for at, orders in enumerate(self._levels) if orders.tensors]
        bit = {self.hierarchy.temporal[at]: 1 << i for i, at in enumerate(marked)}
        n_levels = len(self.hierarchy.levels)
        marks = [bit.get(level, 0) for level in reversed(range(n_levels))]
        ranks = [table.by_loops(marks) for table in self.tables]

        unions = np.array(list(product(*ranks)), dtype=np.int64).reshape(-1, len(ranks))
        chains = (np.array([*table.values()], dtype=object) for table in ranks)  # beyond 64 bits
        mappings = reduce(np.multiply.outer, chains, np.array(1, dtype=object)).ravel()
        for i, at in enumerate(marked):
            mappings = mappings * self._levels[at].count(unions >> i & 1 > 0).astype(object)
        return int(mappings.sum()) * len(self.keeps)


@dataclass(frozen=True)
class BestOrders:
    """The undominated orders of one level, for several tilings.

    ``case`` (tiling): index of the set of looping ranks. ``counts`` (case): number of orders.
    ``keys`` (case, number): their keys, repeated from the first where a case has fewer. ``places``
    (rank, case, number): position of each loop.
    """

    case: Ints
    counts: Ints
    keys: Ints
    places: Ints

    def places_of(self, case: Ints, number: Ints) -> Ints:
        """Return the positions of the loops, by (rank, ...), of orders of cases."""
        every = self.places.reshape(len(self.places), -1)
        found: Ints = every.take(case * self.keys.shape[1] + number, axis=1)
        return found


class _Orders:
    """The distinct orders of one level for each set of ranks that have loops there."""

    def __init__(
        self, tensors: dict[int, Dependence], fixed: tuple[int, ...], n_ranks: int
    ) -> None:
        self.tensors = tensors
        self.fixed = fixed
        self._bits = 1 << np.arange(n_ranks, dtype=np.int64)
        self._counts = np.zeros(1 << n_ranks, dtype=np.int64)
        self._first = np.zeros(1 << n_ranks, dtype=np.int64)
        self._rows = np.zeros((0, n_ranks), dtype=np.int64)
        self._numbers = np.full(1 << n_ranks + len(tensors), -1, dtype=np.int64)
        self._keys: dict[int, tuple[int, ...]] = {}
        self._table: BestOrders | None = None

    def count(self, active: npt.NDArray[np.bool_]) -> Ints:
        """Count the orders for each row of active ranks."""
        found: Ints = self._counts[self._know_orders(active)]
        return found

    def pick(self, active: npt.NDArray[np.bool_], keys: Ints) -> Ints:
        """Return an order of all ranks for each row: the active ones first."""
        sets = self._know_orders(active)
        found: Ints = self._rows[self._first[sets] + keys % self._counts[sets]]
        return found

    def best(self, active: npt.NDArray[np.bool_], moved: Ints) -> BestOrders:
        """Return the orders for each row of active ranks that no other one beats.

        ``moved``: bits of the tensors that count.
        """
        sets = self._know_orders(active)
        cases = sets << len(self.tensors) | moved
        new = sorted(set(cases[self._numbers[cases] < 0].tolist()))
        for code in new:
            self._numbers[code] = len(self._keys)
            self._keys[code] = self._find_undominated(*divmod(code, 1 << len(self.tensors)))
        if new or self._table is None:
            self._table = self._tabulate()
        return replace(self._table, case=self._numbers[cases])

    def _tabulate(self) -> BestOrders:
        """Return the orders of all known cases, for no tiling."""
        cases, rows = ints([*self._keys]), self._keys.values()
        most = max(map(len, rows), default=1)
        keys = ints([row + row[:1] * (most - len(row)) for row in rows]).reshape(-1, most)
        first = self._first[cases >> len(self.tensors)]
        places = np.argsort(self._rows[first[:, np.newaxis] + keys], axis=2)
        by_rank = np.ascontiguousarray(np.moveaxis(places, -1, 0))
        return BestOrders(cases[:0], ints([len(row) for row in rows]), keys, by_rank)

    def _find_undominated(self, one: int, moved: int) -> tuple[int, ...]:
        """Return the keys of a set's orders that no other one beats, for the tensors that count."""
        inside = one.bit_count()
        rows = self._rows[self._first[one] : self._first[one] + self._counts[one], :inside]
        some = tuple(t for bit, t in enumerate(self.tensors.values()) if moved >> bit & 1)
        return undominated_orders(tuple(map(tuple, rows.tolist())), some)

    def _know_orders(self, active: npt.NDArray[np.bool_]) -> Ints:
        sets = np.zeros(len(active), dtype=np.int64)
        for rank, bit in enumerate(self._bits.tolist()):
            sets += active[:, rank] * np.int64(bit)
        for bits in sorted(set(sets[self._counts[sets] == 0].tolist())):
            inside = tuple(rank for rank in range(len(self._bits)) if bits >> rank & 1)
            outside = [rank for rank in range(len(self._bits)) if not bits >> rank & 1]
            orders = distinct_orders(inside, tuple(self.tensors.values()), self.fixed)
            rest = np.broadcast_to(np.array(outside, dtype=np.int64), (len(orders), len(outside)))
            self._first[bits], self._counts[bits] = len(self._rows), len(orders)
            self._rows = np.concatenate([self._rows, np.concatenate([orders, rest], axis=1)])
        return sets
