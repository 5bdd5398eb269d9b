"""The decoder beside an encoder, with cross-attention to the encoder's output.

A layer (Raffel et al. 2020, section 2.1) is a layer of the encoder with causal self-attention, and
cross-attention to the encoded prompt after it. The keys and values of the cross-attention are the
same in all steps: they are computed once, after the encoder, and stay in a cache.
"""

from __future__ import annotations

from dataclasses import replace

from simaccel.workload.language.graph import Graph, part
from simaccel.workload.language.model import Transformer


def as_decoder(model: Transformer) -> Transformer:
    """Return the decoder of an encoder as a model."""
    return replace(model, causal=True, layers=model.decoder_layers)


def add_encoded(graph: Graph, encoded: str) -> None:
    """Add the cross-attention's keys and values of all decoder layers, each [l, b, n, g, d]."""
    for name in ("K", "V"):
        weights = part(graph.weight(f"Wcross.{name.lower()}"), "legd")
        made = part(graph.tensor(f"cross.{name}", "cache"), "lbngd")
        graph.einsum(f"cross.{name}", (part(encoded, "bne"), weights), made)


def add_cross(graph: Graph, model: Transformer, normed: str) -> str:
    """Add cross-attention of new tokens to the m encoded ones; return the name of O's output."""
    heads = "gr" if model.heads > model.kv_heads else "g"
    prefix, queries = graph.prefix, f"bn{heads}d"
    keys, values = (
        part(graph.tensor(f"{prefix}cross.{name}", "cache"), "bmgd") for name in ("K", "V")
    )
    asked, scores, shares, seen = (
        part(f"{prefix}cross.{name}", ranks)
        for name, ranks in (
            ("Q", queries),
            ("S", f"b{heads}nm"),
            ("P", f"b{heads}nm"),
            ("Z", queries),
        )
    )
    weights = part(graph.weight("Wcross.q"), f"e{heads}d")
    graph.einsum("cross.Q", (part(normed, "bne"), weights), asked)
    graph.einsum("cross.L", (asked, keys), scores)
    graph.vector("cross.softmax", "softmax", (scores,), shares, axis="m", scale=model.scale)
    graph.einsum("cross.A", (shares, values), seen)
    weights = part(graph.weight("Wcross.o"), f"{heads}de")
    return graph.einsum("cross.O", (seen, weights), part(f"{prefix}cross.Y", "bne"))
