"""Running tasks in the processes of a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final

from distributed import Client, Future, as_completed
from distributed.client import FutureCancelledError
from distributed.core import rpc
from distributed.scheduler import KilledWorker, NoWorkerError

from simaccel.errors import Fault, InputError, WorkerDiedError
from simaccel.study.parallel import DIED, ClusterError, Numbered, Outcome, TaskWorkers
from simaccel.study.store import code_digest

_PIECES: Final = 256
"""Pieces in which many tasks travel, and how many the scheduler knows of at a time.

It gives each process one piece at a time. A task that travels alone takes 4 ms of CPU of Dask.
"""
_ANSWER_SECONDS: Final = 10.0
_END_SECONDS: Final = 30.0
_LOGS: Final = ("distributed", "tornado", "asyncio")


class DaskProcesses(TaskWorkers):
    """The processes of a cluster; ``digest``: of the code, which theirs must have, too."""

    def __init__(self, client: Client, digest: str) -> None:
        self.client = client
        self.digest = digest

    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        """Yield the outcomes of tasks, which are sent in batches."""
        size = 1 + len(numbers) // _PIECES
        pieces = (numbers[at : at + size] for at in range(0, len(numbers), size))
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


def _run(work: Callable[[Any], Any], tasks: Sequence[Any], digest: str) -> list[Outcome]:
    """Run tasks in a process of a cluster; return the result or the error of each."""
    if digest != code_digest():
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
    """Return the outcomes of tasks; if their process died, an error for each."""
    try:
        outcomes: list[Outcome] = future.result()
    except KilledWorker:
        return [(WorkerDiedError(DIED), None)] * count
    except ClusterError:
        raise
    except NoWorkerError:
        raise ClusterError("the processes of the search died, and no other one starts") from None
    except (CancelledError, FutureCancelledError):
        raise ClusterError("the scheduler of the cluster is gone") from None
    except Exception as error:  # noqa: BLE001 - whatever Dask raises
        raise ClusterError(f"the cluster gave up: {type(error).__name__}: {error}") from None
    return outcomes


@contextmanager
def connect_cluster(address: str) -> Iterator[DaskProcesses]:
    """Return the processes of a running Dask scheduler.

    Raises:
        InputError: no scheduler answers at the address, or it has no processes.
    """
    for name in [*logging.root.manager.loggerDict, *_LOGS]:  # each has a level of its own
        if name.partition(".")[0] in _LOGS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
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
        yield DaskProcesses(client, code_digest())
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
