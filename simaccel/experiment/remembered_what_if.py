"""Earlier runs with resources freed, kept on disk under a key of all that decides them.

They stand beside the mappings (``remembered``), by the same rules: other code runs again, files may
be deleted at any time, and one that is damaged is run again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from simaccel.errors import SimaccelError
from simaccel.experiment.code import code_digest
from simaccel.experiment.store import cache, digest
from simaccel.experiment.what_if import (
    BaseRun,
    FreedRun,
    Progress,
    WhatIfResult,
    waited_for_ports,
    what_if,
)
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
    """Return what ``what_if`` gives for all its cases, from an earlier time if there was one.

    Nothing is remembered of a program with a plug-in's operator, whose code the key doesn't have.
    A ``trace`` of this very program that this code wrote has the run as it is.
    """
    store = cache()
    works = {command.work for command in commands(program.body) if isinstance(command, Sfu)}
    own = works <= VECTORS.own.keys()
    base = None if trace is None or not own else _told(trace)
    if store is None or not own:
        return what_if(accelerator, program, progress=progress, base=base)
    key = digest("what-if", code_digest(), repr(accelerator), program_text(program))
    with suppress(ValueError, TypeError, LookupError, AttributeError):  # not there, or damaged
        return _read(store.get(key))
    answer = what_if(accelerator, program, progress=progress, base=base)
    with suppress(SimaccelError):  # a folder that can't be written remembers nothing
        store.put(key, asdict(answer))
    return answer


def _told(trace: TraceReader) -> BaseRun | None:
    """Return the run of a trace, if this code wrote it and its figures are there."""
    operators = trace.figures.get("operators")
    if trace.header.code != code_digest() or trace.partial or not operators:
        return None
    cycles = {one["name"]: one.get("cycles") for one in operators}
    if None in cycles.values():
        return None
    return BaseRun(FreedRun((), trace.cycles, cycles), waited_for_ports(trace.totals))


def _read(found: dict[str, Any]) -> WhatIfResult:
    return WhatIfResult(_freed(found["base"]), tuple(map(_freed, found["freed"])))


def _freed(given: dict[str, Any]) -> FreedRun:
    resources, operators = given["resources"], given["operators"]
    if not all(isinstance(name, str) for name in resources):
        raise TypeError("resources are names")
    cycles = {str(name): int(n) for name, n in operators.items()}
    return FreedRun(tuple(resources), int(given["cycles"]), cycles)
