"""Attention of a transformer's layer: projections, rotary embedding, cache, L, softmax, A, O.

Under a causal mask rows are cut into blocks, each with the keys that its rows see: tiles above the
diagonal blocks are neither computed nor moved. K and V of the new tokens are appended to the cache,
which L and A read.

A layer of a decoder beside an encoder (Raffel et al. 2020, section 2.1) has cross-attention to the
encoded prompt, too. Its keys and values are the same in all steps: they are computed once, after
the encoder, and stay in a cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.workload.einsum import Kind, Operand
from simaccel.workload.language.graph import Graph, part
from simaccel.workload.language.phase import RowBlock


@dataclass(frozen=True)
class Attention:
    """Attention of one layer; ``window``: the most keys that a token sees (None: all)."""

    graph: Graph
    window: int | None

    @property
    def heads(self) -> tuple[str, ...]:
        """Ranks of the query heads: the heads of K and V, and the query heads that share one."""
        return ("g", "r") if self.graph.model.heads > self.graph.model.kv_heads else ("g",)

    @property
    def queries(self) -> tuple[str, ...]:
        """Ranks of Q and Z."""
        return ("b", "n", *self.heads, "d")

    def add(self, source: str) -> str:
        """Add all operators behind the norm; return the name of O's output."""
        graph, model = self.graph, self.graph.model
        self._project("Q", source, part(graph.prefix + "Q", self.queries))
        keys = self.graph.tokens.keys(self.window)
        start = {"n": keys - self.graph.tokens.rows} if keys > self.graph.tokens.rows else None
        for name in ("K", "V"):
            self._project(name, source, part(self.add_stored(name), ("b", "n", "g", "d"), start))
        self.attend()
        made = graph.prefix + "Y"
        out = made + "0" if "o" in model.biased else made
        weights = part(graph.weight("Wo"), (*self.heads, "d", "e"))
        graph.einsum("O", (part(graph.prefix + "Z", self.queries), weights), part(out, "bne"))
        if "o" in model.biased:
            add_bias(graph, "O", out, part(made, "bne"), ("e",))
        return made

    def add_stored(self, name: str) -> str:
        """Add K or V as a whole tensor, of encoders no cache; return its name."""
        kind: Kind = "intermediate" if self.graph.model.is_encoder else "cache"
        return self.graph.tensor(self.graph.prefix + name, kind)

    def _project(self, name: str, source: str, target: Operand) -> None:
        """Add a projection, with bias, norm and rotary embedding if the model has them."""
        graph, ranks, compared = self.graph, target.ranks, name in {"Q", "K"}
        steps = ["einsum", *(["bias"] if "qkv" in self.graph.model.biased else [])]
        steps += ["norm"] if compared and self.graph.model.head_norms else []
        steps += ["rotary"] if compared and self.graph.model.is_rotary else []
        for at, step in enumerate(steps):
            out = target
            if at + 1 < len(steps):
                out = part(f"{graph.prefix}{name}{at}", ranks)
            if step == "einsum":
                weights = part(graph.weight(f"W{name.lower()}"), ("e", *ranks[2:]))
                graph.einsum(name, (part(source, "bne"), weights), out)
            elif step == "bias":
                add_bias(graph, name, f"{graph.prefix}{name}{at - 1}", out, ranks[2:])
            elif step == "norm":
                gain = part(graph.weight(f"norm.{name}.gain"), "d")
                inputs = (part(f"{graph.prefix}{name}{at - 1}", ranks), gain)
                graph.vector(f"norm.{name}", "rms_norm", inputs, out, axis="d")
            else:
                tables = [
                    part(graph.tensor(table, "input"), "nd") for table in ("cosines", "sines")
                ]
                turned = (part(f"{graph.prefix}{name}{at - 1}", ranks), *tables)
                graph.vector(f"rotary.{name}", "rotary", turned, out, axis="d")

    def attend(self) -> None:
        """Add L, softmax and A for each block of rows."""
        blocks = list(
            self.graph.tokens.row_blocks(self.window, causal=not self.graph.model.is_encoder)
        )
        for at, block in enumerate(blocks):
            self._block(block, f".{at}" if len(blocks) > 1 else "", alone=len(blocks) == 1)

    def _block(self, block: RowBlock, name: str, *, alone: bool) -> None:
        graph, model = self.graph, self.graph.model
        sizes = {"n": block.rows, "c": block.keys}
        all_keys = block.keys == self.graph.tokens.keys(self.window)
        rows = None if alone else {"n": block.first}
        keys = None if all_keys else {"c": block.first_key}
        scores, weights = (f"{graph.prefix}{letter}{name}" for letter in "SP")
        ranks = ("b", *self.heads, "n", "c")
        stored = {cache: part(self.add_stored(cache), ("b", "c", "g", "d"), keys) for cache in "KV"}
        inputs = (part(graph.prefix + "Q", self.queries, rows), stored["K"])
        if model.attention_cap:
            capped, scores = scores, f"{graph.prefix}S0{name}"
        graph.einsum(f"L{name}", inputs, part(scores, ranks), sizes)
        if model.attention_cap:
            cap = model.attention_cap / model.scale
            source, scores = part(scores, ranks), capped
            graph.vector(
                f"cap.L{name}", "soft_cap", (source,), part(capped, ranks), scale=cap, sizes=sizes
            )
        graph.vector(
            f"softmax{name}",
            "softmax",
            (part(scores, ranks),),
            part(weights, ranks),
            axis="c",
            scale=model.scale,
            visible=block.visible,
            sizes=sizes,
        )
        made = part(graph.prefix + "Z", self.queries, rows)
        graph.einsum(f"A{name}", (part(weights, ranks), stored["V"]), made, sizes)


