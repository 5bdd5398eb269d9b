"""The outputs of `simaccel explore`: terminal, tables, pictures, a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.faults import gather, require_stdout_free
from simaccel.cli.output import show, show_json
from simaccel.files.targets import (
    STDOUT,
    require_distinct,
    require_target,
    writing,
    writing_text,
)
from simaccel.report.figures.style import require_figure_target, save_figure, style

if TYPE_CHECKING:
    from simaccel.experiment.exploration.explore import ExplorationObjective, ExploredDesigns
    from simaccel.experiment.exploration.space import DesignPoint, DesignSpace
    from simaccel.experiment.store import ResultStore

_PLOTS: Final = ("plot_frontier", "plot_pairs", "plot_sensitivity")


@dataclass(frozen=True)
class ExplorationFiles:
    """Files that are asked for, None where one isn't; ``plots`` by option."""

    table: str | None
    parquet: str | None
    page: str | None
    plots: dict[str, str]
    force: bool
    inputs: Sequence[Path]

    @classmethod
    def taken(cls, given: dict[str, Any], inputs: Sequence[Path]) -> ExplorationFiles:
        """Take the options out of what click passes."""
        plots = {name: given.pop(name) for name in _PLOTS}
        return cls(
            given.pop("table"),
            given.pop("parquet"),
            given.pop("output"),
            {name: path for name, path in plots.items() if path is not None},
            given.pop("force"),
            inputs,
        )

    def require(self, *, as_json: bool) -> None:
        """Refuse what can't be written, before anything runs.

        Raises:
            InputError: a file that exists, a folder that doesn't, a suffix that no figure has.

        """
        require_stdout_free(
            self.table, "--csv", others={"--json": as_json, "-o -": self.page == STDOUT}
        )
        require_stdout_free(self.page, "-o", others={"--json": as_json})
        how: dict[str, Any] = {"force": self.force, "inputs": self.inputs}
        checks: list[Callable[[], object]] = [
            partial(require_target, path, text=True, **how)
            for path in (self.table, self.page)
            if path is not None
        ]
        if self.parquet is not None:
            from simaccel.report.exploration import require_parquet

            checks += [require_parquet, partial(require_target, self.parquet, **how)]
        checks += [partial(require_figure_target, path, **how) for path in self.plots.values()]
        named = {"--csv": self.table, "--parquet": self.parquet, "-o": self.page}
        plots = {f"--{name.replace('_', '-')}": path for name, path in self.plots.items()}
        gather(*checks, lambda: require_distinct((named | plots).items()))

    def show(self, exploration: ExploredDesigns, space: DesignSpace, *, as_json: bool) -> None:
        """Write the files, and print what goes to the terminal."""
        from simaccel.report.exploration import (
            counted_lines,
            effort_lines,
            exploration_json,
            exploration_table,
            exploration_title,
        )

        title = exploration_title(exploration, space)
        written = self._write(exploration, title)
        quiet = as_json or STDOUT in {self.table, self.page}
        if as_json:
            show_json(exploration_json(exploration))
        elif not quiet:
            show(title, exploration_table(exploration), *counted_lines(exploration))
        for line in (*effort_lines(exploration), *written):
            click.echo(line, err=quiet)

    def _write(self, exploration: ExploredDesigns, title: str) -> list[str]:
        from simaccel.report.exploration import exploration_csv, write_parquet
        from simaccel.report.exploration_page import exploration_page
        from simaccel.report.figures.exploration import draw_frontier, draw_pairs, draw_sensitivity

        drawn = dict(zip(_PLOTS, (draw_frontier, draw_pairs, draw_sensitivity), strict=True))
        how: dict[str, Any] = {"force": self.force, "inputs": self.inputs}
        lines = []
        if self.table is not None:
            with writing_text(self.table, **how) as stream:
                stream.write(exploration_csv(exploration))
            lines.append(f"table: {self.table}")
        if self.parquet is not None:
            with writing(self.parquet, **how) as partly:
                write_parquet(exploration, partly)
            lines.append(f"table: {self.parquet}")
        for name, path in self.plots.items():
            with style():
                save_figure(drawn[name](exploration, title), path, **how)
            lines.append(f"figure: {path}")
        if self.page is not None:
            with writing_text(self.page, **how) as stream:
                stream.write(exploration_page(exploration, title))
            lines.append(f"page: {self.page}")
        return lines


def show_cost(
    designs: Iterable[DesignPoint], plan: ExplorationObjective, store: ResultStore, *, as_json: bool
) -> None:
    """Show the cost of an exploration; nothing is stored."""
    from simaccel.experiment.exploration.explore import cost_of
    from simaccel.report.units import seconds_text

    cost = cost_of(designs, plan, store)
    if as_json:
        show_json(asdict(cost))
        return
    show(
        f"{cost.designs:,} designs, {cost.outside:,} of them impossible or outside the limits",
        f"{cost.runs:,} runs to make, {cost.stored:,} in the store",
        f"CPU time of these: {seconds_text(cost.cpu_seconds)}, by {cost.timed} of them",
    )
