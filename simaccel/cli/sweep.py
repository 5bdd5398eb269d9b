"""`--sweep NAME=FROM:TO:STEP`: what can be swept, and the points of a sweep."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from simaccel.cli.asked import Asked
from simaccel.cli.faults import fault, gather
from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.hardware.quantity import format_quantity, parse_quantity
from simaccel.report.comparison import Axis, Point
from simaccel.workload import Workload, parse_workload
from simaccel.workload.sizes import MAX_SIZE

MOST_POINTS: Final = 1000
"""A longer sweep is a typing error, or work for a script."""
_LOG_RATIO: Final = 8
"""A list whose largest value is so many times its smallest is drawn on a logarithmic axis."""
_FORMS: Final = "FROM:TO:xK, FROM:TO:+STEP or A,B,..., as in 64KiB:64MiB:x2"
_STEPS: Final = "xK with a whole K >= 2, or +STEP with a STEP that FROM and TO could be, not 0"

Values = tuple[int, ...]
"""One point: a value for each of the fields that the parameter sets."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """What can be swept.

    ``read`` and ``write`` translate one value (``read`` raises ValueError with what is allowed);
    ``fields`` are what it sets, of the accelerator or among the workload's parameters, and
    ``apart`` says whether each field can have a value of its own, as in 32x64.
    """

    axis: Axis
    read: Callable[[str], int]
    write: Callable[[int], str]
    fields: tuple[str, ...]
    of: Literal["accelerator", "workload"] = "accelerator"
    apart: bool = False

    def values(self, text: str) -> Values:
        """Read a point of a list.

        Raises:
            ValueError: with what is allowed.

        """
        parts = text.split("x") if self.apart else [text]
        if len(parts) not in {1, len(self.fields)}:
            raise ValueError(f"one value, or {len(self.fields)} with an x between")
        found = [self.read(part) for part in parts]
        return tuple(found) if len(found) > 1 else self.same(found[0])

    def same(self, value: int) -> Values:
        """Give all fields one value."""
        return (value,) * len(self.fields)

    def point(self, values: Values) -> Point:
        """Describe a point for tables and figures."""
        if self.apart:
            text = "x".join(map(self.write, values))
            return Point(self.axis, text, text, math.prod(values))
        return Point(self.axis, values[0], self.write(values[0]), values[0])


def _count(text: str, *, least: int, most: int) -> int:
    if re.fullmatch(r"\s*[0-9]{1,20}\s*", text) and least <= int(text) <= most:
        return int(text)
    raise ValueError(f"a whole number from {least} to {most}")


def _amount(
    name: str, column: str, label: str, unit: Literal["B", "B/s", "Hz"], *fields: str
) -> Parameter:
    return Parameter(
        axis=Axis(name, column, label),
        read=partial(parse_quantity, kind=unit),
        write=partial(format_quantity, kind=unit),
        fields=fields,
    )


def _size(name: str, field: str, label: str) -> Parameter:
    return Parameter(
        axis=Axis(name, field, label),
        read=partial(_count, least=1, most=MAX_SIZE),
        write=str,
        fields=(field,),
        of="workload",
    )


_DRAM_RATE = "dram.bandwidth_bytes_per_second"
_BUFFER_RATES = ("buffer.read_bytes_per_second", "buffer.write_bytes_per_second")
_ALL = (
    _amount("buffer", "buffer_bytes", "buffer capacity", "B", "buffer.capacity_bytes"),
    _amount(
        "buffer-bandwidth",
        "buffer_bytes_per_second",
        "bandwidth of each port",
        "B/s",
        *_BUFFER_RATES,
    ),
    _amount("dram-bandwidth", "dram_bytes_per_second", "DRAM bandwidth", "B/s", _DRAM_RATE),
    Parameter(
        axis=Axis("dram-latency", "dram_latency_cycles", "DRAM latency (cycles)"),
        read=partial(_count, least=0, most=2**30),
        write=str,
        fields=("dram.latency_cycles",),
    ),
    Parameter(
        axis=Axis("array", "array", "PE array (rows x columns)"),
        read=partial(_count, least=1, most=2**20),
        write=str,
        fields=("array.rows", "array.cols"),
        apart=True,
    ),
    _amount("clock", "clock_hz", "clock", "Hz", "clock_hz"),
    _size("seq-len", "seq_len", "sequence length (tokens)"),
    _size("batch", "batch", "batch (sequences)"),
)
PARAMETERS: Final = {parameter.axis.name: parameter for parameter in _ALL}
"""What can be swept, by the name of --sweep; a new parameter is one entry."""


@dataclass(frozen=True)
class Sweep:
    """A parameter and the points at which it is tried, in order."""

    parameter: Parameter
    points: tuple[Values, ...]

    def apply(
        self, values: Values, workload: Workload, accelerator: Accelerator
    ) -> tuple[Workload, Accelerator, Point]:
        """Give workload and accelerator at one point, checked as if read from files.

        Raises:
            InputError: no accelerator can have this value, or the workload has no such parameter.

        """
        point = self.parameter.point(values)
        source = f"--sweep {point.axis.name}={point.text}"
        settings = dict(zip(self.parameter.fields, values, strict=True))
        if self.parameter.of == "accelerator":
            return workload, with_values(accelerator, settings, source), point
        (field,) = settings
        if field not in workload.parameters:
            others = [name for name, one in PARAMETERS.items() if one.of == "accelerator"]
            allowed = f"{suggest('', others)}; workload {workload.name} has no {field}"
            raise InputError([fault("--sweep", point.axis.name, allowed)])
        from simaccel.experiment.recording import workload_document

        document = {**workload_document(workload), **settings}
        return parse_workload(document, source), accelerator, point


def read_sweep(texts: tuple[str, ...], asked: Asked) -> Sweep | None:
    """Read what was given for --sweep, if anything.

    Raises:
        InputError: more than one sweep, no such parameter, bad values, or another option that
            says the same.

    """
    if not texts:
        return None
    if len(texts) > 1:
        allowed = "one sweep; call compare once for each"
        raise InputError([fault("--sweep", " ".join(texts), allowed)])
    name, equals, given = (part.strip() for part in texts[0].partition("="))
    if not equals:
        raise InputError([fault("--sweep", texts[0], f"NAME= and {_FORMS}")])
    if name not in PARAMETERS:
        raise InputError([fault("--sweep", name, suggest(name, PARAMETERS))])
    parameter = PARAMETERS[name]
    read = _range if ":" in given else _list
    (points, log), _ = gather(
        lambda: read(parameter, given), lambda: _require_alone(parameter, asked)
    )
    axis = replace(parameter.axis, log=log)
    return Sweep(replace(parameter, axis=axis), points)


def _require_alone(parameter: Parameter, asked: Asked) -> None:
    """Refuse options that the sweep decides."""
    allowed = f"nothing beside --sweep {parameter.axis.name}, which says it"
    faults = []
    if parameter.of == "workload":
        given = {field: getattr(asked.workload, field) for field in parameter.fields}
        faults = [
            fault(f"--{field.replace('_', '-')}", value, allowed)
            for field, value in given.items()
            if value is not None
        ]
    for override in asked.overrides:
        field = override.partition("=")[0].strip()
        if field in parameter.fields:
            faults.append(fault("--set", override, allowed))
    if faults:
        raise InputError(faults)


def _bad(parameter: Parameter, part: str, value: str, allowed: str) -> InputError:
    return InputError([fault(f"--sweep {parameter.axis.name}{part}", value, allowed)])


def _list(parameter: Parameter, given: str) -> tuple[tuple[Values, ...], bool]:
    points: list[Values] = []
    faults: list[Fault] = []
    texts = [text.strip() for text in given.split(",")]
    _require_few(parameter, given, len(texts))
    for text in texts:
        try:
            values = parameter.values(text)
        except ValueError as error:
            faults += _bad(parameter, "", text, str(error)).faults
            continue
        if values in points:
            faults += _bad(parameter, "", text, "each value once").faults
        points.append(values)
    if faults:
        raise InputError(faults)
    places = [parameter.point(values).place for values in points]
    return tuple(points), 0 < min(places) * _LOG_RATIO <= max(places)


def _range(parameter: Parameter, given: str) -> tuple[tuple[Values, ...], bool]:
    parts = given.split(":")
    if len(parts) != len(("FROM", "TO", "STEP")):
        raise _bad(parameter, "", given, _FORMS)
    first, last, (log, step) = gather(
        partial(_value, parameter, " FROM", parts[0]),
        partial(_value, parameter, " TO", parts[1]),
        partial(_step, parameter, parts[2].strip()),
    )
    if log and first == 0:
        raise _bad(parameter, " FROM", parts[0], f"at least 1, which x{step} can multiply")
    if last < first:
        allowed = f"at least {parameter.write(first)}, where the sweep starts"
        raise _bad(parameter, " TO", parts[1], allowed)
    if log:
        numbers: list[int] | range = list(_multiples(first, last, step))
    else:
        numbers = range(first, last + 1, step)
    _require_few(parameter, given, len(numbers))
    return tuple(map(parameter.same, numbers)), log


def _require_few(parameter: Parameter, given: str, count: int) -> None:
    if count > MOST_POINTS:
        allowed = f"at most {MOST_POINTS:,} points; these are {count:,}"
        raise _bad(parameter, "", given, allowed)


def _multiples(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor


def _value(parameter: Parameter, part: str, text: str) -> int:
    try:
        return parameter.read(text)
    except ValueError as error:
        raise _bad(parameter, part, text, str(error)) from None


def _step(parameter: Parameter, text: str) -> tuple[bool, int]:
    """Read ``xK`` or ``+STEP``: whether it multiplies, and K or STEP."""
    kind, amount = text[:1], text[1:]
    read: dict[str, Callable[[str], int]] = {
        "x": partial(_count, least=2, most=MAX_SIZE),
        "+": parameter.read,
    }
    try:
        step = read[kind](amount)
    except (KeyError, ValueError):
        step = 0
    if step == 0:
        raise _bad(parameter, " STEP", text, _STEPS)
    return kind == "x", step
