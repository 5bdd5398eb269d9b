"""The points of a sweep, and what a message says of a list where one value is allowed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
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
)
from simaccel.hardware import Accelerator
from simaccel.study.parameters import FORMS, Parameter, parameter_of, read_axis
from simaccel.study.points import WeightedWorkload, base_point, seq_len_of
from simaccel.study.space import DesignBuilder, Settings, require_sizes
from simaccel.workload import Workload
from simaccel.workload.precision import assumed_classes
from simaccel.workload.tensors import CLASSES

if TYPE_CHECKING:
    from simaccel.study.points import Point

MOST_POINTS: Final = 1000
"""Most points of a sweep; a longer one is a typing error, or work for a script."""


def swept_points(
    axes: Sequence[Settings], workloads: Sequence[Workload], accelerator: Accelerator
) -> list[Point]:
    """Return a point without a dataflow for each combination of settings and each workload."""
    for settings in axes:
        _require_formats(settings, workloads)
    require_sizes("--sweep", axes, [WeightedWorkload(workload) for workload in workloads])
    make = DesignBuilder()
    points: list[Point] = gather(
        *(
            partial(_swept, make, base_point(workload, accelerator, *settings))
            for settings in product(*axes)
            for workload in workloads
        )
    )
    return points


def _swept(make: DesignBuilder, base: Point) -> Point:
    texts = (f"--sweep {setting.axis.name}={setting.text}" for setting in base.settings)
    point = make.sized_point(base, " ".join(texts))
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


def read_sweeps(
    texts: Sequence[str], experiment: ExperimentOptions, **beside: object
) -> tuple[Settings, ...]:
    """Return the settings of each --sweep.

    ``beside``: values of options that are not in ``experiment``, by field.

    Raises:
        InputError: a field or value is wrong, an option has set it, or all are too many.
    """
    options = {**vars(experiment.workload), **vars(experiment.search), **vars(experiment), **beside}
    *axes, _ = gather(
        *(partial(read_axis, "--sweep", text, MOST_POINTS) for text in texts),
        partial(require_once, "--sweep", texts, options, experiment.overrides),
    )
    if (count := prod(map(len, axes))) > MOST_POINTS:
        allowed = f"at most {MOST_POINTS:,} points; these are {count:,}"
        raise InputError([fault("--sweep", " ".join(texts), allowed)])
    return tuple(axes)


def require_once(
    option: str,
    texts: Sequence[str],
    options: Mapping[str, object],
    overrides: Sequence[str],
    workloads: Sequence[str] = (),
) -> None:
    """Refuse two axes that set the same field, or one that sets what an option has set.

    ``options``: values of options, as given, by field; ``overrides``: those of --set;
    ``workloads``: names with sizes, such as ``bert batch=4``.
    """
    set_by = {
        name: f"--{name.replace('_', '-')}"
        for name, value in options.items()
        if value is not None and value is not False and value != ()
    }
    names = (override.partition("=")[0].strip() for override in overrides)
    set_by |= {name: f"--set {name}" for name in names}
    set_by |= {"dataflow": set_by["mapspace"]} if "mapspace" in set_by else {}
    for text in workloads:
        sizes = (word.partition("=")[0] for word in shlex.split(text)[1:])
        set_by |= {size.replace("-", "_"): f"--workload '{text}'" for size in sizes}
    faults = []
    parameters = (parameter_of(text.partition("=")[0].strip()) for text in texts)
    for parameter in filter(None, parameters):
        axis = parameter.axis
        for name in parameter.fields:
            if name not in set_by and axis.of == "mapping" and "mapping" in set_by:
                set_by[name] = set_by["mapping"]
            if name in set_by:
                allowed = f"nothing with {set_by[name]}, which sets {name}"
                faults.append(fault(option, axis.name, allowed))
                break
            set_by[name] = f"{option} {axis.name}"
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
    for points in (f"{text.replace(_DOTS, ':')}:x2", text):
        with suppress(InputError):
            read_axis("--sweep", f"{name}={points}", MOST_POINTS)
            return f"{name}={points}"
    return f"{name}={FORMS}"
