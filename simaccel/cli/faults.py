"""Faults of the command line, gathered so that all are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from simaccel.errors import Fault, InputError
from simaccel.files.targets import STDOUT

_SOURCE = "command line"


def fault(option: str, value: object, allowed: str) -> Fault:
    """Say what is wrong with an option."""
    return Fault(_SOURCE, option, value, allowed)


def require_stdout_free(output: str | None, option: str, *, others: Mapping[str, object]) -> None:
    """Refuse other options that print, where an output is ``-``, standard output.

    Raises:
        InputError: names each of them that is given.

    """
    allowed = f"a file for {option}: both go to standard output"
    given = [name for name, value in others.items() if value]
    require_none(fault(name, f"with {option} -", allowed) for name in given if output == STDOUT)


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
