"""Running tasks in other processes by Dask: on this computer, or on a cluster that exists.

With one job, or one task, tasks run in this process and Dask is never loaded. With several, a local
cluster is started when there are tasks, whose processes end with this one however it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from simaccel.errors import WorkerDiedError

if TYPE_CHECKING:
    from simaccel.experiment.cluster import LocalProcesses

Task = TypeVar("Task")
Found = TypeVar("Found")
Numbered = Generator[tuple[int, Found], None, None]
"""Results with the numbers of their tasks, as they come."""
Watch = Callable[[float, str], None]
"""Told the part that is done, from 0 to 1, and how it stands."""


def raise_died(_task: object) -> NoReturn:
    """Raise the error of a process that died.

    Raises:
        WorkerDiedError: always.

    """
    raise WorkerDiedError("a process of the comparison died; is there enough memory?")


class TaskWorkers(Protocol):
    """Processes that run tasks."""

    def run_numbered(
        self, work: Callable[[Task], Found], tasks: Sequence[Task], lost: Callable[[Task], Found]
    ) -> Numbered[Found]:
        """Run ``work`` on each task, the last ones first; ``lost`` where its process died."""
        ...

    def run_each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        """Yield the results in the order of the tasks; tasks run only as far as results are read.

        Raises:
            WorkerDiedError: a process died.

        """
        ...


class _Alone:
    """Runs tasks one after the other in this process."""

    def run_numbered(
        self,
        work: Callable[[Task], Found],
        tasks: Sequence[Task],
        lost: Callable[[Task], Found],  # noqa: ARG002 - this process is here
    ) -> Numbered[Found]:
        for number, task in enumerate(tasks):
            yield number, work(task)

    def run_each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        return map(work, tasks)


class _Starting:
    """Starts processes where there are tasks for them: at most ``most``, no more than tasks."""

    def __init__(self, most: int, ends: ExitStack) -> None:
        self.most = most
        self._ends = ends
        self._processes: LocalProcesses | None = None

    def run_numbered(
        self, work: Callable[[Task], Found], tasks: Sequence[Task], lost: Callable[[Task], Found]
    ) -> Numbered[Found]:
        return self._team(len(tasks)).run_numbered(work, tasks, lost)

    def run_each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        return self._team(len(tasks)).run_each(work, tasks)

    def _team(self, tasks: int) -> TaskWorkers:
        count = min(tasks, self.most)
        if self._processes is None:
            if count <= 1:
                return _Alone()
            # Dask takes half a second to load
            from simaccel.experiment.cluster import start_cluster  # noqa: PLC0415

            self._processes = self._ends.enter_context(start_cluster(count))
        self._processes.grow(count)
        return self._processes


@contextmanager
def open_workers(jobs: int, address: str | None = None) -> Iterator[TaskWorkers]:
    """Yield workers: up to that many processes, which stay until the end of the block.

    They are started once there are several tasks. ``address``: of a Dask scheduler, whose processes
    are used instead.

    Raises:
        InputError: no scheduler with processes answers at the address.

    """
    if address is not None:
        from simaccel.experiment.cluster import connect_cluster  # noqa: PLC0415 - as above

        with connect_cluster(address) as team:
            yield team
        return
    with ExitStack() as ends:
        yield _Alone() if jobs <= 1 else _Starting(jobs, ends)


def run_all(
    work: Callable[[Task], Found],
    tasks: Sequence[Task],
    jobs: int,
    watch: Watch,
    *,
    lost: Callable[[Task], Found] = raise_died,
    note: Callable[[int, Found], None] = lambda _number, _found: None,
    address: str | None = None,
) -> list[Found]:
    """Run ``work`` on each task, at most ``jobs`` at a time; results in the order of tasks.

    ``lost`` gives the result of a task whose process died; ``note`` is called with each result at
    once.
    """
    with open_workers(min(jobs, len(tasks)), address) as team:
        return run_with(team, work, tasks, watch, lost=lost, note=note)


def run_with(
    team: TaskWorkers,
    work: Callable[[Task], Found],
    tasks: Sequence[Task],
    watch: Watch,
    *,
    lost: Callable[[Task], Found] = raise_died,
    note: Callable[[int, Found], None] = lambda _number, _found: None,
) -> list[Found]:
    """Do what ``run_all`` does with a team that is there already."""
    results: dict[int, Found] = {}
    with closing(team.run_numbered(work, tasks, lost)) as done:
        for number, result in done:
            results[number] = result
            note(number, result)
            watch(len(results) / len(tasks), f"{len(results)} of {len(tasks)} runs")
    return [results[number] for number in range(len(tasks))]
