"""Check of what several chips compute, each on its part, against plain numpy.

Each chip's program runs in the interpreter on its parts of random tensors. Its results are compared
with the same parts of the whole workload's, which numpy computes. What comes over links is put
together from the results of other chips, and compared with the expected values that it had read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simaccel.diagnosis import check
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.mapping.chips.sharding import Pod
from simaccel.program.lowering import lower
from simaccel.run.conservation import require_program
from simaccel.workload import Workload
from simaccel.workload.vectors.kind import Array


def check_chips(workload: Workload, pod: Pod) -> tuple[check.OperatorCheck, ...]:
    """Execute each chip's part of a workload, and compare all results.

    Pods with several places (`Pod.places`) execute the n-th chip of each together.

    Raises:
        TooLargeToCheckError: the workload has too many MACs.
        CheckFailedError: an output or an exchange is wrong; names operator and chip.
    """
    check.require_small(workload)
    inputs = check.random_tensors(workload, seed=0)
    expected = check.expected_values(workload, inputs)
    program = lower(pod.workload, pod.mapping)
    require_program(pod.workload, pod.mapping, program)
    outputs = {operator.output.tensor for operator in pod.workload.operators}
    results: list[dict[str, Array]] = []
    checks: list[tuple[check.OperatorCheck, ...]] = []
    for chip in range(len(pod.places[0])):
        tensors = {}  # before it runs, with the expected values of what comes over links
        for name in pod.workload.tensors:
            tensor, layout = pod.layouts[name]
            whole = inputs[tensor] if name in outputs else expected[tensor]
            box = layout.box(whole.shape, chip)
            tensors[name] = whole[box][_used_positions(pod.workload.shapes[name])].copy()
        checked, values = check.execute(pod.workload, pod.mapping, program, tensors)
        _compare(pod, values, expected, chip)
        stored = {
            part.source: _part(expected[part.tensor], part.source_layout, chip)
            for part in pod.exchanges
            if part.is_stored
        }
        results.append(values | stored)
        checks.append(checked)
    for exchange in pod.exchanges:
        written = check.written_elements(workload, exchange.tensor)
        border = ~written & written.any()  # elements of an output that no operator writes
        _check_exchange(exchange, results, expected[exchange.tensor], border)
    return tuple(
        replace(
            of_chips[0],
            compared=sum(each.compared for each in of_chips),
            elements=sum(each.elements for each in of_chips),
            deviation=max(each.deviation for each in of_chips),
        )
        for of_chips in zip(*checks, strict=True)
    )


def _compare(pod: Pod, values: dict[str, Array], expected: dict[str, Array], chip: int) -> None:
    """Compare a chip's stored tensors; partial sums are compared once they are added."""
    for name, computed in values.items():
        tensor, layout = pod.layouts[name]
        if not layout.partial:
            part = _part(expected[tensor], layout, chip)
            _require_close(computed, part[_used_positions(computed.shape)], name)


def _part(whole: Array, layout: ChipLayout, chip: int) -> Array:
    return whole[layout.box(whole.shape, chip)]


def _require_close(computed: Array, expected: Array, name: str) -> None:
    known = ~np.isnan(computed)
    most = float(np.abs(expected).max(initial=0.0)) or 1.0
    if np.abs(computed - expected, where=known, out=np.zeros(computed.shape)).max(initial=0.0) > (
        check.TOLERANCE * most
    ):
        raise check.CheckFailedError(
            f"check failed: {name} on a chip differs from the whole workload"
        )


def _used_positions(shape: Sequence[int]) -> tuple[slice, ...]:
    """Return the slices of a tensor without the border after them that a chip doesn't use."""
    return tuple(map(slice, shape))


def _check_exchange(
    exchange: Exchange, results: list[dict[str, Array]], expected: Array, border: check.Booleans
) -> None:
    """Put together what each chip receives in an exchange from the chips' results; compare it."""
    outcome = []
    for chip in range(len(results)):
        together, received = np.zeros(expected.shape), border.copy()
        for other, others in enumerate(results):
            span = _sent_positions(exchange, expected.shape, other, chip)
            if span is not None:
                values = others[exchange.source][span]
                box = exchange.source_layout.box(expected.shape, other)
                starts = [part.start + own.start for part, own in zip(box, span, strict=True)]
                pairs = zip(starts, values.shape, strict=True)
                positions = tuple(slice(start, start + size) for start, size in pairs)
                together[positions] += values
                received[positions] = True
        box = exchange.target_layout.box(expected.shape, chip)
        if not received[box].all():
            raise check.CheckFailedError(f"check failed: {exchange.name} leaves elements out")
        outcome.append(together[box])
    for chip, values in enumerate(outcome):
        results[chip][exchange.target] = values
        if not exchange.target_layout.partial:
            _require_close(values, _part(expected, exchange.target_layout, chip), exchange.name)


def _sent_positions(
    exchange: Exchange, shape: Sequence[int], other: int, chip: int
) -> tuple[slice, ...] | None:
    """Return the slices of a chip's part that it sends to another chip, or keeps; None: nothing.

    In a halo exchange, each neighbour gets an edge.
    """
    if _drop_digits(other, exchange) != _drop_digits(chip, exchange):
        return None
    spans = [slice(0, size) for size in shape]
    before, behind = exchange.source_layout, exchange.target_layout
    if not exchange.is_halo:
        return tuple(spans)
    at = next(
        n for n, _ in enumerate(shape) if before.window(n, shape[n]) != behind.window(n, shape[n])
    )
    rows, sides = before.window(at, shape[at]).size, 2 if exchange.kind == "halo" else 1
    edge = exchange.elements[0] * rows // before.elements(shape) // sides
    distance = before.place(at, other) - before.place(at, chip)
    if abs(distance) > 1:
        return None
    spans[at] = {-1: slice(rows - edge, rows), 0: slice(0, rows), 1: slice(0, edge)}[distance]
    return tuple(spans)


def _drop_digits(chip: int, exchange: Exchange) -> int:
    """Return a chip's number with the digits of an exchange set to 0."""
    return chip - sum(axis.stride * (chip // axis.stride % axis.size) for axis in exchange.digits)
