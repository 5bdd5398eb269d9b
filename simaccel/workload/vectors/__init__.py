"""Vector operators: kinds with their passes and meaning in numpy; their list."""

from dataclasses import replace
from typing import Any

from simaccel.plugins import Plugin, Registry
from simaccel.workload.vectors.kind import (
    MAKES_STATISTICS,
    NEEDS_STATISTICS,
    Passes,
    RankOrder,
    Statistics,
    VectorKind,
    VectorStep,
)
from simaccel.workload.vectors.norms import NORMS
from simaccel.workload.vectors.single_pass import SINGLE_PASS
from simaccel.workload.vectors.softmax import SOFTMAX

_KINDS = (SOFTMAX, *NORMS, *SINGLE_PASS)


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
