"""Rank classes: the ranks of a group's operators that are one rank of the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simaccel.workload import Operand, Operator
from simaccel.workload.einsum import Terms

OperatorRank = tuple[int, str]
"""A rank of an operator: (index of the operator in the group, its name of the rank)."""


class RankClasses:
    """A union-find over the ranks of operators; ranks that index the same dimension are one class.

    ``terms``: if the reader of a tensor has a sum of ranks (a convolution's ``2*p+r``) in the
    dimension that its maker indexes by one rank: by the representative of that rank's class, the
    terms of the sum.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.operators = operators
        self.parent: dict[OperatorRank, OperatorRank] = {
            (at, rank): (at, rank)
            for at, operator in enumerate(operators)
            for rank in operator.ranks
        }
        self._members = {place: [place] for place in self.parent}
        self.terms: dict[OperatorRank, tuple[tuple[OperatorRank, int], ...]] = {}
        if len(operators) > 1:
            self._join_made()
            self._join_read()
        by_place, self.terms = self.terms, {}
        for place, terms in by_place.items():  # ranks that joined its class since have the same sum
            self.terms.setdefault(self.root(place), terms)
        self.names = self._names()

    def root(self, place: OperatorRank) -> OperatorRank:
        """Return the representative of the class of a rank."""
        while self.parent[place] != place:
            place = self.parent[place]
        return place

    def _join_made(self) -> None:
        """Join the ranks by which an operator reads a tensor with those by which it is made."""
        makers = {operator.output.tensor: at for at, operator in enumerate(self.operators)}
        for at, reader in reversed(list(enumerate(self.operators))):
            for operand in reader.inputs:
                maker = makers.get(operand.tensor)
                if maker is None or maker == at:
                    continue
                writer = self.operators[maker]
                for read_dim, made_dim in zip(
                    dims(operand, reader.ranks), dims(writer.output, writer.ranks), strict=True
                ):
                    self._join((at, read_dim), (maker, made_dim))

    def _join(self, reader: tuple[int, Terms], writer: tuple[int, Terms]) -> None:
        (at, read_dim), (maker, made_dim) = reader, writer
        place = (maker, made_dim[0][0])
        if len(read_dim) == 1 and read_dim[0][1] == 1:
            self._union((at, read_dim[0][0]), place)
        elif place not in self.terms:
            self.terms[place] = tuple(((at, rank), stride) for rank, stride in read_dim)

    def _join_read(self) -> None:
        """Join the ranks by which two operators read a tensor, in dimensions without sums."""
        first: dict[str, tuple[int, Operand]] = {}
        for at, operator in enumerate(self.operators):
            for operand in operator.inputs:
                first_at, first_operand = first.setdefault(operand.tensor, (at, operand))
                if first_at == at:
                    continue
                pairs = zip(
                    dims(first_operand, self.operators[first_at].ranks),
                    dims(operand, operator.ranks),
                    strict=True,
                )
                for first_dim, dim in pairs:
                    if len(first_dim) == len(dim) == 1 and first_dim[0][1] == dim[0][1] == 1:
                        self._union((first_at, first_dim[0][0]), (at, dim[0][0]))

    def _union(self, place: OperatorRank, other: OperatorRank) -> None:
        """Join two classes, unless both have a rank of the same operator."""
        root, other = self.root(place), self.root(other)
        if root == other:
            return
        together = [*self._members[root], *self._members[other]]
        if len({at for at, _ in together}) < len(together):
            return
        low, high = min(root, other), max(root, other)
        self.parent[high] = low
        self._members[low] = together

    def _names(self) -> dict[OperatorRank, str]:
        """Return a name of each class: its rank's, with a number if another class has that name."""
        names: dict[OperatorRank, str] = {}
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

    def name(self, place: OperatorRank) -> str:
        """Return the group's name of a rank."""
        return self.names[self.root(place)]

    def size(self, place: OperatorRank) -> int:
        """Return the size of a rank."""
        return self.operators[place[0]].ranks[place[1]]


def dims(operand: Operand, ranks: Mapping[str, int]) -> Iterator[Terms]:
    """Yield the (rank, coefficient) terms of each dimension; ranks of size 1 only if all are."""
    for dim in operand.projection:
        longer = tuple(term for term in dim.terms if ranks[term[0]] > 1)
        yield longer or ((dim.terms[0][0], 1),)
