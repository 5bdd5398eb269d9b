"""The errors that a user's input can cause: each names the field, its value and what is allowed."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from numbers import Integral
from typing import Any, Final, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")
_LONGEST_VALUE: Final = 80
_LONGEST_FILE: Final = 260
_LONGEST_FIELD: Final = 120
LONGEST_CHOICE: Final = 800
"""Characters of what is allowed."""
_LONGEST_LIST: Final = 80
"""Characters of all choices that stand after the nearest one."""
MEANT: Final = "did you mean"
_NEAR: Final = 0.7
"""Of two names: what is less alike is probably another thing."""
_OTHER_NUMBER: Final = re.compile(
    r"[0-9]{1,15}(\.[0-9]{1,9})?[eE]\+?[0-9]{1,2}|[0-9]{1,3}([_,][0-9]{3}){1,5}|[0-9]{1,15}\.0+"
)
_WITH_UNIT: Final = re.compile(r"\s*([0-9]{1,15})\s*([A-Za-z][A-Za-z/]{0,7})\s*")
_PREFIXES: Final = "KMG"
"""Prefixes of numbers: thousands, or powers of 1024."""
_MOST_ALIKE = 3
_MOST_PLACES = 8
_MOST_TOLD = 40
_VARYING = re.compile(r"[0-9]+|\(layer [^)]*\)")


class _Absent:
    """The value of what was not given; prints as `nothing`."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()


class SimaccelError(Exception):
    """Base of all errors that a user's input can cause."""

    exit_code = 2


class MistakeError(SimaccelError):
    """A mistake of simaccel itself, found before it could become a figure; asks for a report."""

    exit_code = 3

    def __str__(self) -> str:
        return f"an internal error, please report it: {super().__str__()}"


class WorkerDiedError(SimaccelError):
    """A process ended without a result: it was killed, or ran out of memory."""

    exit_code = 1


@dataclass(frozen=True)
class Fault:
    """A wrong value: its place (file or option, dotted path), the value, and what is allowed."""

    file: str
    field: str
    value: object
    allowed: str

    def __str__(self) -> str:
        file, field = shorten(self.file, _LONGEST_FILE), shorten(self.field, _LONGEST_FIELD)
        value, allowed = (
            shorten(repr(self.value), _LONGEST_VALUE),
            shorten(self.allowed, LONGEST_CHOICE),
        )
        return printable(f"{file}: {field}: got {value}; {allows(allowed)}")


def allows(allowed: str) -> str:
    """Return the end of a message: ``allowed:`` and the values, or a suggestion as it is.

    >>> allows("1 or more"), allows("did you mean 'flat'? (allowed: naive, flat)")
    ('allowed: 1 or more', "did you mean 'flat'? (allowed: naive, flat)")
    """
    return allowed if allowed.startswith(MEANT) else f"allowed: {allowed}"


