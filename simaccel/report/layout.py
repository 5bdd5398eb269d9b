"""Layout of all tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_GAP = 2
"""Between two columns."""
_WIDEST = 1000
"""More than any cell needs."""


def make_table(texts: Sequence[str], figures: Sequence[str], flexible: Sequence[str] = ()) -> Table:
    """Make an empty table: columns of texts, of figures, and of texts that may wrap.

    Only the last kind gives way in a narrow terminal.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    for name in flexible:
        table.add_column(name, overflow="fold")
    return table


def least_width(table: Table, console: Console) -> int:
    """Return the columns of a terminal that a table needs to be whole.

    Texts that may wrap need the width of their longest word.
    """
    from rich.measure import Measurement

    total, options = 0, console.options.update(max_width=_WIDEST)
    for column in table.columns:
        cells = (column.header, *column.cells)
        sizes = [Measurement.get(console, options, cell) for cell in cells]
        total += max(size.maximum if column.no_wrap else size.minimum for size in sizes) + _GAP
    return total


def add_row(table: Table, cells: Iterable[str], style: str = "") -> None:
    """Add a row of plain texts: brackets in a name are no markup."""
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells), style=style or None)
