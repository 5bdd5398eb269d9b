"""`--jobs` and `--dask`: in which processes a command's tasks run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from simaccel.cli.faults import fault, require_none
from simaccel.cli.settings import OF_RUNS, option

if TYPE_CHECKING:
    from simaccel.experiment.workers import TaskWorkers

_MOST_A_PROCESSOR: Final = 4
"""Each process takes tens of MB and a second to start; more of them than processors wait."""


@dataclass(frozen=True)
class Jobs:
    """That many processes of this computer, or those of a Dask scheduler."""

    count: int | None = None
    dask: str | None = None

    def given_options(self) -> dict[str, object]:
        """Return the options that were given."""
        every = {"--jobs": self.count, "--dask": self.dask}
        return {name: value for name, value in every.items() if value is not None}

    def working(self, default: int = 1) -> AbstractContextManager[TaskWorkers]:
        """Yield the runner of tasks; ``default``: its processes if none are given.

        Raises:
            InputError: no scheduler with processes answers at the address.

        """
        from simaccel.experiment.parallel import open_workers

        return open_workers(self.count or default, self.dask)


def jobs_options(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--jobs`` and ``--dask``; the command gets ``jobs``."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_jobs(*, jobs: int | None, dask: str | None, **options: Any) -> None:  # noqa: ANN401 - what click passes
            _require_few(jobs)
            if dask is not None and ":" not in dask:
                allowed = "the address of a Dask scheduler, as in tcp://127.0.0.1:8786"
                require_none([fault("--dask", dask, allowed)])
            command(jobs=Jobs(jobs, dask), **options)

        dask_option = option(
            "--dask ADDRESS", "Use the processes of this Dask scheduler (tcp://HOST:PORT).", OF_RUNS
        )
        jobs_option = option("--jobs N", text, OF_RUNS, type=click.IntRange(min=1))
        return jobs_option(dask_option(with_jobs))

    return add


def _require_few(jobs: int | None) -> None:
    """Refuse processes that this computer can't run side by side in any sense."""
    most = _MOST_A_PROCESSOR * (os.cpu_count() or 1)
    if jobs is not None and jobs > most:
        allowed = f"at most {most}, which is {_MOST_A_PROCESSOR} a processor; --dask for more"
        require_none([fault("--jobs", jobs, allowed)])


SEARCH_JOBS_HELP = "Processes of a search; same result. Of a dataflow's where its runs take long."
JOBS_HELP = "Processes at a time (default: one for each processor)."
