"""Nests: mappings of one einsum on a hierarchy of levels, one or 100,000s of them as arrays.

`NestMapping` is one mapping for people and files; `Nests` are many for the closed form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.hierarchy import levels
from simaccel.hardware.levels import ROLES, Hierarchy, Level, Role, Spatial, Temporal
from simaccel.mapping.choices import Mapping, NestGroup, NestLevel, NestMapping
from simaccel.mapping.systolic import systolic_faults
from simaccel.workload import Einsum, Workload

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Nests:
    """Candidate mappings of one einsum on one hierarchy, as arrays.

    Ranks are in the order of ``einsum.ranks``, levels outermost first as in ``hierarchy.levels``,
    temporal levels as in ``hierarchy.memories``, roles as in ``ROLES``.

    - ``factors`` (candidate, level, rank): pieces P >= 1 that a level makes of a tile. The entry of
      level 0 is ignored: it takes what is left.
    - ``orders`` (candidate, temporal level, rank): rank indices, from the outermost loop in.
    - ``keeps`` (candidate, temporal level, role): whether the level keeps the role.
    - ``sizes`` (candidate, rank): the size that is run; larger than the einsum's where padded.
    """

    factors: Ints
    orders: Ints
    keeps: Bools
    sizes: Ints

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.factors)

    def take(self, which: Ints | Bools | slice) -> Nests:
        """Give some of the candidates, by index, mask or slice."""
        return Nests(
            factors=self.factors[which],
            orders=self.orders[which],
            keeps=self.keeps[which],
            sizes=self.sizes[which],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Nests]) -> Self:
        """Put several (at least one) behind each other."""
        return cls(
            factors=np.concatenate([part.factors for part in parts]),
            orders=np.concatenate([part.orders for part in parts]),
            keeps=np.concatenate([part.keeps for part in parts]),
            sizes=np.concatenate([part.sizes for part in parts]),
        )

    @classmethod
    def of(cls, einsum: Einsum, hierarchy: Hierarchy, mappings: Sequence[NestMapping]) -> Self:
        """Make arrays of mappings.

        Raises:
            InputError: a mapping isn't for these ranks and levels.

        """
        faults = [
            fault for mapping in mappings for fault in nest_faults(einsum, hierarchy, mapping)
        ]
        if faults:
            raise InputError(faults)
        ranks, memories = list(einsum.ranks), [level.name for level in hierarchy.memories]
        shape = (len(mappings), len(hierarchy.levels), len(ranks))
        factors = np.ones(shape, dtype=np.int64)
        orders = np.empty((len(mappings), len(memories), len(ranks)), dtype=np.int64)
        orders[:] = np.arange(len(ranks))
        keeps = np.zeros((len(mappings), len(memories), len(ROLES)), dtype=np.bool_)
        sizes = np.empty((len(mappings), len(ranks)), dtype=np.int64)
        for row, mapping in enumerate(mappings):
            sizes[row] = [mapping.padded.get(rank, size) for rank, size in einsum.ranks.items()]
            for given in mapping.levels:
                for rank, pieces in given.factors.items():
                    factors[row, hierarchy.names.index(given.level), ranks.index(rank)] = pieces
                if given.level in memories:
                    place = memories.index(given.level)
                    named = [ranks.index(rank) for rank in given.order]
                    rest = [rank for rank in range(len(ranks)) if rank not in named]
                    orders[row, place] = named + rest
                    keeps[row, place] = [role in given.keep for role in ROLES]
        nests = cls(factors=factors, orders=orders, keeps=keeps, sizes=sizes)
        factors[:, 0] = nests.trips()[:, 0]
        return nests

    def trips(self) -> Ints:
        """Trips of each loop where a tile is full (candidate, level, rank), level 0 included.

        A factor beyond the tiles that there are makes no more trips than those.
        """
        trips = np.empty_like(self.factors)
        tiles = self.sizes
        for level in range(self.factors.shape[1] - 1, 0, -1):
            trips[:, level] = np.minimum(self.factors[:, level], tiles)
            tiles = -(-tiles // trips[:, level])
        trips[:, 0] = tiles
        return trips

    def mapping(self, einsum: Einsum, hierarchy: Hierarchy, index: int) -> NestMapping:
        """Give one candidate as a mapping: no factors of 1, no loops of one trip in orders."""
        one, ranks = self.take(slice(index, index + 1)), list(einsum.ranks)
        trips, levels = one.trips()[0].tolist(), []
        for place, level in enumerate(hierarchy.levels):
            many = {rank: n for rank, n in zip(ranks, trips[place], strict=True) if n > 1}
            order: tuple[str, ...] = ()
            keep: tuple[Role, ...] = ()
            if place in hierarchy.temporal:
                row = hierarchy.temporal.index(place)
                order = tuple(ranks[r] for r in one.orders[0, row].tolist() if ranks[r] in many)
                kept = zip(ROLES, one.keeps[0, row].tolist(), strict=True)
                keep = tuple(role for role, is_kept in kept if is_kept)
            factors = many if place else {}
            levels.append(NestLevel(level=level.name, factors=factors, order=order, keep=keep))
        sizes = dict(zip(ranks, one.sizes[0].tolist(), strict=True))
        padded = {rank: size for rank, size in sizes.items() if size != einsum.ranks[rank]}
        return NestMapping(levels=tuple(levels), padded=padded)


def require_nests(
    workload: Workload, mapping: Mapping, accelerator: Accelerator, source: str
) -> None:
    """Refuse nests that aren't for the levels of an accelerator.

    Raises:
        InputError: names the fields of ``source``, and what is allowed there.

    """
    faults: list[Fault] = []
    for at, group in enumerate(mapping.groups):
        operator = workload.operator(group.operator) if isinstance(group, NestGroup) else None
        if isinstance(group, NestGroup) and isinstance(operator, Einsum):
            hierarchy = levels(accelerator)
            found = nest_faults(operator, hierarchy, group.mapping, source)
            if not found:
                found = list(_misfits(operator, hierarchy, group.mapping, source))
            if not found and isinstance(accelerator.array, ArraySpec):
                found = list(systolic_faults(operator, group.mapping, source))
            faults += [replace(one, field=f"groups[{at}].mapping.{one.field}") for one in found]
    if faults:
        raise InputError(faults)


def _misfits(
    einsum: Einsum, hierarchy: Hierarchy, mapping: NestMapping, file: str
) -> Iterator[Fault]:
    """Find fan-outs that have fewer instances than a mapping uses, or that can't add."""
    trips = Nests.of(einsum, hierarchy, [mapping]).trips()[0]
    for at in hierarchy.spatial:
        level = hierarchy.levels[at]
        assert isinstance(level, Spatial)  # noqa: S101 - narrows the type
        field, factors = f"levels[{at}].factors", mapping.levels[at].factors
        if trips[at].prod() > level.fanout:
            yield Fault(file, field, factors, f"a product of at most {level.fanout}")
        for rank, pieces in zip(einsum.ranks, trips[at], strict=True):
            if pieces > 1 and rank not in einsum.output.ranks and not level.reduces:
                allowed = f"1; {level.name} adds no partial sums"
                yield Fault(file, f"{field}.{rank}", int(pieces), allowed)


