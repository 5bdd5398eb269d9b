"""Tasks in parallel processes: results in order, no process left behind."""

import asyncio
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster, Nanny
from distributed.core import Status

from simaccel.errors import InputError, WorkerDiedError
from simaccel.experiment import cluster
from simaccel.experiment.cluster import (
    ClusterError,
    _require_address_space,
    _require_open_files,
    connect_cluster,
    start_cluster,
)
from simaccel.experiment.parallel import TaskWorkers, open_workers, run_all, run_with
from tests.draws import some

PARENT = """
import os, sys, time
from simaccel.experiment.parallel import run_all
def work(path):
    open(path + str(os.getpid()), "x").close()
    time.sleep(60)
if __name__ == "__main__":
    run_all(work, [sys.argv[1]] * 2, 2, print, lost=str)
"""


@pytest.fixture(scope="module")
def team() -> Iterator[TaskWorkers]:
    """Two processes for all tests that don't end them for good."""
    with open_workers(2) as two:
        yield two


@pytest.fixture
def count() -> Callable[[], int]:
    """Count the processes that a test has started."""
    before = {*multiprocessing.active_children()}
    return lambda: len({*multiprocessing.active_children()} - before)


def _silent(_done: float, _note: str) -> None:
    """Show no progress."""


def _interrupt(_done: float, _note: str) -> None:
    raise KeyboardInterrupt


def _halved(number: int) -> int:
    """Halve an even number; an odd one ends the process."""
    return number // 2 if number % 2 == 0 else os._exit(1)


def _minus(number: int) -> int:
    return -number


