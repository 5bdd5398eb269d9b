"""Tables of a terminal as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from rich.console import RenderableType
from rich.table import Column, Table

_CELL: Final = "padding:.1em .8em .1em 0;white-space:pre-line;vertical-align:top;text-align:"
_LINE: Final = "border-bottom:1px solid #8888;"


def parts_html(title: str, parts: Iterable[Table | str]) -> str:
    """Return a title, tables and lines as one HTML fragment; all texts are escaped."""
    body = [table_html(one) if isinstance(one, Table) else _line(one) for one in parts]
    return "\n".join((f"<p><b>{escape(title)}</b></p>", *body))


def table_html(table: Table) -> str:
    """Return a table as HTML: the same cells, its sections apart."""
    head = "".join(_cell("th", one, one.header, _LINE) for one in table.columns)
    cells = list(zip(*(one.cells for one in table.columns), strict=True))
    rows = []
    for row, texts in zip(table.rows, cells, strict=True):
        line = _LINE if row.end_section else ""
        tag = "th" if row.style else "td"
        pairs = zip(table.columns, texts, strict=True)
        rows.append(f"<tr>{''.join(_cell(tag, one, text, line) for one, text in pairs)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table>"


def _cell(tag: str, column: Column, content: RenderableType, line: str) -> str:
    side = "right" if column.justify == "right" else "left"
    return f'<{tag} style="{_CELL}{side};{line}">{escape(str(content))}</{tag}>'


def _line(text: str) -> str:
    return f"<div>{escape(text)}</div>"
