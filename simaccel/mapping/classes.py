"""Rank classes: which ranks of a group's operators are the same rank of the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simaccel.workload import Operand, Operator
from simaccel.workload.einsum import Terms

Place = tuple[int, str]
"""A rank of an operator: (index of the operator in the group, its name of the rank)."""


class RankClasses:
    """A union-find over the ranks of operators: those that index one dimension of a tensor are one.

    ``terms``: by the representative of a class whose reader has a sum of ranks (a convolution's
    ``2*p+r``) in its place, the terms of that sum.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.operators = operators
        self.parent: dict[Place, Place] = {
            (at, rank): (at, rank)
            for at, operator in enumerate(operators)
            for rank in operator.ranks
        }
        self._members = {place: [place] for place in self.parent}
        self.terms: dict[Place, tuple[tuple[Place, int], ...]] = {}
        self._join_made()
        self._join_read()
        by_place, self.terms = self.terms, {}
        for place, terms in by_place.items():  # what it was joined with since is the same sum
            self.terms.setdefault(self.root(place), terms)
        self.names = self._names()

    def root(self, place: Place) -> Place:
        """Return the representative of the class of a rank."""
        while self.parent[place] != place:
            place = self.parent[place]
        return place

    def _join_made(self) -> None:
        made = {one.output.tensor: at for at, one in enumerate(self.operators)}
        for at, one in reversed(list(enumerate(self.operators))):
            for given in one.inputs:
                maker = made.get(given.tensor)
                if maker is None or maker == at:
                    continue
                writer = self.operators[maker]
                for mine, its in zip(
                    dims(given, one.ranks), dims(writer.output, writer.ranks), strict=True
                ):
                    self._join((at, mine), (maker, its))

    def _join(self, reader: tuple[int, Terms], writer: tuple[int, Terms]) -> None:
        (at, mine), (maker, its) = reader, writer
        place = (maker, its[0][0])
        if len(mine) == 1 and mine[0][1] == 1:
            self._union((at, mine[0][0]), place)
        elif place not in self.terms:
            self.terms[place] = tuple(((at, rank), c) for rank, c in mine)

    def _join_read(self) -> None:
        """Join the ranks by which two operators read a tensor in the same way, where possible."""
        first: dict[str, tuple[int, Operand]] = {}
        for at, operator in enumerate(self.operators):
            for operand in operator.inputs:
                known = first.setdefault(operand.tensor, (at, operand))
                if known[0] == at:
                    continue
                pairs = zip(
                    dims(known[1], self.operators[known[0]].ranks),
                    dims(operand, operator.ranks),
                    strict=True,
                )
                for own, its in pairs:
                    if len(own) == len(its) == 1 and own[0][1] == its[0][1] == 1:
                        self._union((known[0], own[0][0]), (at, its[0][0]))

    def _union(self, one: Place, other: Place) -> None:
        one, other = self.root(one), self.root(other)
        if one == other:
            return
        together = [*self._members[one], *self._members[other]]
        if len({at for at, _ in together}) < len(together):
            return  # two ranks of one operator stay two
        low, high = min(one, other), max(one, other)
        self.parent[high] = low
        self._members[low] = together

    def _names(self) -> dict[Place, str]:
        names: dict[Place, str] = {}
        taken: set[str] = set()
        numbers: dict[str, int] = {}
        for place in self.parent:
            root = self.root(place)
            if root not in names:
                name, number = root[1], numbers.get(root[1], 2)
                while name in taken:
                    name, number = f"{root[1]}{number}", number + 1
                numbers[root[1]] = number
                names[root] = name
                taken.add(name)
        return names

    def name(self, place: Place) -> str:
        """Return the group's name of a rank."""
        return self.names[self.root(place)]

    def size(self, place: Place) -> int:
        """Return the size of a rank."""
        return self.operators[place[0]].ranks[place[1]]


def dims(given: Operand, ranks: Mapping[str, int]) -> Iterator[Terms]:
    """Yield the (rank, coefficient) terms of each dimension, without size-1 ranks beside others."""
    for dim in given.projection:
        moving = tuple(term for term in dim.terms if ranks[term[0]] > 1)
        yield moving or ((dim.terms[0][0], 1),)
