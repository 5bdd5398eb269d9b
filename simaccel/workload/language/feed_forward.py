"""Feed-forward layers: with or without gate and biases, one per layer or one per expert."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from simaccel.workload.einsum import AffineDimension, Operand
from simaccel.workload.language.graph import Graph, part

EXPERTS = "experts."
"""Prefix of the names of all experts' weights."""


@dataclass(frozen=True)
class ExpertGroup:
    """A group of ``count`` experts from ``first`` on, with ``tokens`` each.

    ``whole``: no other experts have tokens; ``prefix``: of the names in their layer; ``held``:
    experts in memory, with and without tokens, if not the model's.
    """

    first: int
    count: int
    tokens: int
    whole: bool = True
    prefix: str = ""
    held: int = 0


def add_feed_forward(
    graph: Graph,
    source: Operand,
    target: Operand,
    sizes: Mapping[str, int] | None = None,
    experts: ExpertGroup | None = None,
) -> None:
    """Add a feed-forward layer between two operands; ``sizes``: of ranks that differ.

    ``experts``: the group that it belongs to; weights and operands then have the rank x.
    """
    model, layer = graph.model, _FeedForward(graph, sizes, experts)
    inner = (*source.ranks[:-1], "f")
    names = ("gate", "up") if model.gated else ("up",)
    for name in names:
        layer.linear(name, source, part(graph.prefix + name, inner))
    active = graph.prefix + "active"
    gate = part(graph.prefix + names[0], inner)
    graph.vector(model.activation, model.activation, (gate,), part(active, inner), sizes=sizes)
    if model.gated:
        inputs = (part(active, inner), part(graph.prefix + "up", inner))
        active = graph.prefix + "gated"
        graph.vector("product", "product", inputs, part(active, inner), sizes=sizes)
    layer.linear("down", part(active, inner), target)


@dataclass(frozen=True)
class _FeedForward:
    """A feed-forward layer that is being added to a graph."""

    graph: Graph
    sizes: Mapping[str, int] | None
    experts: ExpertGroup | None

    def linear(self, name: str, source: Operand, target: Operand) -> None:
        """Add a product with weights, and its bias if it has one."""
        graph, prefix = self.graph, self.graph.prefix
        weights = self._parameters(f"W{name}", source.ranks[-1], target.ranks[-1])
        if "ff" not in self.graph.model.biased:
            graph.einsum(name, (source, weights), target, self.sizes)
            return
        raw = f"{prefix}{name}0" if self.experts else f"{target.tensor}0"
        if target.is_unit and not target.start:
            made = part(raw, target.ranks)
            bias = self._parameters(f"{name}.bias", target.ranks[-1])
            graph.einsum(name, (source, weights), made, self.sizes)
            graph.vector(f"{name}.bias", "residual", (made, bias), target, sizes=self.sizes)
            return
        graph.einsum(name, (source, weights), Operand(raw, target.projection), self.sizes)
        self._bias_of_each(name, raw, target)

    def _parameters(self, name: str, *ranks: str) -> Operand:
        """Return parameters with these ranks, and with the rank of experts if there are any."""
        if self.experts is None:
            return part(self.graph.weight(name), ranks)
        start = None if self.experts.whole else {"x": self.experts.first}
        tensor = self.graph.tensor(f"{self.experts.prefix}{EXPERTS}{name}", "weight")
        held = self.experts.held or self.graph.model.experts
        sizes = {**self.graph.sizes, **(self.sizes or {}), "x": held}
        every = math.prod(sizes[rank] for rank in ("x", *ranks))
        self.graph.tensors[tensor] = replace(self.graph.tensors[tensor], stored=every)
        return part(tensor, ("x", *ranks), start)

    def _bias_of_each(self, name: str, raw: str, target: Operand) -> None:
        """Add the bias of each expert to its rows of the common output."""
        experts, graph = self.experts, self.graph
        if experts is None:
            return
        begin = target.start or (0,) * len(target.projection)
        of_experts = ["x" in dict(dim.terms) for dim in target.projection]
        rows = tuple(
            AffineDimension((("t", 1),)) if is_own else dim
            for dim, is_own in zip(target.projection, of_experts, strict=True)
        )
        for at in range(experts.count):
            own = tuple(at * experts.tokens * is_own for is_own in of_experts)
            bias = graph.tensor(
                f"{experts.prefix}{EXPERTS}{name}.bias{experts.first + at}", "weight"
            )
            inputs = (Operand(raw, rows, own), part(bias, ("e",)))
            made = Operand(target.tensor, rows, tuple(map(sum, zip(begin, own, strict=True))))
            graph.vector(f"{name}.bias{at}", "residual", inputs, made, sizes=self.sizes)
