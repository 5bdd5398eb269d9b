"""The table of a check: what was compared with plain numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simaccel.report.tables import add_row, make_table
from simaccel.report.units import cycles_text, fine_share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from simaccel.experiment.check import OperatorCheck


def checked_table(found: Sequence[OperatorCheck]) -> Table:
    """Tabulate what a check compared; of a sample, the share of the work that was executed."""
    sampled = any(one.executed < 1 for one in found)
    names = ("operator, a sample" if sampled else "checked operator",)
    columns = ("compared", "of elements", "largest deviation", "work executed")
    table = make_table(names, columns[: 3 + sampled])
    for one in found:
        deviation = f"{one.deviation:.1e}" if one.compared else "stays on chip"
        counts = map(cycles_text, (one.compared, one.elements))
        row = (one.operator, *counts, deviation, fine_share_text(one.executed))
        add_row(table, row[: 4 + sampled])
    return table
