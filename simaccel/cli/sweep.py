"""Axes in text form, ``NAME=FROM:TO:STEP`` or ``NAME=A,B,...``, and the points of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.settings import fault, list_or_range
from simaccel.errors import (
    LONGEST_CHOICE,
    Fault,
    InputError,
    gather,
    require_none,
    shorten,
    suggest,
)
from simaccel.hardware import Accelerator
from simaccel.numbers import is_logarithmic
from simaccel.study.parameters import (
    PARAMETERS,
    Parameter,
    Values,
    parameter_of,
    suggest_parameter,
    whole_number,
)
from simaccel.study.points import Setting, base_point, seq_len_of
from simaccel.study.space import FLOWS, DesignBuilder, Settings, sizes_of
from simaccel.workload import Workload
from simaccel.workload.names import MAX_SIZE
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


_FORMS: Final = "FROM:TO:xK, FROM:TO:+STEP or A,B,..., as in 64KiB:64MiB:x2"
_DOTS: Final = ".."
"""A range in the notation of other tools."""
_STEPS: Final = "xK with a whole K >= 2, or +STEP with a STEP that FROM and TO could be, not 0"


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
        return f"FIELD={_FORMS}"
    name = parameter.axis.name
    for given in (f"{text.replace(_DOTS, ':')}:x2", text):
        with suppress(InputError):
            read_points("--sweep", f"{name}={given}", MOST_POINTS)
            return f"{name}={given}"
    return f"{name}={_FORMS}"


@dataclass(frozen=True)
class _Given:
    """The text of an axis: the option, the parameter that it names, and the text after the =."""

    option: str
    parameter: Parameter
    text: str


def read_axis(option: str, text: str, limit: int) -> tuple[Setting, ...]:
    """Return the settings of an axis, at most ``limit``."""
    parameter, points, log = read_points(option, text, limit)
    settings = [parameter.setting(values) for values in points]
    words = [isinstance(setting.value, str | bool) for setting in settings]
    named = any(words) and not parameter.apart
    axis = replace(parameter.axis, log=log and not named, named=named)
    return tuple(
        replace(setting, axis=axis, place=at if named else setting.place)
        for at, setting in enumerate(settings)
    )


def read_points(
    option: str,
    text: str,
    limit: int,
    find: Callable[[str], Parameter | None] = parameter_of,
) -> tuple[Parameter, tuple[Values, ...], bool]:
    """Return the parameter, points and log scale of an axis.

    Raises:
        InputError: not ``NAME=POINTS``, or an unknown name, value or range.
    """
    name, equals, points_text = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError([fault(option, text, f"NAME= and {_FORMS}")])
    parameter = find(name)
    if parameter is None:
        raise InputError([fault(option, name, suggest_parameter(name))])
    read = _range if ":" in points_text else _list
    points, log = read(_Given(option, parameter, points_text), limit)
    return parameter, points, log


def _bad(given: _Given, part: str, value: str, allowed: str) -> InputError:
    return InputError([fault(f"{given.option} {given.parameter.axis.name}{part}", value, allowed)])


def _list(value: _Given, limit: int) -> tuple[tuple[Values, ...], bool]:
    points: list[Values] = []
    faults: list[Fault] = []
    texts = [text.strip() for text in value.text.split(",")]
    _require_few(value, len(texts), limit)
    for text in texts:
        try:
            values = value.parameter.values(text)
        except ValueError as error:
            allowed = f"{_FORMS}, each {error}" if list_or_range(text) else str(error)
            faults += _bad(value, "", text, allowed).faults
            continue
        if values in points:
            faults += _bad(value, "", text, "each value once").faults
        points.append(values)
    require_none(faults)
    places = [value.parameter.setting(values).place for values in points]
    return tuple(points), is_logarithmic(min(places), max(places))


def _range(value: _Given, limit: int) -> tuple[tuple[Values, ...], bool]:
    parts = value.text.split(":")
    if len(parts) != len(("FROM", "TO", "STEP")):
        raise _bad(value, "", value.text, _FORMS)
    first, last, (log, step) = gather(
        partial(_read_value, value, " FROM", parts[0]),
        partial(_read_value, value, " TO", parts[1]),
        partial(_read_step, value, parts[2].strip()),
    )
    if log and first == 0:
        raise _bad(value, " FROM", parts[0], f"at least 1, which x{step} can multiply")
    if last < first:
        allowed = f"at least {value.parameter.write(first)}, where the sweep starts"
        raise _bad(value, " TO", parts[1], allowed)
    numbers = [*_multiples(first, last, step)] if log else range(first, last + 1, step)
    _require_few(value, len(numbers), limit)
    return tuple(map(value.parameter.same_value, numbers)), log


def _require_few(given: _Given, count: int, limit: int) -> None:
    if count > limit:
        raise _bad(given, "", given.text, f"at most {limit:,} points; these are {count:,}")


def _multiples(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor


def _read_value(given: _Given, part: str, text: str) -> int:
    try:
        value = given.parameter.read(text)
    except ValueError as error:
        raise _bad(given, part, text, str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(given, part, text, "a whole number, where FROM:TO:STEP is given")
    return value


def _read_step(value: _Given, text: str) -> tuple[bool, int]:
    """Read ``xK`` or ``+STEP``: whether it multiplies, and K or STEP."""
    kind, amount = text[:1], text[1:]
    read: dict[str, Callable[[str], int]] = {
        "x": partial(whole_number, least=2, most=MAX_SIZE),
        "+": partial(_read_value, value, " STEP"),
    }
    try:
        step = read[kind](amount)
    except (KeyError, ValueError, InputError):
        step = 0
    if step == 0:
        raise _bad(value, " STEP", text, _STEPS)
    return kind == "x", step
