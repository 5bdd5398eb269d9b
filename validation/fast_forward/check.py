"""One random case: the run with fast-forward held against the run event by event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simaccel.diagnosis.check import TooLargeToCheckError
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.machine.machine import DeadlockError, Machine, Run
from simaccel.program.program import Node, Operator, Program, ProgramError, ProgramLoop
from tests.machine.trees import Case
from tests.properties.test_fast_forward import Heard, merged
from validation.fast_forward.cases import KINDS, cases

MOST_STEPS = 20_000
"""Longer runs are left out: the run event by event is what takes the time."""
TRACED = 10
"""The expanded trace of one in so many cases is compared as well."""
_SEEDS = 1 << 10
"""Seeds that a case may try; about half of them give a valid, short program."""
_ENDLESS = 100_000
"""Events beyond those of the full run after which a wrong skip is taken to be endless."""


class EndlessError(Exception):
    """The run with fast-forward doesn't come to an end."""


@dataclass(frozen=True)
class Outcome:
    """What one case was, what it took, and how the runs differ (empty if they don't)."""

    seed: int
    kind: str
    levels: int
    operators: int
    most_trips: int
    events: int
    fast_events: int
    traced: bool
    fault: str

    @property
    def repeats(self) -> bool:
        """Whether anything was skipped."""
        return self.fast_events < self.events


def draw(seed: int, number: int) -> tuple[str, Case]:
    """Give kind and program of case ``number``: the first of its seeds that is valid and short.

    What is drawn depends on the seed's remainder by four; each is the first to be tried equally
    often, among the traced cases too.
    """
    first = ((seed << 32) + number) * _SEEDS
    begin = first + number // TRACED % len(KINDS)
    return next(cases(range(begin, first + _SEEDS), MOST_STEPS))


def measure(seed: int, number: int) -> Outcome:
    """Draw a case, run it both ways and compare."""
    kind, case = draw(seed, number)
    traced = number % TRACED == 0
    fast_events, fault = compare(case.on, case.program, case.run, traced=traced)
    fault = fault or _verified(case)
    levels, operators, most_trips = extent(case.program)
    return Outcome(
        seed=case.seed,
        kind=kind,
        levels=levels,
        operators=operators,
        most_trips=most_trips,
        events=case.run.events,
        fast_events=fast_events,
        traced=traced,
        fault=fault,
    )


def _verified(case: Case) -> str:
    """Return what is wrong with values, bound and bytes of a mapping's run; empty if nothing is."""
    try:
        return case.verify() if case.verify is not None else ""
    except TooLargeToCheckError:
        return ""
    except SimaccelError as error:
        return f"{type(error).__name__}: {error}"


def extent(program: Program) -> tuple[int, int, int]:
    """Give levels of loops, operators, and how often the innermost body is executed at most."""
    loops = list(_loops(program.body, 1, 1))
    levels = max((depth for depth, _ in loops), default=0)
    return levels, _operators(program.body), max((trips for _, trips in loops), default=1)


def compare(on: Accelerator, program: Program, full: Run, *, traced: bool) -> tuple[int, str]:
    """Run with fast-forward; give its events, and how it differs from the full run."""

    def stop(_: int, __: float) -> None:
        if machine.clock.events > full.events + _ENDLESS:
            raise EndlessError(f"no end after {machine.clock.events} events")

    told = Heard() if traced else None
    machine = Machine(on, program, told)
    try:
        run = machine.run(stop)
    except Exception as error:  # noqa: BLE001 - whatever a wrong skip leads to
        return 0, f"{type(error).__name__}: {error}"
    faults = [
        f"{name}: {value} instead of {expected}"
        for name, expected in vars(full).items()
        if name != "events" and (value := getattr(run, name)) != expected
    ]
    if told is not None and not _same_trace(told, on, program):
        faults.append("trace: other intervals")
    return run.events, "\n".join(faults)


def _same_trace(told: Heard, on: Accelerator, program: Program) -> bool:
    full = Heard()
    Machine(on, program, full, fast_forward=False).run()
    return merged(told.expanded()) == merged(full.expanded())


def fails(on: Accelerator, program: Program) -> bool:
    """Whether a program that is valid goes wrong with fast-forward, with or without a trace."""
    try:
        full = Machine(on, program, fast_forward=False).run()
    except (ProgramError, DeadlockError):
        return False
    return any(compare(on, program, full, traced=traced)[1] for traced in (False, True))


def _loops(body: Sequence[Node], depth: int, around: int) -> Iterator[tuple[int, int]]:
    """Every loop: how deep it lies, and how often its body is executed in all."""
    for node in body:
        if isinstance(node, ProgramLoop):
            yield depth, around * node.trips
            yield from _loops(node.body, depth + 1, around * node.trips)
        elif isinstance(node, Operator):
            yield from _loops(node.body, depth, around)


def _operators(body: Sequence[Node]) -> int:
    return sum(
        1 if isinstance(node, Operator) else _operators(node.body)
        for node in body
        if isinstance(node, ProgramLoop | Operator)
    )
