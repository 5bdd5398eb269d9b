"""Forms of lines: one pattern prints an object as a line, and reads the line back.

A pattern has words, fields such as ``{queue}``, and in brackets what is left out where its first
field has its default: ``reserve {tile} queue {queue}[ {noc}]``. A bracket of the line itself is
written with a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
TilesByName = Mapping[str, Any]
"""The tiles that a line may name, by name."""
_TOKEN: Final = re.compile(r"\{(\w+)\}|(\[)|(\])|\\(.)|([^{}\[\]\\]+)")
_GROUP: Final = re.compile(r"\((?!\?)")


@dataclass(frozen=True)
class LineValue:
    """A value in a line: its pattern, without groups, and functions to its text and back.

    ``names``: attributes that it has together, in a tuple, if not the one that its field names.
    """

    pattern: str
    text: Callable[[Any, TilesByName], str]
    parse: Callable[[str, TilesByName], Any]
    names: tuple[str, ...] = ()


WHOLE: Final = LineValue(r"\d+", lambda number, _: str(number), lambda text, _: int(text))
"""A whole number."""
WORD: Final = LineValue(r"\S+", lambda word, _: word, lambda text, _: text)
"""A text without blanks."""


class LineForm(Generic[T]):
    """The form of a dataclass's line; ``known``: fields by name, others are whole numbers."""

    def __init__(
        self, kind: Callable[..., T], pattern: str, known: Mapping[str, LineValue]
    ) -> None:
        """Read the pattern."""
        self._kind, self._known = kind, known
        self._defaults = {each.name: each.default for each in fields(kind)}  # type: ignore[arg-type]
        self._fields: list[tuple[tuple[str, ...], LineValue]] = []
        self._parts, self.pattern = self._read(_TOKEN.finditer(pattern))
        self._compiled = re.compile(self.pattern)

    def _read(self, tokens: Iterator[re.Match[str]]) -> tuple[list[Any], str]:
        """Return the parts of a pattern up to the end of a bracket, and their expression.

        A part is a text, (attributes, function to their text), or (attributes, their defaults, the
        parts in a bracket).
        """
        parts, expression = list[Any](), ""
        for token in tokens:
            name, opening, closing, escaped, words = token.groups()
            if closing:
                break
            if opening:
                first = len(self._fields)
                inner, optional = self._read(tokens)
                names, _ = self._fields[first]
                defaults = tuple(self._defaults[each] for each in names)
                parts.append((attrgetter(*names), defaults if names[1:] else defaults[0], inner))
                expression += f"(?:{optional})?"
            elif name:
                field = self._known.get(name, WHOLE)
                names = field.names or (name,)
                self._fields.append((names, field))
                parts.append((attrgetter(*names), field.text))
                expression += f"({field.pattern})"
            else:
                parts.append(escaped or words)
                expression += re.escape(escaped or words).replace("\\ ", " ")
        return parts, expression

    def value(self) -> LineValue:
        """Return the value that an object of this form is in the line of another."""
        return LineValue(_GROUP.sub("(?:", self.pattern), self.text, self.parse)

    def text(self, record: T, scope: TilesByName) -> str:
        """Return an object's line."""
        return "".join(_texts(self._parts, record, scope))

    def parse(self, line: str, scope: TilesByName, **others: object) -> T:
        """Return the object of a line; ``others``: attributes that the line does not have.

        Raises:
            ValueError: the line has another form, or a value that is not allowed.
            KeyError: it names no tile of the scope.
        """
        match = self._compiled.fullmatch(line)
        if match is None:
            raise ValueError(f"expected {self.pattern}")
        for (names, field), text in zip(self._fields, match.groups(), strict=True):
            if text is not None:
                value = field.parse(text, scope)
                others |= zip(names, value if field.names else (value,), strict=True)
        return self._kind(**others)


def _texts(parts: list[Any], record: object, scope: TilesByName) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        value = part[0](record)
        if len(part) == 2:  # noqa: PLR2004 - a field, no bracket
            yield part[1](value, scope)
        elif value != part[1]:
            yield from _texts(part[2], record, scope)
