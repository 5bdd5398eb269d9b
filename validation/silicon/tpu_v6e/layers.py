"""The operators of Llama-3.1-8B apart from attention, as ``simaccel run`` has them on TPU v6e.

Those of a block are rows of the run of a block, those outside of it of a run of the model, whose
``lm_head`` is the product of all tokens. ``q_proj`` is that of queries, keys and values, which XLA
makes one product. Of fewer than 313 tokens the source has no ``up_proj`` and its ``down_proj``
holds both (its README); so here. Its ``act_fn`` (one row) is in a product, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from simaccel import simulate
from simaccel.workload import build
from validation.silicon.booked import book
from validation.silicon.runs import gemm, loaded

_BLOCK: Final = {
    "input_layernorm": ("norm1",),
    "q_proj": ("Q", "K", "V"),
    "rope": ("rotary.Q", "rotary.K"),
    "o_proj": ("O",),
    "post_layernorm": ("norm2",),
    "gate_proj": ("gate",),
    "up_proj": ("up",),
    "down_proj": ("down",),
}
"""Operators of a block; what is fused behind one is in it."""
OUTSIDE: Final = ("embedding", "final_layernorm", "lm_head")
"""What is no part of a block."""
LAYERS: Final = (*_BLOCK, *OUTSIDE)
_APART: Final = 313
"""Tokens from which the source has ``up_proj`` apart."""
_HEAD: Final = (4096, 128256)
"""Depth and columns of the last product."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the nanoseconds of each operator: columns layer, tokens."""
    on = loaded("tpu_v6e")
    found = []
    for row in rows:
        tokens, layer = int(row["tokens"]), row["layer"]
        both = layer == "down_proj" and tokens < _APART
        cycles = _cycles(layer, tokens) + (both and _cycles("up_proj", tokens))
        found.append(1e9 * on.seconds(cycles))
    return found


def _cycles(layer: str, tokens: int) -> int:
    """Return the cycles of one operator inside a program that is started once."""
    if layer == "lm_head":
        return gemm(loaded("tpu_v6e"), tokens, *_HEAD, "bf16")
    rows = _rows("model" if layer == "embedding" else "block", tokens)
    names = {"embedding": ("embed",), "final_layernorm": ("norm2",)} | _BLOCK
    for name in names[layer]:
        book(*rows[name])
    return sum(rows[name][1] for name in names[layer])


@cache
def _rows(scope: str, tokens: int) -> Mapping[str, tuple[str, int]]:
    """Return what limits each row of a default run, and its cycles, by its first operator."""
    on = loaded("tpu_v6e")
    rows = simulate(build("llama3-8b", prompt=tokens, scope=scope), on).rows
    return {row.run.name.partition("+")[0]: (row.limit.name, row.cycles) for row in rows}
