"""The part of a program that a core does: its iterations of loops over cores."""

from __future__ import annotations

from simaccel.program.program import Operator, Program, ProgramLoop, enclosed


def core_inside(loop: ProgramLoop, core: int) -> int | None:
    """Return the number of a core as counted from that of its iteration; None if it has none.

    >>> loop = ProgramLoop(rank="m", trips=2, core=4, cores_apart=2)
    >>> [core_inside(loop, core) for core in (3, 4, 7, 8)]
    [None, 0, 1, None]
    """
    number, left = divmod(core - (loop.core or 0), loop.cores_apart)
    return left if 0 <= number < loop.trips else None


def is_spread(operator: Operator) -> bool:
    """Return whether cores have pieces of an operator each; else core 0 does all of it."""
    return any(isinstance(node, ProgramLoop) and node.core is not None for node in operator.body)


def part_of(program: Program, core: int) -> tuple[object, ...]:
    """Return what tells the parts of cores apart: which loops over cores they are in."""
    return tuple(
        _loops(operator, core) if is_spread(operator) else core == 0
        for operator, _ in enclosed(program.body)
    )


def _loops(node: ProgramLoop | Operator, core: int) -> tuple[object, ...]:
    found: list[object] = []
    for inner in node.body:
        if isinstance(inner, ProgramLoop) and inner.core is not None:
            left = core_inside(inner, core)
            found.append(None if left is None else _loops(inner, left))
    return tuple(found)
