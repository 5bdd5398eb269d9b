"""Weights and caches, which lie in a chip's memory all the time."""

from __future__ import annotations

from collections import Counter

from simaccel.experiment.run import ExperimentResult


def resident_bytes(result: ExperimentResult, batches: int = 1) -> int:
    """Return the bytes of weights and caches that lie in each chip's memory, all layers of them.

    Of groups on some chips: of those chips that have most. ``batches``: how many like this one have
    caches there.
    """
    workload, n_bytes = result.workload, Counter[int]()
    repeated = {
        operand.tensor
        for operator in workload.operators
        if operator.name not in workload.once
        for operand in (*operator.inputs, operator.output)
    }
    for name, tensor in workload.tensors.items():
        if tensor.kind in ("weight", "cache") and name not in result.pod.parts:
            times = workload.repeat if name in repeated else 1
            times *= batches if tensor.kind == "cache" else 1
            of_chip = result.pod.layouts.get(name)
            chip = 0 if of_chip is None else of_chip[1].first
            n_bytes[chip] += times * workload.stored_bytes(name)
    for exchange in result.pod.exchanges:
        if exchange.is_stored:
            times = workload.times(exchange.after)
            n_bytes[exchange.before.first] += times * exchange.n_bytes(exchange.elements[0])
    return max(n_bytes.values(), default=0)
