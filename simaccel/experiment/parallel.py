"""Running tasks in other processes: of this computer, or of a Dask cluster that exists.

With one job, or one task, tasks run in this process. With several, processes are started when there
are tasks, which end with this one however it ends. A task whose process dies is tried once more,
alone, when all others have ended; if that process dies, too, the task is lost, and no other.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, NoReturn, TypeVar

from simaccel.errors import SimaccelError, WorkerDiedError

Task = TypeVar("Task")
Found = TypeVar("Found")
Numbered = Generator[tuple[int, Found], None, None]
"""Results with the numbers of their tasks, as they come."""
Outcome = tuple[BaseException | None, Any]
"""What a task raised, or gave."""
Watch = Callable[[float, str], None]
"""Told the part that is done, from 0 to 1, and how it stands."""
DIED: Final = "a process of the search died; is there enough memory?"
_SENT: Final = 2
"""Tasks that are sent for each process: one runs, one waits."""
_MOST_WINDOWS: Final = 61
_NO_LEAKS: Final = "ignore::UserWarning:multiprocessing.resource_tracker"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class ClusterError(SimaccelError):
    """The processes that are to execute a task can't."""

    exit_code = 1


def raise_died(_task: object) -> NoReturn:
    """Raise the error of a process that died.

    Raises:
        WorkerDiedError: always.

    """
    raise WorkerDiedError("a process of the comparison died; is there enough memory?")


def _raise_died(_task: object) -> NoReturn:
    raise WorkerDiedError(DIED)


class TaskWorkers(ABC):
    """Processes that run tasks."""

    @abstractmethod
    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        """Yield what came of some of the tasks; a ``WorkerDiedError`` where a process died."""

    def run_numbered(
        self, work: Callable[[Task], Found], tasks: Sequence[Task], lost: Callable[[Task], Found]
    ) -> Numbered[Found]:
        """Run ``work`` on each task, the last ones first; ``lost`` where its process died."""
        yield from self._results(work, tasks, range(len(tasks))[::-1], lost)

    def run_each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        """Yield the results in the order of the tasks; tasks run only as far as results are read.

        Raises:
            WorkerDiedError: a process died.

        """
        early: dict[int, Found] = {}
        after = 0
        with closing(self._results(work, tasks, range(len(tasks)), _raise_died)) as results:
            for number, result in results:
                early[number] = result
                while after in early:
                    yield early.pop(after)
                    after += 1

    def _results(
        self,
        work: Callable[[Task], Found],
        tasks: Sequence[Task],
        numbers: Sequence[int],
        lost: Callable[[Task], Found],
    ) -> Numbered[Found]:
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


class _Alone(TaskWorkers):
    """Runs tasks one after the other in this process."""

    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        for number in numbers:
            yield number, (None, work(tasks[number]))

    def run_numbered(
        self,
        work: Callable[[Task], Found],
        tasks: Sequence[Task],
        lost: Callable[[Task], Found],  # noqa: ARG002 - this process is here
    ) -> Numbered[Found]:
        for number, task in enumerate(tasks):
            yield number, work(task)


class _Processes(TaskWorkers):
    """Processes of this computer: at most ``most``, started where there are several tasks."""

    def __init__(self, most: int) -> None:
        self.most = min(most, _MOST_WINDOWS) if sys.platform == "win32" else most
        self._pool: Any = None

    def run_numbered(
        self, work: Callable[[Task], Found], tasks: Sequence[Task], lost: Callable[[Task], Found]
    ) -> Numbered[Found]:
        if self._needs_none(tasks):
            return _Alone().run_numbered(work, tasks, lost)
        return super().run_numbered(work, tasks, lost)

    def run_each(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterable[Found]:
        return map(work, tasks) if self._needs_none(tasks) else super().run_each(work, tasks)

    def _needs_none(self, tasks: Sequence[object]) -> bool:
        return min(len(tasks), self.most) <= 1 and self._pool is None

    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        from concurrent.futures import FIRST_COMPLETED, Future, wait  # noqa: PLC0415 - only here
        from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

        waiting, sent = deque(numbers), dict[Future[Any], int]()
        try:
            while waiting or sent:
                while waiting and len(sent) < _SENT * min(self.most, len(numbers)):
                    number = waiting.popleft()
                    sent[self._submit(work, tasks[number])] = number
                for future in wait(sent, return_when=FIRST_COMPLETED).done:
                    number, error = sent.pop(future), future.exception()
                    if isinstance(error, BrokenProcessPool):
                        self.end()
                        yield number, (WorkerDiedError(DIED), None)
                    else:
                        yield number, (error, None if error else future.result())
        finally:
            for future in sent:
                future.cancel()

    def _submit(self, work: Callable[[Any], Any], task: object) -> Any:  # noqa: ANN401 - a future
        """Send a task to a process, which is started if none has time.

        Raises:
            ClusterError: none can be started.

        """
        import multiprocessing  # noqa: PLC0415 - a tenth of a short command
        from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor  # noqa: PLC0415

        try:
            if self._pool is None:
                _track_quietly()
                spawn = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self.most, spawn, _follow_parent)
            with _blocked_signals():
                return self._pool.submit(work, task)
        except BrokenProcessPool:
            self.end()
            return self._submit(work, task)
        except OSError as error:
            problem = f"no process of --jobs starts: {error.strerror}"
            raise ClusterError(f"{problem}; --jobs 1 needs none") from None

    def end(self) -> None:
        """End the processes; nobody waits for what they do, and they keep nothing."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            for process in [*(pool._processes or {}).values()]:  # noqa: SLF001 - until Python 3.14
                process.kill()
            pool.shutdown(cancel_futures=True)


def _track_quietly() -> None:
    """Start the process that cleans up if this one is killed, without output."""
    from multiprocessing import resource_tracker  # noqa: PLC0415 - as above

    sys.warnoptions.append(_NO_LEAKS)  # what Python starts has the options of this process
    resource_tracker.ensure_running()
    sys.warnoptions.remove(_NO_LEAKS)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM: what is started in the block has them blocked for ever."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_parent() -> None:
    """End this process when the one that started it has ended, however that was."""
    import multiprocessing  # noqa: PLC0415 - as above

    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def open_workers(jobs: int, address: str | None = None) -> Iterator[TaskWorkers]:
    """Yield workers: up to that many processes, which stay until the end of the block.

    ``address``: of a Dask scheduler, whose processes are used instead.

    Raises:
        InputError: no scheduler with processes answers at the address.

    """
    if address is not None:
        # Dask takes half a second to load
        from simaccel.experiment.cluster import connect_cluster  # noqa: PLC0415

        with connect_cluster(address) as team:
            yield team
        return
    processes = _Processes(jobs)
    try:
        yield processes
    finally:
        processes.end()


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
