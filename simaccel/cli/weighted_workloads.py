"""Workloads of an exploration: each with options of its own, and its weight."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from simaccel.cli.faults import fault
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.errors import InputError, suggest

if TYPE_CHECKING:
    from simaccel.study.points import WeightedWorkload
    from simaccel.workload import Workload


def read_load(text: str, sizes: WorkloadOptions) -> tuple[Workload, float, str]:
    """Read ``NAME [OPTION=VALUE ...]``: options of this workload alone, and its weight.

    Raises:
        InputError: an option or a weight that is none, or what reading the workload finds.

    """
    try:
        name, *words = shlex.split(text)
    except ValueError as error:
        raise InputError([fault("--workload", text, f"NAME OPTION=VALUE ...: {error}")]) from None
    known = {field.name.replace("_", "-"): field.name for field in fields(WorkloadOptions)[1:-1]}
    known |= {"weight": "weight", "dim": "dims"}
    options: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or option not in known:
            allowed = f"OPTION=VALUE after {name}; {suggest(option, known)}"
            raise InputError([fault("--workload", word, allowed)])
        field = known[option]
        many = isinstance(getattr(sizes, field, None), tuple)
        options[field] = (*options.get(field, ()), value) if many else value
    weight = _weight(options.pop("weight", "1"))
    return replace(sizes, name=name, **options).read(), weight, name


def load_of(workload: Workload, weight: float, name: str) -> WeightedWorkload:
    """Return a workload with its weight and, where the file has it, MAESTRO's description."""
    from simaccel.study.points import WeightedWorkload
    from simaccel.study.space import description_of

    return WeightedWorkload(workload, weight, description_of(name), name)


def whole_load(text: str, sizes: WorkloadOptions) -> WeightedWorkload:
    """Read all of a workload; errors as of `read_load`."""
    return load_of(*read_load(text, sizes))


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 10**12:
        raise InputError([fault("--workload weight", text, "a number above 0 and below 10^12")])
    return int(value) if value == int(value) else value
