"""Ranks of an operator that can't be cut over chips, and why."""

from __future__ import annotations

from collections.abc import Iterator

from simaccel.mapping.chips.naming import Cuts, is_whole_part
from simaccel.workload import Operand, Operator, Vector, Workload, operands_of


def uncuttable_ranks(one: Operator, cuts: Cuts, workload: Workload) -> Iterator[tuple[str, str]]:
    """Yield the ranks of an operator that ``cuts`` cuts and mustn't, and what is allowed."""
    for rank, digits in cuts.items():
        if digits and isinstance(one, Vector):
            yield from _apart_vector(one, rank)
        for _, given in operands_of(one) if digits else ():
            for at, dim in enumerate(given.projection):
                if rank in dict(dim.terms):
                    yield from _apart_dimension(one, given, (at, rank), cuts, workload)


def _apart_vector(one: Vector, rank: str) -> Iterator[tuple[str, str]]:
    if rank == one.axis:
        yield rank, f"another rank: {one.kind} needs {rank} whole"
    if one.visible is not None and rank == one.visible.row:
        yield rank, f"another rank: rows of {rank} see different parts, so pieces differ"
    if rank not in one.output.ranks:
        yield rank, f"another rank: nobody adds what {one.kind} makes of parts of {rank}"


def _apart_dimension(
    operator: Operator, operand: Operand, where: tuple[int, str], cuts: Cuts, workload: Workload
) -> Iterator[tuple[str, str]]:
    """Yield a rank whose pieces are neither equal parts of a dimension nor windows on it.

    Windows are allowed for one rank of a sum, if the output has it, and not on caches.
    """
    (at, rank), name = where, operand.tensor
    dim, shape = operand.projection[at], workload.shapes[name]
    if is_whole_part(operator, operand, at, rank, shape[at]):
        return
    others = [other for other, _ in dim.terms if other != rank and cuts.get(other)]
    is_digit = dim.outermost(operator.ranks) not in (None, rank)
    kind = workload.tensors[name].kind
    if others or is_digit or rank not in operator.output.ranks:
        yield rank, f"another rank: parts of {dim} of {name} overlap"
    elif kind == "cache":
        yield rank, f"another rank: {operator.name} sees a part of {rank} of {name}"
