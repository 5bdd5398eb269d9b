"""The parameters that can be varied: fields of the accelerator, and sizes of the workload."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, repeat, takewhile
from operator import mul
from typing import Final, Literal

from simaccel.errors import (
    MEANT,
    Fault,
    InputError,
    gather,
    list_or_range,
    require_none,
    suggest,
    with_digits,
)
from simaccel.files.documents import parse_document
from simaccel.files.schema import leaf_fields, refusal, replaced_fields
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.hardware.presets import SECTIONS, unknown_field
from simaccel.hardware.quantity import UNIT_OF, format_quantity, parse_quantity
from simaccel.numbers import BITS, is_logarithmic
from simaccel.search.effort import STRATEGIES
from simaccel.study.points import Axis, Setting, Value
from simaccel.workload.building import WorkloadSizes
from simaccel.workload.names import MAX_SIZE

Values = tuple[Value, ...]
"""One value for each of the fields that a parameter sets."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter that can be swept.

    ``read`` parses a value from text (ValueError: the allowed values), ``write`` formats it.
    ``fields``: the fields that it sets, of the accelerator, workload or mapping. ``apart``: whether
    fields may get different values, as in 32x64.
    """

    axis: Axis
    read: Callable[[str], Value]
    write: Callable[..., str]
    fields: tuple[str, ...]
    apart: bool = False

    def values(self, text: str) -> Values:
        """Return the values of one point of a list.

        Raises:
            ValueError: with what is allowed.
        """
        parts = text.split("x") if self.apart else [text]
        if len(parts) not in {1, len(self.fields)}:
            raise ValueError(f"one value, or {len(self.fields)} with an x between")
        found = [self.read(part) for part in parts]
        return tuple(found) if len(found) > 1 else (found[0],) * len(self.fields)

    def setting(self, values: Values) -> Setting:
        """Return a point as a setting on the parameter's axis."""
        fields = dict(zip(self.fields, values, strict=True))
        if self.apart:
            text = "x".join(map(self.write, values))
            return Setting(self.axis, text, text, fields, math.prod(map(int, values)))
        number = values[0] if isinstance(values[0], int | float) else 0
        return Setting(self.axis, values[0], self.write(values[0]), fields, number)


def whole_number(text: str, *, least: int, most: int) -> int:
    """Return a whole number from ``least`` to ``most``.

    Raises:
        ValueError: with what is allowed.
    """
    if re.fullmatch(r"\s*[0-9]{1,20}\s*", text) and least <= int(text) <= most:
        return int(text)
    raise ValueError(with_digits(text, f"a whole number from {least} to {most}"))


def _amount(
    name: str, column: str, label: str, unit: Literal["B", "B/s", "Hz"], *fields: str
) -> Parameter:
    return Parameter(
        axis=Axis(name, column, label),
        read=partial(parse_quantity, kind=unit),
        write=partial(format_quantity, kind=unit),
        fields=fields,
    )


def _whole(axis: Axis, least: int, most: int, *fields: str) -> Parameter:
    read = partial(whole_number, least=least, most=most)
    return Parameter(axis=axis, read=read, write=str, fields=fields, apart=len(fields) > 1)


def _choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip() in choices:
            return text.strip()
        raise ValueError(suggest(text.strip(), choices))

    return read


_DRAM_RATE = "dram.bandwidth_bytes_per_second"
_BUFFER_RATES = ("buffer.read_bytes_per_second", "buffer.write_bytes_per_second")
_ALL = (
    _amount("buffer", "buffer_bytes", "buffer capacity", "B", "buffer.capacity_bytes"),
    _amount(
        *("buffer-bandwidth", "buffer_bytes_per_second", "bandwidth of each port", "B/s"),
        *_BUFFER_RATES,
    ),
    _amount("dram-bandwidth", "dram_bytes_per_second", "DRAM bandwidth", "B/s", _DRAM_RATE),
    _whole(
        Axis("dram-latency", "dram_latency_cycles", "DRAM latency (cycles)"),
        *(0, 2**30, "dram.latency_cycles"),
    ),
    _whole(
        Axis("array", "array", "PE array (rows x columns)"), 1, 2**20, "array.rows", "array.cols"
    ),
    _amount("clock", "clock_hz", "clock", "Hz", "clock_hz"),
    _whole(
        Axis("seq-len", "seq_len", "sequence length (tokens)", "workload"), 1, MAX_SIZE, "seq_len"
    ),
    _whole(Axis("batch", "batch", "batch (sequences)", "workload"), 1, MAX_SIZE, "batch"),
    Parameter(
        axis=Axis("precision", "precision", "number format"),
        read=_choice(tuple(BITS)),
        write=str,
        fields=("precision.weights", "precision.activations", "precision.cache"),
    ),
)
PARAMETERS: Final = {parameter.axis.name: parameter for parameter in _ALL}
"""Parameters with a short name for --sweep and --axis."""


