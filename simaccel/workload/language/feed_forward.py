"""Feed-forward layers: with a gate or without, with biases or without."""

from __future__ import annotations

from collections.abc import Mapping

from simaccel.workload.einsum import Operand
from simaccel.workload.language.graph import Graph, part
from simaccel.workload.language.model import Transformer


def add_feed_forward(
    graph: Graph,
    model: Transformer,
    source: Operand,
    target: Operand,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Add a feed-forward layer from one operand to another; ``sizes`` of ranks that differ."""
    names = ("gate", "up") if model.gated else ("up",)
    for name in names:
        _linear(graph, model, name, source, part(graph.prefix + name, "bnf"), sizes)
    active = graph.prefix + "active"
    gate = part(graph.prefix + names[0], "bnf")
    graph.vector(model.activation, model.activation, (gate,), part(active, "bnf"), sizes=sizes)
    if model.gated:
        inputs = (part(active, "bnf"), part(graph.prefix + "up", "bnf"))
        active = graph.prefix + "gated"
        graph.vector("product", "product", inputs, part(active, "bnf"), sizes=sizes)
    _linear(graph, model, "down", part(active, "bnf"), target, sizes)


def _linear(
    graph: Graph,
    model: Transformer,
    name: str,
    source: Operand,
    target: Operand,
    sizes: Mapping[str, int] | None,
) -> None:
    ranks = (source.ranks[-1], target.ranks[-1])
    weights = part(graph.weight(f"W{name}"), ranks)
    if "ff" not in model.biased:
        graph.einsum(name, (source, weights), target, sizes)
        return
    raw = part(f"{target.tensor}0", target.ranks)
    graph.einsum(name, (source, weights), raw, sizes)
    inputs = (raw, part(graph.weight(f"{name}.bias"), (target.ranks[-1],)))
    graph.vector(f"{name}.bias", "residual", inputs, target, sizes=sizes)
