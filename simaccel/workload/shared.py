"""The placement of tensors in a buffer that cores share.

As compilers do, intermediates between operators are placed there as long as they fit: those that
are read most often first, of these the smallest, each if it fits beside those placed already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from simaccel.workload.workload import Workload


def in_shared_buffer(workload: Workload, capacity_bytes: int | None) -> Workload:
    """Return a workload with intermediates placed in a shared buffer (None: there is none).

    The peak of live bytes is counted over chains of operators that each read the output of the one
    before, as no dataflow fuses more than such a chain.
    """
    chosen = _choose_shared(workload, capacity_bytes) if capacity_bytes else frozenset()
    if chosen == {name for name, tensor in workload.tensors.items() if tensor.shared}:
        return workload
    tensors = {
        name: replace(tensor, shared=name in chosen) for name, tensor in workload.tensors.items()
    }
    return replace(workload, tensors=tensors)


def most_shared_bytes(workload: Workload, steps: Sequence[Iterable[str]]) -> int:
    """Return the peak use of a shared buffer in bytes; ``steps``: operators by step, in order."""
    return most_live_bytes(
        workload, steps, {name for name, tensor in workload.tensors.items() if tensor.shared}
    )


def most_live_bytes(
    workload: Workload, steps: Sequence[Iterable[str]], names: Collection[str]
) -> int:
    """Return the peak of the bytes of the named intermediates, each over its lifetime."""
    at = {name: number for number, step in enumerate(steps) for name in step}
    taken: dict[int, int] = {}
    for name, lives in _lives(workload, at).items() if names else ():
        if name in names:
            _take(taken, lives, workload.tensor_bytes(name))
    return max(taken.values(), default=0)


def _choose_shared(workload: Workload, capacity_bytes: int) -> frozenset[str]:
    lives, taken = _lives(workload, _runs(workload)), dict[int, int]()
    reads = {name: len(workload.readers.get(name, ())) for name in lives}
    chosen: set[str] = set()
    for name in sorted(lives, key=lambda one: (-reads[one], workload.tensor_bytes(one))):
        n_bytes = workload.tensor_bytes(name)
        if max(taken.get(step, 0) for step in lives[name]) + n_bytes <= capacity_bytes:
            chosen.add(name)
            _take(taken, lives[name], n_bytes)
    return frozenset(chosen)


def _take(taken: dict[int, int], steps: Iterable[int], n_bytes: int) -> None:
    for step in steps:
        taken[step] = taken.get(step, 0) + n_bytes


def _runs(workload: Workload) -> dict[str, int]:
    """Return the number of each operator's chain."""
    found: dict[str, int] = {}
    run, before = -1, ""
    for operator in workload.operators:
        if before not in {given.tensor for given in operator.inputs}:
            run += 1
        found[operator.name], before = run, operator.output.tensor
    return found


def _lives(workload: Workload, at: Mapping[str, int]) -> dict[str, set[int]]:
    """Return the lifetime of each intermediate as steps.

    From the step that makes it to one after its last reader, as a step may begin while the one
    before drains; in a repeated layer the first step follows the last.
    """
    repeated = [at[op.name] for op in workload.operators if op.name not in workload.once]
    touching: dict[str, list[int]] = {}
    for operator in workload.operators:
        for tensor in {operator.output.tensor, *(operand.tensor for operand in operator.inputs)}:
            if workload.tensors[tensor].kind == "intermediate":
                touching.setdefault(tensor, []).append(at[operator.name])
    lives = {name: set(range(min(steps), max(steps) + 2)) for name, steps in touching.items()}
    for steps in lives.values() if workload.repeat > 1 else ():
        if max(repeated) + 1 in steps:
            steps.add(min(repeated))
    return lives
