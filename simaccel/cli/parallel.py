"""Running tasks in parallel processes, with progress and a clean end at Ctrl-C."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from simaccel.cli.progress import Bar
from simaccel.errors import SimaccelError


class WorkerDiedError(SimaccelError):
    """A process ended without a result: it was killed, or ran out of memory."""

    exit_code = 1


Task = TypeVar("Task")
Found = TypeVar("Found")


def run_all(
    work: Callable[[Task], Found], tasks: Sequence[Task], jobs: int, bar: Bar
) -> list[Found]:
    """Run ``work`` on each task, at most ``jobs`` at a time; results in the order of tasks."""
    if min(jobs, len(tasks)) == 1:
        return _one_by_one(work, tasks, bar)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context)
    try:
        futures = _submit(pool, work, tasks)
        for done, _ in enumerate(as_completed(futures), 1):
            bar.show(done / len(tasks), f"{done} of {len(tasks)} runs")
        return [future.result() for future in futures]
    except BrokenProcessPool:
        raise WorkerDiedError("a process of the comparison died; is there enough memory?") from None
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def workers(jobs: int) -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]]:
    """Give a `map` that runs on that many processes, which stay until the end of the block."""
    if jobs == 1:
        yield map
        return
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))

    def each(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        futures = _submit(pool, work, tasks)
        return (future.result() for future in futures)

    try:
        yield each
    except BrokenProcessPool:
        raise WorkerDiedError("a process of the search died; is there enough memory?") from None
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _one_by_one(work: Callable[[Task], Found], tasks: Sequence[Task], bar: Bar) -> list[Found]:
    found: list[Found] = []
    for task in tasks:
        found.append(work(task))
        bar.show(len(found) / len(tasks), f"{len(found)} of {len(tasks)} runs")
    return found


def _submit(
    pool: ProcessPoolExecutor, work: Callable[[Task], Found], tasks: Sequence[Task]
) -> list[Future[Found]]:
    """Start the processes deaf to Ctrl-C, which is this process's to handle.

    The last tasks are the longest: they start first.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return [pool.submit(work, task) for task in reversed(tasks)][::-1]
    finally:
        signal.signal(signal.SIGINT, before)
