"""A cache, in the store, of runs with resources freed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from simaccel.diagnosis.what_if import (
    BaseRun,
    FreedRun,
    Progress,
    WhatIfResult,
    waited_for_ports,
    what_if,
)
from simaccel.experiment.store import cache, code_digest, result_key
from simaccel.hardware import Accelerator
from simaccel.program.program import Program, Sfu, commands
from simaccel.program.text import program_text
from simaccel.trace import TraceReader
from simaccel.workload import VECTORS


def remembered_what_if(
    accelerator: Accelerator,
    program: Program,
    progress: Progress | None = None,
    trace: TraceReader | None = None,
) -> WhatIfResult:
    """Return the result of ``what_if`` for all its cases, from the store if it is there.

    Programs with a plug-in's operator aren't stored, as the key doesn't include its code.
    ``trace``: of this program; if this version wrote it, its run needn't be repeated.
    """
    works = {command.work for command in commands(program.body) if isinstance(command, Sfu)}
    own = works <= VECTORS.own.keys()
    if not own:
        return what_if(accelerator, program, progress=progress)
    base = None if trace is None else _run_of_trace(trace)
    store, key = cache(), result_key("what-if", accelerator, program=program_text(program))
    answer = store.recall(key, _read_result)
    if answer is None:
        answer = what_if(accelerator, program, progress=progress, base=base)
        store.remember(key, asdict(answer))
    return answer


def _run_of_trace(trace: TraceReader) -> BaseRun | None:
    """Return the run of a trace, if this version wrote it with its figures."""
    operators = trace.figures.get("operators")
    if trace.header.code != code_digest() or trace.partial or not operators:
        return None
    cycles = {one["name"]: one.get("cycles") for one in operators}
    if None in cycles.values():
        return None
    return BaseRun(FreedRun((), trace.cycles, cycles), waited_for_ports(trace.totals))


def _read_result(found: dict[str, Any]) -> WhatIfResult:
    return WhatIfResult(_read_freed(found["base"]), tuple(map(_read_freed, found["freed"])))


def _read_freed(given: dict[str, Any]) -> FreedRun:
    resources, operators = given["resources"], given["operators"]
    if not all(isinstance(name, str) for name in resources):
        raise TypeError("resources are names")
    cycles = {str(name): int(n) for name, n in operators.items()}
    return FreedRun(tuple(resources), int(given["cycles"]), cycles)
