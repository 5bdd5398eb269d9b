"""Dask clusters: processes of this computer, or of a scheduler that runs somewhere.

A task whose process dies is tried once more, alone, when all others have ended; if that process
dies, too, the task is lost, and no other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, Final, NoReturn, TypeVar

import dask
from distributed import Client, Future, LocalCluster, as_completed
from distributed.client import FutureCancelledError
from distributed.core import Status, rpc
from distributed.scheduler import KilledWorker, NoWorkerError

from simaccel.errors import Fault, InputError, SimaccelError, WorkerDiedError
from simaccel.experiment.code import code_digest

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

Task = TypeVar("Task")
Found = TypeVar("Found")
Outcome = tuple[Exception | None, Any]
"""What a task raised, or gave."""

_PIECES: Final = 256
"""Pieces in which many tasks travel, and how many the scheduler knows of at a time.

It gives each process one piece at a time. A task that travels alone takes 4 ms of CPU of Dask.
"""
_DIED: Final = "a process of the search died; is there enough memory?"
_ANSWER_SECONDS: Final = 10.0
_START_SECONDS: Final = 120.0
"""A process loads Dask before it answers, which takes a second on an idle processor."""
_END_SECONDS: Final = 30.0
"""Its processes are killed before a cluster is closed, which takes long on a busy machine alone."""
_OPEN_FILES: Final = 20
_FILES_OF_A_PROCESS: Final = 13
"""Open files, measured: 32 with one process of a cluster, 71 with four; Python has 6 itself."""
_ADDRESS_BYTES: Final = 768 * 2**20
"""Address space of the process that starts others, measured: 710 MiB; theirs is 354 MiB each."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_CONFIG: Final = {
    # a process has one task: what dies with it is this one, and no other
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 0,
    # a process that died is started again, however long it takes; tasks fail where none comes back
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.scheduler.no-workers-timeout": _START_SECONDS,
    # nobody looks at it
    "distributed.worker.profile.enabled": False,
}
_ENDED: Final = frozenset({Status.closing, Status.closed, Status.failed})
_NO_LEAKS: Final = "ignore::UserWarning:multiprocessing.resource_tracker"
_LOGS: Final = ("distributed", "tornado", "asyncio")


class ClusterError(SimaccelError):
    """The processes of a cluster can't execute a task."""

    exit_code = 1


class Processes:
    """The processes of a cluster; ``digest``: of the code that they are to run."""

    def __init__(self, client: Client, digest: str | None = None) -> None:
        self.client = client
        self.digest = digest

    def run_numbered(
        self, work: Callable[[Task], Found], tasks: Sequence[Task], lost: Callable[[Task], Found]
    ) -> Generator[tuple[int, Found], None, None]:
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
        numbers: range,
        lost: Callable[[Task], Found],
    ) -> Generator[tuple[int, Found], None, None]:
        """Yield results as they come; tasks whose process died are tried again, each alone."""
        died: list[int] = []
        size = 1 + len(tasks) // _PIECES
        pieces = (numbers[at : at + size] for at in range(0, len(tasks), size))
        with closing(self._outcomes(work, tasks, pieces)) as outcomes:
            for number, (error, result) in outcomes:
                if isinstance(error, WorkerDiedError):
                    died.append(number)
                elif error is not None:
                    raise error
                else:
                    yield number, result
        for died_number in died:
            for number, (error, result) in self._outcomes(work, tasks, iter([[died_number]])):
                if error is not None and not isinstance(error, WorkerDiedError):
                    raise error
                yield number, lost(tasks[number]) if error is not None else result

    def _outcomes(
        self,
        work: Callable[[Any], Any],
        tasks: Sequence[Any],
        pieces: Iterator[Sequence[int]],
    ) -> Generator[tuple[int, Outcome], None, None]:
        """Yield what came of tasks; those of a piece travel together."""
        sent: dict[Future[Any], Sequence[int]] = {}
        ended = as_completed([], loop=self.client.loop)
        try:
            while True:
                for piece in islice(pieces, _PIECES - len(sent)):
                    work_on = [tasks[number] for number in piece]
                    future = self.client.submit(_run, work, work_on, self.digest, pure=False)
                    sent[future] = piece
                    ended.add(future)
                if not sent:
                    return
                future = next(ended)
                piece = sent.pop(future)
                yield from zip(piece, _read_outcomes(future, len(piece)), strict=True)
        finally:
            if sent:
                self.client.cancel(list(sent), force=True)


