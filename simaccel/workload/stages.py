"""Workloads made from the parameters of others: with new ones, or stages of a pipeline.

A stage has a part of a transformer's layers, with or without embedding and head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simaccel.workload.language.model import LayerKind, find_transformer, values_of_layers
from simaccel.workload.workload import Workload

STAGE_INPUT = "X"
"""The tensor that the first layer reads."""
STAGE_OUTPUT = "Xout"
"""The tensor that the last layer writes."""


def with_parameters(workload: Workload, **changes: object) -> Workload:
    """Return the workload of a workload's `parameters`, some of them changed.

    Raises:
        InputError: it can't have them.
    """
    from simaccel.workload.files import parse_workload  # noqa: PLC0415 - has forms of all kinds

    return parse_workload({**workload.parameters, **changes})


def layer_count(workload: Workload) -> int:
    """Return the number of layers of a transformer's run; of a decode step those of the decoder."""
    document = _document(workload)
    count: int = document[_layers_field(document)]
    return count


def kinds_of_layers(workload: Workload, first: int, count: int) -> tuple[LayerKind, ...]:
    """Return the kinds of ``count`` layers from ``first`` on, one period at most."""
    document = _document(workload)
    windows, dense = document.get("windows", [None]), document.get("dense", [False])
    last = first + min(count, math.lcm(len(windows), len(dense)))
    both = zip(values_of_layers(windows, last), values_of_layers(dense, last), strict=True)
    return tuple(both)[first:]


def stage_of(workload: Workload, first: int, count: int) -> Workload:
    """Return ``count`` layers from ``first`` on, of a transformer's run with the scope `model`.

    The first layer brings the embedding, the last one norm and logits.
    """
    document = _document(workload)
    field = _layers_field(document)
    windows, dense = map(list, zip(*kinds_of_layers(workload, first, count), strict=True))
    kinds: dict[str, object] = {"windows": windows, "dense": dense}
    kinds |= {} if any(dense) else {"dense_ff": 0}
    every_layer = replace(workload, parameters=document)
    whole = with_parameters(every_layer, **{field: count, **kinds})
    names = [operator.name for operator in whole.operators]
    made = [operator.output.tensor for operator in whole.operators]
    start = 0 if first == 0 else made.index(STAGE_INPUT) + 1
    stop = len(names) if first + count == document[field] else made.index(STAGE_OUTPUT) + 1
    chosen = names[start:stop]
    return replace(
        whole.select_operators(chosen),
        repeat=whole.repeat,
        once=frozenset(whole.once & set(chosen)),
        parameters=whole.parameters,
    )


def _document(workload: Workload) -> dict[str, Any]:
    """Return the parameters of a transformer's run, including those of its model."""
    run = dict(workload.parameters)
    if "model" not in run:
        return run
    return {**find_transformer(run.pop("model")).document(), **run}


def _layers_field(document: Mapping[str, Any]) -> str:
    steps = document.get("decoder_layers") and document.get("phase") == "decode"
    return "decoder_layers" if steps else "layers"
