"""Axes as they are written: ``NAME=FROM:TO:STEP`` and ``NAME=A,B,...``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from simaccel.cli.faults import fault, gather
from simaccel.errors import Fault, InputError
from simaccel.study.parameters import (
    Parameter,
    Values,
    parameter_of,
    suggest_parameter,
    whole_number,
)
from simaccel.study.points import Setting
from simaccel.workload.sizes import MAX_SIZE

_LOG_RATIO: Final = 8
"""A list whose largest value is so many times its smallest is drawn on a logarithmic axis."""
_FORMS: Final = "FROM:TO:xK, FROM:TO:+STEP or A,B,..., as in 64KiB:64MiB:x2"
_DOTS: Final = ".."
"""As ranges are written elsewhere."""
_STEPS: Final = "xK with a whole K >= 2, or +STEP with a STEP that FROM and TO could be, not 0"


Find = Callable[[str], Parameter | None]


@dataclass(frozen=True)
class _Given:
    """The text of an axis: the option, the parameter that it names, and the text after the =."""

    option: str
    parameter: Parameter
    text: str


def read_axis(
    option: str,
    text: str,
    limit: int,
    find: Find = parameter_of,
    suggested: Callable[[str], str] = suggest_parameter,
) -> tuple[Setting, ...]:
    """Read an axis: its settings, at most ``limit``.

    Raises:
        InputError: no such parameter (``suggested`` says what there is), or bad values.

    """
    parameter, points, log = read_points(option, text, limit, find, suggested)
    settings = [parameter.setting(values) for values in points]
    words = [isinstance(setting.value, str | bool) for setting in settings]
    named = any(words) and not parameter.apart
    axis = replace(parameter.axis, log=log and not named, named=named)
    places = [at if named else setting.place for at, setting in enumerate(settings)]
    return tuple(
        replace(setting, axis=axis, place=place)
        for setting, place in zip(settings, places, strict=True)
    )


def read_points(
    option: str,
    text: str,
    limit: int,
    find: Find = parameter_of,
    suggested: Callable[[str], str] = suggest_parameter,
) -> tuple[Parameter, tuple[Values, ...], bool]:
    """Read the points of an axis alone, of which there may be millions; whether it is logarithmic.

    Raises:
        InputError: as of `read_axis`.

    """
    name, equals, points_text = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError([fault(option, text, f"NAME= and {_FORMS}")])
    parameter = find(name)
    if parameter is None:
        raise InputError([fault(option, name, suggested(name))])
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
            allowed = f"{_FORMS}, each {error}" if _DOTS in text else str(error)
            faults += _bad(value, "", text, allowed).faults
            continue
        if values in points:
            faults += _bad(value, "", text, "each value once").faults
        points.append(values)
    if faults:
        raise InputError(faults)
    places = [value.parameter.setting(values).place for values in points]
    return tuple(points), 0 < min(places) * _LOG_RATIO <= max(places)


def _range(value: _Given, limit: int) -> tuple[tuple[Values, ...], bool]:
    parts = value.text.split(":")
    if len(parts) != len(("FROM", "TO", "STEP")):
        raise _bad(value, "", value.text, _FORMS)
    first, last, (log, step) = gather(
        partial(_value, value, " FROM", parts[0]),
        partial(_value, value, " TO", parts[1]),
        partial(_step, value, parts[2].strip()),
    )
    if log and first == 0:
        raise _bad(value, " FROM", parts[0], f"at least 1, which x{step} can multiply")
    if last < first:
        allowed = f"at least {value.parameter.write(first)}, where the sweep starts"
        raise _bad(value, " TO", parts[1], allowed)
    if log:
        numbers: list[int] | range = list(_multiples(first, last, step))
    else:
        numbers = range(first, last + 1, step)
    _require_few(value, len(numbers), limit)
    return tuple(map(value.parameter.same_value, numbers)), log


def _require_few(given: _Given, count: int, limit: int) -> None:
    if count > limit:
        allowed = f"at most {limit:,} points; these are {count:,}"
        raise _bad(given, "", given.text, allowed)


def _multiples(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor


def _value(given: _Given, part: str, text: str) -> int:
    try:
        value = given.parameter.read(text)
    except ValueError as error:
        raise _bad(given, part, text, str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(given, part, text, "a whole number, where FROM:TO:STEP is given")
    return value


def _step(value: _Given, text: str) -> tuple[bool, int]:
    """Read ``xK`` or ``+STEP``: whether it multiplies, and K or STEP."""
    kind, amount = text[:1], text[1:]
    read: dict[str, Callable[[str], int]] = {
        "x": partial(whole_number, least=2, most=MAX_SIZE),
        "+": partial(_value, value, " STEP"),
    }
    try:
        step = read[kind](amount)
    except (KeyError, ValueError, InputError):
        step = 0
    if step == 0:
        raise _bad(value, " STEP", text, _STEPS)
    return kind == "x", step
