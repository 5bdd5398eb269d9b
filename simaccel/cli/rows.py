"""Files with the rows of a comparison: a table as CSV, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from simaccel.cli.faults import gather
from simaccel.files.targets import require_distinct, require_target, writing_text
from simaccel.report.figures.style import require_figure_target, save_figure, style


@dataclass(frozen=True)
class Files:
    """The files that are asked for, and those that are read, none of which is replaced."""

    table: str | None
    plot: str | None
    force: bool
    inputs: Sequence[Path]

    def require(self) -> None:
        """Refuse what can't be written, before anything runs.

        Raises:
            InputError: a file that exists, a folder that doesn't, a suffix that no figure has.

        """
        how: dict[str, Any] = {"force": self.force, "inputs": self.inputs}
        checks = []
        if self.table is not None:
            checks.append(partial(require_target, self.table, text=True, **how))
        if self.plot is not None:
            checks.append(partial(require_figure_target, self.plot, **how))
        gather(
            *checks, lambda: require_distinct({"--plot": self.plot, "--csv": self.table}.items())
        )

    def write(self, text: Callable[[], str | Iterable[str]], draw: Callable[[], Any]) -> list[str]:
        """Write the files that are asked for, ``text`` whole or in pieces; a line for each."""
        lines = []
        if self.table is not None:
            with writing_text(self.table, force=self.force, inputs=self.inputs) as stream:
                content = text()
                stream.writelines([content] if isinstance(content, str) else content)
            lines.append(f"table: {self.table}")
        if self.plot is not None:
            with style():
                save_figure(draw(), self.plot, force=self.force, inputs=self.inputs)
            lines.append(f"figure: {self.plot}")
        return lines
