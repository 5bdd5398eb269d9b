"""The table of a check: what was compared with plain numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simaccel.report.tables import Column, Table, tabulate
from simaccel.report.units import fine_share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simaccel.experiment.check import OperatorCheck


def checked_table(checks: Sequence[OperatorCheck]) -> Table:
    """Tabulate what a check compared; of a sample, the share of the work that was executed."""
    sampled = any(check.executed < 1 for check in checks)
    columns = (
        Column("operator, a sample" if sampled else "checked operator", "operator", kind="text"),
        Column("compared", "compared", "count"),
        Column("of elements", "elements", "count"),
        Column(
            "largest deviation",
            "",
            lambda check: f"{check.deviation:.1e}" if check.compared else "stays on chip",
        ),
        Column("work executed", "executed", fine_share_text),
    )
    return tabulate(checks, columns[: 4 + sampled])