class LocalProcesses(Processes):
    """Processes of this computer, of which there may become more."""

    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        super().__init__(client)
        self._cluster = cluster
        self._count = 0

    def grow(self, count: int) -> None:
        """Start processes, without waiting for them, until there are that many."""
        if count > self._count:
            self._count = count
            self._cluster.scale(count)


def _run(work: Callable[[Any], Any], tasks: Sequence[Any], digest: str | None) -> list[Outcome]:
    """Do tasks in a process of a cluster; give what each raised, or gave."""
    if hasattr(signal, "pthread_sigmask"):  # which it has from who started it; `kill` ends it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if digest not in {None, code_digest()}:
        raise ClusterError(
            "a process of the cluster has another version of simaccel; install this one there"
        )
    outcomes: list[Outcome] = []
    for task in tasks:
        try:
            outcomes.append((None, work(task)))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is read
            outcomes.append((error, None))
    return outcomes


def _read_outcomes(future: Future[Any], count: int) -> list[Outcome]:
    """Read what came of tasks; a process that died is an error of each of them."""
    try:
        outcomes: list[Outcome] = future.result()
    except KilledWorker:
        return [(WorkerDiedError(_DIED), None)] * count
    except ClusterError:
        raise
    except NoWorkerError:
        raise ClusterError("the processes of the search died, and no other one starts") from None
    except (CancelledError, FutureCancelledError):
        raise ClusterError("the scheduler of the cluster is gone") from None
    except Exception as error:  # noqa: BLE001 - whatever Dask raises
        raise ClusterError(f"the cluster gave up: {type(error).__name__}: {error}") from None
    return outcomes


def _raise_died(_task: object) -> NoReturn:
    raise WorkerDiedError(_DIED)


@contextmanager
def start_cluster(jobs: int) -> Iterator[LocalProcesses]:
    """Start a local cluster of that many processes, which ends with the block.

    This waits for the first of them only; Ctrl-C and SIGTERM end the wait.

    Raises:
        ClusterError: none of them starts.

    """
    _silence()
    _require_open_files(jobs)
    _require_address_space(jobs)
    with dask.config.set(_CONFIG):  # Dask reads it whenever a process goes, or comes
        with _defer_signals():
            cluster = LocalCluster(
                n_workers=0,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # none would be 8787, for everybody
                memory_limit=None,
                silence_logs=logging.CRITICAL,
            )
            client = Client(cluster)
        try:
            team = LocalProcesses(cluster, client)
            team.grow(jobs)
            _wait_for_first(client)
            yield team
        finally:
            with _defer_signals():
                _close(client, cluster)


def _require_open_files(jobs: int) -> None:
    """Raise the limit of open files to what processes take, without which Dask waits for ever."""
    if resource is None:
        return
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OPEN_FILES + _FILES_OF_A_PROCESS * jobs
    if limit in range(needed):
        if most in range(needed):
            needs = f"--jobs {jobs} needs {needed} open files, the limit is {most} (ulimit -n)"
            raise ClusterError(f"{needs}; fewer jobs need {_FILES_OF_A_PROCESS} each less")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


