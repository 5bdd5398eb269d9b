"""Forecasts: what a run will cost, said before it starts.

Counts follow from the program. The rest is measured here and now: the machine starts on the very
program and is stopped after a fraction of a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from simaccel.experiment.recording import trace_header
from simaccel.hardware import Accelerator
from simaccel.machine.folds import Fold, FoldLoop, folds_of
from simaccel.machine.instructions import Action, Instruction
from simaccel.machine.machine import Machine
from simaccel.machine.plan import Plan
from simaccel.machine.walks import make_walks
from simaccel.mapping.tree import Mapping
from simaccel.program.program import (
    Command,
    Compute,
    Folds,
    Node,
    Operator,
    Program,
    ProgramLoop,
    size,
)
from simaccel.trace import TraceWriter
from simaccel.trace.schema import EVENT
from simaccel.workload import Workload

CALIBRATION_SECONDS = 0.2
_EVENTS_OF_A_REQUEST = 3
"""A finish, an arrival that moves the alarm, and the requester's wait."""
_EVENTS_OF_AN_ENGINE = 2
"""The start and the end of its process."""


@dataclass(frozen=True)
class Calibration:
    """A short run: ``done`` is the part of the work that it did, 1 if it came to the end."""

    events: int
    seconds: float
    done: float

    @property
    def events_per_second(self) -> float:
        """Events processed in a second."""
        return self.events / self.seconds

    @property
    def wall_seconds(self) -> float:
        """Seconds of the whole run at this pace."""
        return self.seconds / self.done


@dataclass(frozen=True)
class Forecast:
    """Events and seconds that a run will take."""

    nodes: int
    commands: int
    folds: int
    most_events: int
    """Upper bound of the events without fast-forward."""
    fast_forward: bool
    calibration: Calibration
    tracing: Calibration
    """The same while a trace is written."""
    memory_bytes: int | None
    """Peak of this process so far; a run adds little to it, as it keeps no history."""
    trace_bytes: int
    scheduling_seconds: float
    """What finding the mapping took; a run does it again before the machine starts."""


def forecast(
    workload: Workload,
    accelerator: Accelerator,
    mapping: Mapping,
    program: Program,
    *,
    fast_forward: bool = True,
    scheduling_seconds: float = 0.0,
) -> Forecast:
    """Return what a run will cost; takes about half a second.

    Raises:
        DoesNotFitError: the program needs more than the buffer.

    """
    machine = Machine(accelerator, program, fast_forward=fast_forward)
    most_events = sum(_most_events(e.plan, accelerator) for e in machine.engines)
    commands, folds = _count_executed(program.body, accelerator)
    calibration = _calibrate(machine)
    walks = make_walks(program, accelerator)
    header = trace_header(workload, accelerator, mapping, program, walks)
    with TemporaryDirectory() as folder, TraceWriter(Path(folder) / "trace.h5", header) as writer:
        listening = Machine(accelerator, program, writer, fast_forward, walks)
        tracing = _calibrate(listening)
        rows = writer.position() / tracing.done
        writer.finish(0, {})
    texts = (header.accelerator, header.workload, header.mapping, header.program)
    return Forecast(
        nodes=size(program),
        commands=commands,
        folds=folds,
        most_events=most_events,
        fast_forward=fast_forward,
        calibration=calibration,
        tracing=tracing,
        memory_bytes=_peak_memory(),
        trace_bytes=int(rows) * EVENT.itemsize + sum(map(len, texts)),
        scheduling_seconds=scheduling_seconds,
    )


class _EnoughError(Exception):
    """The calibration has run for long enough."""


def _calibrate(machine: Machine) -> Calibration:
    """Run a machine for a moment, or to its end."""
    started = time.perf_counter()
    done = 1.0

    def look(_: int, fraction: float) -> None:
        nonlocal done
        if time.perf_counter() - started > CALIBRATION_SECONDS and fraction > 0:
            done = fraction
            raise _EnoughError

    with suppress(_EnoughError):
        machine.run(look)
    return Calibration(machine.clock.events, time.perf_counter() - started, min(done, 1.0))


def _count_executed(body: Sequence[Node], accelerator: Accelerator) -> tuple[int, int]:
    """Count the commands and the folds or passes of the array that a body executes."""
    commands = folds = 0
    for node in body:
        if isinstance(node, ProgramLoop | Operator):
            inner = _count_executed(node.body, accelerator)
            trips = node.trips if isinstance(node, ProgramLoop) else 1
        else:
            inner, trips = (1, _folds_of(node, accelerator)), 1
        commands += trips * inner[0]
        folds += trips * inner[1]
    return commands, folds


def _folds_of(command: Command, accelerator: Accelerator) -> int:
    if not isinstance(command, Compute):
        return 0
    if not isinstance(command.on, Folds):
        return 1
    return _count([folds_of(command, command.on, accelerator).folds])


def _count(folds: Sequence[Fold | FoldLoop]) -> int:
    return sum(f.trips * _count(f.body) if isinstance(f, FoldLoop) else 1 for f in folds)


def _most_events(plan: Plan, accelerator: Accelerator) -> int:
    """Sum the events that each step of a plan can cause, times its executions."""
    total, factors = _EVENTS_OF_AN_ENGINE, [1]
    for op in plan.ops:
        if op.act is Action.LOOP:
            factors.append(factors[-1] * op.trips)
        elif op.act is Action.END:
            factors.pop()
        else:
            total += factors[-1] * _events_of(op, accelerator)
    return total


def _events_of(op: Instruction, accelerator: Accelerator) -> int:
    """Bound the events of one step: its timeouts, its waits, its requests."""
    if op.act is Action.MEET:
        return 3  # all go on; last results leave
    if op.act is not Action.COMMAND:
        return 1
    pipes = (op.distribution_cycles > 0) + (op.collection_cycles > 0)
    requests = (op.read_cycles > 0) + (op.write_cycles > 0) + pipes
    waits = (op.cycles > 0) + (op.latency_cycles > 0) + 2 * (op.begins is not None)
    if op.dram_bytes:
        requests += accelerator.dram.channels
        waits += 2  # accepted; answered
    return waits + _EVENTS_OF_A_REQUEST * requests


def _peak_memory() -> int | None:
    """Return the peak memory of this process in bytes, if the system has it."""
    try:
        import resource  # noqa: PLC0415 - Unix only
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
