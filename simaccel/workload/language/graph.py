"""The builder of a transformer's run: its operators, sizes by rank, element widths by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from simaccel.files.limits import MAX_OPERATORS, require_at_most
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
from simaccel.workload.language.model import Transformer
from simaccel.workload.language.phase import PhaseTokens
from simaccel.workload.tensors import class_of


@dataclass
class Graph:
    """A run of a model that is being built.

    ``widths``: bytes per element by class; ``prefix``: of the names of the operators and tensors
    that are added next.
    """

    model: Transformer
    tokens: PhaseTokens
    widths: Mapping[str, int]
    prefix: str = ""
    operators: list[Operator] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The default size of each rank."""
        model, tokens = self.model, self.tokens
        return {
            "b": tokens.batch,
            "n": tokens.rows,
            "e": model.hidden,
            "g": model.kv_heads,
            "r": model.heads // model.kv_heads,
            "d": model.head_size,
            "f": model.ff_size,
            "v": model.vocabulary,
            "x": model.experts,
            "m": tokens.encoded,
            "l": model.decoder_layers,
        }

    def tensor(self, name: str, kind: Kind = "intermediate") -> str:
        """Add a tensor unless its name exists; return the name."""
        if name not in self.tensors:
            self.tensors[name] = Tensor(name, self.widths[class_of(kind)], kind)
        return name

    def table(self, name: str, rows: int, table: str = "") -> str:
        """Add weights that are a part of a number of rows, or copies of some; return their name."""
        stored = rows * self.model.hidden
        weight = self.weight(name)
        self.tensors[weight] = replace(self.tensors[weight], stored=stored, table=table)
        return weight

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
        return self._add(Einsum(self.prefix + name, ranks, tuple(inputs), output))

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
        return self._add(Vector(name, kind, ranks, tuple(inputs), output, axis, scale, visible))

    def _add(self, operator: Operator) -> str:
        """Add an operator; more than fit in a workload are refused before they are made."""
        self.operators.append(operator)
        count = len(self.operators)
        require_at_most(self.model.name, "operators", count, MAX_OPERATORS, "different ones")
        return self.tensor(operator.output.tensor)

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
