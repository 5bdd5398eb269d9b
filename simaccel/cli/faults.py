"""Faults of the command line, gathered so that all are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from simaccel.errors import Fault, InputError

_SOURCE = "command line"


def fault(option: str, value: object, allowed: str) -> Fault:
    """Say what is wrong with an option."""
    return Fault(_SOURCE, option, value, allowed)


def gather(*reads: Callable[[], object]) -> list[Any]:
    """Read several inputs and report the faults of all of them together.

    Raises:
        InputError: at least one of them is wrong.

    """
    found: list[object] = []
    faults: list[Fault] = []
    for read in reads:
        try:
            found.append(read())
        except InputError as error:
            faults += [one for one in error.faults if one not in faults]
    if faults:
        raise InputError(faults)
    return found


def require_none(faults: Iterable[Fault]) -> None:
    """Report faults, if there are any.

    Raises:
        InputError: all of them.

    """
    found = list(faults)
    if found:
        raise InputError(found)
