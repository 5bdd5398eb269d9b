"""The least bytes that any mapping moves: a proof for all of them, not a search over some.

For each group of a mapping, the larger of two bounds:

- *Compulsory*: tensors from and for other groups cross DRAM once.
- *Red-blue pebbling* (Hong and Kung 1981, with the constant of Smith, Lowery, Langou and van de
  Geijn 2019), for a product of two tensors alone in its group. Cut a run into phases in each of
  which X bytes of operands are loaded or begun as new sums. With a buffer of S bytes at most S + X
  bytes of operands are available in a phase. By Loomis and Whitney, a phase with a, b and c
  available elements of the three tensors has at most sqrt(a b c) multiply-accumulates, which is
  largest if they share the bytes evenly. This bounds the number of phases from below, and every sum
  that was begun is stored. With X = 2 S and one-byte elements this is 2 MACs / sqrt(S) - 2 S.

Windows of a convolution overlap: an input element takes part in up to r products for each tap that
it can serve, and counts as many times.

The front of a mapspace (``single``, ``fused``) lies above. It is attained, but only over its trees:
a mapping with trees of their own for parts of a rank can be below it, but never below this floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simaccel.analytic.floor.compulsory import distinct_bytes, group_bytes
from simaccel.analytic.floor.problem import (
    BoundProblem,
    NoBoundError,
    positions,
    problem_of,
)
from simaccel.hardware import Accelerator, SpatialArraySpec
from simaccel.mapping.classes import dims
from simaccel.mapping.space import holding_tensor
from simaccel.mapping.tree import Group, Keep, Mapping, ResidentScope
from simaccel.numbers import BYTE, in_bytes
from simaccel.workload import Einsum, Workload, operands_of
from simaccel.workload.names import tensor_of

_FACTORS = 2
_PHASES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Bytes X of a phase as multiples of the buffer; each gives a valid bound."""


@dataclass(frozen=True)
class ByteBound:
    """The least bytes that a run moves.

    ``least_bytes``: with ``room_bytes`` of memory on chip (None: unlimited); ``compulsory_bytes``:
    with any memory; ``distinct_bytes``: for any choice of groups, 0 for a group alone.
    """

    least_bytes: int
    compulsory_bytes: int
    room_bytes: int | None
    distinct_bytes: int = 0


def floor_of(workload: Workload, mapping: Mapping, room: int | None) -> ByteBound:
    """Return the floor of all mappings with the same groups and ``room`` bytes on chip."""
    found = [one for _, one in floors_of(workload, mapping, room)]
    least = sum(one.least_bytes for one in found)
    once = sum(one.compulsory_bytes for one in found)
    return ByteBound(least, once, room, distinct_bytes(workload))


def floors_of(
    workload: Workload, mapping: Mapping, room: int | None
) -> list[tuple[tuple[str, ...], ByteBound]]:
    """Return (names, floor) of each group, in order; groups inside a common keep have one floor."""
    floors = []
    for part in mapping.body:
        if isinstance(part, ResidentScope):
            names = tuple(group.name for group in part.groups)
            times = workload.times(part.groups[0].operators[0])
            least = once = _bytes_around(workload, part)
        else:
            names, times = (part.name,), workload.times(part.operators[0])
            once = group_bytes(workload, part.operators, part.merged)
            least = max(once, _pebbling(workload, part, room))
        floors.append((names, ByteBound(times * least, times * once, room)))
    return floors


def on_chip_bytes(accelerator: Accelerator) -> int | None:
    """Return the bytes of all memory for operands on a chip, over all cores; None if unlimited.

    Includes the memories of a spatial array's PEs, and 16 bytes per tensor of their registers.
    """
    size, cores = accelerator.buffer.capacity_bytes, accelerator.cores.count
    array = accelerator.array
    if size is None or not isinstance(array, SpatialArraySpec):
        return None if size is None else size * cores
    sizes = [by_role.capacity_bytes for by_role in array.memories.by_roles().values()]
    known = [n_bytes for n_bytes in sizes if n_bytes is not None]
    if len(known) < len(sizes):
        return None
    return cores * (size + array.rows * array.cols * sum(known) + 3 * 16 * array.pes)


def _pebbling(workload: Workload, group: Group, room: int | None) -> int:
    if room is None or len(group.operators) > 1:
        return 0
    operator = workload.operator(group.operators[0])
    shared = any(workload.tensors[given.tensor].shared for _, given in operands_of(operator))
    if shared or not isinstance(operator, Einsum):
        return 0
    try:
        return pebbling_bytes(problem_of(workload, operator.name), room)
    except NoBoundError:
        return 0


