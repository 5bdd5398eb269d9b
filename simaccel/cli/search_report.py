"""`--explain` and `--plot`: reports on the searches for a mapping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

from simaccel.cli.faults import fault, require_none
from simaccel.cli.settings import OF_SEARCH, option

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.cli.output import OutputFiles
    from simaccel.hardware import Accelerator
    from simaccel.search.accounts import ObjectiveLosses, SearchAccount
    from simaccel.search.effort import Objective


@dataclass(frozen=True)
class SearchReport:
    """The report on the searches: a table or JSON, and a figure."""

    explain: bool
    plot: str | None
    accounts: list[SearchAccount] = field(default_factory=list)
    losses: list[ObjectiveLosses] = field(default_factory=list)

    def given_options(self) -> dict[str, object]:
        """Return the options that the user gave."""
        every = {"--explain": "given" if self.explain else None, "--plot": self.plot}
        return {name: value for name, value in every.items() if value is not None}

    def draw(self, objective: Objective, title: str, files: OutputFiles) -> None:
        """Draw the progress of the searches, if a file is given."""
        if self.plot is None:
            return
        if not any(account.curve for account in self.accounts):
            require_none([fault("--plot", self.plot, "nothing if there is no search")])
        from simaccel.report.figures.convergence import draw_convergence

        shown = [account for account in self.accounts if not account.left_out]
        curves = [("+".join(account.operators), account.curve, account.ran) for account in shown]
        files.write("--plot", lambda: draw_convergence(curves, objective, title))

    def table(self, objective: Objective, accelerator: Accelerator) -> Table:
        """Return the searches as a table."""
        from simaccel.report.accounts import accounts_table

        return accounts_table(self.accounts, objective, accelerator)

    def json(self, objective: Objective, accelerator: Accelerator) -> dict[str, Any]:
        """Return the searches as JSON."""
        from simaccel.report.accounts import account_json, objective_scale

        scale = objective_scale(objective, accelerator)
        return {"searches": [account_json(one, scale) for one in self.accounts]}


def report_options(
    text: str, *, draws: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--explain`` with the help ``text`` and, if ``draws``, ``--plot``.

    The command gets both as ``report``, a `SearchReport`.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def report_search(*, explain: bool, **options: Any) -> None:  # noqa: ANN401 - what click passes
            plot = options.pop("plot") if draws else None
            command(report=SearchReport(explain, plot), **options)

        explained = option("--explain", text, OF_SEARCH)
        if not draws:
            return explained(report_search)
        draw = option("--plot FILE", "Draw the progress of the search (.png, .svg or .pdf).")
        return explained(draw(report_search))

    return add
