"""Runs of a program with a resource freed: infinitely fast, or without a limit.

A freed run bounds what any improvement of that resource alone can gain: the program, so every
tile size, loop order and number of bytes, stays as it is. It is no proof of monotony: requests
that share a resource in turns may come in another order, so a freed resource can cost cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from simaccel.diagnosis.free_slots import with_free_slots
from simaccel.diagnosis.limits import (
    FreeArray,
    RunLimit,
    loading_cycles,
    next_limit,
    only_memory,
    waits_of_unit,
    without_loading,
)
from simaccel.hardware import Accelerator, ArraySpec, SfuSpec, SpatialArraySpec
from simaccel.hardware.cores import CORE_NOC, CoreNocSpec
from simaccel.hardware.quantity import Amount
from simaccel.hardware.sfu import InPasses
from simaccel.hardware.spatial import PeMemorySpec
from simaccel.hardware.spec import Spec, copy_spec
from simaccel.machine.accounts import EngineCycles
from simaccel.machine.machine import Machine
from simaccel.machine.walks import make_walks
from simaccel.program.program import Program
from simaccel.run.run import RunResult
from simaccel.units import ARRAY, COMPUTE_UNITS, LINK, LOADING, SFU, UNFILLED, UNITS, Cause

FREED_UNITS: Final = tuple(name for name, unit in UNITS.items() if unit.frees)
"""Units whose row says how they are freed."""
CASES: tuple[tuple[str, ...], ...] = (
    ("dram_bandwidth",),
    ("dram_latency",),
    ("dram_bandwidth", "dram_latency"),
    ("dram_banks",),
    ("buffer_ports",),
    ("noc",),
    (CORE_NOC,),
    (SFU,),
    (ARRAY,),
    (LOADING,),
    (ARRAY, "noc"),
    *((name,) for name in FREED_UNITS),
    ("start",),
    ("slots",),
)
"""What is freed together: an array is fed by its NoC, which is often built to match it."""
RESOURCES = tuple(dict.fromkeys(chain(*CASES)))
"""What can be freed."""
_PORTS: Final = ("buffer_ports",)
_SLOTS: Final = "slots"
_OTHER_WALKS: Final = {_SLOTS, "start"}
"""They change room or overlaps; the others leave room, queues, overlaps: the same walks."""

Progress = Callable[[float], None]
_AnySpec = TypeVar("_AnySpec", bound=Spec)


@dataclass(frozen=True)
class FreedRun:
    """A run with some resources freed: its cycles, in all and by operator.

    ``waits_for_ports``: whether an engine waited for a port of the buffer, where that is known.
    """

    resources: tuple[str, ...]
    cycles: int
    operators: dict[str, int]
    waits_for_ports: bool = True


@dataclass(frozen=True)
class WhatIfResult:
    """The run with nothing freed (``base``), and the run of each case."""

    base: FreedRun
    freed: tuple[FreedRun, ...]


def what_if(
    accelerator: Accelerator,
    program: Program,
    cases: Sequence[Sequence[str]] = CASES,
    progress: Progress | None = None,
    base: FreedRun | None = None,
) -> WhatIfResult:
    """Return the runs of a program with nothing freed (unless it is given), and of each case.

    A case that leaves nothing that takes time (see ``takes_time``) is left out, as is loading the
    array where that is never waited for. If no engine waited for a port of the buffer, faster ports
    change nothing, and nothing is run. ``progress`` is called with the part that is done.
    """
    absent = set(_absent(accelerator))
    if not any(loading_cycles(program, accelerator).values()):
        absent.add(LOADING)
    possible = [
        tuple(case)
        for case in cases
        if takes_time(accelerator, case) and not absent.intersection(case)
    ]
    freed: list[FreedRun] = []
    walks = make_walks(program, accelerator)
    for at, case in enumerate([(), *possible]):
        if case == () and base is not None:
            freed.append(base)
        elif case == _PORTS and not freed[0].waits_for_ports:
            freed.append(replace(freed[0], resources=case))
        else:
            done = progress and partial(_tell_part, progress, at, len(possible) + 1)
            same = None if _OTHER_WALKS & {*case} else walks
            kept = case == ()  # of the others only the cycles count
            machine = Machine(*free(accelerator, program, case), walks=same, accounts=kept)
            run = machine.run(done)
            operators = {operator.name: operator.cycles for operator in run.operators}
            waits = not kept or waited_for_ports(run.engines)
            freed.append(FreedRun(case, run.cycles, operators, waits))
        if progress is not None:
            progress((at + 1) / (len(possible) + 1))
    return WhatIfResult(freed[0], tuple(freed[1:]))


def _absent(accelerator: Accelerator) -> Iterator[str]:
    """Yield the resources that an accelerator doesn't have."""
    if all(memory.dram.model == "channel" for memory in accelerator.every_backing.values()):
        yield "dram_banks"
    if accelerator.pod.count == 1:
        yield LINK
    if accelerator.cores.noc.topology is None:
        yield CORE_NOC
    if not accelerator.compiler.kernel_start_cycles:
        yield "start"