def pebbling_bytes(problem: BoundProblem, room: int) -> int:
    """Return the bytes that any order of a product's MACs moves with ``room`` bytes; 0 if unknown.

    >>> from simaccel.workload import gemm
    >>> pebbling_bytes(problem_of(gemm(m=4096, k=4096, n=4096, bytes_per_element=1), "gemm"), 65536)
    536739840
    """
    if len(problem.operands) != _FACTORS + 1 or len(problem.operator.inputs) != _FACTORS:
        return 0
    covered = all(
        sum(rank in operand.ranks for operand in problem.operands) >= _FACTORS
        for rank in problem.free
    )
    distinct = len({tensor_of(operand.name) for operand in problem.operands})
    if not covered or distinct < len(problem.operands):
        return 0
    phases, operands = [max(1, int(part * room)) for part in _PHASES], _operands(problem)
    return max(
        phase * (-(-problem.macs // _most_macs(operands, room + phase)) - 1) for phase in phases
    )


def _operands(problem: BoundProblem) -> list[tuple[float, float, int]]:
    """Return (bytes, bytes of an element, positions that it serves at most), the smallest first."""
    found = []
    for operand in problem.operands:
        bits = problem.groups * problem.used_elements(operand) * operand.bits
        dims = ([problem.sizes.get(rank, 1) for rank, _ in dim] for dim in operand.dims)
        served = math.prod(size for dim in dims for size in sorted(dim)[:-1])
        found.append((bits / BYTE, operand.bits / BYTE, served))
    return sorted(found, key=lambda operand: operand[0])


def _most_macs(operands: Sequence[tuple[float, float, int]], at_hand: int) -> int:
    """Return the most MACs on ``at_hand`` bytes of operands, shared as evenly as sizes allow."""
    left, elements = float(at_hand), 1.0
    for number, (n_bytes, of_element, served) in enumerate(operands):
        share = min(left / (len(operands) - number), n_bytes)
        left -= share
        elements *= share / of_element * served
    return max(1, math.floor(math.sqrt(elements) * (1 + 1e-9)))


# -- what is kept around groups


def _bytes_around(workload: Workload, around: ResidentScope) -> int:
    """Return the least bytes of groups inside a keep, less those that may stay on chip."""
    names = [name for group in around.groups for name in group.operators]
    inside = set(names)
    total = 0
    uses = (used for name in names for _, used in operands_of(workload.operator(name)))
    for name in dict.fromkeys(used.tensor for used in uses):
        if workload.tensors[name].shared:
            continue
        makers = [op for op in map(workload.operator, names) if op.output.tensor == name]
        made = sum(math.prod(op.output.shape(op.ranks)) for op in makers)
        stored = in_bytes(made, workload.tensors[name].bits)
        if not stored:
            total += _bytes_read(workload, name, names)
            continue
        kept = _kept_bytes(workload, name, around.keeps)
        apart = _readers_in_other_groups(workload, name, around.groups)
        if _needs_outside(workload, name, inside) or not _readers(workload, name, inside):
            total += stored
        elif apart:
            total += max(0, stored - kept)
        total += max(0, _bytes_read(workload, name, apart) - kept)
    return total


def _bytes_read(workload: Workload, tensor: str, names: Sequence[str]) -> int:
    """Return the bytes of a tensor that the operator with the largest read reads."""
    found = 0
    for operator in map(workload.operator, names):
        for given in operator.inputs:
            if given.tensor == tensor:
                sizes = dict(operator.ranks)
                elements = math.prod(positions(dim, sizes) for dim in dims(given, sizes))
                found = max(found, in_bytes(elements, workload.tensors[tensor].bits))
    return found


def _readers(workload: Workload, tensor: str, names: Iterable[str]) -> list[str]:
    return [
        name
        for name in names
        if any(given.tensor == tensor for given in workload.operator(name).inputs)
    ]


def _readers_in_other_groups(workload: Workload, tensor: str, groups: Sequence[Group]) -> list[str]:
    """Return the operators that read a tensor outside of the group that makes it."""
    found: list[str] = []
    for group in groups:
        made = {workload.operator(name).output.tensor for name in group.operators}
        if tensor not in made:
            found += _readers(workload, tensor, group.operators)
    return found


def _needs_outside(workload: Workload, tensor: str, inside: set[str]) -> bool:
    others = [one.name for one in workload.operators if one.name not in inside]
    kept = workload.tensors[tensor].kind in ("output", "cache")
    return kept or bool(_readers(workload, tensor, others))


def _kept_bytes(workload: Workload, tensor: str, keeps: Sequence[Keep]) -> int:
    """Return the bytes of a tensor that keeps around groups may hold."""
    held = holding_tensor(workload, tensor, keeps)
    found = 0
    for keep in keeps:
        if keep.tensor != held:
            continue
        if not keep.region:
            return workload.tensor_bytes(tensor)
        volume = math.prod(span.stop - span.start for span in keep.region)
        found += in_bytes(volume, workload.tensors[tensor].bits)
    return found
