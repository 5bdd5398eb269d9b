"""The number of rows of a table: ``--top N`` or ``--top all``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from simaccel.cli.faults import fault, require_none

ALL: Final = "all"


class _Top(click.ParamType):  # type: ignore[type-arg]  # generic in its stubs only
    """A number of rows, or all of them."""

    name = "rows"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """Read it; click says what is allowed."""
        if value == ALL or isinstance(value, int):
            return ALL if value == ALL else int(str(value))
        text = str(value)
        if not text.isascii() or not text.isdecimal() or int(text) < 1:
            self.fail(f"got {text!r}; allowed: a whole number from 1 on, or {ALL}", param, ctx)
        return int(text)


TOP: Final = _Top()


def require_shown(given: Mapping[str, object], hidden: Mapping[str, object]) -> None:
    """Refuse options of what is printed where it is not printed.

    Raises:
        InputError: names each.

    """
    by = next((name for name, value in hidden.items() if value), None)
    if by is not None:
        require_none(fault(o, "given", f"nothing with {by}") for o, v in given.items() if v)
