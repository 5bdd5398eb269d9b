"""A builder of workload graphs: names, sizes by rank, element widths by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simaccel.workload.einsum import (
    AffineDimension,
    Einsum,
    Kind,
    Operand,
    Operator,
    Tensor,
    Vector,
    VisibleSpan,
)

CLASSES = ("weights", "activations", "cache")
"""Classes of tensors with a precision, and DRAM bytes, of their own."""


def class_of(kind: Kind) -> str:
    """Return the class of a tensor: weights, cache, or activations."""
    return {"weight": "weights", "cache": "cache"}.get(kind, "activations")


@dataclass
class Graph:
    """A workload that is being built.

    ``sizes``: default size of each rank; ``widths``: bytes per element by class; ``prefix``: of the
    names of the operators and tensors that are added next.
    """

    sizes: Mapping[str, int]
    widths: Mapping[str, int]
    prefix: str = ""
    operators: list[Operator] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)

    def tensor(self, name: str, kind: Kind = "intermediate") -> str:
        """Add a tensor unless its name exists; return the name."""
        if name not in self.tensors:
            self.tensors[name] = Tensor(name, self.widths[class_of(kind)], kind)
        return name

    def weight(self, name: str) -> str:
        """Add weights with the prefix; return their name."""
        return self.tensor(self.prefix + name, "weight")

    def einsum(
        self,
        name: str,
        inputs: Sequence[Operand],
        output: Operand,
        sizes: Mapping[str, int] | None = None,
    ) -> str:
        """Add an einsum over operands and return the name of its output."""
        ranks = self._ranks((output, *inputs), sizes)
        self.operators.append(Einsum(self.prefix + name, ranks, tuple(inputs), output))
        return self.tensor(output.tensor)

    def vector(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Operand],
        output: Operand,
        *,
        axis: str | None = None,
        scale: float = 1.0,
        visible: VisibleSpan | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> str:
        """Add a vector operator over operands and return the name of its output."""
        ranks = self._ranks((*inputs, output), sizes)
        name = self.prefix + name
        self.operators.append(
            Vector(name, kind, ranks, tuple(inputs), output, axis, scale, visible)
        )
        return self.tensor(output.tensor)

    def _ranks(
        self, operands: Sequence[Operand], sizes: Mapping[str, int] | None
    ) -> dict[str, int]:
        known = {**self.sizes, **(sizes or {})}
        used = dict.fromkeys(rank for given in operands for rank in given.ranks)
        return {rank: known[rank] for rank in used}


def part(tensor: str, ranks: Sequence[str], start: Mapping[str, int] | None = None) -> Operand:
    """Return an operand with one rank per dimension; with a ``start``, a box of the tensor.

    ``start``: first position by rank, 0 for ranks without an entry.
    """
    projection = tuple(AffineDimension(((rank, 1),)) for rank in ranks)
    if start is None:
        return Operand(tensor, projection)
    return Operand(tensor, projection, tuple(start.get(rank, 0) for rank in ranks))
