"""Progress on stderr, if something takes longer than a second.

A bar shows the completed share of the work, with a line above it for each completed part, such as a
layer or a run. Each command also has a bar of its own for phases without another bar; it gives way
to the others and to output. Outside of a terminal there is no bar, and there are lines only of what
takes longer than ten seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SILENT_SECONDS = 1.0
"""Work that is over sooner shows no bar."""
UNSEEN_SECONDS = 10.0
"""Work that is over sooner prints no lines outside of a terminal."""
_MOST_SECONDS = 2.0
"""Time within which a bar is drawn, or never."""
_SHOW_CURSOR = "\x1b[?25h"
_open: list[ProgressBar] = []
"""Open bars, the innermost last, which is the only one drawn."""


def clear_for_output() -> None:
    """Remove the command's bar before output is printed."""
    if _open and _open[-1].waits:
        _open[-1].pause()


class ProgressBar:
    """A progress bar that appears after a second; a context manager.

    One that ``waits`` doesn't know the completed share.
    """

    def __init__(self, label: str, *, quiet: bool = False, waits: bool = False) -> None:
        self.label = label
        self.waits = waits
        self.silent = quiet or sys.stderr is None
        self.hidden = self.silent or not sys.stderr.isatty()
        self.started = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID
        self._finished: list[str] = []
        """Lines that wait for the bar."""
        self._last = (0.0, "")
        """What was shown last, or would have been."""
        self._lock = threading.RLock()
        self._streams = sys.stdout, sys.stderr
        """As they are without a bar, which takes their place."""
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        if not self.hidden:
            if _open:
                _open[-1].pause()
            _open.append(self)
            self.resume()
        return self

    def resume(self) -> None:
        """Draw again after a moment."""
        self._timer = threading.Timer(SILENT_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def pause(self) -> None:
        """Draw nothing until the bar inside this one has ended.

        Ctrl-C may interrupt an import of this thread so that its lock is never released. The
        drawing thread then waits for it forever while it holds the bar's lock, so this thread must
        not wait for that lock.
        """
        if self._timer is not None:
            self._timer.cancel()
        if not self._lock.acquire(timeout=_MOST_SECONDS):
            self.hidden = True
            sys.stdout, sys.stderr = self._streams
            sys.stderr.write(_SHOW_CURSOR)
            return
        try:
            self._timer = None
            if self._progress is not None:
                self._progress.stop()
            self._progress = None
        finally:
            self._lock.release()

    def _appear(self) -> None:
        """Refresh the bar if there is no report for a while."""
        with self._lock:
            if not self.hidden and self._timer is not None:
                self.show(*self._last)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.hidden = True
        self.pause()
        if self in _open:
            _open.remove(self)
            if _open:
                _open[-1].resume()

    def line(self, text: str) -> None:
        """Print a line for a finished part above the bar, unless everything is over soon."""
        if self.silent:
            return
        self._finished.append(text)
        if self.hidden:
            if time.monotonic() - self.started >= UNSEEN_SECONDS:
                print(*self._finished, sep="\n", file=sys.stderr, flush=True)
                self._finished.clear()
        elif self._progress is not None or self._is_time():
            with self._lock:
                progress = self._start_bar()
            self._print(progress)

    def show(self, done: float, note: str = "") -> None:
        """Show the completed share, from 0 to 1."""
        self._last = (done, note)
        if self.hidden or self._timer is None or (self._progress is None and not self._is_time()):
            return
        with self._lock:
            progress = self._start_bar()
        self._print(progress)
        progress.update(self._task, completed=done, note=note)

    def _is_time(self) -> bool:
        return time.monotonic() - self.started >= SILENT_SECONDS

    def _print(self, progress: Progress) -> None:
        for text in self._finished:
            progress.console.print(text, markup=False, highlight=False)
        self._finished.clear()

    def _start_bar(self) -> Progress:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            columns = ("{task.description}", "{task.percentage:>5.1f}%", "{task.fields[note]}")
            description, percentage, text = map(TextColumn, columns)
            known = (percentage, text, TimeRemainingColumn())
            self._progress = Progress(
                description,
                BarColumn(),
                *((TimeElapsedColumn(),) if self.waits else known),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=not self.waits,
            )
            total = None if self.waits else 1.0
            self._task = self._progress.add_task(self.label, total=total, note="")
            self._progress.start()
        return self._progress
