"""The table of a check: what was compared with plain numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simaccel.report.tables import Column, tabulate
from simaccel.report.units import fine_share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from simaccel.experiment.check import OperatorCheck


def checked_table(found: Sequence[OperatorCheck]) -> Table:
    """Tabulate what a check compared; of a sample, the share of the work that was executed."""
    sampled = any(one.executed < 1 for one in found)
    columns = (
        Column("operator, a sample" if sampled else "checked operator", "operator", kind="text"),
        Column("compared", "compared", "count"),
        Column("of elements", "elements", "count"),
        Column(
            "largest deviation",
            "",
            lambda one: f"{one.deviation:.1e}" if one.compared else "stays on chip",
        ),
        Column("work executed", "executed", fine_share_text),
    )
    return tabulate(found, columns[: 4 + sampled])
