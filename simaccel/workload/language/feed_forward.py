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
    apart: str = "",
) -> None:
    """Add a feed-forward layer from one operand to another; ``sizes`` of ranks that differ.

    ``apart``: a rank of both that weights have, too.
    """
    inner = (*source.ranks[:-1], "f")
    names = ("gate", "up") if model.gated else ("up",)
    for name in names:
        _linear(graph, model, name, source, part(graph.prefix + name, inner), sizes, apart)
    active = graph.prefix + "active"
    gate = part(graph.prefix + names[0], inner)
    graph.vector(model.activation, model.activation, (gate,), part(active, inner), sizes=sizes)
    if model.gated:
        inputs = (part(active, inner), part(graph.prefix + "up", inner))
        active = graph.prefix + "gated"
        graph.vector("product", "product", inputs, part(active, inner), sizes=sizes)
    _linear(graph, model, "down", part(active, inner), target, sizes, apart)


def _linear(
    graph: Graph,
    model: Transformer,
    name: str,
    source: Operand,
    target: Operand,
    sizes: Mapping[str, int] | None,
    apart: str,
) -> None:
    ranks = (*apart, source.ranks[-1], target.ranks[-1])
    weights = part(graph.weight(f"W{name}"), ranks)
    if "ff" not in model.biased:
        graph.einsum(name, (source, weights), target, sizes)
        return
    shared = bool(target.start)  # by experts, each with rows of its own
    raw = part(f"{graph.prefix}{name}0" if shared else f"{target.tensor}0", target.ranks)
    graph.einsum(name, (source, weights), raw, sizes)
    inputs = (raw, part(graph.weight(f"{name}.bias"), (*apart, target.ranks[-1])))
    graph.vector(f"{name}.bias", "residual", inputs, target, sizes=sizes)
