"""The part of a program that each core executes, and the numbering of cores.

A loop over cores runs its iterations on different cores at once; such loops can be nested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.hardware.cores import CHIP, PIPELINE, REMOTE
from simaccel.program.fit import operators_with_tiles
from simaccel.program.program import (
    Command,
    Load,
    Operator,
    Program,
    ProgramLoop,
    commands,
)


def all_cores(program: Program, count: int) -> tuple[int, ...]:
    """Return the numbers of all cores that a program runs on, ``count`` per chip.

    Behind them each chip has the places beside cores at which messages are executed.

    >>> all_cores(Program(name="P", body=()), 2)
    (0, 1)
    """
    places = (operator.cores or (0,) for operator, _ in operators_with_tiles(program.body))
    used = {core for place in places for core in (place[0], place[-1])} or {0}
    starts = sorted({core // CHIP * CHIP for core in used})
    return tuple(
        start + number
        for start in starts
        for number in (*range(count), *(at for at in (PIPELINE, REMOTE) if start + at in used))
    )


def chip_count(program: Program) -> int:
    """Return the number of chips that run different operators at once; 1 if none do."""
    operators = (operator for operator, _ in operators_with_tiles(program.body))
    return len({operator.cores[0] // CHIP for operator in operators if operator.cores}) or 1


def core_indices(numbers: Sequence[int], cores: range | None) -> range:
    """Return the indices of an operator's cores in ``numbers``; without ``cores`` all that compute.

    >>> core_indices((0, 1, REMOTE), None)
    range(0, 2)
    """
    if cores is None:
        return range(sum(number % CHIP < PIPELINE for number in numbers))
    start = numbers.index(cores.start)
    return range(start, start + len(cores))


def core_in_iteration(loop: ProgramLoop, core: int) -> int | None:
    """Return the index of a core in its iteration of a loop over cores; None if it has none.

    >>> loop = ProgramLoop(rank="m", trips=2, core=4, cores_apart=2)
    >>> [core_in_iteration(loop, core) for core in (3, 4, 7, 8)]
    [None, 0, 1, None]
    """
    iteration, index = divmod(core - (loop.core or 0), loop.cores_apart)
    return index if 0 <= iteration < loop.trips else None


def core_in_operator(operator: Operator, core: int) -> int | None:
    """Return the index of a core among those of an operator; None if it is not one of them.

    >>> operator = Operator(name="L", body=(), cores=range(2, 4))
    >>> [core_in_operator(operator, core) for core in (1, 2, 3)]
    [None, 0, 1]
    """
    if operator.cores is None:
        return None if core % CHIP >= PIPELINE else core
    return core - operator.cores.start if core in operator.cores else None


def core_iterations(operator: Operator, core: int) -> tuple[int, ...]:
    """Return the iteration that a core executes of each loop over cores, outermost first.

    ``core``: its index among the operator's cores.
    """
    iterations: list[int] = []
    node: ProgramLoop | Operator | None = operator
    while node is not None:
        inner = (
            loop for loop in node.body if isinstance(loop, ProgramLoop) and loop.core is not None
        )
        node = next((loop for loop in inner if core_in_iteration(loop, core) is not None), None)
        if node is not None:
            iterations.append((core - (node.core or 0)) // node.cores_apart)
            core = core_in_iteration(node, core) or 0
    return tuple(iterations)


def moving_ranks(operator: Operator) -> dict[str, set[str]]:
    """Return, by tensor that an operator loads from memory, the ranks whose loops move its tile."""
    derived = dict(operator.derived)
    ranks: dict[str, set[str]] = {}
    for command in commands(operator.body):
        if isinstance(command, Load) and command.source is None:
            view = command.view or command.tile.view
            for name in view.names:
                terms = derived.get(name, ((name, 1),))
                ranks.setdefault(view.name, set()).update(rank for rank, _ in terms)
    return ranks


def equal_load_loops(
    command: Command, around: Sequence[ProgramLoop], ranks: Mapping[str, set[str]]
) -> tuple[bool, ...]:
    """Return, by loop over cores around a load, whether all its cores load the same tile.

    Empty if none does. ``ranks``: the ranks that move each tensor (`moving_ranks`).
    """
    if not isinstance(command, Load) or command.source is not None:
        return ()
    view = command.view or command.tile.view
    is_equal = tuple(loop.rank not in ranks[view.name] for loop in around)
    return is_equal if any(is_equal) else ()


def is_spread(operator: Operator) -> bool:
    """Return whether an operator is cut over cores; else core 0 does all of it."""
    return any(isinstance(node, ProgramLoop) and node.core is not None for node in operator.body)


def part_of(program: Program, core: int) -> tuple[object, ...]:
    """Return a key that is equal for cores that execute the same part of a program."""
    parts: list[object] = []
    for operator, _ in operators_with_tiles(program.body):
        own = core_in_operator(operator, core)
        if own is not None and is_spread(operator):
            parts.append(_loops(operator, own))
        else:
            parts.append(None if own is None else own == 0)
    return tuple(parts)


def _loops(node: ProgramLoop | Operator, core: int) -> tuple[object, ...]:
    parts: list[object] = []
    for loop in node.body:
        if isinstance(loop, ProgramLoop) and loop.core is not None:
            index = core_in_iteration(loop, core)
            parts.append(None if index is None else _loops(loop, index))
    return tuple(parts)
