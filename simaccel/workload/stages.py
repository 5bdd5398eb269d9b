"""Stages of a transformer: some of its layers, with the embedding and the head or without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simaccel.workload.files import parse_workload
from simaccel.workload.language.model import find_transformer
from simaccel.workload.workload import Workload

STAGE_INPUT = "X"
"""What the first layer reads."""
_OUTPUT = "Xout"
"""What the last layer makes."""


def layer_count(workload: Workload) -> int:
    """Return the layers of a transformer's run: in a step of an encoder's decoder, its own."""
    document = _document(workload)
    count: int = document[_layers_field(document)]
    return count


def kinds_of_layers(workload: Workload, first: int, count: int) -> tuple[int | None, ...]:
    """Return the windows of some layers, as a run that repeats."""
    windows = _document(workload).get("windows", [None])
    return tuple(windows[(first + at) % len(windows)] for at in range(min(count, len(windows))))


def stage_of(workload: Workload, first: int, count: int) -> Workload:
    """Return ``count`` layers of a transformer's run of the scope `model`, from ``first`` on.

    The embedding comes with the first layer, norm and logits with the last.
    """
    document = _document(workload)
    field = _layers_field(document)
    windows = list(kinds_of_layers(workload, first, count))
    whole = parse_workload({**document, field: count, "windows": windows})
    names = [operator.name for operator in whole.operators]
    made = [operator.output.tensor for operator in whole.operators]
    start = 0 if first == 0 else made.index(STAGE_INPUT) + 1
    stop = len(names) if first + count == document[field] else made.index(_OUTPUT) + 1
    chosen = names[start:stop]
    return replace(
        whole.select_operators(chosen),
        repeat=whole.repeat,
        once=frozenset(whole.once & set(chosen)),
        parameters=whole.parameters,
    )


def _document(workload: Workload) -> dict[str, Any]:
    """Return the parameters of a transformer's run, those of its model among them."""
    run = dict(workload.parameters)
    if "model" not in run:
        return run
    return {**find_transformer(run.pop("model")).document(), **run}


def _layers_field(document: Mapping[str, Any]) -> str:
    steps = document.get("decoder_layers") and document.get("phase") == "decode"
    return "decoder_layers" if steps else "layers"
