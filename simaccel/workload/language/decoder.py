"""The decoder beside an encoder, which no run has: what it would do, for the account of a file."""

from __future__ import annotations

from simaccel.workload.language.model import Transformer


def decoder_macs(encoder: Transformer, layers: int, batch: int, tokens: int) -> int:
    """Return the MACs of a decoder that makes as many tokens as its encoder reads.

    A layer (Raffel et al. 2020, section 2.1) is one of the encoder, whose tokens see those before
    them, with an attention to all that the encoder made; after the last one stands the vocabulary.
    """
    width = encoder.heads * encoder.head_size
    linear = (3 if encoder.gated else 2) * encoder.hidden * encoder.ff_size
    weights = 8 * encoder.hidden * width + linear
    scores = tokens * (tokens + 1) * width + 2 * tokens * tokens * width
    head = encoder.hidden * encoder.vocabulary
    return batch * (layers * (tokens * weights + scores) + tokens * head)
