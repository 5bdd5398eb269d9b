"""Types of arguments: a function refuses wrong ones by name before it does anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from simaccel.errors import Fault, require_none

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")
_WORDS: Final[Mapping[Any, str]] = {
    str: "a text",
    int: "a whole number",
    bool: "True or False",
    NoneType: "None",
    Path: "a Path",
}


def check_types(
    *others: str,
) -> Callable[[Callable[_Arguments, _Returned]], Callable[_Arguments, _Returned]]:
    """Decorate a function such that it refuses arguments of other than their annotated types.

    ``others``: arguments that the function checks itself.

    Raises:
        InputError: of the call, with each wrong argument.

    """

    def check(function: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
        taken = signature(function)

        @wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
            hints = get_type_hints(function)
            require_none(
                Fault(function.__name__, name, value, _allowed_values(hints[name]))
                for name, value in taken.bind(*args, **kwargs).arguments.items()
                if name not in others and not _is_a(value, hints[name])
            )
            return function(*args, **kwargs)

        return call

    return check


def _is_a(value: object, hint: Any) -> bool:  # noqa: ANN401 - any annotation
    """Return whether a value has a type; of annotations that can't be checked it has.

    >>> [_is_a(one, int | None) for one in (3, None, True, 1.5)]
    [True, True, False, False]
    >>> [_is_a(one, Sequence[str]) for one in (["a"], ("a",), [3], "a")]
    [True, True, False, False]
    """
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_a(value, choice) for choice in inner)
    if kind is Literal:  # which text is said by who reads it, with what is near
        return any(isinstance(value, type(choice)) for choice in inner)
    if kind is Sequence:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return False
        return all(_is_a(element, inner[0]) for element in value)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _allowed_values(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """Return what a type allows.

    >>> _allowed_values(Sequence[str] | str | None)
    'a list, each a text, or a text, or None'
    """
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return ", or ".join(map(_allowed_values, inner))
    if kind is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if kind is Sequence:
        return f"a list, each {_allowed_values(inner[0])}"
    if kind is Mapping:
        return "values by name"
    return _WORDS.get(kind) or str(getattr(kind, "__name__", kind))
