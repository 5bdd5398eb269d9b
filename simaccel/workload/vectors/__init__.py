"""Vector operators: a module for each kind, with passes and meaning in numpy; their list."""

from dataclasses import replace
from typing import Any

from simaccel.plugins import Plugin, Registry
from simaccel.workload.vectors.average_pooling import AVERAGE_POOLING
from simaccel.workload.vectors.copy import COPY
from simaccel.workload.vectors.functions import FUNCTIONS
from simaccel.workload.vectors.gelu import GELU
from simaccel.workload.vectors.kind import (
    MAKES_STATISTICS,
    NEEDS_STATISTICS,
    Passes,
    Statistics,
    VectorKind,
    VectorStep,
)
from simaccel.workload.vectors.largest import LARGEST
from simaccel.workload.vectors.layer_norm import LAYER_NORM
from simaccel.workload.vectors.lookup import LOOKUP
from simaccel.workload.vectors.mask import MASK
from simaccel.workload.vectors.norm_parts import NORM_PARTS
from simaccel.workload.vectors.pooling import POOLING
from simaccel.workload.vectors.product import PRODUCT
from simaccel.workload.vectors.rank_order import RankOrder
from simaccel.workload.vectors.relu import RELU
from simaccel.workload.vectors.repeat import REPEAT
from simaccel.workload.vectors.residual import RESIDUAL
from simaccel.workload.vectors.rms_norm import RMS_NORM
from simaccel.workload.vectors.rotary import ROTARY
from simaccel.workload.vectors.scale import SCALE
from simaccel.workload.vectors.silu import SILU
from simaccel.workload.vectors.soft_cap import SOFT_CAP
from simaccel.workload.vectors.softmax import SOFTMAX

_KINDS = (
    SOFTMAX,
    LAYER_NORM,
    RMS_NORM,
    GELU,
    SILU,
    RELU,
    PRODUCT,
    RESIDUAL,
    SCALE,
    ROTARY,
    POOLING,
    AVERAGE_POOLING,
    MASK,
    SOFT_CAP,
    LARGEST,
    LOOKUP,
    REPEAT,
    COPY,
    *NORM_PARTS,
    *FUNCTIONS,
)


def _accept(plugin: Plugin, found: object) -> VectorKind:
    if not isinstance(found, VectorKind):
        raise plugin.error(f"is a {type(found).__name__}, not a VectorKind")
    if found.name != plugin.name:
        raise plugin.error(f"its kind has another name, {found.name!r}")
    steps = {name: _named_step(plugin, step) for name, step in found.steps.items()}
    return replace(found, steps=steps)


def _named_step(plugin: Plugin, step: VectorStep) -> VectorStep:
    """Return a step whose meaning names the plug-in in all that it raises."""

    def meaning(*given: Any) -> Any:  # noqa: ANN401 - as `Meaning` has it
        with plugin.running("computing"):
            return step.meaning(*given)

    return replace(step, meaning=meaning)


VECTORS = Registry("simaccel.vector_operators", {kind.name: kind for kind in _KINDS}, _accept)
"""The kinds of vector operators by name, with those of plug-ins."""

__all__ = [
    "MAKES_STATISTICS",
    "NEEDS_STATISTICS",
    "VECTORS",
    "Passes",
    "RankOrder",
    "Statistics",
    "VectorKind",
    "VectorStep",
]
