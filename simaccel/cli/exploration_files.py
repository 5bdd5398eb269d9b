"""The outputs of `simaccel explore`: terminal, tables, pictures, a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.output import show, show_json
from simaccel.cli.output_files import OutputFiles

if TYPE_CHECKING:
    from simaccel.experiment.store import ResultStore
    from simaccel.study.explore import ExplorationObjective, ExploredDesigns
    from simaccel.study.points import Point
    from simaccel.study.space import DesignSpace

_PLOTS: Final = ("--plot-frontier", "--plot-pairs", "--plot-sensitivity")


@dataclass(frozen=True)
class ExplorationFiles(OutputFiles):
    """The files of an exploration, and the rows of its table (``top``; None: all)."""

    top: int | None = None

    @classmethod
    def take_options(cls, given: dict[str, Any], inputs: Sequence[Path]) -> ExplorationFiles:
        """Take the options out of what click passes."""
        files = {"--csv": given.pop("table"), "--parquet": given.pop("parquet")}
        files |= {name: given.pop(name[2:].replace("-", "_")) for name in _PLOTS}
        files["-o"] = given.pop("output")
        return cls(files, given.pop("force"), inputs, given.pop("top"))

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
        quiet = as_json or self.prints
        if as_json:
            show_json(exploration_json(exploration))
        elif not quiet:
            table = exploration_table(exploration, self.top)
            show(title, table, *counted_lines(exploration, self.top))
        for line in (*effort_lines(exploration), *written):
            click.echo(line, err=quiet)

    def _write(self, exploration: ExploredDesigns, title: str) -> list[str]:
        from simaccel.report.exploration import exploration_csv, write_parquet
        from simaccel.report.exploration_page import exploration_page
        from simaccel.report.figures.exploration import draw_frontier, draw_pairs, draw_sensitivity

        lines = self.write("--csv", partial(exploration_csv, exploration))
        lines += self.write("--parquet", partial(write_parquet, exploration))
        for name, draw in zip(_PLOTS, (draw_frontier, draw_pairs, draw_sensitivity), strict=True):
            lines += self.write(name, partial(draw, exploration, title))
        return lines + self.write("-o", partial(exploration_page, exploration, title))


def show_cost(
    designs: Iterable[Point], plan: ExplorationObjective, store: ResultStore, *, as_json: bool
) -> None:
    """Show the cost of an exploration; nothing is stored."""
    from simaccel.report.units import seconds_text
    from simaccel.study.explore import cost_of

    cost = cost_of(designs, plan, store)
    if as_json:
        show_json(asdict(cost))
        return
    show(
        f"{cost.designs:,} designs, {cost.outside:,} of them impossible or outside the limits",
        f"{cost.runs:,} runs to make, {cost.stored:,} in the store",
        f"CPU time of these: {seconds_text(cost.cpu_seconds)}, by {cost.timed} of them",
    )