def _require_address_space(jobs: int) -> None:
    """Refuse to start processes where the threads of Dask have no room, and fail without an end."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if hasattr(resource, "RLIMIT_AS") else -1
    if limit in range(_ADDRESS_BYTES):
        needs = f"--jobs {jobs} needs {_ADDRESS_BYTES >> 20} MiB of address space"
        raise ClusterError(
            f"{needs}, the limit is {limit >> 20} MiB (ulimit -v); --jobs 1 needs less"
        )


def _wait_for_first(client: Client) -> None:
    try:
        client.wait_for_workers(1, _START_SECONDS)
    except TimeoutError:
        raise ClusterError(f"no process of --jobs started in {_START_SECONDS:.0f} s") from None


def _silence() -> None:
    """Leave what is to be said to errors: Dask has loggers, with levels of their own."""
    for name in [*logging.root.manager.loggerDict, *_LOGS]:
        if name.partition(".")[0] in _LOGS:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _close(client: Client, cluster: LocalCluster) -> None:
    """End a cluster, in whatever state it is; what the command found out is not lost by that."""
    with suppress(TimeoutError):
        cluster.sync(_kill, cluster, callback_timeout=_END_SECONDS)
    for end in (client.close, cluster.close):
        with suppress(TimeoutError, OSError):
            end(_END_SECONDS)


async def _kill(cluster: LocalCluster) -> None:
    """Kill the processes of a cluster: nobody waits for what they do, and they keep nothing.

    This runs in the thread of the cluster, where those who watch the processes change their status.
    """
    for nanny in cluster._created:  # noqa: SLF001 - `workers` has none until all of them are up
        if nanny.status in _ENDED:  # it would be closed a second time, by nobody
            continue
        nanny.close_gracefully()  # nobody starts the process again
        with suppress(ProcessLookupError, TypeError):  # it has ended, or not yet begun
            os.kill(nanny.pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


@contextmanager
def connect_cluster(address: str) -> Iterator[Processes]:
    """Use the processes of a scheduler that runs somewhere.

    Raises:
        InputError: none answers there, or it has no processes.

    """
    _silence()
    allowed = "the address of a Dask scheduler that answers, as in tcp://127.0.0.1:8786"
    try:
        asyncio.run(asyncio.wait_for(_greet(address), _ANSWER_SECONDS))
        client = Client(address, timeout=_ANSWER_SECONDS)
    except Exception:  # noqa: BLE001 - whatever Dask makes of what a stranger says
        raise InputError([Fault("command line", "--dask", address, allowed)]) from None
    try:
        try:
            client.wait_for_workers(1, _ANSWER_SECONDS)
        except TimeoutError:
            allowed = "a scheduler that has processes (dask worker ADDRESS)"
            raise InputError([Fault("command line", "--dask", address, allowed)]) from None
        yield Processes(client, code_digest())
    finally:
        with suppress(TimeoutError, OSError):
            client.close(_END_SECONDS)


async def _greet(address: str) -> None:
    """Ask who is there: a client waits for ever where somebody listens and says nothing.

    Raises:
        Exception: no scheduler of Dask, which may be an error of any kind.

    """
    async with rpc(address, timeout=_ANSWER_SECONDS) as there:
        if "workers" not in await there.identity():
            raise ValueError("no scheduler")


def _track_quietly() -> None:
    """Start a process that cleans up if this one is killed, without output."""
    sys.warnoptions.append(_NO_LEAKS)  # what Python starts has the options of this process
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(_NO_LEAKS)


@contextmanager
def _defer_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the end of the block; processes it starts never see Ctrl-C.

    These have the signals blocked from the thread that starts them, also those that replace a
    process later on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {sent: signal.getsignal(sent) for sent in _SIGNALS}
    heard = [sent for sent, handler in before.items() if callable(handler)]
    masks = hasattr(signal, "pthread_sigmask")
    if masks:  # the thread that starts the tracker has its signals unblocked by it
        _track_quietly()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS) if masks else set()
    try:
        for sent in heard:
            signal.signal(sent, lambda number, _frame: came.append(number))
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for sent in heard:
            signal.signal(sent, before[sent])
    for number in came[:1]:
        signal.raise_signal(number)
