"""The points of a sweep, and what a message says of a list where one value is allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.settings import fault
from simaccel.errors import (
    LONGEST_CHOICE,
    Fault,
    InputError,
    gather,
    list_or_range,
    require_none,
    shorten,
    suggest,
)
from simaccel.hardware import Accelerator
from simaccel.study.parameters import FORMS, PARAMETERS, Parameter, parameter_of, read_axis
from simaccel.study.points import Setting, base_point, seq_len_of
from simaccel.study.space import FLOWS, DesignBuilder, Settings, sizes_of
from simaccel.workload import Workload
from simaccel.workload.precision import assumed_classes
from simaccel.workload.tensors import CLASSES

if TYPE_CHECKING:
    from simaccel.study.points import Point, Setting

MOST_POINTS: Final = 1000
"""Most points of a sweep; a longer one is a typing error, or work for a script."""


def swept_points(
    settings: Settings, workloads: Sequence[Workload], accelerator: Accelerator
) -> list[Point]:
    """Return a point without a dataflow for each setting and each workload."""
    make = DesignBuilder()
    _require_formats(settings, workloads)
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


def _require_formats(settings: Settings, workloads: Sequence[Workload]) -> None:
    taken = {f"precision.{name}" for one in workloads for name in assumed_classes(one)}
    fields = {field for setting in settings for field in setting.fields}
    if fields and fields <= {f"precision.{name}" for name in CLASSES} - taken:
        allowed = (
            f"nothing with the formats of {workloads[0].name}: its file, --precision or "
            "--set bytes-per-element has set them"
        )
        raise InputError([fault("--sweep", settings[0].axis.name, allowed)])


def _require_parameters(setting: Setting, workload: Workload) -> None:
    for field in setting.fields:
        if field not in (own_sizes := sizes_of(workload)):
            others = [name for name, one in PARAMETERS.items() if one.axis.of == "accelerator"]
            own = setting.axis.name not in PARAMETERS
            choices = suggest(field, sorted(own_sizes)) if own else suggest("", others)
            allowed = f"{choices}; workload {workload.name} has no {field}"
            raise InputError([fault("--sweep", setting.axis.name, allowed)])


def read_sweep(texts: Sequence[str], experiment: ExperimentOptions, **beside: object) -> Settings:
    """Return the settings of --sweep; empty if it is not given.

    ``beside``: values of options that are not in ``experiment``, by field.

    Raises:
        InputError: there are several sweeps, or a field, value or option is wrong.
    """
    if not texts:
        return ()
    if len(texts) > 1:
        allowed = "one sweep; call compare once for each"
        raise InputError([fault("--sweep", " ".join(texts), allowed)])
    settings: Settings
    settings, _ = gather(
        lambda: read_axis("--sweep", texts[0], MOST_POINTS),
        lambda: _require_alone(texts[0], experiment, beside),
    )
    return settings


def _require_alone(text: str, experiment: ExperimentOptions, beside: Mapping[str, object]) -> None:
    """Refuse options that the sweep decides."""
    parameter = parameter_of(text.partition("=")[0].strip())
    if parameter is None:
        return
    allowed = f"nothing with --sweep {parameter.axis.name}, which sets it"
    options = {
        "workload": vars(experiment.workload),
        "mapping": {**vars(experiment.search), **vars(experiment), **beside},
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
        for override in experiment.overrides
        if override.partition("=")[0].strip() in parameter.fields
    ]
    if parameter.axis.of == "mapping" and beside.get("mapping"):
        said = f"nothing with --sweep {parameter.axis.name}: a mapping has decided it"
        faults.append(fault("--mapping", beside["mapping"], said))
    require_none(faults)


_DOTS: Final = ".."
"""A range in the notation of other tools."""
_WHOLE: Final = {
    "accelerator": "`simaccel compare --hw {}` takes several",
    "--workload": "`simaccel explore` takes several --workload",
}
"""Where several values of what is no parameter are taken."""
_SIZES: Final = ("prompt", "kv-len")
"""Options that are parameters of a workload."""


def name_sweep(wrong: Fault, options: Collection[str]) -> Fault:
    """Return the fault of a list where one value is expected, with the option that takes lists.

    Other faults are returned unchanged. ``options``: option names of the command.
    """
    text = list_or_range(wrong.value)
    of_setting = wrong.file.startswith("--") or wrong.file == "accelerator"
    where = wrong.file if of_setting else wrong.field
    is_option = where.startswith("--") and not ("," in text and "--sweep" in options)
    if not text or wrong.field == "shape" or not (of_setting or is_option):
        return wrong  # of a file, or of an option that takes lists itself
    name = where.removeprefix("--set ").removeprefix("--")
    name = f"workload.{wrong.field}" if wrong.file == "--shape" else name
    taken = _WHOLE.get(where, "").format(text)
    if not taken:
        parameter = parameter_of(f"workload.{name}" if name in _SIZES else name)
        takes_none = parameter is not None and wrong.allowed.startswith("nothing, as")
        if takes_none or (parameter is None and not wrong.file.startswith("--set ")):
            return wrong
        option = next((known for known in ("--sweep", "--axis") if known in options), None)
        command = option or "simaccel compare --sweep"
        taken = f"several values: `{command} {_points_text(parameter, text)}`"
    kept = shorten(wrong.allowed, LONGEST_CHOICE - len(taken) - 2)
    return replace(wrong, allowed=f"{kept}; {taken}")


def _points_text(parameter: Parameter | None, text: str) -> str:
    """Return a sweep of a parameter, over the points of a text if it is read as such."""
    if parameter is None:
        return f"FIELD={FORMS}"
    name = parameter.axis.name
    for given in (f"{text.replace(_DOTS, ':')}:x2", text):
        with suppress(InputError):
            read_axis("--sweep", f"{name}={given}", MOST_POINTS)
            return f"{name}={given}"
    return f"{name}={FORMS}"
