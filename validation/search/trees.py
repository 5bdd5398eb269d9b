"""Families of trees to draw from, written down apart from the schedulers: any sizes, orders, slots.

A family here has ones where its numbers are drawn: what each of them may be stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simaccel.analytic.family import Branch, Entry, Family, FamilyLoops, Ints, ints, take, tree_of
from simaccel.hardware import STATIONARITIES
from simaccel.mapping.space import BoundOperator, IterationSpace, aliases_of, mergeable, space_of
from simaccel.mapping.tree import BUFFER, Do, Fork, Group, Keep
from simaccel.workload import Einsum, Vector, Workload

Rng = np.random.Generator


@dataclass
class Drawn:
    """Candidates of one draw: a column of numbers for each name, some of them near ``like``."""

    rng: Rng
    count: int
    side: int
    """Rows of the array: tiles are whole multiples of it more often than by chance."""
    like: dict[str, int] | None = None
    columns: dict[str, Ints] = field(default_factory=dict)

    def tile(self, name: str, size: int) -> Ints:
        """Return tile sizes from 1 to ``size``: any, even pieces, or whole array sides."""
        any_size = np.exp(self.rng.random(self.count) * np.log(size)).round().astype(np.int64)
        pieces = np.exp(self.rng.random(self.count) * np.log(size)).round().astype(np.int64)
        near = self._old(name, size) * np.exp2(self.rng.normal(size=self.count))
        rounded = np.where(self._half(), near, any_size).round().astype(np.int64)
        sides = np.maximum(1, -(-rounded // self.side)) * self.side
        found = np.where(self._half(), rounded, np.where(self._half(), sides, -(-size // pieces)))
        found = np.where(self.rng.random(self.count) < _WHOLE, size, found)
        return self._kept(name, found.clip(1, size))

    def number(self, name: str, values: Sequence[int]) -> Ints:
        """Return any of some numbers."""
        return self._kept(name, self.rng.choice(np.array(values), self.count))

    def places(self, name: str, n: int) -> tuple[Ints, ...]:
        """Return places of ``n`` loops in any order."""
        keys = np.stack([self.number(f"{name} {at}", range(1 << 10)) for at in range(n)])
        return tuple(ints(row) for row in np.argsort(np.argsort(keys, axis=0), axis=0))

    def _old(self, name: str, size: int) -> int:
        return size if self.like is None else self.like[name]

    def _half(self) -> Ints:
        return self.rng.random(self.count) < 0.5  # type: ignore[return-value]

    def _kept(self, name: str, drawn: Ints) -> Ints:
        """Keep most numbers of a candidate that others are to be near."""
        if self.like is not None:
            keep = self.rng.random(self.count) >= _CHANGED
            drawn = np.where(keep, self.like[name], drawn)
            drawn[0] = self.like[name]
        self.columns[name] = ints(drawn)
        return self.columns[name]


_WHOLE = 0.1
"""How often a rank is not cut at all."""
_CHANGED = 0.25
"""How often a number of a neighbour is drawn again."""


@dataclass(frozen=True)
class Kind:
    """Trees of one form for some operators."""

    workload: Workload
    operators: tuple[str, ...]
    form: str = "alone"

    @property
    def group(self) -> Group:
        """The group without its tree."""
        merged = mergeable(self.workload, list(self.operators))
        return Group(operators=self.operators, tree=(), merged=merged)

    def family(self, drawn: Drawn) -> Family:
        """Return the candidates of a draw."""
        space = space_of(self.workload, self.group)
        branch = {
            "alone": _alone,
            "whole": _whole,
            "streamed": _streamed,
            "ahead": _whole,
            "streamed ahead": _streamed,
        }[self.form](space, drawn, ahead="ahead" in self.form)
        held = {
            operator.name: drawn.number(f"held {operator.name}", range(len(STATIONARITIES)))
            for operator in space.operators
            if isinstance(operator.operator, Einsum)
        }
        family = Family(space, branch, {}, held=held)
        first = tree_of(take(family, (ints(0),)))
        return replace(family, aliases=aliases_of(space, first, ()))


def kinds(workload: Workload, dataflow: str, *, pipeline: bool) -> list[list[Kind]]:
    """Return the groups that a dataflow may have, each as the forms that it may have."""
    names = tuple(one.name for one in workload.operators)
    if len(names) == 1:
        return [[Kind(workload, names)]]
    if dataflow == "best":
        return [[Kind(workload, (name,))] for name in names]
    forms = ["whole"] if dataflow == "flat" else ["whole", "streamed"]
    forms += [{"whole": "ahead", "streamed": "streamed ahead"}[one] for one in forms if pipeline]
    return [[Kind(workload, names, form) for form in forms]]


def fused(workload: Workload) -> list[Kind]:
    """Return the forms of a feed-forward pair as one group."""
    names = tuple(one.name for one in workload.operators)
    return [Kind(workload, names, form) for form in ("whole", "streamed")]


def _do(seen: BoundOperator) -> Do:
    if isinstance(seen.operator, Einsum):
        return Do(seen.name, "array", STATIONARITIES[0])
    return Do(seen.name, "sfu")


def _loops(space: IterationSpace, ranks: Sequence[str], drawn: Drawn, where: str) -> list[Entry]:
    cut = [rank for rank in ranks if space.sizes[rank] > 1]
    if not cut:
        return []
    tiles = tuple(drawn.tile(f"{where} {rank}", space.sizes[rank]) for rank in cut)
    return [FamilyLoops(tuple(cut), tiles, drawn.places(f"{where} order", len(cut)))]


def _kept(names: Sequence[str], drawn: Drawn) -> list[Entry]:
    return [Keep(name, BUFFER, drawn.number(f"slots {name}", (1, 2, 3))) for name in names]


def _alone(space: IterationSpace, drawn: Drawn, *, ahead: bool) -> Branch:
    del ahead
    (seen,) = space.operators
    names = tuple(dict.fromkeys((*seen.names, seen.output.name)))
    return (*_loops(space, seen.ranks, drawn, "cut"), *_kept(names, drawn), _do(seen))


def _shared(space: IterationSpace) -> list[str]:
    """Return the ranks that all operators have and none sums over or normalises."""
    return [
        rank
        for rank in space.operators[0].ranks
        if all(rank in one.output.names for one in space.operators)
        and rank not in space.axes.values()
    ]


def _parts(space: IterationSpace) -> tuple[list[str], list[str], list[str]]:
    """Return inputs with shared ranks, intermediates with tiles of their own, all others."""
    shared = set(_shared(space))
    made = [one.output.name for one in space.operators]
    between = [name for name in made if name not in space.escapes]
    read = dict.fromkeys(name for one in space.operators for name in one.names)
    views = {name: view for one in space.operators for name, view in one.uses}
    last = [name for name in made if name in space.escapes]
    first = [n for n in read if n not in between and _by_row(space, views[n].names, shared)]
    alone = [name for name in read if name not in between and name not in first]
    vectors = {one.output.name for one in space.operators if isinstance(one.operator, Vector)}
    return first + last, [name for name in between if name not in vectors], alone


def _by_row(space: IterationSpace, names: frozenset[str], shared: set[str]) -> bool:
    """Return whether a tensor has the innermost of the shared ranks."""
    rows = [rank for rank in shared if not all(rank in one for one in _read(space))]
    return bool(names & set(rows or shared))


def _read(space: IterationSpace) -> Iterator[frozenset[str]]:
    for one in space.operators:
        yield from (view.names for view in one.inputs)


def _whole(space: IterationSpace, drawn: Drawn, *, ahead: bool) -> Branch:
    """Return rows shared, intermediates with all their columns, own loops in each branch."""
    rows, between, alone = _parts(space)
    shared = _shared(space)
    outer: list[Entry] = [*_ordered(space, shared, drawn)]
    final = space.operators[-1].output.name
    attends = any(isinstance(operator.operator, Vector) for operator in space.operators)
    outer += _kept([name for name in rows if attends or name != final], drawn)
    outer += [Keep(name, BUFFER, ints(2 if ahead else 1)) for name in between]
    branches: list[Branch] = []
    for seen in space.operators:
        if not isinstance(seen.operator, Einsum):
            branches.append((_do(seen),))
            continue
        own = [r for r in seen.ranks if r not in shared]
        if attends:
            axis = set(space.axes.values())
            own = [rank for rank in own if rank in axis]
        names = [name for name in seen.names if name in alone]
        names += [final] if not attends and seen.output.name == final else []
        branches.append((*_loops(space, own, drawn, seen.name), *_kept(names, drawn), _do(seen)))
    return (*outer, Fork(tuple(branches), int(ahead)))


def _streamed(space: IterationSpace, drawn: Drawn, *, ahead: bool) -> Branch:
    """Return columns of the intermediate in blocks, which the last einsum sums up over."""
    rows, between, alone = _parts(space)
    first, last = space.operators[0], space.operators[-1]
    columns = [rank for rank in first.output.names if rank in last.reduced]
    outer: list[Entry] = [*_ordered(space, _shared(space), drawn), *_kept(rows, drawn)]
    outer += [FamilyLoops((rank,), (_cut(space, rank, drawn),), (ints(0),)) for rank in columns]
    outer += _kept(alone, drawn)
    outer += [Keep(name, BUFFER, ints(2 if ahead else 1)) for name in between]
    return (*outer, Fork(tuple((_do(one),) for one in space.operators), int(ahead)))


def _cut(space: IterationSpace, rank: str, drawn: Drawn) -> Ints:
    """Return tiles of a rank that is always cut: softmax over it is online."""
    size = space.sizes[rank]
    return np.minimum(drawn.tile(f"stream {rank}", size), max(1, size - 1))


def _ordered(space: IterationSpace, ranks: Sequence[str], drawn: Drawn) -> Iterator[FamilyLoops]:
    """Yield loops in the order of the ranks; outer ones are mostly cut into single positions."""
    cut = [rank for rank in ranks if space.sizes[rank] > 1]
    for rank in cut:
        tile = drawn.tile(f"rows {rank}", space.sizes[rank])
        if rank != cut[-1]:
            tile = np.where(drawn.number(f"one {rank}", (0, 1, 1, 1)), 1, tile)
        yield FamilyLoops((rank,), (ints(tile),), (ints(0),))