def shorten(text: str, longest: int) -> str:
    """Return the beginning of a text that is too long for a line that is read."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


class InputError(SimaccelError):
    """All faults of one input; prints one line a fault."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return a line for each fault; one for all of a kind that are many, up to 40 lines.

        Faults are of a kind if they differ in numbers and values alone.
        """
        alike: dict[tuple[str, ...], list[Fault]] = {}
        for fault in self.faults:
            kind = (fault.file, _VARYING.sub("#", fault.field), _VARYING.sub("#", fault.allowed))
            alike.setdefault(kind, []).append(fault)
        lines = []
        for group in alike.values():
            few = len(group) <= _MOST_ALIKE
            lines += [str(fault) for fault in (group if few else group[:1])]
            if not few:
                places = (shorten(fault.field, _LONGEST_FIELD) for fault in group[1:])
                fields = list(dict.fromkeys(places))
                more = f", ... ({len(group)} in all)" if len(fields) > _MOST_PLACES else ""
                lines[-1] += f"; likewise {printable(', '.join(fields[:_MOST_PLACES]))}{more}"
        rest = len(lines) - _MOST_TOLD
        return lines if rest <= 0 else [*lines[:_MOST_TOLD], f"and {rest} more like these"]


def gather(*reads: Callable[[], object]) -> list[Any]:
    """Read several inputs and report the faults of all of them together.

    Raises:
        InputError: at least one of them is wrong.
    """
    objects: list[object] = []
    faults: list[Fault] = []
    for read in reads:
        try:
            objects.append(read())
        except InputError as error:
            faults += [fault for fault in error.faults if fault not in faults]
    if faults:
        raise InputError(faults)
    return objects


def require_none(faults: Iterable[Fault]) -> None:
    """Report faults, if there are any.

    Raises:
        InputError: all of them.
    """
    found = list(faults)
    if found:
        raise InputError(found)


def printable(text: str, keep: str = "") -> str:
    r"""Escape what could move the cursor, change colours or turn the writing direction round.

    >>> printable("\x1b[31m red"), printable("two\nlines", keep="\n")
    ('\\x1b[31m red', 'two\nlines')
    """
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode()
        for one in text
    )


def suggest(word: str, choices: Iterable[str], shown: Iterable[str] = ()) -> str:
    """Return what to write instead of an unknown word: the nearest choice, and all if they are few.

    ``shown``: what to list where none is near, if not all.

    >>> suggest("falt", ["naive", "flex", "flat"])
    "did you mean 'flat'? (allowed: naive, flex, flat)"
    >>> suggest("zzz", ["naive", "flat"])
    'one of naive, flat'
    >>> suggest("INT8", ["int8", "bf16"])
    "did you mean 'int8'? (allowed: int8, bf16)"
    >>> suggest("naive,flat", ["naive", "flex", "flat"])
    'one name, not a list'
    """
    known, word = list(choices), str(word)
    if "," in word and {part.strip() for part in word.split(",")} <= {*known}:
        return "one name, not a list"
    every, lower = ", ".join(known), {choice.lower(): choice for choice in known}
    close = get_close_matches(word, known, n=1)
    close = close or [name for key, name in lower.items() if key == word.lower()]
    if not close:
        return f"one of {', '.join(shown) or every}"
    few = len(known) > 1 and len(every) <= _LONGEST_LIST
    return f"{MEANT} {close[0]!r}?" + f" (allowed: {every})" * few


def suggest_field(word: str, fields: Iterable[str]) -> str:
    """Return the allowed fields, and the one that was probably meant if a spelling is close.

    Only very close ones count: a similar word is often the name of something that isn't modelled.

    >>> suggest_field("capacity", ["capacity_bytes", "source"])
    "did you mean 'capacity_bytes'? (allowed: capacity_bytes, source)"
    >>> suggest_field("sparsity", ["rows", "stationarity"])
    'one of rows, stationarity'
    """
    known = list(fields)
    return suggest(nearest_field(word, known), known)


def nearest_field(word: str, fields: Sequence[str]) -> str:
    """Return the field that was probably meant; empty if no spelling is close.

    >>> nearest_field("capcity", ["capacity_bytes", "source"])
    'capacity_bytes'
    """
    beginnings = {field[: len(word) + 1]: field for field in reversed(fields)}
    near = [field for field in fields if field.startswith(word)]
    near = near or get_close_matches(word, fields, n=1, cutoff=_NEAR)
    near = near or [beginnings[one] for one in get_close_matches(word, beginnings, 1, _NEAR)]
    return near[0] if near else ""


def digits_of(text: object) -> str:
    """Return the digits of a whole number that is written in another way, else nothing.

    >>> digits_of("1e6"), digits_of("2.5"), digits_of(3)
    ('1000000', '', '')
    """
    if not isinstance(text, str) or not _OTHER_NUMBER.fullmatch(text.strip()):
        return ""
    value = Decimal(text.strip().replace("_", "").replace(",", ""))
    return str(int(value)) if value == int(value) else ""


def with_digits(value: object, allowed: str) -> str:
    """Return what is allowed, and the digits of a number that is written in another way.

    >>> with_digits("64 KiB", "an integer"), with_digits("1e6", "an integer")
    ('an integer without a unit', 'an integer, such as 1000000')
    >>> with_digits("8k", "an integer")
    'an integer, written out: 8000 or 8192'
    """
    if digits := digits_of(value):
        return f"{allowed}, such as {digits}"
    with_unit = _WITH_UNIT.fullmatch(value) if isinstance(value, str) else None
    if with_unit is None:
        return allowed
    power = _PREFIXES.find(with_unit[2].upper()) + 1
    if not power:
        return f"{allowed} without a unit"
    meant = (str(int(with_unit[1]) * base**power) for base in (1000, 1024))
    return f"{allowed}, written out: {' or '.join(meant)}"


def name_arguments(
    **also: str,
) -> Callable[[Callable[_Arguments, _Returned]], Callable[_Arguments, _Returned]]:
    """Return a decorator: a call with wrong arguments raises a TypeError that lists the right ones.

    ``also``: aliases of arguments, such as ``M`` for ``m``. Whole numbers of other libraries, such
    as numpy's, become ints.
    """

    def check(function: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
        taken = signature(function)
        named = taken.parameters.values()

        @wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
            renamed = {also.get(name, name): own_numbers(value) for name, value in kwargs.items()}
            try:
                taken.bind(*args, **(kwargs if len(renamed) < len(kwargs) else renamed))
            except TypeError as error:
                own = (each.replace(annotation=Parameter.empty) for each in named)
                text = f"{function.__name__}: {error}; allowed: {', '.join(map(str, own))}"
                raise TypeError(text) from None
            return function(*map(own_numbers, args), **renamed)  # type: ignore[arg-type]

        return call

    return check


def own_numbers(value: object) -> object:
    """Return a value with whole numbers of any library as ints, also inside dicts and lists.

    >>> own_numbers({"array": {"rows": True}, "sizes": [3, 1.5]})
    {'array': {'rows': True}, 'sizes': [3, 1.5]}
    """
    if type(value) is dict:
        return {key: own_numbers(each) for key, each in value.items()}
    if type(value) is list:
        return [own_numbers(each) for each in value]
    return int(value) if isinstance(value, Integral) and not isinstance(value, int) else value


_SEVERAL: Final = re.compile(r"[^,:]+(,[^,:]+)+|[^:,]*[^:,.]\.\.[^:,.][^:,]*|[^:]+:[^:]+:[^:]+")
_DASHED: Final = re.compile(r"^([0-9]+[A-Za-z/]*)-([0-9]+[A-Za-z/]*)$")
"""A range with a dash between numbers."""


def list_or_range(value: object) -> str:
    """Return a value without blanks if it is a list or a range; an empty text if it is not.

    >>> list_or_range([8, 16]), list_or_range("64 .. 128"), list_or_range("2:4")
    ('8,16', '64..128', '')
    >>> list_or_range("64-128"), list_or_range("LPDDR4-3200")
    ('64..128', '')
    """
    text = _DASHED.sub(r"\1..\2", str(value).strip("[]").replace(" ", ""))
    return text if _SEVERAL.fullmatch(text) else ""
