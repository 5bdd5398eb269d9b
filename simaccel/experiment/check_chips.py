"""Checking what chips compute together: each one on its part, and all against plain numpy.

Each chip's program runs in the interpreter on parts of random tensors. What it makes is compared
with parts of what numpy makes of the whole workload, on no chips at all; what comes over links is
put together from what other chips made, and compared with what the reader was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simaccel.experiment.check import (
    TOLERANCE,
    CheckFailedError,
    OperatorCheck,
    execute,
    expected_values,
    random_tensors,
    require_small,
)
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.sharding import Pod
from simaccel.program.interpreter import Array
from simaccel.program.lowering import lower
from simaccel.workload import Workload


def check_chips(
    workload: Workload, pod: Pod, count: int, seed: int = 0
) -> tuple[OperatorCheck, ...]:
    """Execute what each of ``count`` chips does of a workload, and compare all that it makes.

    Raises:
        TooLargeToCheckError: the workload has too many MACs.
        CheckFailedError: an output or what goes over links is wrong; names operator and chip.

    """
    require_small(workload)
    given = random_tensors(workload, seed)
    expected = expected_values(workload, given)
    program = lower(pod.workload, pod.mapping)
    made: list[dict[str, Array]] = []
    found: list[tuple[OperatorCheck, ...]] = []
    for chip in range(count):
        tensors = _given(pod, given, expected, chip)
        checked, values = execute(pod.workload, pod.mapping, program, tensors)
        _compare(pod, values, expected, chip)
        made.append(values)
        found.append(checked)
    for one in pod.exchanges:
        _exchange(one, made, expected[one.tensor])
    return tuple(_together(some) for some in zip(*found, strict=True))


def _together(some: Sequence[OperatorCheck]) -> OperatorCheck:
    return replace(
        some[0],
        compared=sum(one.compared for one in some),
        elements=sum(one.elements for one in some),
        deviation=max(one.deviation for one in some),
    )


def _given(
    pod: Pod, given: dict[str, Array], expected: dict[str, Array], chip: int
) -> dict[str, Array]:
    """Return a chip's tensors before it begins; what comes over links is as it should be."""
    made = {one.output.tensor for one in pod.workload.operators}
    found = {}
    for name in pod.workload.tensors:
        tensor, layout = pod.layouts[name]
        whole = given[tensor] if name in made else expected[tensor]
        found[name] = whole[layout.box(whole.shape, chip)].copy()
    return found


def _compare(pod: Pod, values: dict[str, Array], expected: dict[str, Array], chip: int) -> None:
    """Compare what a chip has of whole tensors, where it has left the chip."""
    for name, mine in values.items():
        tensor, layout = pod.layouts[name]
        if not layout.partial:
            _require_close(mine, expected[tensor][layout.box(expected[tensor].shape, chip)], name)


def _require_close(mine: Array, expected: Array, name: str) -> None:
    left = ~np.isnan(mine)
    most = float(np.abs(expected).max(initial=0.0)) or 1.0
    if np.abs(mine - expected, where=left, out=np.zeros(mine.shape)).max(initial=0.0) > (
        TOLERANCE * most
    ):
        raise CheckFailedError(f"check failed: {name} on a chip differs from the whole workload")


def _exchange(one: Exchange, made: list[dict[str, Array]], expected: Array) -> None:
    """Put together what chips get from those that they exchange with, and compare it."""
    outcome = []
    for chip in range(len(made)):
        own = _without(chip, one)
        together = np.zeros(expected.shape)
        seen = np.zeros(expected.shape, dtype=np.bool_)
        for other, values in enumerate(made):
            if _without(other, one) == own:
                box = one.before.box(expected.shape, other)
                together[box] += values[one.source]
                seen[box] = True
        box = one.behind.box(expected.shape, chip)
        if not seen[box].all():
            raise CheckFailedError(f"check failed: {one.name} leaves elements out")
        outcome.append(together[box])
    for chip, mine in enumerate(outcome):
        made[chip][one.target] = mine
        if not one.behind.partial:
            _require_close(mine, expected[one.behind.box(expected.shape, chip)], one.name)


def _without(chip: int, one: Exchange) -> int:
    """Return a chip's number with the digits of an exchange set to nought."""
    return chip - sum(axis.stride * (chip // axis.stride % axis.size) for axis in one.digits)
