"""Running tasks in parallel processes, which end with this one however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn, TypeVar

from simaccel.cli.progress import Bar
from simaccel.errors import WorkerDiedError

Task = TypeVar("Task")
Found = TypeVar("Found")
Numbered = Generator[tuple[int, Found], None, None]
"""Results with the numbers of their tasks, as they come."""


def died(_task: object) -> NoReturn:
    """Say that a process died.

    Raises:
        WorkerDiedError: always.

    """
    raise WorkerDiedError("a process of the comparison died; is there enough memory?")


def run_all(
    work: Callable[[Task], Found],
    tasks: Sequence[Task],
    jobs: int,
    bar: Bar,
    *,
    lost: Callable[[Task], Found] = died,
    note: Callable[[int, Found], None] = lambda _number, _found: None,
) -> list[Found]:
    """Run ``work`` on each task, at most ``jobs`` at a time; results in the order of tasks.

    ``lost`` gives the result of a task whose process died; ``note`` is told each result at once.
    """
    alone = min(jobs, len(tasks)) == 1
    found = _one_by_one(work, tasks) if alone else _in_processes(work, tasks, jobs, lost)
    results: dict[int, Found] = {}
    with closing(found):
        for number, result in found:
            results[number] = result
            note(number, result)
            bar.show(len(results) / len(tasks), f"{len(results)} of {len(tasks)} runs")
    return [results[number] for number in range(len(tasks))]


@contextmanager
def workers(jobs: int) -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]]:
    """Give a `map` that runs on that many processes, which stay until the end of the block.

    Raises:
        WorkerDiedError: what is made of the results, where a process died.

    """
    if jobs == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)

    def each(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        with _deaf():  # the last tasks are the longest: they start first
            futures = [pool.submit(work, task) for task in reversed(tasks)][::-1]
        return map(result, futures)

    def result(future: Future[Any]) -> Any:  # noqa: ANN401 - whatever a task gives
        try:
            return future.result()
        except BrokenProcessPool:
            raise WorkerDiedError("a process of the search died; is there enough memory?") from None

    try:
        yield each
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _one_by_one(work: Callable[[Task], Found], tasks: Sequence[Task]) -> Numbered[Found]:
    for number, task in enumerate(tasks):
        yield number, work(task)


def _in_processes(
    work: Callable[[Task], Found],
    tasks: Sequence[Task],
    jobs: int,
    lost: Callable[[Task], Found],
) -> Numbered[Found]:
    """Give each process one task at a time, so that one that dies loses one task.

    The last tasks are the longest: they start first.
    """
    todo = list(range(len(tasks)))
    team: dict[Connection, tuple[BaseProcess, int]] = {}
    try:
        while todo or team:
            while todo and len(team) < jobs:
                connection, process = _start(work)
                team[connection] = process, todo[-1]
                _send(connection, tasks[todo.pop()])
            for ready in wait(list(team)):
                assert isinstance(ready, Connection)  # noqa: S101 - narrows the type
                process, number = team[ready]
                result, alive = _received(ready, partial(lost, tasks[number]))
                yield number, result
                if alive and todo:
                    team[ready] = process, todo[-1]
                    _send(ready, tasks[todo.pop()])
                else:
                    del team[ready]
                    ready.close()  # which ends the process
                    process.join()
    finally:
        for process, _ in team.values():
            process.terminate()
        for process, _ in team.values():
            process.join()


def _start(work: Callable[[Any], Any]) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, work), daemon=True)
    with _deaf():
        process.start()
    there.close()
    return here, process


def _send(connection: Connection, task: object) -> None:
    """Send a task; that the process has died already is seen when its result is read."""
    try:
        connection.send(task)
    except (BrokenPipeError, ConnectionResetError):
        return


def _received(connection: Connection, lost: Callable[[], Found]) -> tuple[Found, bool]:
    """Read a result, and say whether its process lives; what it raised is raised here."""
    try:
        error, result = connection.recv()
    except (EOFError, ConnectionResetError):
        return lost(), False
    if error is not None:
        raise error
    return result, True


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """Do tasks until the connection is closed, in a process of its own."""
    _end_with_parent()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        found: tuple[Exception | None, Any]
        try:
            found = None, work(task)
        except Exception as error:  # noqa: BLE001 - it is raised where the result is read
            found = error, None
        connection.send(found)


def _end_with_parent() -> None:
    """End this process when its parent ends, also by a signal that can't be caught."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes deaf to Ctrl-C, which is this process's to handle."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
