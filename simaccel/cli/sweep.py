"""`--sweep NAME=FROM:TO:STEP`: what can be swept, and the points of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from simaccel.cli.axes import read_axis
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.faults import fault, gather, require_none
from simaccel.errors import InputError, suggest
from simaccel.hardware import Accelerator
from simaccel.study.parameters import PARAMETERS, parameter_of
from simaccel.study.points import base_point, seq_len_of
from simaccel.study.space import FLOWS, DesignBuilder, Settings
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.study.points import Point, Setting

MOST_POINTS: Final = 1000
"""A longer sweep is a typing error, or work for a script."""


def swept_points(
    settings: Settings, workloads: Sequence[Workload], accelerator: Accelerator
) -> list[Point]:
    """Return a point without a dataflow at each setting and of each workload.

    Raises:
        InputError: no accelerator can have a value, or a workload has no such parameter; all
            faults together.

    """
    make = DesignBuilder()
    pairs = product(settings, workloads)
    points: list[Point] = gather(*(partial(_swept, make, *pair, accelerator) for pair in pairs))
    return points


def _swept(
    make: DesignBuilder, setting: Setting, workload: Workload, accelerator: Accelerator
) -> Point:
    name = setting.axis.name
    if setting.axis.of == "workload":
        _require_parameters(setting, workload)
    point = make.sized_point(
        base_point(workload, accelerator, setting), f"--sweep {name}={setting.text}"
    )
    return replace(point, seq_len=seq_len_of(point.workload))


def _require_parameters(setting: Setting, workload: Workload) -> None:
    """Refuse parameters that a workload has not."""
    for field in setting.fields:
        if field not in workload.parameters:
            others = [name for name, one in PARAMETERS.items() if one.axis.of == "accelerator"]
            own = setting.axis.name not in PARAMETERS
            choices = suggest(field, sorted(workload.parameters)) if own else suggest("", others)
            allowed = f"{choices}; workload {workload.name} has no {field}"
            raise InputError([fault("--sweep", setting.axis.name, allowed)])


def read_sweep(texts: Sequence[str], asked: ExperimentOptions, **beside: object) -> Settings:
    """Read what was given for --sweep; empty if nothing was.

    ``beside``: values of options that ``asked`` has not, by what they set.

    Raises:
        InputError: more than one sweep, no such parameter, bad values, or another option that
            says the same.

    """
    if not texts:
        return ()
    if len(texts) > 1:
        allowed = "one sweep; call compare once for each"
        raise InputError([fault("--sweep", " ".join(texts), allowed)])
    settings: Settings
    settings, _ = gather(
        lambda: read_axis("--sweep", texts[0], MOST_POINTS),
        lambda: _require_alone(texts[0], asked, beside),
    )
    return settings


def _require_alone(text: str, asked: ExperimentOptions, beside: Mapping[str, object]) -> None:
    """Refuse options that the sweep decides."""
    parameter = parameter_of(text.partition("=")[0].strip())
    if parameter is None:
        return
    allowed = f"nothing with --sweep {parameter.axis.name}, which sets it"
    options = {
        "workload": vars(asked.workload),
        "mapping": {**vars(asked.sought), **vars(asked), **beside},
        "accelerator": {},
    }[parameter.axis.of]
    fields = (*parameter.fields, *(["mapspace"] if parameter.axis.name == FLOWS.name else []))
    values = {field: options.get(field) for field in fields}
    faults = [
        fault(f"--{field.replace('_', '-')}", value, allowed)
        for field, value in values.items()
        if value is not None and value is not False
    ]
    faults += [
        fault("--set", override, allowed)
        for override in asked.overrides
        if override.partition("=")[0].strip() in parameter.fields
    ]
    if parameter.axis.of == "mapping" and beside.get("mapping"):
        said = f"nothing with --sweep {parameter.axis.name}: a mapping has decided it"
        faults.append(fault("--mapping", beside["mapping"], said))
    require_none(faults)