def waited_for_ports(engines: Mapping[str, EngineCycles]) -> bool:
    """Return whether an engine waited for a port of the buffer."""
    return any(one.stalls.get(Cause.BUFFER_PORT.name.lower()) for one in engines.values())


def _tell_part(progress: Progress, at: int, of: int, _cycle: int, done: float) -> None:
    progress((at + done) / of)


def takes_time(accelerator: Accelerator, case: Sequence[str]) -> bool:
    """Return whether anything takes time in a case: with array or SFU freed, memory has to."""
    backing = accelerator.every_backing.values()
    dram = any(not one.channel_rate.unlimited or one.dram.latency_cycles > 0 for one in backing)
    ports = not (accelerator.read_rate.unlimited or accelerator.write_rate.unlimited)
    return dram or ports or not {*COMPUTE_UNITS} & set(case)


def free(
    accelerator: Accelerator, program: Program, case: Sequence[str]
) -> tuple[Accelerator, Program]:
    """Return accelerator and program with the resources of a case freed."""
    for resource in case:
        if resource == _SLOTS:
            program = with_free_slots(program)
        accelerator = _SECTIONS[resource](accelerator)
    return accelerator, program


def _with_fields(spec: _AnySpec, fields: Mapping[str, object]) -> _AnySpec:
    """Return a copy of a spec with other values of fields, given by their paths."""
    sections: dict[str, dict[str, object]] = {}
    for path, value in fields.items():
        name, _, rest = path.partition(".")
        sections.setdefault(name, {})[rest] = value
    return copy_spec(
        spec,
        type(spec),
        **{
            name: inner[""] if "" in inner else _with_fields(getattr(spec, name), inner)
            for name, inner in sections.items()
        },
    )


_NO_BANKS: Final[dict[str, Any]] = {"model": "channel", "map": None}
"""A part that energy is counted by stays; it costs no time then."""


def _memories(one: Accelerator, **fields: object) -> Accelerator:
    """Return a copy with other fields of the DRAM and of all memories beside it."""
    sections = ["dram", *(f"memories.{name}" for name in one.memories.by_class())]
    changed = {f"{section}.{name}": n for section in sections for name, n in fields.items()}
    if (shared := one.cores.shared_buffer) is not None:
        own = fields.keys() & type(shared).model_fields.keys()
        changed |= {f"cores.shared_buffer.{name}": fields[name] for name in own}
    return _with_fields(one, changed)


def _slots(accelerator: Accelerator) -> Accelerator:
    """Return a copy with room for more slots: for a bound, not a design."""
    fields: dict[str, object] = {"buffer.capacity_bytes": None}
    if isinstance(accelerator.array, SpatialArraySpec):
        for name in type(accelerator.array.memories).model_fields:
            if isinstance(getattr(accelerator.array.memories, name), PeMemorySpec):
                fields[f"array.memories.{name}.capacity_bytes"] = None
    for name in accelerator.memories.by_class():
        fields[f"memories.{name}.staging_bytes"] = None
    return _with_fields(accelerator, fields)


def _free_array(one: Accelerator) -> Accelerator:
    kind = FreeArray if isinstance(one.array, ArraySpec) else FreePes
    return copy_spec(one, Accelerator, array=copy_spec(one.array, kind))


