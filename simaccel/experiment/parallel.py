"""Running tasks in other processes by Dask: on this computer, or on a cluster that exists.

With one job, tasks run in this process and Dask is never loaded. With several, a local cluster is
started, whose processes end with this one however it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NoReturn, Protocol, TypeVar

from simaccel.errors import WorkerDiedError

Task = TypeVar("Task")
Found = TypeVar("Found")
Numbered = Generator[tuple[int, Found], None, None]
"""Results with the numbers of their tasks, as they come."""
Watch = Callable[[float, str], None]
"""Told the part that is done, from 0 to 1, and how it stands."""


def died(_task: object) -> NoReturn:
    """Say that a process died.

    Raises:
        WorkerDiedError: always.

    """
    raise WorkerDiedError("a process of the comparison died; is there enough memory?")


class Team(Protocol):
    """Who runs tasks."""

    def numbered(
        self, work: Callable[[Task], Found], tasks: Sequence[Task], lost: Callable[[Task], Found]
    ) -> Numbered[Found]:
        """Run ``work`` on each task, the last ones first; ``lost`` where its process died."""
        ...

    def each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        """Give the results in the order of the tasks, as far as they are asked for.

        Raises:
            WorkerDiedError: a process died.

        """
        ...


class _Alone:
    """Runs tasks one after the other in this process."""

    def numbered(
        self,
        work: Callable[[Task], Found],
        tasks: Sequence[Task],
        lost: Callable[[Task], Found],  # noqa: ARG002 - this process is here
    ) -> Numbered[Found]:
        for number, task in enumerate(tasks):
            yield number, work(task)

    def each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        return map(work, tasks)


@contextmanager
def working(jobs: int, address: str | None = None) -> Iterator[Team]:
    """Give who runs tasks: that many processes, which stay until the end of the block.

    ``address``: of a Dask scheduler, whose processes are used instead.

    Raises:
        InputError: no scheduler with processes answers at the address.

    """
    if jobs <= 1 and address is None:
        yield _Alone()
        return
    # Dask takes half a second to load
    from simaccel.experiment.cluster import connected, started  # noqa: PLC0415

    with started(jobs) if address is None else connected(address) as team:
        yield team


def run_all(
    work: Callable[[Task], Found],
    tasks: Sequence[Task],
    jobs: int,
    watch: Watch,
    *,
    lost: Callable[[Task], Found] = died,
    note: Callable[[int, Found], None] = lambda _number, _found: None,
    address: str | None = None,
) -> list[Found]:
    """Run ``work`` on each task, at most ``jobs`` at a time; results in the order of tasks.

    ``lost`` gives the result of a task whose process died; ``note`` is told each result at once.
    """
    with working(min(jobs, len(tasks)), address) as team:
        return noted(team, work, tasks, watch, lost=lost, note=note)


def noted(
    team: Team,
    work: Callable[[Task], Found],
    tasks: Sequence[Task],
    watch: Watch,
    *,
    lost: Callable[[Task], Found] = died,
    note: Callable[[int, Found], None] = lambda _number, _found: None,
) -> list[Found]:
    """Do what ``run_all`` does with a team that is there already."""
    results: dict[int, Found] = {}
    with closing(team.numbered(work, tasks, lost)) as found:
        for number, result in found:
            results[number] = result
            note(number, result)
            watch(len(results) / len(tasks), f"{len(results)} of {len(tasks)} runs")
    return [results[number] for number in range(len(tasks))]
