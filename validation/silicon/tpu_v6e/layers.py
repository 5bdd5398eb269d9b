"""The operators of Llama-3.1-8B apart from attention, on ``hwconfigs/tpu_v6e``: no own constants.

Products stream their weights; what they read and make goes through HBM. Norms and rotations find
their rows on the chip, where the operator before left them. ``q_proj`` is that of queries, keys and
values, which XLA makes one product. Of fewer than 313 tokens the source has no ``up_proj`` and its
``down_proj`` holds both (its README); so here. Its ``act_fn`` (one row) is in a product, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simaccel.hardware import Accelerator
from validation.silicon.booked import remembered
from validation.silicon.kernels import (
    COPIES,
    ON_CHIP,
    copy_cycles,
    loaded,
    streamed_gemm_cycles,
    vector_cycles,
)

_WIDTH: Final = 4096
_HIDDEN: Final = 14336
_HEADS_WIDTH: Final = 6144
"""Queries of 32 heads, keys and values of 8, 128 numbers each."""
_ROTATED: Final = 5120
"""Queries and keys."""
_PRODUCTS: Final = {
    "q_proj": (_WIDTH, _HEADS_WIDTH),
    "o_proj": (_WIDTH, _WIDTH),
    "gate_proj": (_WIDTH, _HIDDEN),
    "up_proj": (_WIDTH, _HIDDEN),
    "down_proj": (_HIDDEN, _WIDTH),
    "lm_head": (_WIDTH, 128256),
}
"""Depth and columns of the weights."""
_NORMS: Final = ("input_layernorm", "post_layernorm", "final_layernorm")
_NORM_PASSES: Final = 2
"""Sum of squares; product with the root and the gain."""
OUTSIDE: Final = ("embedding", "final_layernorm", "lm_head")
"""What is no part of a block."""
LAYERS: Final = (*_PRODUCTS, *_NORMS, "rope", "embedding")
_APART: Final = 313
"""Tokens from which the source has ``up_proj`` apart."""


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the nanoseconds of each operator: columns layer, tokens."""
    found = []
    for row in rows:
        tokens, layer = int(row["tokens"]), row["layer"]
        both = layer == "down_proj" and tokens < _APART
        found.append(_nanoseconds(layer, tokens) + (both and _nanoseconds("up_proj", tokens)))
    return found


@remembered
def _nanoseconds(layer: str, tokens: int) -> float:
    """Return the time of one operator inside a program that is started once."""
    on = _inside()
    if layer in _PRODUCTS:
        depth, columns = _PRODUCTS[layer]
        cycles = streamed_gemm_cycles(on, (tokens, depth, columns))
    elif layer in _NORMS:
        cycles = _on_chip_cycles(tokens * _WIDTH, _NORM_PASSES)
    elif layer == "rope":
        cycles = _on_chip_cycles(tokens * _ROTATED, 1)
    else:
        cycles = copy_cycles(_inside(COPIES), tokens * _WIDTH, n_bytes=2)
    return 1e9 * on.seconds(cycles)


def _on_chip_cycles(elements: int, passes: int) -> int:
    return vector_cycles(_inside(ON_CHIP), elements, reads=1, passes=passes, n_bytes=2)


def _inside(settings: tuple[str, ...] = ()) -> Accelerator:
    return loaded("tpu_v6e", "groups.overlap=false", *settings)
