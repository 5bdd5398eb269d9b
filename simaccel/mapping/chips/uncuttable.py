"""Ranks of an operator that can't be cut over chips, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simaccel.mapping.chips.naming import Cuts
from simaccel.workload import Operand, Operator, Vector, Workload, operands_of


def uncuttable_ranks(one: Operator, cuts: Cuts, workload: Workload) -> Iterator[tuple[str, str]]:
    """Yield ranks that can't be cut over chips, and why."""
    for rank, digits in cuts.items():
        if digits and isinstance(one, Vector):
            yield from _apart_vector(one, rank)
        for _, given in operands_of(one) if digits else ():
            yield from _apart_operand(one, given, rank, workload.shapes[given.tensor])


def _apart_vector(one: Vector, rank: str) -> Iterator[tuple[str, str]]:
    if rank == one.axis:
        yield rank, f"another rank: {one.kind} needs {rank} whole"
    if one.visible is not None and rank == one.visible.row:
        yield rank, f"another rank: rows of {rank} see different parts, so pieces differ"
    if rank not in one.output.ranks:
        yield rank, f"another rank: nobody adds what {one.kind} makes of parts of {rank}"


def _apart_operand(
    one: Operator, given: Operand, rank: str, shape: Sequence[int]
) -> Iterator[tuple[str, str]]:
    for at, dim in enumerate(given.projection):
        if rank not in dict(dim.terms):
            continue
        if rank != dim.outermost(one.ranks):
            yield rank, f"another rank: parts of {dim} of {given.tensor} overlap"
        elif given.start and (given.start[at] or one.ranks[rank] < shape[at]):
            yield rank, f"another rank: {one.name} sees a part of {rank} of {given.tensor}"
