"""Transformers as people run them: prefill and decode with a cache, norms, masks, experts."""

from simaccel.workload.language.build import transformer
from simaccel.workload.language.experts import expert_counts
from simaccel.workload.language.graph import CLASSES, class_of
from simaccel.workload.language.model import (
    TRANSFORMERS,
    Transformer,
    find_transformer,
    transformer_names,
)
from simaccel.workload.language.phase import CAUSAL_BLOCKS, PHASES, PhaseTokens

__all__ = [
    "CAUSAL_BLOCKS",
    "CLASSES",
    "PHASES",
    "TRANSFORMERS",
    "PhaseTokens",
    "Transformer",
    "class_of",
    "expert_counts",
    "find_transformer",
    "transformer",
    "transformer_names",
]
