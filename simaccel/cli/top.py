"""The number of rows of a table: ``--top N`` or ``--top all``."""

from __future__ import annotations

from typing import Final

import click

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
