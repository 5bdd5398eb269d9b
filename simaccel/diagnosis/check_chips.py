"""Check of what several chips compute, each on its part, against plain numpy.

All chips run one program, on parts of the same shapes: it is checked once. The values of each
chip's part of random tensors are compared with the same part of the whole workload's, by numpy.
What comes over links is put together from the results of other chips, and compared, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simaccel.diagnosis.check import (
    TOLERANCE,
    CheckFailedError,
    OperatorCheck,
    check,
    require_small,
)
from simaccel.diagnosis.layout import Booleans
from simaccel.diagnosis.plain_values import drawn_tensors, expected_values, written_elements
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.mapping.chips.sharding import Pod
from simaccel.program.lowering import lower
from simaccel.run.conservation import require_program
from simaccel.workload import Workload
from simaccel.workload.vectors.kind import Array


def check_chips(workload: Workload, pod: Pod) -> tuple[OperatorCheck, ...]:
    """Check the program of all chips, each chip's part of a workload, and what goes over links.

    Of pods with several places (`Pod.places`) the n-th chips of each are a part together. All chips
    run one program: its outputs are compared on one chip, and the result has the elements of that.

    Raises:
        TooLargeToCheckError: the workload has too many MACs.
        CheckFailedError: an output or an exchange is wrong; names operator and chip.
    """
    require_small(workload)
    program = lower(pod.workload, pod.mapping)
    require_program(pod.workload, pod.mapping, program)
    checks = check(pod.workload, pod.mapping, program)
    inputs = drawn_tensors(workload)
    expected = expected_values(workload, inputs)
    outputs = {operator.output.tensor for operator in pod.workload.operators}
    results: list[dict[str, Array]] = []
    for chip in range(len(pod.places[0])):
        tensors = {}  # before it runs, with the expected values of what comes over links
        for name in pod.workload.tensors:
            tensor, layout = pod.layouts[name]
            whole = inputs[tensor] if name in outputs else expected[tensor]
            part = _part(whole, layout, chip)  # without the border after it that a chip doesn't use
            tensors[name] = part[tuple(map(slice, pod.workload.shapes[name]))]
        values = expected_values(pod.workload, tensors)
        _compare(pod, values, expected, chip)
        stored = {
            part.source: _part(expected[part.tensor], part.source_layout, chip)
            for part in pod.exchanges
            if part.is_stored
        }
        results.append(values | stored)
    for exchange in pod.exchanges:
        written = written_elements(
            workload.operators,
            exchange.tensor,
            np.indices(workload.shapes[exchange.tensor], sparse=True),
        )
        border = ~written & written.any()  # elements of an output that no operator writes
        _check_exchange(exchange, results, expected[exchange.tensor], border)
    return checks


def _compare(pod: Pod, values: dict[str, Array], expected: dict[str, Array], chip: int) -> None:
    """Compare a chip's tensors; partial sums are compared once they are added."""
    for name, computed in values.items():
        tensor, layout = pod.layouts[name]
        if not layout.partial:
            part = _part(expected[tensor], layout, chip)
            _require_close(computed, part[tuple(map(slice, computed.shape))], name)


def _part(whole: Array, layout: ChipLayout, chip: int) -> Array:
    return whole[layout.box(whole.shape, chip)]


def _require_close(computed: Array, expected: Array, name: str) -> None:
    most = float(np.abs(expected).max(initial=0.0)) or 1.0
    if not np.abs(computed - expected).max(initial=0.0) <= TOLERANCE * most:
        raise CheckFailedError(f"check failed: {name} on a chip differs from the whole workload")


def _check_exchange(
    exchange: Exchange, results: list[dict[str, Array]], expected: Array, border: Booleans
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
            raise CheckFailedError(f"check failed: {exchange.name} leaves elements out")
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
