"""Running tasks in other processes of this computer (of a Dask cluster: `study.cluster`).

A single job or task runs in this process. Otherwise, processes are started when there are tasks;
they end with this process, however it ends.

Each task returns, raises an error, or its process dies. One whose process dies is tried once more,
alone, when all others have ended; if that process dies, too, the task is lost, and no other.
"""

from __future__ import annotations

import os
import signal
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

from simaccel.errors import SimaccelError, WorkerDiedError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Task = TypeVar("Task")
Result = TypeVar("Result")
Numbered = Generator[tuple[int, Result], None, None]
"""Results with the numbers of their tasks, in the order in which they arrive."""
Watch = Callable[[float, str], None]
"""Callback for progress: the completed share, from 0 to 1, and a note."""
Outcome = tuple[BaseException | None, Any]
"""(error that a task raised or None, its result)."""
DIED: Final = "a process of the search died; is there enough memory?"


class ClusterError(SimaccelError):
    """The processes that are to execute a task can't."""

    exit_code = 1


def raise_died(_task: object) -> NoReturn:
    """Raise the error of a task whose process died."""
    raise WorkerDiedError(DIED)


class TaskWorkers(ABC):
    """Processes that run tasks."""

    @abstractmethod
    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        """Yield outcomes of the tasks ``numbers``; `WorkerDiedError` if a process died."""

    def run(
        self,
        work: Callable[[Task], Result],
        tasks: Sequence[Task],
        watch: Watch = lambda _done, _note: None,
        *,
        lost: Callable[[Task], Result] = raise_died,
        on_result: Callable[[int, Result], None] = lambda _number, _found: None,
    ) -> list[Result]:
        """Return the results of ``work`` on each task, in their order; the last task runs first.

        ``lost`` gives the result of a task whose process died; ``on_result`` is called with each
        result at once.
        """
        results: dict[int, Result] = {}
        with closing(self._results(work, tasks, range(len(tasks))[::-1], lost)) as done:
            for number, result in done:
                results[number] = result
                on_result(number, result)
                watch(len(results) / len(tasks), f"{len(results)} of {len(tasks)} runs")
        return [results[number] for number in range(len(tasks))]

    def run_each(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
        """Yield the results in the order of the tasks; tasks run only as far as results are read.

        Raises:
            WorkerDiedError: a process died.
        """
        early: dict[int, Result] = {}
        after = 0
        with closing(self._results(work, tasks, range(len(tasks)), raise_died)) as results:
            for number, result in results:
                early[number] = result
                while after in early:
                    yield early.pop(after)
                    after += 1

    def _results(
        self,
        work: Callable[[Task], Result],
        tasks: Sequence[Task],
        numbers: Sequence[int],
        lost: Callable[[Task], Result],
    ) -> Numbered[Result]:
        """Yield results as they come; tasks whose process died are tried again, each alone."""
        died: list[int] = []
        with closing(self.outcomes(work, tasks, numbers)) as outcomes:
            for number, (error, result) in outcomes:
                if isinstance(error, WorkerDiedError):
                    died.append(number)
                elif error is not None:
                    raise error
                else:
                    yield number, result
        for again in died:
            for number, (error, result) in self.outcomes(work, tasks, [again]):
                if error is not None and not isinstance(error, WorkerDiedError):
                    raise error
                yield number, lost(tasks[number]) if error is not None else result


_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Processes(TaskWorkers):
    """Processes of this computer: at most ``most``, started once there are several tasks."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._started: dict[Connection, BaseProcess] = {}

    def _results(
        self,
        work: Callable[[Task], Result],
        tasks: Sequence[Task],
        numbers: Sequence[int],
        lost: Callable[[Task], Result],
    ) -> Numbered[Result]:
        """Yield results; a single task, and all of a single process, run in this process."""
        if min(len(tasks), self.most) <= 1 and not self._started:
            return ((number, work(tasks[number])) for number in range(len(tasks)))
        return super()._results(work, tasks, numbers, lost)

    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        from multiprocessing.connection import wait  # noqa: PLC0415 - a tenth of a short command

        waiting = deque(numbers)
        busy: dict[Connection, int] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < min(self.most, len(numbers)):
                    free = next((c for c in self._started if c not in busy), None) or self._start()
                    with suppress(
                        ConnectionError
                    ):  # a process that has died is noticed by `_receive`
                        free.send((work, tasks[waiting[0]]))
                    busy[free] = waiting.popleft()
                for connection in cast("list[Connection]", wait(busy)):
                    yield busy.pop(connection), self._receive(connection)
        finally:
            for connection in busy:  # their results are no longer needed
                self._end(connection)

    def _receive(self, connection: Connection) -> Outcome:
        """Return the outcome of a process's task; an error if the process died."""
        try:
            outcome: Outcome = connection.recv()
        except (EOFError, OSError):
            self._end(connection)
            return WorkerDiedError(DIED), None
        return outcome

    def _start(self) -> Connection:
        """Start a process.

        Raises:
            ClusterError: it can't be started.
        """
        import multiprocessing  # noqa: PLC0415 - as above
        from multiprocessing import resource_tracker  # noqa: PLC0415

        spawn = multiprocessing.get_context("spawn")
        try:
            if hasattr(signal, "pthread_sigmask"):  # starting it unblocks the caller's signals
                resource_tracker.ensure_running()
            with _blocked_signals():
                connection, end = spawn.Pipe()
                process = spawn.Process(target=_work, args=(end,), daemon=True)
                process.start()
                end.close()
        except OSError as error:
            problem = f"no process of --jobs starts: {error.strerror}"
            raise ClusterError(f"{problem}; --jobs 1 needs none") from None
        self._started[connection] = process
        return connection

    def _end(self, connection: Connection) -> None:
        """End a process at once, whatever it does."""
        process = self._started.pop(connection)
        process.kill()
        process.join()
        connection.close()

    def end(self) -> None:
        """End all processes."""
        for connection in [*self._started]:
            self._end(connection)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM; processes that are started in the block never get them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection) -> None:
    """Run tasks until the parent process ends, in whatever way."""
    import multiprocessing  # noqa: PLC0415 - as above

    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    while True:
        work, task = connection.recv()
        try:
            connection.send((None, work(task)))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is read
            connection.send((error, None))


def most_workers() -> int:
    """Return the most processes that a call starts: two a processor."""
    return 2 * (os.cpu_count() or 1)


@contextmanager
def open_workers(jobs: int) -> Iterator[TaskWorkers]:
    """Yield workers: up to ``jobs`` processes, which end with the block."""
    processes = _Processes(jobs)
    try:
        yield processes
    finally:
        processes.end()