def test_one_job_runs_in_this_process_and_loads_no_dask() -> None:
    code = (
        "import os, sys; from simaccel.experiment.parallel import run_all;"
        "assert run_all(lambda _: os.getpid(), [1, 2], 1, lambda *_: None) == [os.getpid()] * 2;"
        "assert run_all(abs, [-1], 2, lambda *_: None) == [1];"
        "assert not {'dask', 'distributed', 'tornado'} & {*sys.modules}"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("count", [1, 3, 200])
def test_results_come_in_the_order_of_the_tasks(team: TaskWorkers, count: int) -> None:
    told: list[float] = []
    found = run_with(team, abs, range(-count, 0), lambda done, _: told.append(done))
    assert found == [*range(count, 0, -1)]
    assert told == [(at + 1) / count for at in range(count)]
    assert list(team.run_each(abs, range(-count // 10, 0))) == [*range(-(-count // 10), 0, -1)]


def test_results_that_nobody_asks_for_are_cancelled(team: TaskWorkers) -> None:
    started = time.monotonic()
    assert next(iter(team.run_each(time.sleep, [0] + [1] * 60))) is None
    assert list(team.run_each(abs, [-1, -2])) == [1, 2]
    assert time.monotonic() - started < 20


def test_an_error_in_a_process_is_raised_here(team: TaskWorkers) -> None:
    with pytest.raises(OSError, match="nowhere"):
        run_with(team, os.listdir, ["/nowhere", "/nowhere/else"], _silent, lost=list)
    with pytest.raises(OSError, match="nowhere"):
        list(team.run_each(os.listdir, ["/nowhere"]))


def test_a_process_that_dies_loses_its_task_only(team: TaskWorkers) -> None:
    assert run_with(team, _halved, [6, 3, 4, 2], _silent, lost=_minus) == [3, -3, 2, 1]


def test_tasks_that_travelled_with_one_that_kills_are_not_lost(team: TaskWorkers) -> None:
    """All of them are over at once, so that they travel together soon."""
    tasks = [2] * 60 + [3] + [2] * 60
    assert run_with(team, _halved, tasks, _silent, lost=_minus) == [1] * 60 + [-3] + [1] * 60


def test_a_process_of_a_search_that_dies_is_said(team: TaskWorkers) -> None:
    with pytest.raises(WorkerDiedError, match="a process of the search died"):
        list(team.run_each(os._exit, [1, 2]))


@pytest.mark.parametrize("patience", some(["1 ms", "1 day"]))
def test_processes_that_died_come_back_however_long_it_takes(
    patience: str,
) -> None:
    """A user's own configuration of Dask gives them up after a time."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": patience}),
        start_cluster(1) as one,
    ):
        with pytest.raises(WorkerDiedError):
            list(one.run_each(os._exit, [1, 2]))
        assert list(one.run_each(abs, [-1, -2])) == [1, 2]


def test_a_process_that_was_given_up_is_no_reason_not_to_end(count: Callable[[], int]) -> None:
    with start_cluster(1) as alone:
        local = alone.client.cluster
        assert isinstance(local, LocalCluster)
        _until(lambda: len(local.workers) == 1)
        nanny = local.workers.pop(min(local.workers))
        local.sync(nanny.close)  # type: ignore[no-untyped-call]
        assert nanny.status == Status.closed
    assert local.status == Status.closed
    assert count() == 0


def test_processes_that_never_come_back_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: Nanny) -> None:
        raise OSError("no more processes")

    monkeypatch.setitem(cluster._CONFIG, "distributed.scheduler.no-workers-timeout", 0.01)
    with start_cluster(1) as alone:
        monkeypatch.setattr(Nanny, "instantiate", fails)
        with pytest.raises(cluster.ClusterError, match="died, and no other one starts"):
            list(alone.run_each(os._exit, [1]))


def test_an_end_that_takes_too_long_hides_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: Client, **__: object) -> None:
        await asyncio.sleep(3600)

    with start_cluster(1) as alone:
        monkeypatch.setattr(cluster, "_END_SECONDS", 0.01)
        monkeypatch.setattr(LocalCluster, "_close", never)
        assert list(alone.run_each(abs, [-1])) == [1]
    monkeypatch.undo()
    assert isinstance(alone.client.cluster, LocalCluster)
    alone.client.cluster.close()


def test_a_cluster_that_exists_is_used() -> None:
    with start_cluster(1) as there:
        address = str(there.client.scheduler_info()["address"])
        found = run_all(_pid, range(20), 1, _silent, address=address)
        assert os.getpid() not in found
        assert len({*found}) == 1
        with connect_cluster(address) as other:
            other.digest = "of another simaccel"
            with pytest.raises(
                Exception, match="has another version of simaccel; install this one there"
            ):
                list(other.run_each(abs, [1]))
        (worker,) = there.client.scheduler_info()["workers"]  # its address is none of a scheduler
        allowed = "the address of a Dask scheduler that answers"
        with pytest.raises(InputError, match=allowed), connect_cluster(worker):
            pass


def _pid(_: object) -> int:
    return os.getpid()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "ftp://a:1", "tcp://"])
def test_an_address_where_nobody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simaccel.experiment.cluster._ANSWER_SECONDS", 0.3)
    with pytest.raises(InputError) as caught, connect_cluster(address):
        pass
    said = f"command line: --dask: got '{address}'; allowed: the address of a Dask scheduler"
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "said",
    [
        b"",  # nothing, ever
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        bytes(range(200, 256)),
        b"\1" + bytes(7) + b"\1",  # a message of one byte
        b"\0" * 16,
    ],
)
def test_an_address_of_another_service(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.3)
    callers = []
    with socket.create_server(("127.0.0.1", 0)) as service:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    callers.append(service.accept()[0])
                    callers[-1].sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        with (
            pytest.raises(InputError, match="the address of a Dask scheduler that answers"),
            connect_cluster(f"tcp://127.0.0.1:{service.getsockname()[1]}"),
        ):
            pass
        service.shutdown(socket.SHUT_RDWR)
    for caller in callers:
        caller.close()


def test_processes_are_started_for_tasks_and_no_more_of_them_than_tasks(
    count: Callable[[], int],
) -> None:
    with open_workers(100_000) as some:
        assert list(some.run_each(_pid, [0])) == [os.getpid()]
        assert os.getpid() not in [*some.run_each(_pid, [0, 1])]
        assert count() == 2
        assert list(some.run_each(abs, [-1, -2, -3])) == [1, 2, 3]
        _until(lambda: count() == 3)  # tasks don't wait for it
    assert count() == 0


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_signal_ends_processes_that_still_start(number: int, count: Callable[[], int]) -> None:
    """They would need a minute."""
    main = threading.main_thread().ident or 0
    handler = signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    with dask.config.set({"distributed.worker.preload": ["import time; time.sleep(60)"]}):
        threading.Timer(1.0, signal.pthread_kill, (main, number)).start()
        with pytest.raises(KeyboardInterrupt):
            run_all(abs, range(2), 2, _silent)
    signal.signal(number, handler)
    assert time.monotonic() - began < 30
    assert count() == 0


@pytest.mark.skipif(os.name == "nt", reason="asks for signals")
def test_the_first_process_never_sees_ctrl_c_either() -> None:
    """What Python starts beside the first one has unblocked the signals for it."""
    code = """
import signal
from multiprocessing import resource_tracker
from simaccel.experiment.cluster import _defer_signals
with _defer_signals():
    resource_tracker.ensure_running()
    assert {signal.SIGINT, signal.SIGTERM} <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_ctrl_c_ends_the_processes() -> None:
    """Not even one that sleeps for ever is waited for."""
    before = multiprocessing.active_children()
    with pytest.raises(KeyboardInterrupt):
        run_all(time.sleep, [10**6, 0], 2, _interrupt)
    assert {*multiprocessing.active_children()} <= {*before}


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(one, marks=pytest.mark.long) for one in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_processes_end_with_their_parent_however_it_ends(tmp_path: Path, number: int) -> None:
    """The signals go to the whole group, as Ctrl-C does, apart from SIGKILL."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    line = [sys.executable, str(script), str(tmp_path / "pid.")]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        line, env=environment, stdout=pipe, stderr=pipe, start_new_session=True
    ) as parent:
        _until(lambda: len([*tmp_path.glob("pid.*")]) == 2)
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)
        else:
            parent.send_signal(number)
        assert parent.stdout
        assert parent.stderr
        parent.stdout.read()  # ends when the last process that could write there has ended
        said = parent.stderr.read().decode()
    for path in tmp_path.glob("pid.*"):
        _until(partial(_has_ended, int(path.suffix[1:])))
    assert said.count("Traceback") == (number == signal.SIGINT), said  # the parent's own
    assert "leaked" not in said


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _has_ended(number: int) -> bool:
    """Say whether a process runs no more; it may wait to be collected."""
    try:
        return ") Z " in Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return True


def test_too_few_open_files_are_raised_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 32 of them two processes waited for ever, with 48 they ran."""
    limits, raised = [(32, 4096)], list[tuple[int, int]]()
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[0])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: raised.append(both))
    _require_open_files(2)
    assert [32 < soft <= 48 and hard == 4096 for soft, hard in raised] == [True]
    limits[0] = (48, 48)
    _require_open_files(2)
    limits[0] = (32, 32)
    with pytest.raises(ClusterError, match=r"--jobs 2 needs 46 open files, the limit is 32 \(ulim"):
        _require_open_files(2)
    limits[0] = (resource.RLIM_INFINITY,) * 2
    _require_open_files(1000)
    assert len(raised) == 1


def test_too_little_address_space_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dask's threads fail there, and nobody hears of it; no limit is -1."""
    limits = {"bytes": resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits["bytes"],) * 2)
    _require_address_space(2)
    limits["bytes"] = 768 * 2**20
    _require_address_space(2)
    limits["bytes"] = 300_000 * 1024
    with pytest.raises(ClusterError, match=r"needs 768 MiB of address space, the limit is 292 MiB"):
        _require_address_space(2)