def _scalar(text: str) -> Value:
    try:
        value = parse_document(text)
    except ValueError:
        value = None
    if isinstance(value, bool) and text.strip() in {"true", "false"}:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number, a word, true or false")  # noqa: TRY004 - as all readers do
    return value


def _write_value(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_amount(text: str, kind: str) -> Value:
    return "unlimited" if text.strip() == "unlimited" else parse_quantity(text, kind)


def _amount_text(value: int | str, kind: str) -> str:
    return value if isinstance(value, str) else format_quantity(value, kind)


def _dataflow(text: str) -> str:
    """Read a scheduler's name; plug-ins are looked for only now."""
    from simaccel.schedulers import DATAFLOWS  # noqa: PLC0415 - loads plug-ins

    return _choice((*DATAFLOWS, *STRATEGIES))(text)


_count = partial(whole_number, least=1, most=9999)
_MAPPING: Final[dict[str, Callable[[str], Value]]] = {
    "dataflow": _dataflow,
    "stationarity": _choice(STATIONARITIES),
    "pipeline": _choice(("true", "false")),
    "patience": partial(whole_number, least=1, most=2**40),
    "tensor-parallel": _count,
    "data-parallel": _count,
    "expert-parallel": _count,
    "pipeline-parallel": _count,
    "micro-batches": _count,
    "sequence-parallel": _choice(("true", "false")),
    "shard-weights": _choice(("true", "false")),
}
_OF_WORKLOAD: Final = "workload."


def parameter_of(name: str) -> Parameter | None:
    """Return the parameter of --axis or --sweep with this short name or field path.

    A path is a field of the accelerator (``dram.channels``), a section that takes the name of a
    part or of another accelerator (``dram``), or a parameter of the workload (``workload.prompt``);
    None if there is none.
    """
    if name in PARAMETERS:
        return PARAMETERS[name]
    read: Callable[[str], Value] = _scalar
    write: Callable[..., str] = _write_value
    field = name
    if name in _MAPPING:
        field, read = name.replace("-", "_"), _MAPPING[name]
        axis = Axis(name, field, name, "mapping")
    elif name.startswith(_OF_WORKLOAD):
        field = name.removeprefix(_OF_WORKLOAD).replace("-", "_")
        axis = Axis(name, field, field.replace("_", " "), "workload")
    elif name in SECTIONS:
        axis, read = Axis(name, name, name, named=True), str
    elif name not in leaf_fields(Accelerator):
        return None
    else:
        axis = Axis(name, name.replace(".", "_"), name)
        for kind in (kind for suffix, kind in UNIT_OF.items() if name.endswith(suffix)):
            read, write = partial(_read_amount, kind=kind), partial(_amount_text, kind=kind)
        read = partial(_of_field, name, read)
    return Parameter(axis=axis, read=read, write=write, fields=(field,))


def _of_field(name: str, read: Callable[[str], Value], text: str) -> Value:
    """Read a value that a field of an accelerator can have, beside whatever others.

    Raises:
        ValueError: with what is allowed.
    """
    value = read(text)
    allowed = refusal(Accelerator, name, value)
    if allowed:
        raise ValueError(allowed)
    return value


_SHAPE: Final = frozenset((*"BCGHKMNPQRS", "stride", "dilation"))
"""Sizes of products and convolutions."""


def suggest_parameter(name: str) -> str:
    """Return a text that suggests a parameter instead of an unknown name."""
    if name in (replaced := replaced_fields(Accelerator)):
        return replaced[name]
    fields = leaf_fields(Accelerator)
    if "." in name and not name.startswith(_OF_WORKLOAD):
        return unknown_field(name, [*fields])
    if name.replace("_", "-") in PARAMETERS:
        return f"{MEANT} '{name.replace('_', '-')}'?"
    if name.replace("-", "_") in WorkloadSizes.__annotations__ or name in _SHAPE:
        return f"{MEANT} '{_OF_WORKLOAD}{name}'?"
    inside = [field for field in fields if field.endswith(f".{name}")]
    short = [*PARAMETERS, *_MAPPING]
    others = "a field of the accelerator (dram.channels), or workload.FIELD"
    return suggest(inside[0] if inside else name, [*short, *fields], [*short, others])


FORMS: Final = "FROM:TO:xK, FROM:TO:+STEP or A,B,..., as in 64KiB:64MiB:x2"
_STEPS: Final = "xK with a whole K >= 2, or +STEP with a STEP that FROM and TO could be, not 0"
_SOURCE: Final = "command line"


def read_axis(
    option: str, text: str, most: int, find: Callable[[str], Parameter | None] = parameter_of
) -> tuple[Setting, ...]:
    """Return the settings of ``NAME=FROM:TO:STEP`` or ``NAME=A,B,...``, at most ``most``.

    Raises:
        InputError: another form, or an unknown name, value or range.
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError([Fault(_SOURCE, option, text, f"NAME= and {FORMS}")])
    parameter = find(name)
    if parameter is None:
        raise InputError([Fault(_SOURCE, option, name, suggest_parameter(name))])
    field, several = f"{option} {parameter.axis.name}", f"{FORMS}, each "
    reader = AxisReader(parameter, _SOURCE, field, several)
    if ":" in values:
        return reader.read_range(values, most)
    return reader.read_list([value.strip() for value in values.split(",")], most)


@dataclass(frozen=True)
class AxisReader:
    """A reader of a parameter's settings; faults are those of ``field`` of ``source``.

    ``several``: how to write several values, said before what is allowed of one.
    """

    parameter: Parameter
    source: str
    field: str
    several: str = ""

    def read_list(self, listed: Sequence[object], most: int) -> tuple[Setting, ...]:
        """Return a setting for each of several values; InputError names all wrong ones."""
        self._require_few(",".join(map(str, listed)), len(listed), most)
        points: list[Values] = []
        faults = []
        for value in listed:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            try:
                values = self.parameter.values(text)
            except ValueError as error:
                several = self.several if list_or_range(text) else ""
                faults.append(self._fault(value, f"{several}{error}"))
                continue
            if values in points:
                faults.append(self._fault(value, "each value once"))
            points.append(values)
        require_none(faults)
        places = [self.parameter.setting(values).place for values in points]
        return self._settings(points, log=is_logarithmic(min(places), max(places)))

    def read_range(self, text: str, most: int) -> tuple[Setting, ...]:
        """Return the settings of ``FROM:TO:xK`` or ``FROM:TO:+STEP``; InputError: another range."""
        parts = text.split(":")
        if len(parts) != len(("FROM", "TO", "STEP")):
            raise InputError([self._fault(text, FORMS)])
        first, last, (log, step) = gather(
            partial(self._whole_value, parts[0], " FROM"),
            partial(self._whole_value, parts[1], " TO"),
            partial(self._step, parts[2].strip()),
        )
        if log and first == 0:
            allowed = f"at least 1, which x{step} can multiply"
            raise InputError([self._fault(parts[0], allowed, " FROM")])
        if last < first:
            allowed = f"at least {self.parameter.write(first)}, where the sweep starts"
            raise InputError([self._fault(parts[1], allowed, " TO")])
        numbers: Sequence[int] = range(first, last + 1, step)
        if log:
            numbers = [*takewhile(last.__ge__, accumulate(repeat(step), mul, initial=first))]
        self._require_few(text, len(numbers), most)
        count = len(self.parameter.fields)
        return self._settings([(number,) * count for number in numbers], log=log)

    def _settings(self, points: Sequence[Values], *, log: bool) -> tuple[Setting, ...]:
        settings = [self.parameter.setting(values) for values in points]
        words = any(isinstance(setting.value, str | bool) for setting in settings)
        named = words and not self.parameter.apart
        axis = replace(self.parameter.axis, log=log and not named, named=named)
        return tuple(
            replace(setting, axis=axis, place=at if named else setting.place)
            for at, setting in enumerate(settings)
        )

    def _fault(self, value: object, allowed: str, part: str = "") -> Fault:
        return Fault(self.source, self.field + part, value, allowed)

    def _require_few(self, text: str, count: int, most: int) -> None:
        allowed = f"at most {most:,} points; these are {count:,}"
        require_none([self._fault(text, allowed)] * (count > most))

    def _whole_value(self, text: str, part: str) -> int:
        try:
            value = self.parameter.read(text)
        except ValueError as error:
            raise InputError([self._fault(text, str(error), part)]) from None
        if isinstance(value, bool) or not isinstance(value, int):
            allowed = "a whole number, where FROM:TO:STEP is given"
            raise InputError([self._fault(text, allowed, part)])
        return value

    def _step(self, text: str) -> tuple[bool, int]:
        """Read ``xK`` or ``+STEP``: whether it multiplies, and K or STEP."""
        is_factor, amount, step = text[:1] == "x", text[1:], 0
        with suppress(ValueError, InputError):
            if is_factor:
                step = whole_number(amount, least=2, most=MAX_SIZE)
            elif text[:1] == "+":
                step = self._whole_value(amount, " STEP")
        if step == 0:
            raise InputError([self._fault(text, _STEPS, " STEP")])
        return is_factor, step