def nest_faults(
    einsum: Einsum, hierarchy: Hierarchy, mapping: NestMapping, file: str = "mapping"
) -> list[Fault]:
    """Find what of a mapping isn't for this einsum and hierarchy."""
    faults = [
        Fault(file, f"padded.{rank}", size, f"{einsum.ranks[rank]} or more")
        if rank in einsum.ranks
        else Fault(file, f"padded.{rank}", size, suggest(rank, einsum.ranks))
        for rank, size in mapping.padded.items()
        if size < einsum.ranks.get(rank, size + 1)
    ]
    names = tuple(given.level for given in mapping.levels)
    if names != hierarchy.names:
        faults.append(Fault(file, "levels", ", ".join(names), ", ".join(hierarchy.names)))
        return faults
    for place, (given, level) in enumerate(zip(mapping.levels, hierarchy.levels, strict=True)):
        faults += _level_faults(einsum, level, given, f"levels[{place}]", file)
    first, all_roles = mapping.levels[0], ", ".join(ROLES)
    if first.factors:
        faults.append(
            Fault(file, "levels[0].factors", first.factors, "none: it takes what is left")
        )
    if set(first.keep) != set(ROLES):
        faults.append(Fault(file, "levels[0].keep", first.keep, f"all roles: {all_roles}"))
    return faults


def _level_faults(
    einsum: Einsum, level: Level, given: NestLevel, field: str, file: str
) -> Iterator[Fault]:
    for rank, pieces in given.factors.items():
        if rank not in einsum.ranks:
            yield Fault(file, f"{field}.factors.{rank}", pieces, suggest(rank, einsum.ranks))
    for rank in given.order:
        if rank not in einsum.ranks or given.order.count(rank) > 1:
            allowed = f"each of {', '.join(einsum.ranks)} at most once"
            yield Fault(file, f"{field}.order", rank, allowed)
    if given.order and not isinstance(level, Temporal):
        yield Fault(file, f"{field}.order", given.order, "none at a spatial level")
    yield from _role_faults(level, given, field, file)


def _role_faults(level: Level, given: NestLevel, field: str, file: str) -> Iterator[Fault]:
    roles = sorted(level.roles) if isinstance(level, Temporal) else []
    for role in given.keep:
        if role not in roles:
            yield Fault(file, f"{field}.keep", role, ", ".join(roles) or "nothing")
    for role in given.slots:
        if role not in given.keep:
            yield Fault(file, f"{field}.slots.{role}", given.slots[role], "roles that are kept")