def add_bias(
    graph: Graph,
    name: str,
    given: str,
    made: Operand,
    own: Sequence[str],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Add the operator of a bias with the ranks ``own``; input and output have one layout."""
    inputs = (part(given, made.ranks), part(graph.weight(f"{name}.bias"), own))
    graph.vector(f"{name}.bias", "residual", inputs, made, sizes=sizes)


def add_attention_alone(graph: Graph) -> None:
    """Add L, softmax and A alone, of the last layer of a repetition."""
    model, window = graph.model, graph.model.windows[-1]
    for name in ("Q", *(("K", "V") if model.is_encoder else ())):
        graph.tensor(name, "input")
    graph.tensor("Z", "output")
    Attention(graph, window).attend()


def add_encoded(graph: Graph, encoded: str) -> None:
    """Add the cross-attention's keys and values of all decoder layers, each [l, b, n, g, d]."""
    for name in ("K", "V"):
        weights = part(graph.weight(f"Wcross.{name.lower()}"), "legd")
        made = part(graph.tensor(f"cross.{name}", "cache"), "lbngd")
        graph.einsum(f"cross.{name}", (part(encoded, "bne"), weights), made)


def add_cross(graph: Graph, normed: str) -> str:
    """Add cross-attention of new tokens to the m encoded ones; return the name of O's output."""
    model = graph.model
    heads = "gr" if model.heads > model.kv_heads else "g"
    prefix, queries = graph.prefix, f"bn{heads}d"
    keys, values = (
        part(graph.tensor(f"{prefix}cross.{name}", "cache"), "bmgd") for name in ("K", "V")
    )
    query, scores, shares, attended = (
        part(f"{prefix}cross.{name}", ranks)
        for name, ranks in (
            ("Q", queries),
            ("S", f"b{heads}nm"),
            ("P", f"b{heads}nm"),
            ("Z", queries),
        )
    )
    weights = part(graph.weight("Wcross.q"), f"e{heads}d")
    graph.einsum("cross.Q", (part(normed, "bne"), weights), query)
    graph.einsum("cross.L", (query, keys), scores)
    graph.vector("cross.softmax", "softmax", (scores,), shares, axis="m", scale=model.scale)
    graph.einsum("cross.A", (shares, values), attended)
    weights = part(graph.weight("Wcross.o"), f"{heads}de")
    return graph.einsum("cross.O", (attended, weights), part(f"{prefix}cross.Y", "bne"))
