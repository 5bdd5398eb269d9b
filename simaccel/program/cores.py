"""The part of a program that one core executes: its iterations of loops over cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.hardware.cores import CHIP, REMOTE
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

    A program with several chips has, on each, the core number of its messages, too (`REMOTE`).

    >>> all_cores(Program(name="P", body=()), 2)
    (0, 1)
    """
    places = (operator.cores or (0,) for operator, _ in operators_with_tiles(program.body))
    named = {core for place in places for core in (place[0], place[-1])} or {0}
    starts = sorted({core // CHIP * CHIP for core in named})
    return tuple(
        start + number
        for start in starts
        for number in (*range(count), *([REMOTE] if start + REMOTE in named else []))
    )


def chip_count(program: Program) -> int:
    """Return the number of chips that run different operators at once; 1 if none do."""
    operators = (operator for operator, _ in operators_with_tiles(program.body))
    return len({operator.cores[0] // CHIP for operator in operators if operator.cores}) or 1


def place_among(numbers: Sequence[int], cores: range | None) -> range:
    """Return the indices of an operator's cores among all; without ``cores`` all that compute.

    >>> place_among((0, 1, REMOTE), None)
    range(0, 2)
    """
    if cores is None:
        return range(sum(number % CHIP != REMOTE for number in numbers))
    start = numbers.index(cores.start)
    return range(start, start + len(cores))


def core_inside(loop: ProgramLoop, core: int) -> int | None:
    """Return the number of a core within its iteration of a loop over cores; None without one.

    >>> loop = ProgramLoop(rank="m", trips=2, core=4, cores_apart=2)
    >>> [core_inside(loop, core) for core in (3, 4, 7, 8)]
    [None, 0, 1, None]
    """
    number, left = divmod(core - (loop.core or 0), loop.cores_apart)
    return left if 0 <= number < loop.trips else None


def core_of(operator: Operator, core: int) -> int | None:
    """Return the number of a core within those of an operator; None if it is none of them.

    >>> [core_of(Operator(name="L", body=(), cores=range(2, 4)), core) for core in (1, 2, 3)]
    [None, 0, 1]
    """
    if operator.cores is None:
        return None if core % CHIP == REMOTE else core
    return core - operator.cores.start if core in operator.cores else None


def digits_of(operator: Operator, core: int) -> tuple[int, ...]:
    """Return the iterations of loops over cores that a core executes, outermost first.

    ``core``: its number within the operator.
    """
    digits: list[int] = []
    node: ProgramLoop | Operator | None = operator
    while node is not None:
        inner = (
            loop for loop in node.body if isinstance(loop, ProgramLoop) and loop.core is not None
        )
        node = next((loop for loop in inner if core_inside(loop, core) is not None), None)
        if node is not None:
            digits.append((core - (node.core or 0)) // node.cores_apart)
            core = core_inside(node, core) or 0
    return tuple(digits)


def moving_ranks(operator: Operator) -> dict[str, set[str]]:
    """Return, by tensor that an operator loads from memory, the ranks that move its tiles."""
    derived = dict(operator.derived)
    ranks: dict[str, set[str]] = {}
    for command in commands(operator.body):
        if isinstance(command, Load) and command.source is None:
            view = command.view or command.tile.view
            for name in view.names:
                terms = derived.get(name, ((name, 1),))
                ranks.setdefault(view.name, set()).update(rank for rank, _ in terms)
    return ranks


def alike_on_cores(
    command: Command, around: Sequence[ProgramLoop], ranks: Mapping[str, set[str]]
) -> tuple[bool, ...]:
    """Return which loops over cores around a load do not move it; empty if all do.

    ``ranks``: the ranks that move each tensor.
    """
    if not isinstance(command, Load) or command.source is not None:
        return ()
    view = command.view or command.tile.view
    alike = tuple(loop.rank not in ranks[view.name] for loop in around)
    return alike if any(alike) else ()


def is_spread(operator: Operator) -> bool:
    """Return whether an operator is cut over cores; else core 0 does all of it."""
    return any(isinstance(node, ProgramLoop) and node.core is not None for node in operator.body)


def part_of(program: Program, core: int) -> tuple[object, ...]:
    """Return a key that cores with the same part of a program have in common."""
    return tuple(
        _part(operator, core_of(operator, core))
        for operator, _ in operators_with_tiles(program.body)
    )


def _part(operator: Operator, core: int | None) -> object:
    if core is None:
        return None
    return _loops(operator, core) if is_spread(operator) else core == 0


def _loops(node: ProgramLoop | Operator, core: int) -> tuple[object, ...]:
    found: list[object] = []
    for inner in node.body:
        if isinstance(inner, ProgramLoop) and inner.core is not None:
            left = core_inside(inner, core)
            found.append(None if left is None else _loops(inner, left))
    return tuple(found)
