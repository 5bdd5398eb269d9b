"""Faults of the command line, collected so that all are reported together."""

from __future__ import annotations

from collections.abc import Mapping

from simaccel.cli.settings import SOURCE
from simaccel.errors import Fault, gather, require_none
from simaccel.files.targets import STDOUT

__all__ = ["fault", "gather", "require_none", "require_stdout_free"]


def fault(option: str, value: object, allowed: str) -> Fault:
    """Return the fault of an option."""
    return Fault(SOURCE, option, value, allowed)


def require_stdout_free(output: str | None, option: str, *, others: Mapping[str, object]) -> None:
    """Refuse ``others``, options that print, if an output is ``-`` (standard output)."""
    allowed = f"a file for {option}: both go to standard output"
    given = [name for name, value in others.items() if value]
    require_none(fault(name, f"with {option} -", allowed) for name in given if output == STDOUT)
