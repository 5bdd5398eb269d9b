"""Tables of rows for terminals, notebooks and pages, and rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal

from simaccel.numbers import plain
from simaccel.report.units import figure_text, short_names
from simaccel.study.figure_table import FIGURES, ValuePath, place_of, total_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column as RichColumn
    from rich.table import Table as Table

    from simaccel.study.figure_table import Unit
else:  # a type for those who make tables, without loading rich
    Table = object

Row = dict[str, Any]
Kind = Literal["text", "name", "figure", "wrapped"]
_GAP: Final = 2
"""Spaces between two columns."""
_WIDEST: Final = 1000
"""Width beyond that of any cell."""
_CELL: Final = "padding:.1em .8em .1em 0;white-space:pre-line;vertical-align:top;text-align:"
_LINE: Final = "border-bottom:1px solid #8888;"


def pick(thing: object, *names: str, **columns: ValuePath) -> Row:
    """Return values of an object by name; ``columns``: their places, or functions.

    >>> pick(3 + 4j, "real", imaginary="imag", length=abs)
    {'real': 3.0, 'imaginary': 4.0, 'length': 5.0}
    """
    places = {**{name: name for name in names}, **columns}
    return {name: place_of(thing, place) for name, place in places.items()}


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, its value in a row, and the format of that.

    ``value``: a place in the row, or a function of it (`place_of`). ``text``: a unit (for which a
    table of numbers is summed), or a function. ``missing`` stands for None. ``kind``: figures are
    right-aligned, texts and names left-aligned; long names are shortened, and in narrow terminals
    flexible texts wrap.
    """

    heading: str
    value: ValuePath
    text: Unit | Callable[[Any], str] = str
    kind: Kind = "figure"
    missing: str = "-"

    def cell(self, row: Any) -> str:  # noqa: ANN401 - an object or plain data
        """Return the text of a row's value."""
        value: Any = place_of(row, self.value)
        if value is None:
            return self.missing
        return self.text(value) if callable(self.text) else figure_text(total_of(value), self.text)


def texts(*names: str) -> tuple[Column, ...]:
    """Return columns for values that are texts already, by name."""
    return tuple(Column(name, name, kind="text") for name in names)


def figure_columns(*names: str) -> tuple[Column, ...]:
    """Return columns for figures (`FIGURES`) by name, in rows that have them as values."""
    return tuple(Column(FIGURES[name].heading, name, FIGURES[name].unit) for name in names)


def study_columns(*names: str) -> tuple[Column, ...]:
    """Return columns for figures of rows that have ``figures``, which are None without a run."""
    return tuple(
        Column(FIGURES[name].heading, "figures", partial(_figure_cell, name)) for name in names
    )


def _figure_cell(name: str, of: Mapping[str, float | None]) -> str:
    return figure_text(of[name], FIGURES[name].unit)


def tabulate(
    rows: Iterable[Any],
    columns: Iterable[Column],
    total: object = None,
    apart: Callable[[Any], object] = bool,
    bold: Callable[[Any], bool] = lambda _: False,
) -> Table:
    """Return a table of rows; ``total`` is the last one, in bold.

    A line separates rows for which ``apart`` returns different values; ``bold`` selects bold rows.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows, columns = list(rows), list(columns)
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    cells: list[list[str]] = []
    for column in columns:
        texts = [column.cell(row) for row in rows]
        cells.append(short_names(texts) if column.kind == "name" else texts)
        if column.kind == "wrapped":
            table.add_column(column.heading, overflow="fold")
        else:
            side: Literal["left", "right"] = "right" if column.kind == "figure" else "left"
            table.add_column(column.heading, justify=side, no_wrap=True)

    for _, group in groupby(enumerate(rows), lambda place: apart(place[1])):
        table.add_section()
        for at, row in group:
            line = (Text(texts[at]) for texts in cells)
            table.add_row(*line, style="bold" if bold(row) else None)
    if total is not None:
        table.add_section()
        table.add_row(*(Text(column.cell(total)) for column in columns), style="bold")
    return table


def least_width(table: Table, console: Console) -> int:
    """Return the width of a terminal in which a table is complete.

    Texts that may wrap need the width of their longest word.
    """
    from rich.measure import Measurement

    total, options = 0, console.options.update(max_width=_WIDEST)
    for column in table.columns:
        cells = (column.header, *column.cells)
        sizes = [Measurement.get(console, options, cell) for cell in cells]
        total += max(size.maximum if column.no_wrap else size.minimum for size in sizes) + _GAP
    return total


_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em;
  color: #1b1b1f; background: #fff; }}
h1 {{ font-size: 1.3em; }} h2 {{ font-size: 1.1em; margin-top: 2em; }}
div {{ overflow-x: auto; }} svg {{ width: 100%; max-width: 62em; height: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
tr {{ border-bottom: 1px solid #ddd; }}
{style}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def page_html(title: str, body: str, style: str = "") -> str:
    """Return a self-contained HTML document; ``style``: further rules."""
    return _PAGE.format(title=escape(title), body=body, style=style)


def parts_html(title: str, parts: Iterable[Table | str]) -> str:
    """Return a title, tables and lines as one HTML fragment with all texts escaped."""
    body = [f"<div>{escape(x)}</div>" if isinstance(x, str) else table_html(x) for x in parts]
    return "\n".join((f"<p><b>{escape(title)}</b></p>", *body))


def table_html(table: Table) -> str:
    """Return a table as HTML, with the same cells and sections."""
    head = "".join(_cell_html("th", column, column.header, _LINE) for column in table.columns)
    cells = list(zip(*(column.cells for column in table.columns), strict=True))
    rows = []
    for row, texts in zip(table.rows, cells, strict=True):
        line = _LINE if row.end_section else ""
        tag = "th" if row.style else "td"
        pairs = zip(table.columns, texts, strict=True)
        rows.append(f"<tr>{''.join(_cell_html(tag, one, text, line) for one, text in pairs)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table>"


def _cell_html(tag: str, column: RichColumn, content: object, line: str) -> str:
    side = "right" if column.justify == "right" else "left"
    return f'<{tag} style="{_CELL}{side};{line}">{escape(str(content))}</{tag}>'


def csv_text(rows: Sequence[Row]) -> str:
    """Return rows as CSV, with the keys of all rows as the header; unknown values are empty."""
    out = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(out, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in row.items()
        }
        for row in plain(rows)
    )
    return out.getvalue()
