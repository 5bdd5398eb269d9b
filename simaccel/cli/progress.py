"""Progress on stderr: only in a terminal, and only where something takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SILENT_SECONDS = 1.0
"""What is over sooner shows no bar."""


class Bar:
    """A progress bar that appears after a second; a context manager."""

    def __init__(self, label: str, *, quiet: bool = False) -> None:
        self.label = label
        self.hidden = quiet or not sys.stderr.isatty()
        self.started = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, done: float, note: str = "") -> None:
        """Show the part of the work that is done, from 0 to 1."""
        if self.hidden:
            return
        if self._progress is None:
            if time.monotonic() - self.started < SILENT_SECONDS:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = ("{task.description}", "{task.percentage:>5.1f}%", "{task.fields[note]}")
            description, percentage, text = map(TextColumn, columns)
            self._progress = Progress(
                description,
                BarColumn(),
                percentage,
                text,
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self.label, total=1.0, note=note)
            self._progress.start()
        self._progress.update(self._task, completed=done, note=note)