_FIELDS: Final[Mapping[str, Mapping[str, object]]] = {
    "buffer_ports": {"buffer.read_bytes_per_second": None, "buffer.write_bytes_per_second": None},
    "noc": {"noc.distribution.topology": "unlimited", "noc.collection.topology": "unlimited"},
    "sfu_latency": {"sfu.latency_cycles": 0},
    "start": {"compiler.kernel_start_cycles": 0},
    **{
        name: {f"{section}.{field}": value for field, value in fields.items()}
        for name in FREED_UNITS
        for section, fields in [UNITS[name].frees or ("", {})]
    },
}
"""Fields of an accelerator that free a resource."""
_SECTIONS: Final[dict[str, Callable[[Accelerator], Accelerator]]] = {
    **{name: partial(_with_fields, fields=fields) for name, fields in _FIELDS.items()},
    # with the data bus also what makes it wait, the banks
    "dram_bandwidth": partial(_memories, **_NO_BANKS, bandwidth_bytes_per_second=None),
    "dram_latency": partial(_memories, latency_cycles=0),
    "dram_turnaround": partial(_memories, turnaround_cycles=0),
    "dram_banks": partial(_memories, **_NO_BANKS),
    # without links the way from memories to cores costs nothing
    CORE_NOC: lambda one: _with_fields(
        one, {"cores.noc": CoreNocSpec(multicast=one.cores.noc.multicast)}
    ),
    SFU: lambda one: _with_fields(one, {SFU: copy_spec(one.sfu, FreeSfu)}),
    ARRAY: _free_array,
    LOADING: without_loading,
    "slots": _slots,
}


class FreePes(SpatialArraySpec):
    """A spatial array whose passes take no cycles; what they move stays."""

    def pass_cycles(self, steps: int) -> int:  # noqa: ARG002 - as SpatialArraySpec has it
        """Return 0: no cycles for a pass."""
        return 0


class FreeSfu(SfuSpec):
    """An SFU whose work takes no cycles; what its passes move through the ports stays."""

    def cycles(self, work: InPasses, elements: Amount, rows: Amount) -> Amount:  # noqa: ARG002
        """Return 0: no cycles for any work."""
        return elements * 0


_WORTH_A_WAIT: Final = 0.1
WORTH_A_CHANGE: Final = 1.02
"""The least speedup that is worth naming."""
_SFU_LATENCY: Final = "sfu_latency"
_CASES: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name,) for name in (*RESOURCES, _SFU_LATENCY)},
    UNFILLED: (ARRAY,),
    "buffer_port": ("buffer_ports",),
    "dram_queue": ("dram_latency",),
}
"""What is freed to see what a limit costs."""


def speedup_without(result: RunResult, limit: str) -> float | None:
    """Return the speedup of a program if the limit of this name is removed; None if it can't be.

    The program is unchanged, so no change of that resource alone gains more.
    """
    case = _CASES.get(limit)
    if case is None or not takes_time(result.accelerator, case):
        return None
    freed = free(result.accelerator, result.program, case)
    run = Machine(*freed, accounts=False).run()
    return result.run.cycles / run.cycles if run.cycles else None


@dataclass(frozen=True)
class LimitSpeedups:
    """Speedups of a program without its limits, each by a run of its own; None where not run.

    ``wait``: the resource that is waited for, if freeing it gains more than freeing the limit.
    """

    without_limit: float | None
    without_wait: float | None
    wait: RunLimit | None
    without_sfu_latency: float | None
    next_limit: RunLimit


def speedups_of(result: RunResult, limit: RunLimit) -> LimitSpeedups:
    """Return the speedups without a limit, without the longest wait, and without SFU latency."""
    gain, wait = speedup_without(result, limit.name), longest_wait(result, limit)
    other = None if wait is None or gain is None else speedup_without(result, wait.name)
    if other is None or gain is None or other < gain * WORTH_A_CHANGE:
        wait, other = None, None
    quick = None
    if limit.name == SFU and result.accelerator.sfu.latency_cycles and gain and gain > 1:
        quick = speedup_without(result, _SFU_LATENCY)
    return LimitSpeedups(gain, other, wait, quick, next_limit(result, limit))


def longest_wait(result: RunResult, limit: RunLimit) -> RunLimit | None:
    """Return the resource that the computing unit waits for longest, if it isn't the limit.

    None where that can't be freed, or is less than a tenth of the cycles.
    """
    waits = Counter({cause: n for cause, n in waits_of_unit(result.run).items() if cause in _CASES})
    for cause, n in waits.most_common(1):
        if _CASES[cause] != _CASES.get(limit.name) and n >= _WORTH_A_WAIT * result.run.cycles:
            return RunLimit(cause, n / result.run.cycles, only_memory(result.accelerator))
    return None
